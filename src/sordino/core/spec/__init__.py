"""SPEC.json: the one description of a run that is executed, certified, audited and stored."""

from sordino.core import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
