"""Models that are linear in the columns: for numbers, classes, robust to outliers, for counts, and for hazards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import instance_of
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.supervised import PrivateClassifier, PrivateRegressor
from sordino.fitting.predictor import MeanAndNew
from sordino.fitting.tasks.base import TASKS, ignore_progress
from sordino.fitting.tasks.survival import Survival
from sordino.inference.contrasts import LEVEL, Line, Wald, contrast, wald
from sordino.inference.margins import Margins, effects, margins, named_draws, to_arviz
from sordino.inference.summary import Summary, coefficients_of, summary_of


@dataclass(kw_only=True, eq=False, repr=False)
class CoefficientEstimator(PrivateEstimator):
    """Linear models: the size of effects that is taken for granted, and coefficients in the units of the table.

    `coef_` and `intercept_` are posterior means; `coef_names_` are the names of the columns of `coef_`, one for each
    level of a category but the reference. Where only a constant was learned there are none. `posterior_` has the law
    of the coefficients of encoded rows.
    """

    effect_scale: float | None = None

    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """`PrivateEstimator.fit`, with survey weights beside arrays.

        Weights count within the bounds that `weight` of `ArrayBounds` declares; where bounds are declared and no
        weights are given, every record has weight 1. They are private, like rows: their type and shape are checked
        before the debit, their values are cut to the bounds after it. A table with a schema has its weights in the
        column that the schema declares.
        """
        self.fit_in_stages(X, y, ignore_progress, sample_weight)
        return self

    @property
    def coef_(self) -> Array:
        """Slopes in the units of the table, one for each column of `coef_names_`.

        A classifier has one row, or one for each class; "bounded-influence" reports each class against the first.
        """
        slopes = self._known()[1][1:]
        if not self._task.classifies:
            return slopes[:, 0]
        classes = len(self._predictor.labels)
        several = classes > 2 and slopes.shape[1] < classes
        return np.vstack([np.zeros((1, len(slopes))), slopes.T]) if several else slopes.T

    @property
    def intercept_(self) -> Any:
        """The score of a row of zeros in the units of the table; a number, or one for each row of `coef_`."""
        found = self._known()[1][0]
        if not self._task.classifies:
            return float(found[0])
        return np.concatenate([[0.0], found]) if len(found) not in (1, len(self._predictor.labels)) else found

    @property
    def coef_names_(self) -> tuple[str, ...]:
        """The names of the columns of `coef_`."""
        return self._known()[0][1:]

    def _known(self) -> tuple[tuple[str, ...], Array]:
        if not hasattr(self, "release_") or self._predictor.only_a_constant:
            raise AttributeError(f"{type(self).__name__} has no coefficients: not fitted, or only a constant is known")
        return self._predictor.coefficients

    def summary(self, level: float = LEVEL) -> Summary:
        """The coefficients as a table that prints itself; older methods have estimates only."""
        return summary_of(self._predictor.release, level)

    def contrast(self, weights: Mapping[str, float] | str, level: float = LEVEL) -> Line:
        """A sum of coefficients with its interval and test, such as ``contrast({"age": 1, "dose": -1})``."""
        return contrast(coefficients_of(self._predictor.release), weights, level)

    def wald(self, tested: Sequence[Mapping[str, float] | str]) -> Wald:
        """The joint test that coefficients, or sums of them, are all 0, such as ``wald(["age", "dose"])``."""
        return wald(coefficients_of(self._predictor.release), tested)

    def margins(self, columns: Sequence[str] | str | None = None, **settings: Any) -> Margins:
        """Mean outcomes at values of columns, from the posterior and public values; see `inference.margins.margins`."""
        return margins(self._predictor.release, columns, **settings)

    def effects(self, columns: Sequence[str] | str | None = None, **settings: Any) -> Margins:
        """Differences of mean outcomes in natural units; see `inference.margins.effects`."""
        return effects(self._predictor.release, columns, **settings)

    def named_draws(self, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
        """Draws of the coefficients in the units of the table, by name."""
        return named_draws(self._predictor.release, draws, seed)

    def to_arviz(self, draws: int = 1000, seed: int | None = None) -> Any:
        """The posterior for ArviZ, with named variables and coordinates; see `inference.margins.to_arviz`."""
        return to_arviz(self._predictor.release, draws, seed)

    def predict_mean(self, X: object, level: float = LEVEL) -> MeanAndNew:
        """Means of rows with intervals, and intervals of new targets, from the same posterior as `summary`."""
        coefficients_of(self._predictor.release)
        return self._predictor.means(self._encode(X), level)


class PrivateLinearRegression(CoefficientEstimator, PrivateRegressor):
    """Private Bayesian linear regression.

    Methods: "bounded-influence" (noised sums of rows weighed by x alone, residuals cut, one posterior of everything
    released), "ridge" (noised gradients of scaled rows, effects drawn to 0: for small budgets and many columns,
    intervals withheld), "dp-sep" and "dp-vi" (expectation propagation and variational inference of Vinaroz & Park,
    without intervals) and "constant". `interval_coverage` has the measured coverage. Parameters are those of
    `PrivateEstimator`, and `effect_scale`: the prior standard deviation of effects, in units of the target, of half a
    declared range or of having a property; absent, a twentieth of the target's declared range.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateLinearRegression
        >>> X = np.random.default_rng(0).uniform(-1, 1, (5000, 2))
        >>> y = X @ [0.5, -0.25]
        >>> model = PrivateLinearRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,
        ... ).fit(X, y)
        >>> bool(abs(model.predict([[1.0, 0.0]])[0] - 0.5) < 0.1)
        True
        >>> model.method_, model.coef_.round(1).tolist()
        ('bounded-influence', [0.5, -0.3])
    """

    _task = TASKS["regression"]


class PrivateLogisticRegression(CoefficientEstimator, PrivateClassifier):
    """Private Bayesian logistic regression; softmax regression where there are more than two classes.

    Methods: "bounded-influence" (noised sums of rows weighed by x alone, one posterior of everything released),
    "ridge" (noised gradients of scaled rows, effects drawn to 0: for small budgets and many columns, intervals
    withheld), "dp-sep" (two classes) and "dp-vi", without intervals, and "constant". `interval_coverage` has the
    measured coverage. Parameters are those of `PrivateEstimator`, and `effect_scale`: the prior standard deviation
    of log odds ratios, of half a declared range or of having a property; 1 if absent.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateLogisticRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = np.where(X[:, 0] + 0.3 * generator.standard_normal(5000) > 0, "ill", "well")
        >>> model = PrivateLogisticRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, classes=("ill", "well")),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> [str(label) for label in model.fit(X, y).predict([[0.9, 0.0], [-0.9, 0.0]])]
        ['ill', 'well']
        >>> low, high = model.predict_interval([[0.9, 0.0]])  # of each class's probability
        >>> bool(0.5 < low[0, 0] < high[0, 0] < 1.0)
        True

        With three classes:

        >>> model.set_params(schema=ArrayBounds(-1, 1, classes=(0, 1, 2)))  # doctest: +ELLIPSIS
        PrivateLogisticRegression(...)
        >>> model.fit(X, np.digitize(X[:, 0], [-0.3, 0.3])).predict([[-0.9, 0.0], [0.9, 0.0]]).tolist()
        [0, 2]
    """

    _task = TASKS["classification"]


class PrivateRobustRegression(CoefficientEstimator, PrivateRegressor):
    """Private Huber regression: residuals beyond a threshold pull no harder.

    Methods: "bounded-influence", which cuts residuals at 1.345 times their released scale, and "constant".
    Parameters are those of `PrivateEstimator`, and `effect_scale` as in `PrivateLinearRegression`.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateRobustRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = X @ [0.5, -0.25]
        >>> y[::50] = 1.0  # slips of the pen
        >>> model = PrivateRobustRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> bool(abs(model.fit(X, y).predict([[1.0, 0.0]])[0] - 0.5) < 0.1)
        True
    """

    _task = TASKS["robust-regression"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegression(CoefficientEstimator, PrivateRegressor):
    """Private regression of counts: the logarithm of the rate is linear in the columns.

    Method: "bounded-influence", in the manner of Cantoni & Ronchetti. The target is declared as a number from 0 on.
    `exposure` may name the declared column with the exposure (follow-up time), or give its number in an array;
    predictions are for a row's own exposure. With `overdispersed` new counts
    follow a negative binomial law, whose dispersion is learned; intervals of coefficients allow for it either way.
    Parameters are those of `PrivateEstimator`, these two, and `effect_scale`: the prior standard deviation of log rate
    ratios over half a declared range, or of having a property; 1 if absent.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivatePoissonRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = generator.poisson(np.exp(1.0 + 0.5 * X[:, 0]))
        >>> model = PrivatePoissonRegression(
        ...     epsilon=2.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, target=(0, 20)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... ).fit(X, y)
        >>> bool(abs(model.coef_[0] - 0.5) < 0.1)
        True
    """

    _task = TASKS["count-regression"]
    exposure: str | int | None = None
    overdispersed: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCoxRegression(CoefficientEstimator):
    """Private Cox regression by time bins: log hazards are linear in the columns, with one baseline for each bin.

    A record is a subject. `time` names the declared column that says how long it was followed, and the target says
    whether the event happened then (yes or no; of arrays a number, 0 or 1). `bins` says in how many equal bins the
    declared range of times is cut, or gives their edges; subjects who are still there at the last edge are censored
    there. A subject is cut into one row for each bin inside the mechanism, and all its rows together move a released
    sum by no more than the certificate says of one record. Ties, left truncation and columns that change with time are
    not for it.

    Method: "bounded-influence". Parameters are those of `PrivateEstimator`, these two, and `effect_scale`: the prior
    standard deviation of log hazard ratios over half a declared range, or of having a property; 1 if absent. After fit
    `coef_` has the log hazard ratios of columns, then those of all bins but the first.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateCoxRegression
        >>> generator = np.random.default_rng(0)
        >>> treated = generator.integers(0, 2, 5000)
        >>> until = generator.exponential(1.0 / (0.3 * np.exp(-0.7 * treated)))
        >>> X, event = np.column_stack([np.minimum(until, 4.0), treated]), until <= 4.0
        >>> model = PrivateCoxRegression(
        ...     epsilon=2.0, delta=1e-6, relation="replace-one", time=0, bins=(0, 1, 2, 4),
        ...     schema=ArrayBounds(0, [4, 1], target=(0, 1)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... ).fit(X, event)
        >>> bool(abs(model.coef_[0] + 0.7) < 0.2), model.coef_names_
        (True, ('x1', 'x0 1 to 2', 'x0 2 to 4'))
        >>> bool(0.3 < model.predict_event([[0, 1]], until=4.0).mean[0] < 0.6)
        True
    """

    _task = TASKS["hazard-regression"]
    time: str | int | None = None
    bins: int | Sequence[float] = 4

    def predict(self, X: object) -> Array:
        """The chance that the event happens up to the last edge, averaged over the posterior; times are not read."""
        return self._predictor.regression(self._encode(X)).mean

    def predict_event(self, X: object, until: float | None = None, level: float = LEVEL) -> MeanAndNew:
        """The chance that the event happens up to a time, with intervals from the same posterior as `summary`.

        Args:
            X: rows; of a table the column of times may be absent.
            until: a time between the first edge and the last, which is taken if it is absent.
            level: of the intervals.

        Returns:
            Means and intervals; how often they hold was not measured.
        """
        rows, fit = self._encode(X), self._predictor
        task: Survival = instance_of("the task", fit.task, Survival)
        return fit.means(rows, level, lambda draws, block: task.chances(fit, draws, block, until)[..., None])

    def sample_predictive(self, X: object, draws: int = 100, seed: int | None = None) -> np.ndarray:
        """Draws of whether the event happens up to the last edge, 0 or 1, shape (draws, records)."""
        return self._predictor.sample(self._encode(X), draws, np.random.default_rng(seed))
