"""Private estimators with scikit-learn's conventions: a posterior, a certificate and a release after every fit.

Names are loaded on first use, so that a fit from the command line loads no scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.estimators.bare_arrays import ArrayBounds as ArrayBounds
    from sordino.estimators.bare_arrays import DeltaWarning as DeltaWarning
    from sordino.estimators.bare_arrays import NonPrivateWarning as NonPrivateWarning
    from sordino.estimators.base import PrivateEstimator as PrivateEstimator
    from sordino.estimators.cox import PrivateCoxRegression as PrivateCoxRegression
    from sordino.estimators.fitting import BudgetWarning as BudgetWarning
    from sordino.estimators.methods import METHODS as METHODS
    from sordino.estimators.methods import method as method
    from sordino.estimators.mixture import PrivateGaussianMixture as PrivateGaussianMixture
    from sordino.estimators.named import ESTIMATORS as ESTIMATORS
    from sordino.estimators.network import PrivateBayesianNetworkClassifier as PrivateBayesianNetworkClassifier
    from sordino.estimators.network import PrivateBayesianNetworkRegressor as PrivateBayesianNetworkRegressor
    from sordino.estimators.pipeline import public_pipeline as public_pipeline
    from sordino.estimators.prediction import Predictor as Predictor
    from sordino.estimators.supervised import PrivateLinearRegression as PrivateLinearRegression
    from sordino.estimators.supervised import PrivateLogisticRegression as PrivateLogisticRegression
    from sordino.estimators.supervised import PrivatePoissonRegression as PrivatePoissonRegression
    from sordino.estimators.supervised import PrivateRobustRegression as PrivateRobustRegression

_HOMES = {
    "ArrayBounds": "bare_arrays",
    "DeltaWarning": "bare_arrays",
    "NonPrivateWarning": "bare_arrays",
    "PrivateEstimator": "base",
    "PrivateCoxRegression": "cox",
    "BudgetWarning": "fitting",
    "METHODS": "methods",
    "method": "methods",
    "PrivateGaussianMixture": "mixture",
    "ESTIMATORS": "named",
    "PrivateBayesianNetworkClassifier": "network",
    "PrivateBayesianNetworkRegressor": "network",
    "public_pipeline": "pipeline",
    "Predictor": "prediction",
    "PrivateLinearRegression": "supervised",
    "PrivateLogisticRegression": "supervised",
    "PrivatePoissonRegression": "supervised",
    "PrivateRobustRegression": "supervised",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
