"""The ways to fit a model of one's own, and the registry that `fit` chooses from.

A method plans from public numbers alone and runs what it planned; what it finds are draws of the unconstrained
parameters, or one point. A method is a class registered under the word that `method=` takes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from sordino.algorithm.variational.natural import Sizes, information_left, natural_spec, run_natural
from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.bound import Certificate
from sordino.core.gaussian import largest_mu, least_true
from sordino.core.spec import Spec, Unit
from sordino.core.validate import InputError
from sordino.estimators.situation import Sources
from sordino.model.own.base import MOST_NATURAL, OwnModel

_LARGEST_EPSILON = 1e6
# At 41 records a parameter, intervals of a regression were measured to hold, at 12 they did not (bench/own_models.py).
_LEAST_LEFT = 35.0
_LEAST_OF_FEW, _MOST_OF_FEW = 3.0, 0.75
# Relative error of the information in one direction beyond which a release says so.
_DOUBTFUL = 0.6
# By how much the information may change in the last stage of a fit that has settled.
_SETTLED = 1.6


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is to be fitted, and for what: all of it public."""

    model: OwnModel
    sizes: Sizes
    epsilon: float
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def thing(self) -> str:
        """What the table is made of, in the plural."""
        return "records" if isinstance(self.sizes.unit, Unit) else "units"


@dataclass(frozen=True, eq=False)
class Found:
    """Draws of the unconstrained parameters, shape (chains, draws, size), and what is to be said of them."""

    draws: Array
    settings: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    arrays: Mapping[str, Any] = field(default_factory=dict)
    audit: LowerBound | None = None
    floating_point: Certificate | None = None  # absent: not covered


class OwnMethod(ABC):
    """One way to fit.

    A method that `packs` reads a table with a row of numbers for each unit, another one the arrays by name.
    """

    name: ClassVar[str]
    packs: ClassVar[bool] = True

    def refusal(self, wanted: Wanted) -> str | None:
        """Why a model is out of its reach, or None."""
        return None

    @abstractmethod
    def plan(self, wanted: Wanted) -> Spec:
        """The run, its noise included."""

    @abstractmethod
    def run(self, wanted: Wanted, spec: Spec, rows: Any, sources: Sources, begin: Callable[[str], None]) -> Found:
        """Read the rows, once the plan is certified and debited."""


Kind = TypeVar("Kind", bound=type[OwnMethod])
OWN_METHODS: dict[str, OwnMethod] = {}


def own_method(name: str) -> Callable[[Kind], Kind]:
    """Register a method under the word that `method=` takes."""

    def registered(kind: Kind) -> Kind:
        if name in OWN_METHODS:
            raise InputError(f"Expected a new method, got {name!r}, which is already registered.")
        kind.name = name
        OWN_METHODS[name] = cast(OwnMethod, kind())
        return kind

    return registered


def _least_left(sizes: Sizes) -> float:
    """How many records the noise has to leave: 35 for each parameter, or three quarters of a table that has fewer."""
    return min(_LEAST_LEFT * sizes.size, max(_LEAST_OF_FEW * sizes.size, _MOST_OF_FEW * sizes.records))


def check_worth_while(wanted: Wanted) -> None:
    """Refuse a fit whose noise leaves less than 35 records would say for each parameter; no row is read."""
    sizes = wanted.sizes
    left = information_left(sizes)
    if left >= _least_left(sizes):
        return

    def enough(epsilon: float) -> bool:
        return information_left(replace(sizes, mu=largest_mu(epsilon, sizes.delta))) >= _least_left(sizes)

    def many(records: float) -> bool:
        larger = replace(sizes, records=math.ceil(records))
        return information_left(larger) >= _LEAST_LEFT * sizes.size

    needed = least_true(enough, wanted.epsilon, _LARGEST_EPSILON) if enough(_LARGEST_EPSILON) else None
    epsilon = "no epsilon would do" if needed is None else f"epsilon {_shown(needed)} would be needed"
    more = math.ceil(least_true(many, sizes.records, 1e12))
    raise InputError(
        f"Expected enough {wanted.thing} for the noise, got {sizes.records} for {sizes.size} parameters: at epsilon "
        f"{wanted.epsilon:g} the release would say as much as {left:.2g} {wanted.thing} without noise; "
        f"{epsilon}, or {more:,} {wanted.thing}."
    )


def _shown(value: float) -> str:
    """Rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:g}"


@own_method("natural")
class NaturalVariationalInference(OwnMethod):
    """Natural-gradient variational inference with a full covariance that knows the noise."""

    def refusal(self, wanted: Wanted) -> str | None:
        size = wanted.sizes.size
        return None if size <= MOST_NATURAL else f"needs at most {MOST_NATURAL} parameters, and there are {size}"

    def plan(self, wanted: Wanted) -> Spec:
        check_worth_while(wanted)
        return natural_spec(wanted.sizes, simulates=wanted.model.simulates)

    def run(self, wanted: Wanted, spec: Spec, rows: Array, sources: Sources, begin: Callable[[str], None]) -> Found:
        start = np.asarray(wanted.model.start())
        draws = int(wanted.options.get("draws", 1000))
        found = run_natural(spec, wanted.model, rows, sources.fresh, start, begin, draws)
        cautions = ()
        if found.doubt > _DOUBTFUL:
            cautions += (
                f"The information of single directions is known to about {100 * found.doubt:.0f} % only, because of "
                "the noise: intervals may be too short or too long.",
            )
        if not 1.0 / _SETTLED < found.changed < _SETTLED:
            cautions += (
                f"The fit was still on its way when its rounds ended: the information changed {found.changed:.2g} "
                "times in the last stage, and intervals need not hold. Begin nearer: give start, or scale the columns.",
            )
        shares = np.diag(found.noise) / np.diag(found.covariance)
        settings = {
            "clip": found.clip,
            "doubt": found.doubt,
            "changed": found.changed,
            "share_of_noise": shares.tolist(),
        }
        arrays = {"free_mean": found.mean, "free_covariance": found.covariance}
        return Found(found.draws[None], settings, cautions, arrays)
