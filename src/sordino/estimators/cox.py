"""Times to an event: proportional hazards with a baseline that is constant in each time bin."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.estimators.coefficients import CoefficientEstimator, column_name
from sordino.fitting.problem import Task, survival_settings
from sordino.fitting.tasks import AUTO
from sordino.inference.contrasts import LEVEL
from sordino.inference.predicted_means import MeanAndNew
from sordino.inference.prediction import DRAWS


class PrivateCoxRegression(CoefficientEstimator):
    """Private Cox regression by time bins: log hazards are linear in the columns, with one baseline for each bin.

    A record is a subject. `time` names the declared column that says how long it was followed, and the target says
    whether the event happened then (yes or no; of arrays a number, 0 or 1). `bins` says in how many equal bins the
    declared range of times is cut, or gives their edges; subjects who are still there at the last edge are censored
    there. A subject is cut into one row for each bin inside the mechanism, and all its rows together move a released
    sum by no more than the certificate says of one record. Ties, left truncation and columns that change with time are
    not for it.

    Method: "bounded-influence". On drawn tables, from the worst to the best cell of 20 tables or more, 95 % intervals
    of coefficients held the truth in 91 to 99 % of cases, and 90 % intervals of chances in 86 to 96 %. Parameters are
    those of `PrivateEstimator`, these two, and `effect_scale`: the standard deviation of log hazard ratios over half a
    declared range, or of having a property, before the data speak; 1 if absent. After a fit `coef_` has the log hazard
    ratios of columns, then those of all bins but the first.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateCoxRegression
        >>> generator = np.random.default_rng(0)
        >>> treated = generator.integers(0, 2, 5000)
        >>> until = generator.exponential(1.0 / (0.3 * np.exp(-0.7 * treated)))
        >>> X, event = np.column_stack([np.minimum(until, 4.0), treated]), until <= 4.0
        >>> model = PrivateCoxRegression(
        ...     epsilon=2.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(0, 1, target=(0, 1), columns={0: (0, 4)}),
        ...     time=0,
        ...     bins=(0, 1, 2, 4),
        ...     random_state=0,  # to try things out: a release is made without it
        ... ).fit(X, event)
        >>> bool(abs(model.coef_[0] + 0.7) < 0.2), model.coef_names_
        (True, ('x1', 'x0 1 to 2', 'x0 2 to 4'))
        >>> bool(0.3 < model.predict_event([[0, 1]], until=4.0).mean[0] < 0.6)
        True
    """

    _task: ClassVar[Task] = Task.SURVIVAL

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        time: str | int | None = None,
        bins: int | Sequence[float] = 4,
        effect_scale: float | None = None,
        method: str = AUTO,
        draws: int = DRAWS,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            schema=schema,
            effect_scale=effect_scale,
            method=method,
            draws=draws,
            ledger=ledger,
            random_state=random_state,
        )
        self.time = time
        self.bins = bins

    def predict(self, X: Any) -> Array:
        """The chance that the event happens up to the last edge, averaged over the posterior; times are not read."""
        return self._predictor.regression(self._encode(X)).mean

    def predict_event(self, X: Any, until: float | None = None, level: float = LEVEL) -> MeanAndNew:
        """The chance that the event happens up to a time, with intervals from the same posterior as `summary`.

        Args:
            X: rows; of a table the column of times may be absent.
            until: a time between the first edge and the last, which is taken if it is absent.
            level: of the intervals.

        Returns:
            Means and intervals; how often they hold was not measured.
        """
        found = self._predictor.means(self._encode(X), level, until)
        assert found is not None
        return found

    def sample_predictive(self, X: Any, draws: int = 100, seed: int | None = None) -> NDArray[Any]:
        """Draws of whether the event happens up to the last edge, 0 or 1, shape (draws, records)."""
        return self._predictor.sample(self._encode(X), draws, np.random.default_rng(seed))

    def _settings(self) -> dict[str, Any]:
        bins = self.bins.tolist() if isinstance(self.bins, np.ndarray) else self.bins
        return survival_settings(self.effect_scale, time=column_name(self.time), bins=bins)
