"""Expectation propagation and its stochastic relative without privacy; mismatched rounds, which claim too much."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import log_ndtr
from numpy.typing import NDArray

from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Schedule, Scheme
from sordino.core.validate import Interval, number, whole_number
from sordino.mechanisms.messages import Messages, Prior, Refinement, Repairs
from sordino.mechanisms.posterior.laws import GaussianPosterior
from sordino.mechanisms.rounds import Run, execute
from sordino.models.message_passing.gaussians import BlockGaussian, GaussianFamily, Site
from sordino.models.message_passing.sites import LinearSite
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import in_doubles, in_precision
from sordino.noise.randomness import Randomness

# Results that are not private say so: no spec, no certificate, and a label that every print shows.

NOT_PRIVATE = "NOT PRIVATE"


@dataclass(frozen=True, eq=False)
class NonPrivateResult:
    """A posterior computed without a privacy guarantee; it must not be released as if it had one."""

    posterior: GaussianPosterior
    repairs: Repairs
    reason: str

    @property
    def label(self) -> str:
        """The warning, with its reason."""
        return f"{NOT_PRIVATE}: {self.reason}"

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"NonPrivateResult({self.label})"


# Expectation propagation with a message for every record: the non-private reference (Minka 2001).

_SHARE = Interval(0.0, 1.0, low_open=True)


class _State(NamedTuple):
    """The posterior, every record's message, and how many updates were left out."""

    theta: Array
    messages: Array
    skipped: Array


def expectation_propagation(
    site: Site, features: Any, target: Any, *, prior: Prior, passes: int, damping: float = 1.0
) -> NonPrivateResult:
    """Refine every record's message `passes` times, in file order; memory grows with the number of records.

    A record whose cavity is not positive definite is left out of that pass; the result counts such updates as repairs.
    """
    X, y = checked_rows(features, target)
    setting = Messages(site, prior, Refinement(), X.shape[1])
    dtype = jnp.zeros(()).dtype
    share = jnp.asarray(number("damping", damping, _SHARE), dtype)
    state = refine(
        site,
        setting.family,
        whole_number("passes", passes),
        (jnp.asarray(X, dtype), jnp.asarray(y, dtype)),
        setting.prior_vector,
        share,
    )
    skipped = int(state.skipped)
    posterior = GaussianPosterior(site, setting.family, np.asarray(state.theta))
    return NonPrivateResult(posterior, Repairs(skipped, skipped), "expectation propagation adds no noise")


@partial(jax.jit, static_argnums=(0, 1, 2))
def refine(
    site: Site, family: GaussianFamily, passes: int, rows: tuple[Array, Array], prior: Array, share: Array
) -> _State:
    """All passes, compiled."""
    X, y = rows

    def one(n: Array, state: _State) -> _State:
        cavity = state.theta - state.messages[n]
        moments = family.moments(cavity)
        # A message is exact at any value of 1 - v k, so nothing is clamped here.
        message = family.site(moments, site.slopes(moments, X[n], y[n]), 1.0, (-jnp.inf, jnp.inf))
        change = share * (message - state.messages[n])
        proper = _definite(family, cavity) & jnp.all(jnp.isfinite(change)) & _definite(family, state.theta + change)
        change = jnp.where(proper, change, 0.0)
        messages = state.messages.at[n].add(change)
        return _State(state.theta + change, messages, state.skipped + (1 - proper.astype(jnp.int32)))

    def one_pass(_: Array, state: _State) -> _State:
        state = lax.fori_loop(0, X.shape[0], one, state)
        return state._replace(theta=prior + jnp.sum(state.messages, axis=0))  # rounding does not build up

    start = _State(prior, jnp.zeros((X.shape[0], family.size), prior.dtype), jnp.zeros((), jnp.int32))
    return lax.fori_loop(0, passes, one_pass, start)


def _definite(family: GaussianFamily, theta: Array) -> Array:
    precision = family.unpack(theta).precision
    if isinstance(family, BlockGaussian):
        return jnp.all(jnp.isfinite(jnp.linalg.cholesky(precision)))
    return jnp.all(precision > 0.0)


# Stochastic expectation propagation without noise, clipped or not: the non-private relatives of the private run.


def stochastic_ep(
    site: Site,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    prior: Prior,
    refinement: Refinement,
    steps: int,
    sampling: Scheme,
    batch: int | None = None,
    damping: float | Schedule,
    clip: float | None = None,
) -> NonPrivateResult:
    """Run the rounds of a private run with no noise, and no clip where none is given.

    `damping` is gamma: N for the standard algorithm with damping 1 / N (Li et al. 2015), where gamma is a step size.
    """
    X, y = checked_rows(features, target)
    algorithm = messages(len(X), steps, sampling, batch, 1.0 if clip is None else clip, 1.0, damping)
    asked, reason = Messages(site, prior, refinement, X.shape[1]), "stochastic expectation propagation without noise"
    return finished(asked, algorithm, np.zeros(steps), X, y, randomness, reason, clipped=clip is not None)


def messages(
    records: int,
    steps: int,
    sampling: Scheme,
    batch: int | None,
    clip: float,
    noise_multiplier: float,
    damping: float | Schedule,
) -> NoisedSums:
    """Rounds of messages; noise relative to the sensitivity under replace-one."""
    return NoisedSums(
        query="messages",
        records=records,
        rounds=steps,
        sampling=Batch(sampling, batch),
        contribution=clip,
        noise_multiplier=ConstantSchedule(2.0 * noise_multiplier),
        options=(("damping", damping),),
    )


def finished(
    asked: Messages,
    algorithm: NoisedSums,
    sum_noise: NDArray[Any],
    X: NDArray[Any],
    y: NDArray[Any],
    randomness: Randomness,
    reason: str,
    *,
    clipped: bool = True,
) -> NonPrivateResult:
    """Execute, and label the result."""
    with in_doubles() as dtype:
        run = Run(algorithm, len(X), X.shape[1], sum_noise, randomness, dtype)
        state, _ = execute(run, asked, X, y, keep=False, clipped=clipped)
        natural = in_precision(asked.kept(state), dtype)
    posterior = GaussianPosterior(asked.site, asked.family, natural)
    return NonPrivateResult(posterior, Repairs(*(int(count) for count in state.repairs)), reason)


# NOT PRIVATE: steps of one damping with the noise of another, kept apart so that nothing private can become it.
#
# The step uses damping gamma = N, the noise that of gamma = 1: 2 C sigma / N on the natural parameters, N times
# smaller than what one record moves them. It leaks (theory, section 8). That published numbers were made so is a
# hypothesis.


def mismatched_sep(
    site: Site,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    prior: Prior,
    refinement: Refinement,
    steps: int,
    sampling: Scheme,
    batch: int | None = None,
    clip: float,
    noise_multiplier: float,
) -> NonPrivateResult:
    """Step with gamma = N and add the noise of gamma = 1. The result has no guarantee and carries none."""
    X, y = checked_rows(features, target)
    algorithm, noise = mismatched(len(X), steps, sampling, batch, clip, noise_multiplier)
    reason = "steps of damping N with the noise of damping 1, N times too small for the claimed guarantee"
    return finished(Messages(site, prior, refinement, X.shape[1]), algorithm, noise, X, y, randomness, reason)


def mismatched(
    records: int, steps: int, sampling: Scheme, batch: int | None, clip: float, noise_multiplier: float
) -> tuple[NoisedSums, NDArray[Any]]:
    """Rounds of gain 1, and the noise on their sums that belongs to gain 1 / N."""
    algorithm = messages(records, steps, sampling, batch, clip, noise_multiplier, float(records))
    return algorithm, 1.0 / records * algorithm.sum_noise


_TAIL_START = -4.0
_FRACTION_LEVELS = 30


def inverse_mills(z: Array) -> Array:
    """phi(z) / Phi(z): directly, and in the left tail, where that cancels, by Laplace's continued fraction."""
    direct = jnp.maximum(z, _TAIL_START)
    middle = jnp.exp(-0.5 * direct * direct - log_ndtr(direct)) / math.sqrt(2.0 * math.pi)
    tail = -jnp.minimum(z, _TAIL_START)
    fraction = jax.lax.fori_loop(0, _FRACTION_LEVELS, lambda k, f: tail + (_FRACTION_LEVELS - k) / f, tail)
    return jnp.where(z < _TAIL_START, fraction, middle)


@dataclass(frozen=True)
class ProbitSite(LinearSite):
    """P(y | x) = Phi(y x theta) for labels -1 and +1; Z = Phi(y s / sqrt(1 + c)) for a score N(s, c)."""

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        root = jnp.sqrt(1.0 + variance)
        z = y * mean / root
        ratio = inverse_mills(z)
        return y * ratio / root, ratio * (z + ratio) / (1.0 + variance)
