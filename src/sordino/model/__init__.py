"""Losses and posteriors that certify their own constants from the public domain.

Importing this package imports JAX.
"""

from sordino.model.base import LinearScoreModel as LinearScoreModel
from sordino.model.base import Model as Model
from sordino.model.clip import clip_by_norm as clip_by_norm
from sordino.model.clip import working_bound as working_bound
from sordino.model.compiled import check_sums as check_sums
from sordino.model.facts import NOTHING_KNOWN as NOTHING_KNOWN
from sordino.model.facts import Domain as Domain
from sordino.model.facts import Fact as Fact
from sordino.model.facts import Growth as Growth
from sordino.model.facts import LossFacts as LossFacts
from sordino.model.families.classification import Logistic as Logistic
from sordino.model.families.classification import Probit as Probit
from sordino.model.families.classification import Softmax as Softmax
from sordino.model.families.mixture import GaussianMixture as GaussianMixture
from sordino.model.families.networks import LeNet5 as LeNet5
from sordino.model.families.networks import MLPClassification as MLPClassification
from sordino.model.families.networks import MLPRegression as MLPRegression
from sordino.model.families.regression import GaussianLinear as GaussianLinear
from sordino.model.families.regression import Huber as Huber
from sordino.model.families.regression import PoissonRegression as PoissonRegression
from sordino.model.registry import MODELS as MODELS
from sordino.model.registry import JaxModel as JaxModel
