"""Public choices that shape a run without touching its guarantee: each acts on released values or on public constants.

The spec says what is certified. What is here changes how noised sums are read and used, which is post-processing, or
what messages are before they are clipped, which the clip bounds either way.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.chain.kernel import Records, SomeRows, checked_rows
from sordino.algorithm.noise.exact_sums import (
    Total,
    checked_bound,
    clipped_total,
    in_doubles,
    in_precision,
    plain_total,
)
from sordino.algorithm.noise.randomness import ADDED, NoisePort, Purpose, Randomness
from sordino.algorithm.posterior.gaussian import GaussianPosterior
from sordino.algorithm.rounds.loop import (
    RoundBlock,
    RoundSource,
    RowAccess,
    check_rows_fit,
    load_table,
    part,
    sum_noise,
    sum_sensitivity,
)
from sordino.algorithm.rounds.message_coordinates import Coordinates, NaturalCoordinates, RaiseEigenvalues, Repair
from sordino.core.bound import Relation, View
from sordino.core.spec import ListSchedule, MessagePassing, Sampling, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, instance_of, number, refuse, whole_number
from sordino.model.sites.families import Family, Moments, Site, shortening

_BELOW_ONE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class Prior:
    """An isotropic Gaussian prior, public; unknown precisions have the prior their site states."""

    precision: float = 1.0
    mean: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", number("prior precision", self.precision, POSITIVE))
        if isinstance(self.mean, tuple):
            object.__setattr__(self, "mean", tuple(number("prior mean", value) for value in self.mean))
        else:
            object.__setattr__(self, "mean", number("prior mean", self.mean))


@dataclass(frozen=True)
class Refinement:
    """How messages are written, repaired and averaged.

    Attributes:
        coordinates: what is clipped and noised; the natural parameters as published, or centred ones.
        repair: what happens to a precision that noise made indefinite; its floor is the least precision.
        momentum: share of the last displacement that a round keeps.
        start_scale: standard deviation of the random, data-free means a run starts from; 0 starts at the prior.
        clamp: range in which the eigenvalues of 1 - v k are kept, v the cavity's variance; the coordinates have one.
    """

    coordinates: Coordinates = field(default_factory=NaturalCoordinates)
    repair: Repair = field(default_factory=lambda: RaiseEigenvalues(1e-2))
    momentum: float = 0.0
    start_scale: float = 0.0
    clamp: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        instance_of("coordinates", self.coordinates, Coordinates)
        instance_of("repair", self.repair, Repair)
        object.__setattr__(self, "momentum", number("momentum", self.momentum, _BELOW_ONE))
        object.__setattr__(self, "start_scale", number("start_scale", self.start_scale, NON_NEGATIVE))
        if self.clamp is not None:
            low, high = (number("clamp", value, POSITIVE) for value in self.clamp)
            if not low <= 1.0 <= high:
                raise refuse("clamp", "to be a range that contains 1", self.clamp)
            object.__setattr__(self, "clamp", (low, high))

    @property
    def kept_range(self) -> tuple[float, float]:
        """The clamp, or the coordinates' own where none is given."""
        return self.coordinates.usual_clamp if self.clamp is None else self.clamp


# What leaves message passing: the posterior's natural parameters, the spec that ran, and the count of repairs.

Values = NDArray[np.floating]


@dataclass(frozen=True)
class Repairs:
    """How often noise left a precision that had to be repaired: rounds, and eigenvalues in all of them."""

    rounds: int
    eigenvalues: int


@dataclass(frozen=True, eq=False)
class MessagePassingRelease:
    """A private posterior; `spec` is the very object that ran, and that is certified.

    `iterates` holds the natural parameters after every round where the view is all-iterates, and is None otherwise.
    The repairs are computed from released values, so they may be released with them.
    """

    spec: Spec
    site: Site
    family: Family
    natural: Values
    repairs: Repairs
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("natural", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> GaussianPosterior:
        """The approximate posterior."""
        return GaussianPosterior(self.site, self.family, self.natural)


# The one compiled kernel of stochastic expectation propagation: a block of rounds.
#
#     s <- s + gain (decode(sum of clipped messages + scale * gaussian) - count s / N),   theta = theta_0 + s
#
# s is the sum of all messages, N times the average one. Private rows enter through the clipped sum and nowhere else.
# Sequential runs are batches of one. Additions to s are compensated (Kahan), because one step is far smaller than s.

# Posteriors are released in single precision, and means are parts of these over a small precision.
_LARGEST = 1e30


@dataclass(frozen=True)
class Program:
    """What is compiled in."""

    site: Site
    family: Family
    refinement: Refinement
    access: RowAccess
    keep: bool
    clipped: bool = True
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run; the clip is infinite where none is wanted."""

    prior: Array
    records: Array
    clip: Array


class MessageBlock(NamedTuple):
    """A block of rounds, with what multiplies each round's sum and how many records it is expected to sum."""

    rounds: RoundBlock
    gains: Array
    expected: Array


class State(NamedTuple):
    """The sum of messages, what rounding lost of it, the velocity, and the repairs so far: rounds and eigenvalues."""

    messages: Array
    lost: Array
    velocity: Array
    repairs: Array


def first_state(messages: Array) -> State:
    """The state of a run that begins with this sum of messages."""
    return State(messages, jnp.zeros_like(messages), jnp.zeros_like(messages), jnp.zeros(2, jnp.int32))


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, table: Records, constants: Constants, state: State, block: MessageBlock
) -> tuple[State, Array]:
    """Make the rounds of a block; also the natural vectors after each round where they are kept."""
    length = block.gains.shape[0] if program.keep else 0
    kept = jnp.zeros((length, constants.prior.shape[0]), constants.prior.dtype)

    def one(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, kept = carry
        state = round_of(program, table, constants, state, block, k)
        if program.keep:
            kept = lax.dynamic_update_index_in_dim(kept, constants.prior + state.messages, k, 0)
        return state, kept

    return cast(tuple[State, Array], lax.fori_loop(0, block.rounds.number, one, (state, kept)))


def round_of(
    program: Program, table: Records, constants: Constants, state: State, block: MessageBlock, k: Array
) -> State:
    """One round."""
    family, refinement = program.family, program.refinement
    coordinates, repair = refinement.coordinates, refinement.repair
    before, count = state.messages, block.expected[k]
    cavity = family.moments(constants.prior + before * (1.0 - 1.0 / constants.records))
    total = program.access.total(
        table, block.rounds.batch(k), family.size, partial(_clipped_sum, program, cavity, constants.clip)
    )
    noised = program.port.added(total, block.rounds.scales[k], block.rounds.gaussians[k])
    target = coordinates.decode(family, cavity, noised, count, refinement.kept_range)
    velocity = refinement.momentum * state.velocity + (target - count / constants.records * before)
    step = block.gains[k] * velocity + state.lost
    moved = before + step
    lost = step - (moved - before)
    repaired, number = repair(family, constants.prior + moved, constants.prior + before)
    messages = jnp.where(number > 0, repaired - constants.prior, moved)
    # A round that overflowed, or is about to, is taken back, and counted like any other repair.
    finite = jnp.all(jnp.abs(messages) <= _LARGEST)
    messages, lost, velocity = (
        jnp.where(finite, value, kept)
        for value, kept in ((messages, before), (lost, jnp.zeros_like(lost)), (velocity, jnp.zeros_like(velocity)))
    )
    number = jnp.where(finite, number, family.size)
    if coordinates.bounds_factor:
        messages *= shortening(messages, constants.clip * constants.records)
    repairs = state.repairs + jnp.stack([number > 0, number]).astype(jnp.int32)
    return State(messages, lost, velocity, repairs)


def _clipped_sum(program: Program, cavity: Moments, clip: Array, rows: SomeRows) -> Total:
    refinement = program.refinement
    parts = refinement.coordinates.parts(program.site, program.family, cavity, rows, refinement.kept_range)
    return clipped_total(parts, rows.present, clip) if program.clipped else plain_total(parts, rows.present)


# Damping: one object holds gamma, and both the step and its noise come from it.

DampingValues = NDArray[np.float64]


@dataclass(frozen=True)
class DampedSteps:
    """The steps theta <- theta + (gamma / N) (sum of clipped messages + noise - b theta_f) of a described run.

    Noise enters the sum before gamma multiplies it, so no step can have the noise of another gamma: the noise of a
    step is `noise_multiplier` times its `sensitivity` whatever the schedules are.
    """

    algorithm: MessagePassing
    relation: Relation

    @property
    def sum_sensitivity(self) -> float:
        """How far one record moves the sum of clipped messages."""
        return sum_sensitivity(self.algorithm, self.relation)

    @property
    def gains(self) -> DampingValues:
        """gamma / N of each step: what multiplies the noised sum."""
        return self.algorithm.damping.values(self.algorithm.steps) / self.algorithm.records

    @property
    def sum_noise(self) -> DampingValues:
        """The standard deviation of the noise on the sum of each step."""
        return sum_noise(self.algorithm, self.relation)

    @property
    def sensitivity(self) -> DampingValues:
        """How far one record moves theta in each step: 2 gamma C / N under replace-one, half that under add-remove."""
        return self.gains * self.sum_sensitivity

    @property
    def noise(self) -> DampingValues:
        """The standard deviation of the noise on theta in each step."""
        return self.gains * self.sum_noise

    @property
    def expected(self) -> DampingValues:
        """How many records each step is expected to sum: the public batch size, less in the last batch of a pass."""
        algorithm = self.algorithm
        sizes = np.full(algorithm.steps, float(algorithm.batch_size))
        if algorithm.sampling == Sampling.PASSES:
            last = algorithm.batches_per_epoch - 1
            sizes[last :: last + 1] = algorithm.records - last * algorithm.batch_size
        return sizes


def linear_decay(initial: float, final: float, steps: int) -> ListSchedule:
    """A schedule that goes from `initial` to `final` in equal steps."""
    number("initial", initial, POSITIVE)
    number("final", final, POSITIVE)
    return ListSchedule(tuple(np.linspace(initial, final, whole_number("steps", steps)).tolist()))


# Run a described message-passing spec on private rows: the spec that runs is the spec that is certified.


def run_message_passing(
    spec: Spec,
    site: Site,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    prior: Prior,
    refinement: Refinement,
) -> MessagePassingRelease:
    """Run stochastic expectation propagation as a message-passing spec describes it, and release the posterior.

    `features` has one row for each record, `target` one number (mixtures ignore it). Prior and refinement are public.
    Single precision, or double where JAX has 64-bit numbers enabled.
    """
    instance_of("spec", spec, Spec)
    instance_of("randomness", randomness, Randomness)
    algorithm = instance_of("spec.algorithm", spec.algorithm, MessagePassing)
    X, y = checked_rows(features, target)
    check_rows_fit(spec, algorithm, len(X))
    steps = DampedSteps(algorithm, spec.relation)
    keep = spec.view == View.ALL_ITERATES
    setting = Setting(site, prior, refinement, X.shape[1])
    state, kept = execute(setting, Feeding.of(steps, keep), X, y, randomness)
    natural = setting.natural(state)
    repairs = Repairs(*(int(count) for count in state.repairs))
    return MessagePassingRelease(spec, site, setting.family, natural, repairs, kept)


@dataclass(frozen=True)
class Setting:
    """The public side of a run: site, prior and refinement, for rows of this many features."""

    site: Site
    prior: Prior
    refinement: Refinement
    features: int

    def __post_init__(self) -> None:
        instance_of("site", self.site, Site)
        instance_of("prior", self.prior, Prior)
        instance_of("refinement", self.refinement, Refinement)
        if isinstance(self.prior.mean, tuple) and len(self.prior.mean) != self.family.dim:
            raise refuse("prior mean", f"to have {self.family.dim} entries, or to be one number", self.prior.mean)

    @property
    def family(self) -> Family:
        """The family of the posterior."""
        return self.site.family(self.features)

    def natural(self, state: State) -> NDArray[Any]:
        """The natural parameters of a state, in the precision of the program around."""
        with in_doubles() as dtype:
            return in_precision(self.prior_vector + state.messages, dtype)

    @property
    def prior_vector(self) -> Array:
        """The prior's natural parameters."""
        dtype = jnp.zeros(()).dtype
        mean = jnp.broadcast_to(jnp.asarray(self.prior.mean, dtype), (self.family.dim,))
        return self.family.prior(self.prior.precision, mean, self.site.gamma_prior)

    def first_messages(self, randomness: Randomness, dtype: Any = None) -> Array:
        """The sum of messages a run starts from: none, or one that gives random means at the prior's precision.

        Random means are drawn in `dtype`, by default the precision of the program around.
        """
        prior = self.prior_vector
        if self.refinement.start_scale == 0.0:
            return jnp.zeros_like(prior)
        drawn = randomness.gaussians(Purpose.START, 0, 1, (self.family.dim,), dtype or prior.dtype)[0].astype(
            prior.dtype
        )
        pull = self.prior.precision * self.refinement.start_scale * drawn
        return jnp.concatenate([pull, jnp.zeros(self.family.size - self.family.dim, prior.dtype)])


@dataclass(frozen=True, eq=False)
class Feeding:
    """The numbers of every round: what multiplies its sum, the noise on the sum, and the records it expects.

    A non-private run has an infinite clip, or no noise; the same compiled kernel runs it.
    """

    algorithm: MessagePassing
    gains: NDArray[np.float64]
    sum_noise: NDArray[np.float64]
    expected: NDArray[np.float64]
    clip: float
    keep: bool = False

    @classmethod
    def of(cls, steps: DampedSteps, keep: bool) -> "Feeding":
        """What a described private run feeds the kernel."""
        return cls(steps.algorithm, steps.gains, steps.sum_noise, steps.expected, steps.algorithm.clip, keep)


def execute(
    setting: Setting, feeding: Feeding, X: NDArray[Any], y: NDArray[Any], randomness: Randomness
) -> tuple[State, NDArray[Any] | None]:
    """Feed the kernel block by block; the state after the last round, and every vector on the way if kept."""
    algorithm, family, clipped = feeding.algorithm, setting.family, math.isfinite(feeding.clip)
    if clipped:
        checked_bound("algorithm.clip", feeding.clip)
    kept: list[NDArray[Any]] = []
    with in_doubles() as dtype:
        source = RoundSource(algorithm, len(X), feeding.sum_noise, randomness, dtype)
        table = load_table(X, y, dtype, cut=clipped)
        numbers = (jnp.asarray(value, float) for value in (algorithm.records, feeding.clip))
        constants = Constants(setting.prior_vector, *numbers)
        state = first_state(setting.first_messages(randomness, dtype))
        for access, rounds in source.blocks(family.size):
            first, length = int(rounds.first), len(rounds.scales)
            gains, expected = (
                jnp.asarray(part(values, first, length), float) for values in (feeding.gains, feeding.expected)
            )
            program = Program(setting.site, family, setting.refinement, access, feeding.keep, clipped, randomness.port)
            state, vectors = advance(program, table, constants, state, MessageBlock(rounds, gains, expected))
            if feeding.keep:
                kept.append(in_precision(vectors, dtype)[: int(rounds.number)])
        jax.block_until_ready(state)
    return state, np.concatenate(kept) if feeding.keep else None
