"""The query "messages": stochastic expectation propagation.

    s <- s + gain (decode(sum of clipped messages + noise) - count s / N),   theta = theta_0 + s

s is the sum of all messages; the gain is gamma / N, with the damping gamma that the spec's options state. Sequential
runs are batches of one. Additions to s are compensated (Kahan), because one step is far smaller than s. Both kinds of
coordinates use the record once, inside `parts`, and the kernel bounds what it contributes. `decode` sees only the
noised sum and the cavity, a function of released values, so it is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.spec import NoisedSums, Scheme, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Declared, instance_of, number, refuse
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.posterior.laws import GaussianPosterior
from sordino.mechanisms.rounds import Public, Query, Run, SumsRelease, run_sums
from sordino.models.contributions import Parts, Plain
from sordino.models.message_passing.gaussians import (
    BlockGaussian,
    GaussianFamily,
    Moments,
    Natural,
    Site,
    Slopes,
    shortening,
)
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import in_precision
from sordino.noise.randomness import Randomness


@dataclass(frozen=True)
class Coordinates(ABC):
    """A way to write messages as vectors of the family's size."""

    # Whether the average message is kept below the clip too, as published (Algorithm 3, line 12).
    bounds_factor: ClassVar[bool] = False
    # Range in which eigenvalues of 1 - v k are kept, v the cavity's variance: wide for exact single messages.
    clamp: ClassVar[tuple[float, float]] = (1e-4, 1e4)

    @abstractmethod
    def parts(self, site: Site, family: GaussianFamily, moments: Moments, rows: SomeRows) -> Parts:
        """Every record's message, as long as it is, written in these coordinates."""

    @abstractmethod
    def decode(self, family: GaussianFamily, moments: Moments, noised: Array, count: Array) -> Array:
        """The sum of natural parameters that a noised sum over about `count` records stands for."""


@dataclass(frozen=True)
class NaturalCoordinates(Coordinates):
    """The published way: the natural parameters of each record's message (Vinaroz & Park, Algorithm 3, line 7)."""

    bounds_factor: ClassVar[bool] = True

    def parts(self, site: Site, family: GaussianFamily, moments: Moments, rows: SomeRows) -> Parts:
        def message(x: Array, y: Array) -> Array:
            return family.site(moments, site.slopes(moments, x, y), 1.0, self.clamp)

        return (Plain(jax.vmap(message)(rows.features, rows.target)),)

    def decode(self, family: GaussianFamily, moments: Moments, noised: Array, count: Array) -> Array:
        return noised


@dataclass(frozen=True)
class CentredCoordinates(Declared, Coordinates):
    """(g, weight k): how the record moves mean and precision, seen from the present mean instead of from zero."""

    # A message's Lambda mu grows with the mean, its g does not, so the same clip keeps far more of it.
    clamp: ClassVar[tuple[float, float]] = (0.05, 20.0)  # what is divided by is a noised sum

    weight: Annotated[float, POSITIVE] = 0.1

    def parts(self, site: Site, family: GaussianFamily, moments: Moments, rows: SomeRows) -> Parts:
        return site.centred_parts(moments, rows.features, rows.target, self.weight, rows.sizes)

    def decode(self, family: GaussianFamily, moments: Moments, noised: Array, count: Array) -> Array:
        parts = family.unpack(noised)
        slopes = Slopes(parts.linear, parts.precision / self.weight, parts.gamma)
        return family.site(moments, slopes, count, self.clamp)


# A Gamma message passes through rate / (shape - 1), so a shape stays above 1 by this much.
_SMALLEST_SHAPE_EXCESS = 1e-3
_SMALLEST_RATE = 1e-6


class Repaired(NamedTuple):
    """The repaired vector, and how many of its eigenvalues, shapes and rates were repaired."""

    theta: Array
    number: Array


@dataclass(frozen=True)
class Repair(Declared):
    """Eigenvalues of the precision below a public floor are raised to it (Vinaroz & Park, Section 3.1, steps 9-11)."""

    floor: Annotated[float, POSITIVE]

    def __call__(self, family: GaussianFamily, theta: Array, before: Array) -> Repaired:
        """Repair `theta`; `before` is the vector of the round before, which needs none."""
        parts = family.unpack(theta)
        excess, rate = parts.gamma[: family.gammas], -parts.gamma[family.gammas :]
        low_gammas = jnp.sum(excess < _SMALLEST_SHAPE_EXCESS) + jnp.sum(rate < _SMALLEST_RATE)
        gamma = jnp.concatenate([jnp.maximum(excess, _SMALLEST_SHAPE_EXCESS), -jnp.maximum(rate, _SMALLEST_RATE)])
        if isinstance(family, BlockGaussian):
            values, vectors = jnp.linalg.eigh(parts.precision)
            rebuilt = jnp.einsum("bij,bj,bkj->bik", vectors, self._values(values), vectors)
            precision = jnp.where(jnp.any(values < self.floor, axis=1)[:, None, None], rebuilt, parts.precision)
            low = jnp.sum(values < self.floor)
        else:
            precision = self._values(parts.precision[:, None])[:, 0]
            low = jnp.sum(parts.precision < self.floor)
        linear = self._linear(family, parts, precision - parts.precision, before)
        repaired = family.pack(Natural(linear, precision, gamma))
        return self._chosen(Repaired(repaired, low + low_gammas), theta, before)

    def _values(self, values: Array) -> Array:
        """Repaired eigenvalues; the last axis holds those of one block."""
        return jnp.maximum(values, self.floor)

    def _linear(self, family: GaussianFamily, parts: Natural, raised: Array, before: Array) -> Array:
        """The linear part, given by how much the precision was raised."""
        return parts.linear

    def _chosen(self, repaired: Repaired, theta: Array, before: Array) -> Repaired:
        # Where nothing was low nothing changes, not even in the last bit.
        return Repaired(jnp.where(repaired.number > 0, repaired.theta, theta), repaired.number)


@dataclass(frozen=True)
class RaiseAroundMean(Repair):
    """The same with the mean of the round before kept, for messages that are written around it.

    A step of share s takes mean m and precision L to (m L' + s g) / L', where noise can make L' negative. Raised to r
    alone, the mean is m L' / r, which flips and grows from round to round; with (r - L') m added it is m + s g / r.
    """

    def _linear(self, family: GaussianFamily, parts: Natural, raised: Array, before: Array) -> Array:
        mean = family.moments(before).mean
        pull = jnp.einsum("bij,bj->bi", raised, mean) if isinstance(family, BlockGaussian) else raised * mean
        return parts.linear + pull


# Posteriors are released in single precision, and means are parts of these over a small precision.
_LARGEST = 1e30


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
class Refinement(Declared):
    """How messages are written and repaired, and where they start."""

    coordinates: Coordinates = NaturalCoordinates()  # what is clipped and noised
    repair: Repair = Repair(1e-2)  # of a precision that noise made indefinite
    # Standard deviation of the random, data-free means a run starts from; 0: the prior.
    start_scale: Annotated[float, NON_NEGATIVE] = 0.0


class Repairs(NamedTuple):
    """How often noise left a precision that had to be repaired: rounds, and eigenvalues in all of them."""

    rounds: int
    eigenvalues: int


@dataclass(frozen=True, eq=False)
class MessagePassingRelease(SumsRelease):
    """A private posterior."""

    site: Site
    family: GaussianFamily
    natural: NDArray[np.floating]
    repairs: Repairs  # computed from released values, so they may be released with them
    iterates: NDArray[np.floating] | None  # natural parameters after every round where the view is all-iterates

    @property
    def posterior(self) -> GaussianPosterior:
        return GaussianPosterior(self.site, self.family, self.natural)


class MessageState(NamedTuple):
    """The prior, the sum of messages, what rounding lost of it, and repairs: rounds and eigenvalues."""

    prior: Array
    messages: Array
    lost: Array
    repairs: Array


class MessageInputs(NamedTuple):
    """What multiplies a round's noised sum, and how many records it is expected to sum."""

    gain: Array
    expected: Array


@dataclass(frozen=True)
class Messages(Query):
    """Each record's message, in the refinement's coordinates, for rows of this many features."""

    name: ClassVar[str] = "messages"

    site: Site
    prior: Prior
    refinement: Refinement
    features: int

    def __post_init__(self) -> None:
        instance_of("site", self.site, Site)
        if isinstance(self.prior.mean, tuple) and len(self.prior.mean) != self.family.dim:
            raise refuse("prior mean", f"to have {self.family.dim} entries, or to be one number", self.prior.mean)

    @property
    def family(self) -> GaussianFamily:
        return self.site.family(self.features)

    @property
    def prior_vector(self) -> Array:
        mean = jnp.broadcast_to(jnp.asarray(self.prior.mean, jnp.zeros(()).dtype), (self.family.dim,))
        return self.family.prior(self.prior.precision, mean, self.site.gamma_prior)

    def size(self, features: int) -> int:
        return self.family.size

    def first(self, run: Run) -> MessageState:
        """No messages, or a sum of them that gives random means at the prior's precision."""
        prior = self.prior_vector
        messages, start = jnp.zeros_like(prior), self.refinement.start_scale
        if start > 0.0:
            pull = self.prior.precision * start * run.start((self.family.dim,))
            messages = jnp.concatenate([pull, jnp.zeros(self.family.size - self.family.dim, prior.dtype)])
        return MessageState(prior, messages, jnp.zeros_like(prior), jnp.zeros(2, jnp.int32))

    def inputs(self, run: Run, first: int, length: int) -> MessageInputs:
        # What is expected is the public batch size, less in the last batch of a pass.
        algorithm, sizes = run.algorithm, np.full(run.algorithm.rounds, float(run.algorithm.batch_size))
        if algorithm.sampling.scheme in {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED}:
            last = algorithm.batches_per_epoch - 1
            sizes[last :: last + 1] = algorithm.records - last * algorithm.batch_size
        return MessageInputs(*(run.part(values, first, length) for values in (gains(algorithm), sizes)))

    def point(self, public: Public, state: MessageState, given: MessageInputs) -> Moments:
        """The moments of the cavity: the posterior less an average message."""
        return self.family.moments(state.prior + state.messages * (1.0 - 1.0 / public.records))

    def contributions(self, point: Moments, given: MessageInputs, rows: SomeRows) -> Parts:
        return self.refinement.coordinates.parts(self.site, self.family, point, rows)

    def moved(
        self, public: Public, state: MessageState, given: MessageInputs, noised: Array, number: Array
    ) -> MessageState:
        family, prior, before = self.family, state.prior, state.messages
        coordinates = self.refinement.coordinates
        target = coordinates.decode(family, self.point(public, state, given), noised, given.expected)
        step = given.gain * (target - given.expected / public.records * before) + state.lost
        moved = before + step
        lost = step - (moved - before)
        repaired, low = self.refinement.repair(family, prior + moved, prior + before)
        messages = jnp.where(low > 0, repaired - prior, moved)
        # A round that overflowed, or is about to, is taken back, and counted like any other repair.
        finite = jnp.all(jnp.abs(messages) <= _LARGEST)
        messages, lost = jnp.where(finite, messages, before), jnp.where(finite, lost, jnp.zeros_like(lost))
        low = jnp.where(finite, low, family.size)
        if coordinates.bounds_factor:
            messages *= shortening(messages, public.contribution * public.records)
        repairs = state.repairs + jnp.stack([low > 0, low]).astype(jnp.int32)
        return MessageState(prior, messages, lost, repairs)

    def kept(self, state: MessageState) -> Array:
        return state.prior + state.messages

    def release(
        self, spec: Spec, run: Run, state: MessageState, iterates: NDArray[np.floating] | None
    ) -> MessagePassingRelease:
        natural = in_precision(self.kept(state), run.dtype)
        repairs = Repairs(*(int(count) for count in state.repairs))
        return MessagePassingRelease(spec, self.site, self.family, natural, repairs, iterates)


def gains(algorithm: NoisedSums) -> NDArray[np.float64]:
    """gamma / N of each round: what multiplies the noised sum."""
    return algorithm.schedule("damping").values(algorithm.rounds) / algorithm.records


def run_message_passing(
    spec: Spec, site: Site, features: Any, target: Any, randomness: Randomness, *, prior: Prior, refinement: Refinement
) -> MessagePassingRelease:
    """Run stochastic expectation propagation as a spec describes it, and release the posterior.

    `features` has one row for each record, `target` one number (mixtures ignore it). Prior and refinement are public.
    """
    X, y = checked_rows(features, target)
    return run_sums(spec, Messages(site, prior, refinement, X.shape[1]), X, y, randomness)
