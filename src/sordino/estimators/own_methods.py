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
from sordino.core.arrays import Array
from sordino.core.gaussian import largest_mu, least_true
from sordino.core.spec import Spec, Unit
from sordino.core.validate import InputError
from sordino.estimators.situation import Sources
from sordino.model.own.base import MOST_NATURAL, OwnModel

_LARGEST_EPSILON = 1e6
_LEAST_LEFT = 3.0
# Relative error of the information in one direction beyond which a release says so.
_DOUBTFUL = 0.6


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
    arrays: Mapping[str, Array] = field(default_factory=dict)


class OwnMethod(ABC):
    """One way to fit."""

    name: ClassVar[str]

    def refusal(self, wanted: Wanted) -> str | None:
        """Why a model is out of its reach, or None."""
        return None

    @abstractmethod
    def plan(self, wanted: Wanted) -> Spec:
        """The run, its noise included."""

    @abstractmethod
    def run(self, wanted: Wanted, spec: Spec, rows: Array, sources: Sources, begin: Callable[[str], None]) -> Found:
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


def check_worth_while(wanted: Wanted) -> None:
    """Refuse a fit whose noise leaves less than three records would say for each parameter; no row is read."""
    sizes = wanted.sizes
    left, least = information_left(sizes), _LEAST_LEFT * sizes.size
    if left >= least:
        return

    def enough(epsilon: float) -> bool:
        return information_left(replace(sizes, mu=largest_mu(epsilon, sizes.delta))) >= least

    def many(records: float) -> bool:
        return information_left(replace(sizes, records=math.ceil(records))) >= least

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
        return natural_spec(wanted.sizes)

    def run(self, wanted: Wanted, spec: Spec, rows: Array, sources: Sources, begin: Callable[[str], None]) -> Found:
        start = np.asarray(wanted.model.start())
        found = run_natural(spec, wanted.model, rows, sources.fresh, start, begin)
        cautions = ()
        if found.doubt > _DOUBTFUL:
            cautions = (
                f"The information of single directions is known to about {100 * found.doubt:.0f} % only, because of "
                "the noise: intervals may be too short or too long.",
            )
        shares = np.diag(found.noise) / np.diag(found.covariance)
        # Draws from the released Gaussian are post-processing, so their seed is public.
        draws = np.random.default_rng(0).multivariate_normal(
            found.mean, found.covariance, int(wanted.options.get("draws", 1000)), method="cholesky"
        )
        settings = {"clip": found.clip, "doubt": found.doubt, "share_of_noise": shares.tolist()}
        arrays = {"free_mean": found.mean, "free_covariance": found.covariance}
        return Found(draws[None], settings, cautions, arrays)
