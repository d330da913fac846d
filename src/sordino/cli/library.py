"""The parts of the package that commands use, each loaded on first use, so that a command starts at once."""

from sordino.core import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, {})  # nothing is kept here: a module keeps itself
