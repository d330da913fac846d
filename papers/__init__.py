"""The five papers Sordino grew out of: figures, tables and statements, the papers' numbers beside ours."""

from papers.framework.figure import Figure as Figure
from papers.framework.item import NOT_VALID as NOT_VALID
from papers.framework.item import Beside as Beside
from papers.framework.item import Improved as Improved
from papers.framework.item import Item as Item
from papers.framework.item import Lower as Lower
from papers.framework.item import NotProved as NotProved
from papers.framework.item import NotValid as NotValid
from papers.framework.item import Options as Options
from papers.framework.item import Outcome as Outcome
from papers.framework.item import Table as Table
from papers.framework.item import Upper as Upper
from papers.framework.item import Verdict as Verdict
from papers.framework.item import VerdictKind as VerdictKind
from papers.framework.item import every_item as every_item
from papers.framework.item import item as item
from papers.framework.item import item_named as item_named
from papers.framework.writing import Attempt as Attempt
from papers.framework.writing import attempt_items as attempt_items
from papers.framework.writing import run_item as run_item
from papers.framework.writing import write_index as write_index
