"""The privacy budget of a dataset: debited before rows are used, in a file that survives crashes."""

from sordino.ledger.book import Entry as Entry
from sordino.ledger.budget import Budget as Budget
from sordino.ledger.budget import ContentWarning as ContentWarning
from sordino.ledger.budget import LedgerError as LedgerError
from sordino.ledger.budget import LedgerRefusal as LedgerRefusal
from sordino.ledger.budget import LedgerUnit as LedgerUnit
from sordino.ledger.ledger import Balance as Balance
from sordino.ledger.ledger import EntryVerdict as EntryVerdict
from sordino.ledger.ledger import Ledger as Ledger
