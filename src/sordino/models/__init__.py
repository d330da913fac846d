"""Losses and posteriors that certify their own constants from the public domain.

Importing this package imports JAX.
"""

from sordino.models.base import LinearScoreModel as LinearScoreModel
from sordino.models.base import Model as Model
from sordino.models.clip import check_sums as check_sums
from sordino.models.clip import clip_by_norm as clip_by_norm
from sordino.models.clip import working_bound as working_bound
from sordino.models.facts import NOTHING_KNOWN as NOTHING_KNOWN
from sordino.models.facts import Domain as Domain
from sordino.models.facts import Growth as Growth
from sordino.models.facts import LossFact as LossFact
from sordino.models.facts import LossFacts as LossFacts
from sordino.models.families.classification import Logistic as Logistic
from sordino.models.families.classification import Probit as Probit
from sordino.models.families.classification import Softmax as Softmax
from sordino.models.families.networks import MLPClassification as MLPClassification
from sordino.models.families.networks import MLPRegression as MLPRegression
from sordino.models.families.regression import GaussianLinear as GaussianLinear
from sordino.models.families.regression import GaussianMixture as GaussianMixture
from sordino.models.families.regression import Huber as Huber
from sordino.models.families.regression import PoissonRegression as PoissonRegression
from sordino.models.registry import MODELS as MODELS
from sordino.models.registry import JaxModel as JaxModel
