"""What can be learned, by the words of releases and of `fit` (`base`); a new file in this folder is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

# The words of `fit` are listed in this order: models that are linear in the columns first.
for _name in dict.fromkeys(("linear", *(found.name for found in iter_modules(__path__)))):
    import_module(f"{__name__}.{_name}")
