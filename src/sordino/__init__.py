"""Sordino: private Bayesian learning that certifies and audits itself.

Names are loaded on first use, so that `import sordino` costs nothing until something is asked of it. The stub beside
this file is the list of them. Guarantees, theorems and conversions are in `sordino.accounting`, private summaries,
checks and comparisons in `sordino.explore`. JAX is not imported here, but the flag that its sums need is set.
"""

from sordino.core import fused_sums, lazy_exports

fused_sums.switch_off()

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
