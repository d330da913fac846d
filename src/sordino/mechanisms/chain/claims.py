"""Checks that the claims of a spec are true for the model that runs, and for every row.

A chain is certified from its spec, so everything a theorem may read is brought about here, whatever rows are given: the
length of rows and the size of targets, the length of a record's gradient, the divisor and the radius.

*Last iterates to the last bit.* A hidden chain runs on a lattice, and its floating-point error is a stated shift. With
`algorithm.rounding` = r it makes the steps

    theta <- Proj[ cut( floor_g( theta - eta (sum of batch gradients / b + grad r(theta)) ) + g N ) ]

with a lattice of spacing g far below the noise tau and whole-number Gaussians N of scale tau / g. Flooring, and all
that double precision does before it, is an error p of the step; rounding the noise, cutting at the ends of the lattice
and projecting is a public function of the floored step plus real Gaussian noise, off by at most q. `shifts.rounding`
turns p + c q <= r tau into a bound. Here stands an upper bound on p + c q:

- a record's gradient, as computed, is within 2^-40 of its bound G, plus what scores off by `score_error` of |x| |theta|
  make of a loss of smoothness M. *This is the one assumption*: compiled exponentials, logarithms, hyperbolic tangents
  and quotients are accurate to 2^-44 of their largest value, where their authors state a few units of 2^-52. Tests
  compare gradients with ball arithmetic (`tests/mechanisms/chain/test_rounding.py`);
- sums in double precision over B records, in groups of 512, are off by at most (528 + B / 512) 2^-53 B G;
- quotient, penalty, product and difference are off by 8 * 2^-53 of the largest number among them; iterates are at most
  sqrt(D) times the end of the lattice long;
- flooring: sqrt(D) g. What q is made of: the noise, sqrt(D) g / 2, and a projection in double precision, 2^-45 of the
  iterate or (D + 16) 2^-53 where D is larger. A step stretches both 1 + eta (M + L) times at most, L the smoothness of
  the penalty.

For an average each kept iterate is floored to the lattice (those of projected chains lie beside it), which counts as
two spacings of every step here, more than flooring takes two averages apart. Cutting coordinates at public ends never
takes two points further apart, so real chains are cut alike; the first point, which may be far away, is cut as well.
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

from sordino.core import bound as constants
from sordino.core.bound import Certificate, Direction, Relation, View
from sordino.core.gaussian import least_true, sum_up, up
from sordino.core.spec import Ball, Clipping, GaussianNoise, NoisyGradient, Problem, Scheme, Spec
from sordino.core.spec.fields import Section
from sordino.core.validate import InputError, instance_of, refuse
from sordino.mechanisms.chain.kernel import Constants, Program, RowLimits, RowReader
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


COVERED = (
    "noise from fair bits, without rounding, on iterates on a public lattice; how far arithmetic takes a step is a "
    "shift in the bound, elementary functions being accurate to 2^-40"
)
# What releases state, of the noise of a step.
ROUNDING = 2.0**-24
_GRADIENT_ERROR = 2.0**-40
_UNIT = 2.0**-53
# Spacings in the least noise of a step, and digits of an iterate in spacings: sums with noise stay below 2^53.
_NOISE_DIGITS, _ITERATE_DIGITS = 30, 50
_FIXED = frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT})


def score_error(dim: int) -> float:
    """How far a score x @ theta, as computed, may be off, over |x| |theta|."""
    # `contributions.products` cuts every weight 52 digits below the power of two above their sum of sizes, which is at
    # most 2 sqrt(D) |theta|; with |x|_1 <= sqrt(D) |x| that is D 2^-51, and two roundings come to it. A product in
    # plain double precision is off by D 2^-53.
    return max(2.0**-48, (dim + 4) * 2.0**-51)


def hidden_lattice(spec: Spec, chain: NoisyGradient, model: Model, reach: float) -> Lattice:
    """The lattice of a hidden chain, if the spec's rounding covers its error; refused with both numbers otherwise."""
    scales, stated = chain.noise.scale.values(chain.steps), chain.rounding or 0.0
    exponent = math.frexp(float(scales.min()))[1] - _NOISE_DIGITS
    if float(scales.max()) > math.ldexp(float(scales.min()), 10):
        raise refuse("noise.scale", "to vary by a factor of at most 1024 where rounding is stated", "more")
    lattice = Lattice(exponent, exponent + _ITERATE_DIGITS + 1)
    needed = rounding_needed(spec, chain, model, reach, lattice)
    if needed > stated:
        raise InputError(
            f"Expected algorithm.rounding of at least {needed:.3g}, got {stated:.3g}. Rounding of such steps can "
            "reach that share of their noise. State more, or omit it."
        )
    return lattice


def rounding_needed(spec: Spec, chain: NoisyGradient, model: Model, reach: float, lattice: Lattice) -> float:
    """An upper bound on (p + c q) / tau over all steps."""
    if chain.batch.scheme not in _FIXED:
        raise refuse("algorithm.rounding", "to be absent for batches of random size", chain.batch.scheme.value)
    records = spec.n if chain.batch.scheme is Scheme.FULL else chain.divisor(spec.n)
    if spec.relation.value == "add-remove":
        records += 1
    step, root = float(chain.step_size.values(chain.steps).max()), math.sqrt(spec.dim)
    certified = [getattr(spec.problem, name, None) for name in ("unclipped_smoothness", "smoothness")]
    smooth = next((one.value for one in certified if one is not None), None)
    if smooth is None:
        raise refuse("problem.smoothness", "to be given where algorithm.rounding is", None)
    longest = up(root * lattice.end, 2)
    # How much the penalty's gradient grows with the iterate at most.
    own = model.regulariser_certificates().get(constants.REGULARISER_SMOOTHNESS.name)
    decay = smooth if own is None else own.value
    each = up(reach * _GRADIENT_ERROR + score_error(spec.dim) * smooth * longest, 3)
    adding = up((528.0 + records / 512.0) * _UNIT * reach, 3)
    shares = records / chain.divisor(spec.n)
    made = up(step * shares * up(each + adding), 4)
    largest = sum_up([longest, up(step * sum_up([up(shares * reach), decay * longest]))])
    projecting = 0.0 if chain.projection is None else up(longest * max(2.0**-45, (spec.dim + 16) * _UNIT))
    stretch = up(1.0 + step * (shares * smooth + decay), 4)
    after = up(stretch * sum_up([up(0.5 * root * lattice.spacing, 2), projecting]))
    floors = 3.0 if spec.view is View.AVERAGE else 1.0
    error = sum_up([made, up(8.0 * _UNIT * largest, 2), up(floors * root * lattice.spacing, 2), after])
    return up(error / float(chain.noise.scale.values(chain.steps).min()))


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
