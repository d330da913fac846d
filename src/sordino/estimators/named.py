"""The estimators by the words that the command line takes."""

from types import MappingProxyType

from sordino.estimators.base import PrivateEstimator
from sordino.estimators.cox import PrivateCoxRegression
from sordino.estimators.fitting import AUTO, AUTO_OR_CONSTANT, FALLBACK
from sordino.estimators.methods import METHODS
from sordino.estimators.mixture import PrivateGaussianMixture
from sordino.estimators.network import PrivateBayesianNetworkClassifier, PrivateBayesianNetworkRegressor
from sordino.estimators.supervised import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    PrivateRobustRegression,
)

ESTIMATORS: MappingProxyType[str, type[PrivateEstimator]] = MappingProxyType(
    {
        "linear": PrivateLinearRegression,
        "logistic": PrivateLogisticRegression,
        "robust": PrivateRobustRegression,
        "poisson": PrivatePoissonRegression,
        "cox": PrivateCoxRegression,
        "network-regressor": PrivateBayesianNetworkRegressor,
        "network-classifier": PrivateBayesianNetworkClassifier,
        "mixture": PrivateGaussianMixture,
    }
)


def methods_of(model: str | None) -> tuple[str, ...]:
    """The words that `method` takes for a model; for an unknown one, those of any model."""
    kind = ESTIMATORS.get(model or "")
    words = sorted(word for word, method in METHODS.items() if kind is None or kind._task in method.tasks)
    return (AUTO, *([AUTO_OR_CONSTANT] if FALLBACK in words else []), *words)
