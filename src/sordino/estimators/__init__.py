"""Private estimators with scikit-learn's conventions: a posterior, a certificate and a release after every fit."""

from sordino.estimators.bare_arrays import ArrayBounds as ArrayBounds
from sordino.estimators.bare_arrays import DeltaWarning as DeltaWarning
from sordino.estimators.bare_arrays import NonPrivateWarning as NonPrivateWarning
from sordino.estimators.base import PrivateEstimator as PrivateEstimator
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
from sordino.estimators.supervised import PrivateRobustRegression as PrivateRobustRegression
