"""The items: a figure or table of a paper is one file with one decorated function; there is no list to edit."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from sordino.core.citation import Citation
from sordino.core.errors import InputError, SordinoError
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome

Experiment = Callable[[Options], Outcome]


@dataclass(frozen=True)
class Item:
    """Something of a paper that can be had again; `needs` names the benchmark files it cannot run without."""

    name: str
    paper: str | None
    reproduces: str
    needs: tuple[str, ...]
    run: Experiment

    @property
    def source(self) -> str:
        """Paper and place, in words."""
        return self.reproduces if self.paper is None else str(Citation(self.paper, self.reproduces))


_ITEMS: dict[str, Item] = {}


def item(*, name: str, paper: str | None, reproduces: str, needs: tuple[str, ...] = ()) -> Callable[[Experiment], Item]:
    """Register a function of `Options` as an item; `paper` is a key of references.bib, or None for our own."""

    def registered(experiment: Experiment) -> Item:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise SordinoError(f"Expected an item's name in lower case with hyphens, got {name!r}.")
        if name in _ITEMS and _ITEMS[name].run.__module__ != experiment.__module__:
            raise SordinoError(f"Two items are registered as {name!r}; names must be unique.")
        made = Item(name, paper, reproduces, needs, experiment)
        _ITEMS[name] = made
        return made

    return registered


@cache
def _load() -> None:
    package = importlib.import_module("sordino.reproduce.items")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def every_item() -> tuple[Item, ...]:
    """Every registered item, by name."""
    _load()
    return tuple(_ITEMS[name] for name in sorted(_ITEMS))


def item_named(name: str) -> Item:
    """The item of this name, or a refusal that names the closest ones."""
    _load()
    if name in _ITEMS:
        return _ITEMS[name]
    close = difflib.get_close_matches(name, _ITEMS, n=3, cutoff=0.4)
    remedy = f"did you mean {', '.join(close)}?" if close else "see sordino reproduce --list."
    raise InputError(f"Expected the name of an item, got {name!r}; {remedy}")


def unregister(name: str) -> None:
    """Forget an item; for tests that register one of their own."""
    del _ITEMS[name]
