"""Algorithms 1 (EP), 2 (SEP) and 3 (DP-SEP) as printed, one record after another; settings and splits are lanes.

A lane is a setting on a split. All lanes visit their records in step, each split in its own order, so that a step of
all of them is one vectorised computation. In natural parameters, with the prior theta_0 and a factor theta_f:

    cavity = theta - theta_f;   message = proj[p(x_n | .) q_cavity] / q_cavity, shortened to C
    theta <- theta + gain (message - theta_f) + noise;   repaired to be positive definite
    theta_f <- (theta - theta_0) / N, shortened to C                                (SEP and DP-SEP)
    theta_f <- the record's own message                                             (EP)

Equation (5) of the paper has gain = gamma / N, so gamma = 1 has gain 1 / N. Stochastic EP as its authors state it (Li
et al. 2015), N copies of a factor that moves by 1 / N, has gain 1. Proposition 1 gives the noise: 2 C sigma gain.
"""

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import special

from papers.framework.bounds import least_noise
from papers.round_words import rounds
from papers.vinaroz_park.budget import DELTA
from sordino.accounting.evaluate import tightest
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.core.validate import InputError
from sordino.mechanisms.messages import Repair
from sordino.models.message_passing.gaussians import BlockGaussian, GaussianFamily, Moments, Site, Slopes

# The accounting: what the paper's accountant asks for, and what passes over the records need.


_ORDERS = 257
# Gammas keep a shape of at least 1 and a rate of at least this.
_LEAST = 1e-3


def passes_spec(records: int, passes: int, multiplier: float, clip: float) -> Spec:
    """Passes of single records in words: replace-one, every iterate seen; the registry certifies it."""
    algorithm = rounds(
        "message-passing",
        Relation.REPLACE_ONE,
        records=records,
        steps=passes * records,
        sampling=Scheme.RESHUFFLED,
        batch=1,
        clip=clip,
        noise_multiplier=ConstantSchedule(multiplier),
        damping=ConstantSchedule(1.0),
    )
    return Spec(algorithm=algorithm, relation=Relation.REPLACE_ONE, view=View.ALL_ITERATES)


def claimed_epsilon(records: int, passes: int, multiplier: float) -> float:
    """Section 3.2: every step draws its record afresh (Wang et al. 2019, Theorem 9). Not valid for passes."""
    orders = np.arange(2, _ORDERS)
    order, j = orders[:, None], orders[None, :]
    inside = np.maximum(order - j, 0)
    binomial = special.gammaln(order + 1) - special.gammaln(j + 1) - special.gammaln(inside + 1)
    renyi = j / (2.0 * multiplier**2)
    # e^((j-1) eps(j)) times 2, and at j = 2 times the lesser of 2 and 4 (1 - e^-eps(2)).
    least = np.where(j == 2, np.minimum(2.0, -4.0 * np.expm1(-renyi)), 2.0)
    terms = binomial - j * math.log(records) + (j - 1) * renyi + np.log(least)
    terms = np.where(j <= order, terms, -np.inf)
    divergences = np.logaddexp(0.0, np.asarray(special.logsumexp(terms, axis=1))) / (orders - 1)
    return float(np.min(records * passes * divergences - math.log(DELTA) / (orders - 1)))


# kin8nm: records of a training split, and passes. At epsilon 1 the paper's accountant, computed here, asks for .996.
KIN8NM = (7373, 40)


@cache
def claimed_multiplier(records: int, passes: int, epsilon: float) -> float:
    """Noise over sensitivity that the paper's accountant asks for: too small for passes."""
    return least_noise(lambda noise: claimed_epsilon(records, passes, noise) <= epsilon, f"epsilon {epsilon:g}")


# Noise over sensitivity that `composition.clones` certifies for passes whose order is fresh, random and secret, rounded
# up; by records, passes and epsilon. It grows with one in the square root of the records where the next bound does not.
SECRET_ORDER = {
    (1000, 100, 5.0): 1.72,
    (1000, 100, 1.0): 3.193,
    (1439, 40, 1.0): 2.345,
    (7373, 40, 1.0): 1.727,
    (8611, 40, 1.0): 1.686,
    (10741, 40, 1.0): 1.627,
    (41157, 40, 1.0): 1.334,
}


def corrected_multiplier(records: int, passes: int, epsilon: float) -> float:
    """The least noise over sensitivity that is certified for passes.

    Whatever is known of the order, a record is used once in each, so K passes are sqrt(K)/sigma-Gaussian DP. Where
    noise is large enough for others to hide a record, a secret order needs less.
    """
    any_order = math.sqrt(passes) / largest_mu(0.9999 * epsilon, DELTA)
    return min(any_order, SECRET_ORDER.get((records, passes, epsilon), math.inf))


@cache
def certified_epsilon(records: int, passes: int, multiplier: float) -> float:
    """What the registry certifies for passes of single records in a fresh random order, every iterate seen."""
    found = tightest(passes_spec(records, passes, multiplier, 1.0), DELTA)
    return math.inf if found is None else found.guarantee.epsilon(DELTA)


# Settings: how far a step goes, where messages are cut, and how much noise there is.

EP, SEP_PRINTED, SEP = "EP", "SEP as printed", "SEP"
SEP_CLIPPED, DP_PRINTED, DP_CORRECTED = "SEP clipped", "DP-SEP as printed", "DP-SEP, accounting corrected"
DP_COPIES, DP_COPIES_CORRECTED = "DP-SEP, N copies", "DP-SEP, N copies, accounting corrected"
DP_DAMPED, MISMATCHED = "DP-SEP, larger gamma, accounting corrected", "SEP clipped, noise N times too small"


@dataclass(frozen=True)
class Setting:
    """One algorithm with its clip; `noise` is over the sensitivity of the step, 0 for none.

    `scale` multiplies the noise that the step's own sensitivity asks for: 1 but in the mismatched mode, which is not
    private.
    """

    name: str
    gain: float
    clip: float = math.inf
    noise: float = 0.0
    scale: float = 1.0
    epsilon: float | None = None

    @property
    def remembers(self) -> bool:
        """Whether every record keeps its own message."""
        return self.name == EP

    @property
    def deviation(self) -> float:
        """The standard deviation of what is added to the natural parameters."""
        return 0.0 if self.noise == 0.0 else 2.0 * self.clip * self.noise * self.gain * self.scale


def silent(records: int, clips: tuple[float, ...]) -> tuple[Setting, ...]:
    """The algorithms without noise."""
    clipped = (Setting(SEP_CLIPPED, 1.0, clip) for clip in clips)
    return (Setting(EP, 1.0), Setting(SEP_PRINTED, 1.0 / records), Setting(SEP, 1.0), *clipped)


def private(records: int, passes: int, clip: float, epsilon: float) -> tuple[Setting, ...]:
    """Every reading of Algorithm 3: gamma = 1 or N, noise by the paper's accounting or corrected, or mismatched."""
    slow, claimed = 1.0 / records, claimed_multiplier(records, passes, epsilon)
    right = corrected_multiplier(records, passes, epsilon)
    return (
        Setting(DP_PRINTED, slow, clip, claimed),
        Setting(DP_CORRECTED, slow, clip, right, epsilon=epsilon),
        Setting(DP_COPIES, 1.0, clip, claimed),
        Setting(DP_COPIES_CORRECTED, 1.0, clip, right, epsilon=epsilon),
        Setting(MISMATCHED, 1.0, clip, claimed, 1.0 / records),
    )


def settings(
    records: int, passes: int, clips: tuple[float, ...], epsilon: float = 1.0, gammas: tuple[float, ...] = ()
) -> tuple[Setting, ...]:
    """Every reading of the algorithms at these clips; larger gammas at the first clip only."""
    right = corrected_multiplier(records, passes, epsilon)
    larger = (Setting(DP_DAMPED, gamma / records, clips[0], right, epsilon=epsilon) for gamma in gammas)
    noised = (one for clip in clips for one in private(records, passes, clip, epsilon))
    return (*silent(records, clips), *noised, *larger)


# A step of every lane, and a pass.


class Lanes(NamedTuple):
    """Gain, clip and deviation of the noise of every setting, shape (settings,)."""

    gain: Array
    clip: Array
    deviation: Array


class State(NamedTuple):
    """Posteriors (settings, splits, size), rows (records, splits, features), targets, and messages of EP's lanes."""

    theta: Array
    X: Array
    y: Array
    messages: Array


def started(chosen: tuple[Setting, ...], first: Array, X: Array, y: Array) -> tuple[Lanes, State]:
    """Lanes and their state; `first` holds every split's posterior at the start, X and y have splits in front."""
    remembered = sum(one.remembers for one in chosen)
    if any(one.remembers for one in chosen[remembered:]):
        raise InputError("Expected settings that remember messages to come first, got another order.")
    lanes = Lanes(*(jnp.asarray([getattr(one, name) for one in chosen], first.dtype) for name in Lanes._fields))
    theta = jnp.broadcast_to(first, (len(chosen), *first.shape))
    messages = jnp.zeros((X.shape[1], remembered, *first.shape), first.dtype)
    return lanes, State(theta, jnp.swapaxes(X, 0, 1), jnp.swapaxes(y, 0, 1), messages)


@partial(jax.jit, static_argnums=(0, 1, 2))
def one_pass(
    site: Site,
    family: GaussianFamily,
    floor: float,
    lanes: Lanes,
    prior: Array,
    state: State,
    orders: Array,
    key: Array,
) -> State:
    """Every record once, each split in its own order (splits, records); noise is shared by a split's settings."""
    records, splits = state.y.shape
    remembered = state.messages.shape[1]
    X, y = (jax.vmap(lambda v, o: v[o], (1, 0), 1)(values, orders) for values in (state.X, state.y))
    messages = jax.vmap(lambda v, o: v[o], (2, 0), 2)(state.messages, orders)
    noise = jax.random.normal(key, (records, splits, prior.shape[-1]), jnp.float32)

    def step(theta: Array, factor: Array, x: Array, y: Array, z: Array, lane: Lanes) -> tuple[Array, Array]:
        message = _message(site, family, theta - factor, factor, x, y)
        message = message * _shortening(message, lane.clip)
        return theta + lane.gain * (message - factor) + lane.deviation * z, message

    over_splits = jax.vmap(step, (0, 0, 0, 0, 0, None))
    over_all = jax.vmap(over_splits, (0, 0, None, None, None, 0))

    def visit(theta: Array, record: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        x, y, z, kept = record
        factor = jnp.concatenate([kept, (theta[remembered:] - prior) / records])
        moved, message = over_all(theta, factor, x, y, z.astype(theta.dtype), lanes)
        moved = _repaired(family, floor, moved, theta)
        # A step that was taken back leaves the record's message as it was.
        taken_back = jnp.all(moved[:remembered] == theta[:remembered], -1, keepdims=True)
        message = jnp.where(taken_back, kept, message[:remembered])
        average = (moved[remembered:] - prior) / records
        shorter = jax.vmap(jax.vmap(_shortening, (0, None)))(average, lanes.clip[remembered:])
        return moved.at[remembered:].set(prior + records * shorter[..., None] * average), message

    theta, messages = lax.scan(visit, state.theta, (X, y, noise, messages))
    return State(theta, X, y, messages)


def _shortening(vector: Array, clip: Array) -> Array:
    """The factor that brings a vector to at most `clip`."""
    return jnp.minimum(1.0, clip / jnp.sqrt(jnp.maximum(jnp.sum(vector * vector), jnp.finfo(vector.dtype).tiny)))


def _message(site: Site, family: GaussianFamily, cavity: Array, factor: Array, x: Array, y: Array) -> Array:
    """The record's message; where the tilted moments are none (a variance of 0 or less), the factor as it was.

    Coordinates of a diagonal family are left alone one by one, as implementations of probabilistic backpropagation do.
    """
    moments = family.moments(cavity)
    slopes = site.slopes(moments, x, y)
    message = family.site(moments, slopes, 1.0, (-math.inf, math.inf))
    return jnp.where(_proper(family, moments, slopes, message), message, factor)


def _proper(family: GaussianFamily, moments: Moments, slopes: Slopes, message: Array) -> Array:
    finite = jnp.isfinite(message)
    if isinstance(family, BlockGaussian):
        return jnp.broadcast_to(jnp.all(finite), message.shape)
    good = (moments.covariance > 0.0) & (1.0 - moments.covariance * slopes.k > 0.0)
    good &= finite[: family.dim] & finite[family.dim : 2 * family.dim]
    shape, rate = moments.shape + slopes.gamma[: family.gammas], moments.rate - slopes.gamma[family.gammas :]
    gamma = (shape > 1.0) & (rate > 0.0) & jnp.all(finite[2 * family.dim :])
    return jnp.concatenate([good, good, gamma, gamma])


def _repaired(family: GaussianFamily, floor: float, theta: Array, before: Array) -> Array:
    """Eigenvalues below the floor are raised to it (Section 3.1, steps 9 to 11); overflowing steps are taken back."""
    theta = jnp.where(jnp.all(jnp.isfinite(theta), -1, keepdims=True), theta, before)
    if not isinstance(family, BlockGaussian):
        free, gammas = np.full(family.dim, np.inf), family.gammas
        lowest = np.concatenate([-free, np.full(family.dim, floor), np.full(gammas, _LEAST), np.full(gammas, -np.inf)])
        highest = np.concatenate([free, free, np.full(gammas, np.inf), np.full(gammas, -_LEAST)])
        return jnp.clip(theta, jnp.asarray(lowest, theta.dtype), jnp.asarray(highest, theta.dtype))

    def raised(theta: Array) -> Array:
        return jax.vmap(jax.vmap(lambda one: Repair(floor)(family, one, one).theta))(theta)

    # Eigenvalues of blocks are dear, and rarely needed where there is no noise.
    lowest = jax.vmap(jax.vmap(lambda one: jnp.min(_pivots(family.unpack(one).precision))))(theta)
    return lax.cond(jnp.any(lowest < floor), raised, lambda same: same, theta)


def _pivots(matrices: Array) -> Array:
    """Lower bounds on eigenvalues by discs (Gershgorin): cheap, and only ever too low."""
    diagonal = jnp.diagonal(matrices, axis1=-2, axis2=-1)
    return 2.0 * diagonal - jnp.sum(jnp.abs(matrices), axis=-1)


def start_vectors(family: GaussianFamily, prior: Array, splits: int, scale: float, seed: int) -> Array:
    """Every split's first posterior: the prior, its means moved at random and without a look at the data."""
    generator = np.random.default_rng([seed, 17])
    pull = np.zeros((splits, family.size))
    pull[:, : family.dim] = scale * generator.standard_normal((splits, family.dim))
    return prior + jnp.asarray(pull, prior.dtype)


def shuffled(generator: np.random.Generator, records: int, splits: int) -> Array:
    """A random order of the records for every split."""
    return jnp.asarray(np.stack([generator.permutation(records) for _ in range(splits)]))
