"""Private estimators with scikit-learn's conventions: a posterior, a certificate and a release after every fit.

Names are loaded on first use, so that a fit from the command line loads no scikit-learn.
"""

from sordino.core.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
