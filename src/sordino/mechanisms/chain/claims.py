"""Checks that the claims of a spec are true for the model that runs, and for every row.

A chain is certified from its spec, so everything a theorem may read is brought about here, whatever rows are given: the
length of rows and the size of targets, the length of a record's gradient, the divisor and the radius.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Certificate, Direction, Relation
from sordino.core.gaussian import least_true
from sordino.core.spec import Ball, Clipping, GaussianNoise, NoisyGradient, Problem, Scheme, Spec
from sordino.core.spec.fields import Section
from sordino.core.validate import InputError, instance_of, refuse
from sordino.mechanisms.chain.kernel import Constants, Program, RowLimits, RowReader
from sordino.mechanisms.chain.rounding import hidden_lattice
from sordino.models.base import Model
from sordino.models.clip import working_bound
from sordino.models.facts import Domain
from sordino.noise.lattice import Lattice, checked_bound
from sordino.noise.randomness import NoisePort

# Rows and targets beyond this are not limited: products of a few of them are still numbers.
_UNLIMITED = 1e60
# Rows this short have no use; a claim that fails even for them fails for all.
_SHORTEST = 1e-30
_ROUNDING = 2.0**-50
# How short a length in double precision may be computed, for every entry and for some operations more.
_LENGTH_ERROR = 2.0**-51
_SPARE_OPERATIONS = 8
# What flooring a sum to the lattice of its noise may add to the length of a difference (`lattice`).
_FOR_THE_LATTICE = 2.0**-23


def check_regulariser(spec: Spec, model: Model) -> None:
    """Refuse a spec that claims another weight decay, or a better prior, than the model has."""
    # A model that certifies nothing about its penalty leaves the claim to the user who declared it.
    claimed = None if spec.problem is None else spec.problem.regulariser
    own = model.regulariser_certificates()
    if claimed is None or "regulariser.strong_convexity" not in own:
        return
    convexity, stated = own["regulariser.strong_convexity"].value, claimed.strong_convexity.value
    if stated > convexity:
        raise refuse("problem.regulariser.strong_convexity", f"to be at most the model's {convexity!r}", stated)
    smoothness, stated = own["regulariser.smoothness"].value, claimed.smoothness.value
    if stated < smoothness:
        raise refuse("problem.regulariser.smoothness", f"to be at least the model's {smoothness!r}", stated)


def longest_row(spec: Spec, chain: NoisyGradient, model: Model, features: int) -> tuple[float, float]:
    """The longest row, and the largest target, for which the model certifies what the spec claims."""
    # A run brings every row within this length, so what was certified holds for any rows. Infinite where no claim
    # depends on it: clipped gradients of a network, or a loss of which nothing is known but what was declared.
    if spec.problem is None:
        return math.inf, math.inf
    length, target = _limits(spec.problem, model, chain.clipping, chain.projection, features)
    if chain.clipping is not None and model.clips_rows(chain.clipping):
        length = min(length, chain.clipping.bound)
    return length, target


@lru_cache(256)
def _limits(
    problem: Problem, model: Model, clipping: Clipping | None, projection: Ball | None, features: int
) -> tuple[float, float]:
    claimed = dict(_upper(problem))

    def holds(length: float, target: float | None) -> bool:
        certified = model.certificates(Domain(features, length, target), clipping, projection)
        return all(certified[name].value <= value for name, value in claimed.items() if name in certified)

    def largest(of: Callable[[float], bool], name: str) -> float:
        if of(_UNLIMITED):
            return math.inf
        if not of(_SHORTEST):
            raise refuse("the problem of the spec", f"to claim what the model has for some {name}", "less", "state it")
        limit = 1.0 / least_true(lambda inverse: of(1.0 / inverse), 1.0 / _UNLIMITED, 1.0)
        # Limits are declared as short decimals; those that were are met exactly.
        declared = float(f"{limit:.12g}")
        return declared if of(declared) else limit * (1.0 - _ROUNDING)

    length = largest(lambda row: holds(row, None), "length of rows")
    if math.isinf(length):
        return length, math.inf
    try:
        return length, largest(lambda target: holds(length, target), "size of targets")
    except InputError:  # a model of labels, which has no sizes of targets
        return length, math.inf


def _upper(section: Any) -> Iterator[tuple[str, float]]:
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        if isinstance(value, Certificate) and value.constant.direction is Direction.UPPER:
            yield value.constant.name, value.value
        elif isinstance(value, Section) and entry.name != "regulariser":
            yield from _upper(value)


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """The chain that a spec describes and a model runs, with the public numbers that every step of it keeps to."""

    spec: Spec
    model: Model
    chain: NoisyGradient = field(init=False)

    def __post_init__(self) -> None:
        instance_of("spec", self.spec, Spec)
        check_regulariser(self.spec, instance_of("model", self.model, Model))
        object.__setattr__(self, "chain", instance_of("spec.algorithm", self.spec.algorithm, NoisyGradient))

    @property
    def clips_gradients(self) -> bool:
        """Whether each record's gradient is clipped, and not its row."""
        return self.chain.clipping is not None and not self.model.clips_rows(self.chain.clipping)

    @cached_property
    def reach(self) -> float | None:
        """What every record's gradient is shortened to: by a clip, or by the bound that the spec certifies."""
        # No gradient of an honest row exceeds a certified bound. None where the spec states neither: no theorem reads
        # one then, and sums have no grid.
        if self.chain.clipping is not None and self.clips_gradients:
            return working_bound(checked_bound("algorithm.clipping.bound", self.chain.clipping.bound), self.spec.dim)
        certified = None if self.spec.problem is None else self.spec.problem.gradient_bound
        if certified is None or certified.value == 0.0:
            return None
        bound = checked_bound("problem.gradient_bound", certified.value)
        return bound * (1.0 - _FOR_THE_LATTICE - (self.spec.dim / 2 + _SPARE_OPERATIONS) * _LENGTH_ERROR)

    @cached_property
    def sum_noise(self) -> NDArray[np.float64]:
        """The noise on the sum of gradients at every step: the step multiplies the sum by eta / b."""
        scales = self.chain.noise.scale.values(self.chain.steps) * self.chain.divisor(self.spec.n)
        on_sum = scales / self.chain.step_size.values(self.chain.steps)
        if not np.isfinite(on_sum).all():
            raise refuse("noise.scale", "to be finite when divided by step_size over the batch size", "infinity")
        return on_sum

    @cached_property
    def lattice(self) -> Lattice | None:
        """The lattice of the noise; None where gradients have no bound, or noise is not Gaussian."""
        if self.reach is None or not isinstance(self.chain.noise, GaussianNoise):
            return None
        if self.chain.rounding is not None:
            return hidden_lattice(self.spec, self.chain, self.model, self.reach)
        return Lattice.of(self.reach, self.spec.dim, float(self.sum_noise.max()))

    def row_limits(self, features: int) -> RowLimits:
        """What every record is brought within; rows are cut to whole numbers where the gradients have a bound."""
        limits = longest_row(self.spec, self.chain, self.model, features)
        return RowLimits(*limits, self.model.as_labels, self.reach is not None and self.model.cuts_rows)

    def constants(self) -> Constants:
        """What sums are divided by, and how far gradients and iterates reach, in the precision of the caller."""
        ball = self.chain.projection
        radius = 0.0 if ball is None else working_bound(ball.radius, self.spec.dim)
        return Constants(*(jnp.asarray(x, float) for x in (self.chain.divisor(self.spec.n), self.reach or 0.0, radius)))

    def program(self, reader: RowReader, port: NoisePort, *, keeps: bool = False) -> Program:
        """What is compiled: sums bounded and clipped, and iterates projected, as the spec says."""
        bounded, chain = self.reach is not None, self.chain
        hidden, projected = bounded and chain.rounding is not None, chain.projection is not None
        return Program(self.model, bounded, self.clips_gradients, reader, projected, keeps, port, hidden)

    def check_rows(self, rows: int, features: int) -> None:
        """Refuse rows whose number or width does not fit the spec and the model."""
        # Under replace-one the number of rows is public and has to be the spec's n. Under add-remove it is private: the
        # spec's n stays the public constant, and any number of rows runs.
        if self.spec.relation == Relation.REPLACE_ONE and rows != self.spec.n:
            raise refuse("the number of rows", f"to be problem.n = {self.spec.n} under replace-one", rows)
        # How far a step is off by rounding grows with the records it adds up, and how often a truncated batch is full
        # with those there are; certificates count one more than n.
        rounded, truncated = self.chain.rounding is not None, self.chain.batch.scheme is Scheme.TRUNCATED_POISSON
        if (rounded or truncated) and rows > self.spec.n + 1:
            words = "where algorithm.rounding is stated" if rounded else "for truncated batches"
            raise refuse("the number of rows", f"to be at most {self.spec.n + 1}, problem.n and one, {words}", "more")
        if self.model.dim(features) != self.spec.dim:
            allowed = f"to be {self.model.dim(features)}"
            raise refuse(f"problem.dim for rows of {features} features", allowed, self.spec.dim)
