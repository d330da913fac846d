"""Code that sees rows: chains, statistics, regression, messages, networks, mixtures and posterior samples.

The chains' public names are here: specs of the papers, `run`, its releases, its checkpoints and its randomness.
"""

from sordino.core import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, globals())
