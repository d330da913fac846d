"""The ways to fit, by the word that `method=` takes (`base`); a new file in this folder is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
