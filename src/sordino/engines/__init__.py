"""Where sums over rows are added up: importing this package registers every engine that has a file in it.

An engine brings one question (a `Statistic`) to every part of a table and brings back whole numbers. It computes
nothing itself: contributions come from one kernel, `Work.answer`, wherever it runs.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
