"""Bayesian neural networks with private variational posteriors."""

from typing import Any, ClassVar

from sordino.estimators.base import PrivateEstimator
from sordino.estimators.supervised import PrivateClassifier, PrivateRegressor
from sordino.fitting.problem import Task, network_settings
from sordino.fitting.tasks import AUTO
from sordino.inference.prediction import DRAWS


class _Network(PrivateEstimator):
    """The parameters that both networks share."""

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        hidden: tuple[int, ...] | None = None,
        prior_precision: float = 1.0,
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
            method=method,
            draws=draws,
            ledger=ledger,
            random_state=random_state,
        )
        self.hidden = hidden
        self.prior_precision = prior_precision

    def _settings(self) -> dict[str, Any]:
        return network_settings(self.hidden, self.prior_precision)


class PrivateBayesianNetworkRegressor(PrivateRegressor, _Network):
    """A private Bayesian network for a number; methods "natural", "variational" and "constant".

    "natural", which "auto" takes, has one hidden layer beside a linear part and follows noised natural gradients of
    whitened rows; "variational" has as many layers as `hidden` has widths. Without `hidden` the budget says how many
    units there are. `prior_precision` is that of every weight; the other parameters are those of `PrivateEstimator`.
    Intervals hold the posterior, the privacy noise, and a spread of residuals that is released: on drawn tables, 90 %
    intervals held 88 to 93 % of new targets with "natural" and 92 to 99 % with "variational".

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateBayesianNetworkRegressor
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (1500, 2))
        >>> model = PrivateBayesianNetworkRegressor(
        ...     epsilon=4.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> middle, edge = model.fit(X, X[:, 0] ** 2).predict([[0.0, 0.0], [1.0, 0.0]])
        >>> bool(middle < 0.4 < edge)
        True
    """

    _task: ClassVar[Task] = Task.NETWORK_REGRESSION


class PrivateBayesianNetworkClassifier(PrivateClassifier, _Network):
    """A private Bayesian network for classes; methods "natural", "variational" and "constant".

    Parameters are those of `PrivateBayesianNetworkRegressor`. On drawn tables of two classes whose log odds are
    linear, 90 % intervals held the true probabilities in 88 to 94 % of cases with "natural"; where the truth
    bends more than the network's few units can, they hold less often. They are withheld where the rarest class has so
    few records that noise hides them, or fewer than five for each parameter of a score, and with "variational", where
    they held 27 to 53 %: clipping bends the scores of a network, and of that only the steepness is corrected.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateBayesianNetworkClassifier
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (1500, 2))
        >>> model = PrivateBayesianNetworkClassifier(
        ...     epsilon=4.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, classes=(False, True)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> model.fit(X, np.abs(X[:, 0]) > 0.5).predict([[0.0, 0.0], [0.9, 0.0]]).tolist()
        [False, True]
    """

    _task: ClassVar[Task] = Task.NETWORK_CLASSIFICATION
