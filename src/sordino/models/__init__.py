"""Losses and posteriors that certify their own constants from the public domain.

Importing one of them imports JAX.
"""

from sordino.core import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
