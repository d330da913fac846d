"""The models a command line or a release can name."""

from types import MappingProxyType

from sordino.model.base import Model
from sordino.model.gaussian_linear import GaussianLinear
from sordino.model.huber import Huber
from sordino.model.lenet import LeNet5
from sordino.model.logistic import Logistic
from sordino.model.mixture import GaussianMixture
from sordino.model.mlp import MLPClassification, MLPRegression
from sordino.model.poisson import PoissonRegression
from sordino.model.probit import Probit
from sordino.model.softmax import Softmax

MODELS: MappingProxyType[str, type[Model]] = MappingProxyType(
    {
        "ridge": GaussianLinear,
        "logistic": Logistic,
        "softmax": Softmax,
        "huber": Huber,
        "probit": Probit,
        "poisson": PoissonRegression,
        "mixture": GaussianMixture,
        "mlp-regression": MLPRegression,
        "mlp-classification": MLPClassification,
        "lenet-5": LeNet5,
    }
)
