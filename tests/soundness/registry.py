"""Instances by name: a generator is one decorated function in a file under `instances/`; there is no list to edit."""

import importlib
import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sordino.core.spec import Spec
from tests.soundness.truth import Truth


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The exact divergences between the releases on two neighbouring datasets, and a word on which those are."""

    label: str
    truth: Truth


@dataclass(frozen=True, eq=False)
class Instance:
    """A described run whose certified constants truly hold, and neighbours whose exact divergences are known."""

    spec: Spec
    neighbours: tuple[Neighbours, ...]


Generate = Callable[[np.random.Generator], Instance]
_GENERATORS: dict[str, Generate] = {}


def instance(name: str) -> Callable[[Generate], Generate]:
    """Register a generator: a function of a random generator, which decides everything about the instance."""

    def registered(generate: Generate) -> Generate:
        if name in _GENERATORS:
            raise ValueError(f"Two generators are registered as {name!r}; names must be unique.")
        _GENERATORS[name] = generate
        return generate

    return registered


@cache
def _load() -> None:
    for module in pkgutil.iter_modules([str(Path(__file__).parent / "instances")]):
        importlib.import_module(f"tests.soundness.instances.{module.name}")


def generator_names() -> tuple[str, ...]:
    """Every registered generator, by name."""
    _load()
    return tuple(sorted(_GENERATORS))


def draw(name: str, seed: int) -> Instance:
    """The instance with this number; the same number always gives the same instance."""
    _load()
    return _GENERATORS[name](np.random.default_rng([seed, zlib.crc32(name.encode())]))
