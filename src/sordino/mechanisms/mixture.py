"""The query "expected statistics": private expectation maximisation of a mixture.

A record contributes (w gamma, gamma x): its responsibilities gamma, which sum to 1, and their products with the row.
Counts and sums of the components follow from the noised sum, and so does everything else.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.core.spec import Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, SHARE, Declared, instance_of, refuse
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.posterior.laws import FactorisedPosterior
from sordino.mechanisms.rounds import Public, Query, Run, SumsRelease, run_sums
from sordino.models.contributions import Parts, Plain, outer, products, whole_rows
from sordino.models.families.regression import GaussianMixture
from sordino.noise.lattice import in_precision
from sordino.noise.randomness import Randomness


@dataclass(frozen=True)
class EmOptions(Declared):
    """How statistics are weighted, averaged over rounds, and turned into parameters; public."""

    count_weight: Annotated[float, POSITIVE] = 1.0  # of a unit of count in the clipped vector; larger is noisier means
    learn_weights: bool = False  # whether the mixing weights are estimated too; otherwise the model's stay
    prior_precision: Annotated[float, NON_NEGATIVE] = 1.0  # precision of the Gaussian prior of every mean around 0
    rate: Annotated[float, SHARE] = 1.0  # of a round's new statistics in the running ones; 1 forgets earlier rounds
    start_scale: Annotated[float, NON_NEGATIVE] = 1.0  # of the random, data-free means a run starts from
    least_count: Annotated[float, POSITIVE] = 1.0  # counts below this many records are raised to it


@dataclass(frozen=True, eq=False)
class EmRelease(SumsRelease):
    """A private mixture; `iterates` holds the means after every round where the view is all-iterates, else None."""

    model: GaussianMixture
    options: EmOptions
    means: NDArray[np.floating]
    weights: NDArray[np.floating]
    counts: NDArray[np.floating]  # noisy numbers of records of the components, limited to what is possible
    mean_noise: float  # the standard deviation, public, of the noise on each sum of rows that means were made of
    iterates: NDArray[np.floating] | None

    @property
    def posterior(self) -> FactorisedPosterior:
        """Independent Gaussians around the means: the spread of each component's mean, and the privacy noise on it."""
        weight = self.counts + self.options.prior_precision * self.model.spread**2
        variance = self.model.spread**2 / weight + (self.mean_noise / weight) ** 2
        deviations = np.repeat(np.sqrt(variance), self.means.shape[1])
        shares = np.asarray(self.weights, np.float64)
        model = replace(self.model, weights=tuple((shares / shares.sum()).tolist()))
        return FactorisedPosterior(model, np.asarray(self.means, np.float64).ravel(), deviations)


class MixtureState(NamedTuple):
    """Means, mixing weights, and the running statistics for all N records: counts and sums."""

    means: Array
    weights: Array
    counts: Array
    sums: Array


@dataclass(frozen=True)
class ExpectedStatistics(Query):
    """Responsibilities of a mixture's components, and their products with the rows."""

    name: ClassVar[str] = "expected statistics"

    model: GaussianMixture
    options: EmOptions

    def size(self, features: int) -> int:
        return len(self.model.weights) * (1 + features)

    def first(self, run: Run) -> MixtureState:
        shape = (len(self.model.weights), run.features)
        weights = jnp.asarray(self.model.weights, float)
        return MixtureState(self.options.start_scale * run.start(shape), weights, jnp.zeros(shape[0]), jnp.zeros(shape))

    def contributions(self, point: MixtureState, given: Any, rows: SomeRows) -> Parts:
        """Weighted responsibilities, then their products with the row."""
        whole = whole_rows(rows.features, rows.sizes)
        precision = 1.0 / self.model.spread**2
        # |x - m|^2 without |x|^2, which all components share.
        likely = (products(whole, point.means.T) - 0.5 * jnp.sum(point.means**2, axis=1)) * precision
        shares = jax.nn.softmax(jnp.log(point.weights) + likely, axis=-1)
        return Plain(self.options.count_weight * shares), outer(whole, shares, transposed=True)

    def moved(self, public: Public, state: MixtureState, given: Any, noised: Array, number: Array) -> MixtureState:
        options, components = self.options, state.weights.size
        grown = public.records / public.batch * noised
        # The first round has nothing to average with.
        rate = jnp.where(number == 0, 1.0, options.rate)
        counts = (1.0 - rate) * state.counts + rate * grown[:components] / options.count_weight
        sums = (1.0 - rate) * state.sums + rate * grown[components:].reshape(components, -1)
        possible = jnp.clip(counts, options.least_count, public.records)
        pull = options.prior_precision * self.model.spread**2
        means = sums / (possible + pull)[:, None]
        weights = possible / jnp.sum(possible) if options.learn_weights else state.weights
        return MixtureState(means, weights, counts, sums)

    def kept(self, state: MixtureState) -> Array:
        return state.means.ravel()

    def release(self, spec: Spec, run: Run, state: MixtureState, iterates: NDArray[np.floating] | None) -> EmRelease:
        growth = run.algorithm.records / run.algorithm.batch_size
        means, weights, counts = (in_precision(values, run.dtype) for values in state[:3])
        counts = np.clip(counts, self.options.least_count, run.algorithm.records)
        # What is left of each round's noise in the running statistics after the last one.
        rate, rounds = self.options.rate, run.algorithm.rounds
        shares = rate * (1.0 - rate) ** np.arange(rounds - 1, -1, -1, dtype=np.float64)
        shares[0] = (1.0 - rate) ** (rounds - 1)
        noise = float(np.sqrt(np.sum((shares * (run.sum_noise * growth)) ** 2)))
        return EmRelease(spec, self.model, self.options, means, weights, counts, noise, iterates)


def run_em(
    spec: Spec, model: GaussianMixture, features: ArrayLike, randomness: Randomness, *, options: EmOptions
) -> EmRelease:
    """Fit the means of a mixture, and its weights where asked, by noised expected statistics. Options are public."""
    asked = ExpectedStatistics(instance_of("model", model, GaussianMixture), options)
    stated = dict(getattr(spec.algorithm, "options", ())).get("components", len(model.weights))
    if stated != len(model.weights):
        raise refuse("algorithm.options.components", f"to be the {len(model.weights)} of the model", stated)
    return run_sums(spec, asked, features, np.zeros(len(np.asarray(features))), randomness)
