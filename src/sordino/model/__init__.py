"""Losses and posteriors that certify their own constants from the public domain.

Importing this package imports JAX; NumPyro loads when a `NumPyroModel` is built.
"""

from sordino.model.base import LinearScoreModel as LinearScoreModel
from sordino.model.base import Model as Model
from sordino.model.clip import clip_by_norm as clip_by_norm
from sordino.model.clip import working_bound as working_bound
from sordino.model.domain import Domain as Domain
from sordino.model.facts import NOTHING_KNOWN as NOTHING_KNOWN
from sordino.model.facts import Fact as Fact
from sordino.model.facts import Growth as Growth
from sordino.model.facts import LossFacts as LossFacts
from sordino.model.gaussian_linear import GaussianLinear as GaussianLinear
from sordino.model.huber import Huber as Huber
from sordino.model.lenet import LeNet5 as LeNet5
from sordino.model.logistic import Logistic as Logistic
from sordino.model.mixture import GaussianMixture as GaussianMixture
from sordino.model.mlp import MLPClassification as MLPClassification
from sordino.model.mlp import MLPRegression as MLPRegression
from sordino.model.numpyro_model import NumPyroModel as NumPyroModel
from sordino.model.poisson import PoissonRegression as PoissonRegression
from sordino.model.probit import Probit as Probit
from sordino.model.registry import MODELS as MODELS
from sordino.model.softmax import Softmax as Softmax
from sordino.model.user_loss import JaxModel as JaxModel
