"""The estimators by the words that the command line takes."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sordino.core.validate import one_of
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.cox import PrivateCoxRegression
from sordino.estimators.fitting import AUTO, AUTO_OR_CONSTANT, FALLBACK
from sordino.estimators.methods import METHODS
from sordino.estimators.mixture import PrivateGaussianMixture
from sordino.estimators.network import PrivateBayesianNetworkClassifier, PrivateBayesianNetworkRegressor
from sordino.estimators.released import Release, answering
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


def fit_named(
    model: str, data: Any, budget: Mapping[str, Any], options: Mapping[str, Any], begin: Callable[[str], None]
) -> Release:
    """Fit the estimator that a word names; `budget` and `options` are arguments of its constructor."""
    kind = ESTIMATORS[one_of("model", model, tuple(ESTIMATORS))]
    known = tuple(name for name in inspect.signature(kind).parameters if name not in budget)
    for name in options:
        one_of(f"an option of {model}", name, known)
    X, y = data if isinstance(data, tuple) else (data, None)
    return answering(kind(**budget, **options).fit_in_stages(X, y, begin).release_)


def methods_of(model: str | None) -> tuple[str, ...]:
    """The words that `method` takes for a model; for an unknown one, those of any model."""
    kind = ESTIMATORS.get(model or "")
    words = sorted(word for word, method in METHODS.items() if kind is None or kind._task in method.tasks)
    return (AUTO, *([AUTO_OR_CONSTANT] if FALLBACK in words else []), *words)
