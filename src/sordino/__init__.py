"""Sordino: private Bayesian learning that certifies and audits itself.

Names are loaded on first use, so that `import sordino` costs nothing until something is asked of it. The stub beside
this file is the list of them. Guarantees, theorems and conversions are in `sordino.accounting`, private summaries,
checks and comparisons in `sordino.explore`.
"""

from sordino.core.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
