"""Accounting: what a described run costs in privacy. NumPy float64 only; it never sees data.

Guarantees, theorems and conversions between guarantees are loaded on first use.
"""

from sordino.core.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
