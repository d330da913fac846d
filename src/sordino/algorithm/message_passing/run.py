"""Run a described message-passing spec on private rows: the spec that runs is the spec that is certified."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.exact_sums import checked_bound, in_doubles, in_precision
from sordino.algorithm.message_passing.damping import DampedSteps
from sordino.algorithm.message_passing.kernel import Constants, MessageBlock, Program, State, advance, first_state
from sordino.algorithm.message_passing.options import Prior, Refinement
from sordino.algorithm.message_passing.release import MessagePassingRelease, Repairs
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.records import checked_rows
from sordino.algorithm.rounds.feed import RoundSource, check_rows_fit, part
from sordino.algorithm.rounds.rows import load_table
from sordino.core.spec import MessagePassing, Spec
from sordino.core.validate import instance_of, refuse
from sordino.core.view import View
from sordino.model.sites.base import Site
from sordino.model.sites.families import Family


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
