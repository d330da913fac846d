"""Bayesian neural networks with private variational posteriors."""

from typing import Any, ClassVar

from sordino.core.validate import POSITIVE, number, refuse, whole_number
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.choosing import AUTO
from sordino.estimators.classifier import PrivateClassifier
from sordino.estimators.prediction import DRAWS
from sordino.estimators.regressor import PrivateRegressor
from sordino.estimators.situation import Task


class _Network(PrivateEstimator):
    """The parameters that both networks share."""

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        hidden: tuple[int, ...] = (16,),
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
        if not isinstance(self.hidden, tuple) or not self.hidden:
            raise refuse("hidden", "to be a tuple of layer widths such as (16,)", self.hidden)
        return {
            "hidden": tuple(whole_number("hidden", width) for width in self.hidden),
            "prior_precision": number("prior_precision", self.prior_precision, POSITIVE),
        }


class PrivateBayesianNetworkRegressor(PrivateRegressor, _Network):
    """A private Bayesian network for a number; methods "variational" and "constant".

    `hidden` are the widths of the hidden layers and `prior_precision` is that of every weight; the other parameters
    are those of `PrivateEstimator`. Its intervals are those of the variational posterior, which does not hold the
    privacy noise in the weights: they are too narrow where the budget is small.
    """

    _task: ClassVar[Task] = Task.NETWORK_REGRESSION


class PrivateBayesianNetworkClassifier(PrivateClassifier, _Network):
    """A private Bayesian network for classes; methods "variational" and "constant".

    Parameters and the caution about intervals are those of `PrivateBayesianNetworkRegressor`.
    """

    _task: ClassVar[Task] = Task.NETWORK_CLASSIFICATION
