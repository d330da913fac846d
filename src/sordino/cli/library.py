"""What commands use of the rest of the package, each loaded when it is first used: a command answers at once."""

from sordino.core import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, {})  # nothing is kept here: a module keeps itself
