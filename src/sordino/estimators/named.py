"""The estimators by the words that the command line takes."""

from types import MappingProxyType

from sordino.estimators.base import PrivateEstimator
from sordino.estimators.linear import PrivateLinearRegression, PrivateLogisticRegression, PrivateRobustRegression
from sordino.estimators.mixture import PrivateGaussianMixture
from sordino.estimators.network import PrivateBayesianNetworkClassifier, PrivateBayesianNetworkRegressor

ESTIMATORS: MappingProxyType[str, type[PrivateEstimator]] = MappingProxyType(
    {
        "linear": PrivateLinearRegression,
        "logistic": PrivateLogisticRegression,
        "robust": PrivateRobustRegression,
        "network-regressor": PrivateBayesianNetworkRegressor,
        "network-classifier": PrivateBayesianNetworkClassifier,
        "mixture": PrivateGaussianMixture,
    }
)
