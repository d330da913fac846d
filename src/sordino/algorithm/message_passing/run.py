"""Run a described message-passing spec on private rows: the spec that runs is the spec that is certified."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.buckets import bucket, power_of_two, power_of_two_within
from sordino.algorithm.message_passing.damping import DampedSteps
from sordino.algorithm.message_passing.kernel import (
    Constants,
    Program,
    RoundBlock,
    State,
    Table,
    advance,
    first_state,
)
from sordino.algorithm.message_passing.options import Prior, Refinement
from sordino.algorithm.message_passing.release import MessagePassingRelease, Repairs
from sordino.algorithm.parts.batches import BatchBlock, Batches, batches_for
from sordino.algorithm.parts.batches import Sampling as Drawn
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.relation import Relation
from sordino.core.spec import MessagePassing, Sampling, Scheme, Spec
from sordino.core.validate import instance_of, refuse
from sordino.core.view import View
from sordino.model.sites.base import Site
from sordino.model.sites.families import Family

_SCHEMES = {
    Sampling.FULL: Scheme.FULL,
    Sampling.WITHOUT_REPLACEMENT: Scheme.WITHOUT_REPLACEMENT,
    Sampling.POISSON: Scheme.POISSON,
    Sampling.PASSES: Scheme.RESHUFFLED,
}
_BLOCK_BYTES = 4 * 2**20
_LONGEST_BLOCK = 4096
_ROWS_PER_BLOCK = 512
_NO_BATCHES = BatchBlock(*(np.zeros((1, 1), np.int32) for _ in range(3)))


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
    if spec.relation == Relation.REPLACE_ONE and len(X) != algorithm.records:
        raise refuse("the number of rows", f"to be algorithm.records = {algorithm.records} under replace-one", len(X))
    steps = DampedSteps(algorithm, spec.relation)
    keep = spec.view == View.ALL_ITERATES
    setting = Setting(site, prior, refinement, X.shape[1])
    state, kept = execute(setting, Feeding.of(steps, keep), X, y, randomness)
    natural = np.asarray(setting.prior_vector + state.messages)
    repairs = Repairs(*(int(count) for count in state.repairs))
    return MessagePassingRelease(spec, site, setting.family, natural, repairs, kept)


def checked_rows(features: Any, target: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays of finite numbers, one target for each."""
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) == 0:
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    return X, y


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

    @property
    def prior_vector(self) -> Array:
        """The prior's natural parameters."""
        dtype = jnp.zeros(()).dtype
        mean = jnp.broadcast_to(jnp.asarray(self.prior.mean, dtype), (self.family.dim,))
        return self.family.prior(self.prior.precision, mean, self.site.gamma_prior)

    def first_messages(self, randomness: Randomness) -> Array:
        """The sum of messages a run starts from: none, or one that gives random means at the prior's precision."""
        prior = self.prior_vector
        if self.refinement.start_scale == 0.0:
            return jnp.zeros_like(prior)
        drawn = randomness.gaussians(Purpose.START, 0, 1, (self.family.dim,), prior.dtype)[0]
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

    @property
    def noised(self) -> bool:
        """Whether any round has noise."""
        return bool(self.sum_noise.any())


def execute(
    setting: Setting, feeding: Feeding, X: NDArray[Any], y: NDArray[Any], randomness: Randomness
) -> tuple[State, NDArray[Any] | None]:
    """Feed the kernel block by block; the state after the last round, and every vector on the way if kept."""
    algorithm, family = feeding.algorithm, setting.family
    dtype = jnp.zeros(()).dtype
    batches = batches_for(
        _SCHEMES[algorithm.sampling],
        Drawn(
            rows=len(X),
            size=algorithm.batch_size,
            rate=algorithm.rate,
            chains=1,
            steps=algorithm.steps,
            generator=randomness.generator(Purpose.BATCHES),
        ),
    )
    table = _load(X, y, dtype)
    constants = Constants(setting.prior_vector, jnp.asarray(algorithm.records, dtype), jnp.asarray(feeding.clip, dtype))
    state = first_state(setting.first_messages(randomness))
    kept: list[NDArray[Any]] = []
    for block, number in _blocks(feeding, family, batches, randomness, dtype):
        program = Program(
            setting.site,
            family,
            setting.refinement,
            None if batches is None else batches.capacity,
            _ROWS_PER_BLOCK,
            feeding.keep,
        )
        state, vectors = advance(program, table, constants, state, block)
        if feeding.keep:
            kept.append(np.asarray(vectors)[:number])
    jax.block_until_ready(state)
    return state, np.concatenate(kept) if feeding.keep else None


def _blocks(
    feeding: Feeding, family: Family, batches: Batches | None, randomness: Randomness, dtype: Any
) -> Iterator[tuple[RoundBlock, int]]:
    steps = feeding.algorithm.steps
    by_memory = power_of_two_within(max(1, _BLOCK_BYTES // (4 * family.size)))
    length = min(_LONGEST_BLOCK, by_memory, power_of_two(steps))
    for first in range(0, steps, length):
        number = min(length, steps - first)
        gains, scales, expected = (
            jnp.asarray(_part(values, first, length), dtype)
            for values in (feeding.gains, feeding.sum_noise, feeding.expected)
        )
        if feeding.noised:
            gaussians = randomness.gaussians(Purpose.NOISE, first, length, (family.size,), dtype)
        else:
            gaussians = jnp.zeros((length, family.size), dtype)
        drawn = _NO_BATCHES if batches is None else batches.take(length)
        indices, starts, counts = (jnp.asarray(part) for part in drawn)
        made = jnp.asarray(number, jnp.int32)
        yield RoundBlock(made, gains, scales, expected, gaussians, indices, starts, counts), number


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    part = np.zeros(length)
    given = values[first : first + length]
    part[: len(given)] = given
    return part


def _load(X: NDArray[Any], y: NDArray[Any], dtype: Any) -> Table:
    """Rows on the device, padded so that nearby numbers of rows share one compiled kernel."""
    padded = bucket(len(X))
    if padded > _ROWS_PER_BLOCK:
        padded = -(-padded // _ROWS_PER_BLOCK) * _ROWS_PER_BLOCK
    features, target = np.zeros((padded, X.shape[1]), dtype), np.zeros(padded, dtype)
    features[: len(X)], target[: len(y)] = X, y
    return Table(jax.device_put(features), jax.device_put(target), jnp.asarray(len(X), jnp.int32))
