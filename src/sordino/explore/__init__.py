"""Private questions about a table and about fits: summary statistics, checks, comparisons and choices of a model."""

from sordino.core.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
