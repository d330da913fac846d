"""The papers' figures and tables again, each with the paper's numbers beside ours."""

from sordino.reproduce.attempts import Attempt as Attempt
from sordino.reproduce.attempts import attempt_items as attempt_items
from sordino.reproduce.cells import NOT_VALID as NOT_VALID
from sordino.reproduce.cells import Lower as Lower
from sordino.reproduce.cells import NotValid as NotValid
from sordino.reproduce.cells import Upper as Upper
from sordino.reproduce.figure import Figure as Figure
from sordino.reproduce.index import write_index as write_index
from sordino.reproduce.item import Item as Item
from sordino.reproduce.item import every_item as every_item
from sordino.reproduce.item import item as item
from sordino.reproduce.item import item_named as item_named
from sordino.reproduce.options import Options as Options
from sordino.reproduce.outcome import Beside as Beside
from sordino.reproduce.outcome import Outcome as Outcome
from sordino.reproduce.outcome import Verdict as Verdict
from sordino.reproduce.outcome import VerdictKind as VerdictKind
from sordino.reproduce.run import run_item as run_item
from sordino.reproduce.table import Table as Table
