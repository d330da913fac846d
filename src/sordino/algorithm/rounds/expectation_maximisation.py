"""Public choices of private expectation maximisation that do not touch its guarantee."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.chain.kernel import Records, SomeRows, checked_rows
from sordino.algorithm.noise.exact_sums import Total, checked_bound, clipped_total, in_doubles, in_precision
from sordino.algorithm.noise.randomness import ADDED, NoisePort, Purpose, Randomness
from sordino.algorithm.posterior.gaussian import FactorisedPosterior
from sordino.algorithm.rounds.loop import RoundBlock, RoundFeed, RowAccess, load_table
from sordino.core.bound import View
from sordino.core.spec import ExpectationMaximisation, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, instance_of, number, refuse
from sordino.model.contributions import Parts, Plain, WholeRows, outer, products, whole_rows
from sordino.model.families.mixture import GaussianMixture

_SHARE = Interval(0.0, 1.0, low_open=True)


@dataclass(frozen=True)
class EmOptions:
    """How statistics are weighted, averaged over rounds, and turned into parameters.

    Attributes:
        count_weight: what a unit of count weighs in the clipped vector beside a unit of a feature; larger is noisier
            means, smaller is noisier counts. The noise on counts is divided by it.
        learn_weights: whether the mixing weights are estimated too; otherwise the model's stay.
        prior_precision: precision of the Gaussian prior of every mean around 0.
        rate: share of a round's new statistics in the running ones; 1 forgets earlier rounds.
        start_scale: standard deviation of the random, data-free means a run starts from.
        least_count: counts below this many records are raised to it.
    """

    count_weight: float = 1.0
    learn_weights: bool = False
    prior_precision: float = 1.0
    rate: float = 1.0
    start_scale: float = 1.0
    least_count: float = 1.0

    def __post_init__(self) -> None:
        for name in ("count_weight", "least_count"):
            object.__setattr__(self, name, number(name, getattr(self, name), POSITIVE))
        for name in ("prior_precision", "start_scale"):
            object.__setattr__(self, name, number(name, getattr(self, name), NON_NEGATIVE))
        object.__setattr__(self, "rate", number("rate", self.rate, _SHARE))


# The one compiled kernel of private expectation maximisation: a block of rounds.
#
# A record contributes (w gamma, gamma x): its responsibilities gamma, which sum to 1, and their products with the row.
# The stacked vector is shortened to the clip, summed over the round's rows, and noised; counts and sums of the
# components follow from the noised vector, and so does everything else.


@dataclass(frozen=True)
class Program:
    """What is compiled in."""

    model: GaussianMixture
    options: EmOptions
    access: RowAccess
    keep: bool
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run; `growth` is N over the expected size of a round."""

    clip: Array
    growth: Array
    records: Array


class State(NamedTuple):
    """Means, mixing weights, and the running statistics for all N records: counts and sums."""

    means: Array
    weights: Array
    counts: Array
    sums: Array


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, table: Records, constants: Constants, state: State, block: RoundBlock
) -> tuple[State, Array]:
    """Make the rounds of a block; also the means after each round where they are kept."""
    length = block.scales.shape[0] if program.keep else 0
    kept = jnp.zeros((length, state.means.size), state.means.dtype)

    def one(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, kept = carry
        state = _round(program, table, constants, state, block, k)
        return state, lax.dynamic_update_index_in_dim(kept, state.means.ravel(), k, 0) if program.keep else kept

    return cast(tuple[State, Array], lax.fori_loop(0, block.number, one, (state, kept)))


def contributions(program: Program, state: State, rows: WholeRows) -> Parts:
    """What each row contributes, unclipped: weighted responsibilities, then their products with the row."""
    precision = 1.0 / program.model.spread**2
    # |x - m|^2 without |x|^2, which all components share.
    likely = (products(rows, state.means.T) - 0.5 * jnp.sum(state.means**2, axis=1)) * precision
    shares = jax.nn.softmax(jnp.log(state.weights) + likely, axis=-1)
    return Plain(program.options.count_weight * shares), outer(rows, shares, transposed=True)


def statistics(program: Program, state: State, clip: Array, rows: SomeRows) -> Total:
    """The sum of the clipped contributions of some rows, flat: weighted counts, then sums of each component."""
    return clipped_total(contributions(program, state, whole_rows(rows.features, rows.sizes)), rows.present, clip)


def _round(program: Program, table: Records, constants: Constants, state: State, block: RoundBlock, k: Array) -> State:
    options, components = program.options, state.weights.size
    size = components * (1 + state.means.shape[1])
    total = program.access.total(table, block.batch(k), size, partial(statistics, program, state, constants.clip))
    noised = constants.growth * program.port.added(total, block.scales[k], block.gaussians[k])
    # The first round has nothing to average with.
    rate = jnp.where(block.first + k == 0, 1.0, options.rate)
    counts = (1.0 - rate) * state.counts + rate * noised[:components] / options.count_weight
    sums = (1.0 - rate) * state.sums + rate * noised[components:].reshape(components, -1)
    held = jnp.clip(counts, options.least_count, constants.records)
    pull = options.prior_precision * program.model.spread**2
    means = sums / (held + pull)[:, None]
    weights = held / jnp.sum(held) if options.learn_weights else state.weights
    return State(means, weights, counts, sums)


# What leaves private expectation maximisation: means, weights, noisy counts, and the spec that ran.

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class EmRelease:
    """A private mixture; `spec` is the very object that ran, and that is certified.

    `counts` are the noisy numbers of records of the components, limited to what is possible; `mean_noise` is the
    standard deviation, public, of the privacy noise on each sum of rows that the means were made of. `iterates` holds
    the means after every round where the view is all-iterates, and is None otherwise.
    """

    spec: Spec
    model: GaussianMixture
    options: EmOptions
    means: Values
    weights: Values
    counts: Values
    mean_noise: float
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("means", "weights", "counts", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> FactorisedPosterior:
        """Independent Gaussians around the means: the spread of each component's mean, and the privacy noise on it."""
        weight = self.counts + self.options.prior_precision * self.model.spread**2
        variance = self.model.spread**2 / weight + (self.mean_noise / weight) ** 2
        deviations = np.repeat(np.sqrt(variance), self.means.shape[1])
        shares = np.asarray(self.weights, np.float64)
        model = replace(self.model, weights=tuple((shares / shares.sum()).tolist()))
        return FactorisedPosterior(model, self.means.ravel(), deviations)


# Run a described expectation-maximisation spec on private rows: the spec that runs is the spec that is certified.


def run_em(
    spec: Spec, model: GaussianMixture, features: Any, randomness: Randomness, *, options: EmOptions
) -> EmRelease:
    """Fit the means of a mixture, and its weights where asked, by noised expected statistics. Options are public."""
    instance_of("spec", spec, Spec)
    instance_of("model", model, GaussianMixture)
    instance_of("randomness", randomness, Randomness)
    algorithm = instance_of("spec.algorithm", spec.algorithm, ExpectationMaximisation)
    components = len(model.weights)
    if algorithm.components != components:
        raise refuse("algorithm.components", f"to be the {components} of the model", algorithm.components)
    X, y = checked_rows(features, np.zeros(len(np.asarray(features))))
    checked_bound("algorithm.clip", algorithm.clip)
    growth = algorithm.records / algorithm.batch_size
    keep, kept = spec.view == View.ALL_ITERATES, list[np.ndarray]()
    with in_doubles() as dtype:
        feed = RoundFeed(spec, algorithm, len(X), randomness, dtype)
        constants = Constants(*(jnp.asarray(value, float) for value in (algorithm.clip, growth, algorithm.records)))
        state = _first(model, options, X.shape[1], randomness, dtype)
        table = load_table(X, y, dtype)
        for access, block in feed.blocks(components * (1 + X.shape[1])):
            program = Program(model, options, access, keep, randomness.port)
            state, means = advance(program, table, constants, state, block)
            if keep:
                kept.append(in_precision(means, dtype)[: int(block.number)])
    return EmRelease(
        spec,
        model,
        options,
        in_precision(state.means, dtype),
        in_precision(state.weights, dtype),
        np.clip(in_precision(state.counts, dtype), options.least_count, algorithm.records),
        _noise_left(feed.sum_noise * growth, options.rate),
        np.concatenate(kept) if keep else None,
    )


def _first(model: GaussianMixture, options: EmOptions, features: int, randomness: Randomness, dtype: Any) -> State:
    components = len(model.weights)
    drawn = randomness.gaussians(Purpose.START, 0, 1, (components, features), dtype)[0].astype(jnp.float64)
    zeros = jnp.zeros(components)
    return State(
        options.start_scale * drawn, jnp.asarray(model.weights, float), zeros, jnp.zeros((components, features))
    )


def _noise_left(scales: np.ndarray, rate: float) -> float:
    """The standard deviation of the noise in the running statistics after the last round."""
    shares = rate * (1.0 - rate) ** np.arange(len(scales) - 1, -1, -1, dtype=np.float64)
    shares[0] = (1.0 - rate) ** (len(scales) - 1)
    return float(np.sqrt(np.sum((shares * scales) ** 2)))
