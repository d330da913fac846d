"""Laws that are known exactly, in NumPy float64: what bounds and kernels are tested against and audits start from."""

from sordino.models.exact.chain_law import MOST_PATTERNS as MOST_PATTERNS
from sordino.models.exact.chain_law import Quadratics as Quadratics
from sordino.models.exact.chain_law import chain_law as chain_law
from sordino.models.exact.chain_law import stable_chain_law as stable_chain_law
from sordino.models.exact.gaussian_law import ConjugateRegression as ConjugateRegression
from sordino.models.exact.gaussian_law import ExactLaw as ExactLaw
from sordino.models.exact.gaussian_law import GaussianLaw as GaussianLaw
from sordino.models.exact.gaussian_law import GaussianLoss as GaussianLoss
from sordino.models.exact.gaussian_law import GaussianMixtureLaw as GaussianMixtureLaw
from sordino.models.exact.gaussian_law import hockey_stick as hockey_stick
from sordino.models.exact.line import LineMixture as LineMixture
from sordino.models.exact.line import StableLaw1D as StableLaw1D
