"""Privacy filters: which releases a budget still affords, under fully adaptive choice."""

from sordino.ledger.filters.base import Charge as Charge
from sordino.ledger.filters.base import Filter as Filter
from sordino.ledger.filters.base import filter_from_dict as filter_from_dict
from sordino.ledger.filters.base import filter_kinds as filter_kinds
from sordino.ledger.filters.base import filter_named as filter_named
from sordino.ledger.filters.either import EitherFilter as EitherFilter
from sordino.ledger.filters.gaussian import GaussianFilter as GaussianFilter
from sordino.ledger.filters.renyi import OrderShares as OrderShares
from sordino.ledger.filters.renyi import RenyiFilter as RenyiFilter
