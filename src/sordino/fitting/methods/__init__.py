"""The ways to fit, by the word that `method=` takes; a new file in this folder is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from sordino.fitting.methods.base import METHODS as METHODS
from sordino.fitting.methods.base import FitPlan as FitPlan
from sordino.fitting.methods.base import Outcome as Outcome
from sordino.fitting.methods.base import choose as choose
from sordino.fitting.methods.base import method as method

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
