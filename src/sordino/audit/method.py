"""The registry of audits: a method is a function from a described run and options to a lower bound.

A method lives in a file of its own under `audit/methods/` and registers itself; a new file is found by itself.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from sordino.audit.lower_bound import LowerBound
from sordino.core.errors import SordinoError
from sordino.core.guarantee.base import check_delta
from sordino.core.spec import Spec
from sordino.core.validate import OPEN_UNIT, Interval, number, one_of, whole_number


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What a person may ask of any audit; a method ignores what it has no use for.

    Attributes:
        delta: the delta of the lower bound.
        confidence: joint confidence of the whole statement, for audits that sample.
        models: how many models an audit may train, all sides together.
        seed: for a reproducible audit; None draws a fresh one from the operating system.
        fit_sides: how an attack fits the models of both datasets, for instance on a cluster; None: here.
    """

    delta: float
    confidence: float = 0.95
    models: int = 1000
    seed: int | None = None
    fit_sides: Callable[..., list[Any]] | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        number("confidence", self.confidence, OPEN_UNIT)
        whole_number("models", self.models, Interval(2), "an audit needs one model from each side at least")
        if self.seed is not None:
            whole_number("seed", self.seed, Interval(0, 2**128 - 1))


AuditMethod = Callable[[Spec, AuditOptions], LowerBound]
_METHODS: dict[str, AuditMethod] = {}


def audit_method(word: str) -> Callable[[AuditMethod], AuditMethod]:
    """Register a function as the audit called `word`."""

    def registered(method: AuditMethod) -> AuditMethod:
        if word in _METHODS and _METHODS[word].__qualname__ != method.__qualname__:
            raise SordinoError(f"Two audits are registered as {word!r}; names must be unique.")
        _METHODS[word] = method
        return method

    return registered


def audit_methods() -> Mapping[str, AuditMethod]:
    """Every registered audit, by name."""
    _load()
    return MappingProxyType(dict(sorted(_METHODS.items())))


def audit(spec: Spec, method: str, options: AuditOptions) -> LowerBound:
    """Audit a described run with the named method.

    A run that the method cannot audit is refused with an `InputError` that says why in one sentence.
    """
    methods = audit_methods()
    return methods[one_of("method", method, methods)](spec, options)


@cache
def _load() -> None:
    package = importlib.import_module("sordino.audit.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
