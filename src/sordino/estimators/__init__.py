"""Private estimators with scikit-learn's conventions: a posterior, a certificate and a release after every fit."""

from sordino.estimators.array_bounds import ArrayBounds as ArrayBounds
from sordino.estimators.base import PrivateEstimator as PrivateEstimator
from sordino.estimators.cautions import DeltaWarning as DeltaWarning
from sordino.estimators.cautions import NonPrivateWarning as NonPrivateWarning
from sordino.estimators.choosing import BudgetWarning as BudgetWarning
from sordino.estimators.linear import PrivateLinearRegression as PrivateLinearRegression
from sordino.estimators.linear import PrivateLogisticRegression as PrivateLogisticRegression
from sordino.estimators.linear import PrivateRobustRegression as PrivateRobustRegression
from sordino.estimators.methods import METHODS as METHODS
from sordino.estimators.methods import method as method
from sordino.estimators.mixture import PrivateGaussianMixture as PrivateGaussianMixture
from sordino.estimators.named import ESTIMATORS as ESTIMATORS
from sordino.estimators.network import PrivateBayesianNetworkClassifier as PrivateBayesianNetworkClassifier
from sordino.estimators.network import PrivateBayesianNetworkRegressor as PrivateBayesianNetworkRegressor
from sordino.estimators.pipeline import public_pipeline as public_pipeline
from sordino.estimators.prediction import Predictor as Predictor
