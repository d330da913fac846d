"""Privacy guarantees: one frozen type per representation, all of them upper bounds."""

from sordino.core.guarantee.approximate import ApproxDP as ApproxDP
from sordino.core.guarantee.approximate import PureDP as PureDP
from sordino.core.guarantee.approximate import TotalVariation as TotalVariation
from sordino.core.guarantee.base import Guarantee as Guarantee
from sordino.core.guarantee.base import guarantee_from_dict as guarantee_from_dict
from sordino.core.guarantee.base import guarantee_kinds as guarantee_kinds
from sordino.core.guarantee.gaussian import GaussianDP as GaussianDP
from sordino.core.guarantee.loss_distribution import LossDistribution as LossDistribution
from sordino.core.guarantee.renyi import ORDERS as ORDERS
from sordino.core.guarantee.renyi import RenyiDP as RenyiDP
