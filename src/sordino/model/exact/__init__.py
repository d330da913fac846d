"""Laws that are known exactly, in NumPy float64: what bounds and kernels are tested against and audits start from."""

from sordino.model.exact.chain_law import MOST_PATTERNS as MOST_PATTERNS
from sordino.model.exact.chain_law import chain_law as chain_law
from sordino.model.exact.divergence import Law as Law
from sordino.model.exact.divergence import hockey_stick as hockey_stick
from sordino.model.exact.divergence import renyi as renyi
from sordino.model.exact.divergence import total_variation as total_variation
from sordino.model.exact.gaussian_law import GaussianLaw as GaussianLaw
from sordino.model.exact.gaussian_law import GaussianLoss as GaussianLoss
from sordino.model.exact.gaussian_law import GaussianMixtureLaw as GaussianMixtureLaw
from sordino.model.exact.line import LineMixture as LineMixture
from sordino.model.exact.quadratic import QuadraticPair as QuadraticPair
from sordino.model.exact.quadratic import Quadratics as Quadratics
from sordino.model.exact.quadratic import extremal_pair as extremal_pair
from sordino.model.exact.regression import ConjugateRegression as ConjugateRegression
from sordino.model.exact.regression import InterimRegression as InterimRegression
from sordino.model.exact.regression import ScalarAffine as ScalarAffine
from sordino.model.exact.stable_chain import StableLaw1D as StableLaw1D
from sordino.model.exact.stable_chain import shift_total_variation as shift_total_variation
from sordino.model.exact.stable_chain import stable_chain_law as stable_chain_law
