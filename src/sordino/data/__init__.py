"""Tables in, a public schema, encoding with certified bounds, neighbours; names are loaded on first use."""

import sordino.data.columns
import sordino.data.sources  # noqa: F401  (both register what has a file in them)
from sordino.core import lazy_exports
from sordino.data.encode import encode as encode  # this function and the next one have the names of their files
from sordino.data.neighbours import neighbours as neighbours

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
