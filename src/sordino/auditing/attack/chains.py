"""Many models of a described chain at once, and the extremal quadratic as a model that the chain's kernel can run.

The number of chains is part of a certificate, so nobody may release more of them than the spec says. An audit releases
none: it runs a replica of the spec with as many chains as it needs models, all in one compiled program, and looks at
them one release at a time. Chains of one run have independent noise, batches and starts.

A run without an instance is attacked on the worst-case quadratic of its constants, run for real: every record pulls
with a constant gradient, and along the first axis the likelihood ratio of what is seen is known, or nearly so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sordino.auditing.attack.experiment import (
    FitInBlocks,
    LinearScore,
    Releases,
    Score,
    ScoreFunction,
    Scores,
    Seeds,
    chain_of,
    finite,
    seed_of_run,
)
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.spec import GaussianNoise, NoisyGradient, PointStart, Scheme, Spec
from sordino.core.validate import instance_of
from sordino.data.neighbours import Dataset, NeighbourPair
from sordino.mechanisms import KeptIterates, LastIterate, NoisedAverage, SeededRandomness, parameters
from sordino.mechanisms.chain.run import run
from sordino.models.base import Model
from sordino.models.exact.quadratic import extremal_pair
from sordino.models.facts import NOTHING_KNOWN, Domain, LossFacts

_CHAINS_AT_ONCE = 1024
_RELEASED = {LastIterate: "iterates", KeptIterates: "iterates", NoisedAverage: "averages"}


@dataclass(frozen=True)
class ChainFit(FitInBlocks):
    """Models of a spec by the kernel that makes releases; one release is all chains and iterates the spec keeps."""

    def __post_init__(self) -> None:
        chain_of(self.spec)
        instance_of("model", self.model, Model)

    @property
    def at_once(self) -> int:
        return max(1, _CHAINS_AT_ONCE // self.algorithm.chains)

    @property
    def algorithm(self) -> NoisyGradient:
        """The chain that is audited."""
        return chain_of(self.spec)

    def _block(self, data: Dataset, seeds: Seeds) -> Releases:
        replica = replace(
            self.spec, algorithm=replace(self.algorithm, chains=self.algorithm.chains * len(seeds)), instance=None
        )
        randomness = SeededRandomness(seed_of_run(seeds))
        function = parameters(self.spec.dim) if self.spec.view == View.AVERAGE else None
        release = run(replica, self.model, data.features, data.target, randomness, function=function)
        return finite(np.asarray(getattr(release, _RELEASED[type(release)]))).reshape(len(seeds), -1)


@dataclass(frozen=True)
class ConstantPull(Model):
    """Loss -x.theta: the gradient of a record is -x wherever theta is, and weight decay carries all curvature."""

    def dim(self, features: int) -> int:
        return features

    @property
    def scalar_residual(self) -> bool:
        return True

    def loss(self, theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return -jnp.vdot(x, theta)

    def facts(self, domain: Domain) -> LossFacts:
        return NOTHING_KNOWN


def constant_pull_model(spec: Spec) -> ConstantPull:
    """The model of a spec's extremal quadratic: its weight decay is the certified curvature."""
    problem = spec.problem
    curvature = (
        None if problem is None else problem.strong_convexity or getattr(problem.regulariser, "strong_convexity", None)
    )
    return ConstantPull(weight_decay=0.0 if curvature is None else curvature.value)


def on_one_axis(spec: Spec) -> Spec:
    """The same run with the first coordinate alone: on the extremal quadratic no record moves the others.

    A projection couples the coordinates, so a projected run keeps them all.
    """
    return spec if chain_of(spec).projection is not None else on_first_axes(spec, 1)


def on_first_axes(spec: Spec, axes: int) -> Spec:
    """The same run with so many of its coordinates."""
    if spec.problem is None:
        return spec
    chain = chain_of(spec)
    values = chain.start.values if isinstance(chain.start, PointStart) else None
    start = chain.start if values is None else PointStart(values[:axes])
    return replace(
        spec,
        algorithm=replace(chain, start=start),
        problem=replace(spec.problem, dim=axes),
        average=None if spec.average is None else replace(spec.average, dim=axes),
    )


def shown_axes(spec: Spec) -> Spec:
    """The spec with as many parameters as its view shows: an average may show fewer, and the others say nothing."""
    if spec.average is None or spec.problem is None or spec.average.dim == spec.problem.dim:
        return spec
    return on_first_axes(spec, min(spec.average.dim, spec.dim))


def extremal_rows(spec: Spec, position: int) -> NeighbourPair:
    """The two neighbours of `extremal_pair` as rows of features that `ConstantPull` reads."""
    pair = extremal_pair(spec, position)
    pulls = [data.pulls[data.kinds] for data in (pair.first, pair.second)]
    first, second = (Dataset(rows, rows[:, 0] * 0.0) for rows in pulls)
    return NeighbourPair(first, second, pair.relation, pair.position)


@dataclass(frozen=True, eq=False)
class PathScore(Score):
    """Kept paths theta_k = decay_k theta_{k-1} + pull_k [used at k] + scale_k noise, seen along the first axis.

    The record is used at step k with probability `uses`, independently; for passes in random order, where uses are not
    independent, it is still a score, if not the best one.

    Attributes:
        chains: how many chains a release holds.
        dim: coordinates of an iterate.
        start: first coordinate of the start.
        decay: 1 - eta_k m, one for each step.
        pulls: by how much a use moves the iterate, on the first and on the second dataset, shape (2, steps).
        scale: noise scale of each step.
        uses: probability that a step uses the record.
    """

    learns: ClassVar[bool] = False
    chains: int
    dim: int
    start: float
    decay: Array
    pulls: Array
    scale: Array
    uses: Array

    @classmethod
    def of(
        cls, spec: Spec, noise: GaussianNoise, weight_decay: float, pulls: Sequence[float], uses: Array, dim: int
    ) -> "PathScore":
        """The score of a spec's chain, for records that pull so hard on the first and on the second dataset."""
        chain = chain_of(spec)
        eta = chain.step_size.values(chain.steps)
        values = chain.start.values if isinstance(chain.start, PointStart) else None
        return cls(
            chains=chain.chains,
            dim=dim,
            start=0.0 if values is None else values[0],
            decay=1.0 - eta * weight_decay,
            pulls=np.outer(pulls, eta / chain.divisor(spec.n)),
            scale=noise.scale.values(chain.steps),
            uses=uses,
        )

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return self.ratio

    def ratio(self, releases: Releases) -> Scores:
        """The log-likelihood ratio, summed over chains and steps."""
        path = np.asarray(releases, float).reshape(len(releases), self.chains, len(self.decay), self.dim)[..., 0]
        before = np.concatenate([np.full_like(path[..., :1], self.start), path[..., :-1]], axis=-1)
        moved = path - self.decay * before
        exponents = [(moved * pull - 0.5 * pull**2) / self.scale**2 for pull in self.pulls]
        with np.errstate(divide="ignore"):
            first, second = (np.logaddexp(np.log1p(-self.uses), np.log(self.uses) + each) for each in exponents)
        return (second - first).sum(axis=(1, 2))


@dataclass(frozen=True)
class FirstAxis(Score):
    """Minus the mean of the first coordinate: the first dataset pulls along it, the second the other way, or less."""

    learns: ClassVar[bool] = False
    dim: int

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return lambda releases: -on_first_axis(releases, self.dim).mean(axis=1)


@dataclass(frozen=True)
class LinearOnFirstAxis(Score):
    """The linear discriminant of the first coordinates of all points of a release."""

    dim: int

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        rule = LinearScore().learn(on_first_axis(first, self.dim), on_first_axis(second, self.dim))
        return lambda releases: rule(on_first_axis(releases, self.dim))


def on_first_axis(releases: Releases, dim: int) -> Scores:
    """The first coordinate of every point of a release, shape (releases, points)."""
    return np.asarray(releases, float).reshape(len(releases), -1, dim)[..., 0]


def exposed_position(spec: Spec) -> int:
    """A record that the last step of a fixed order uses: what was used last is forgotten least."""
    chain = chain_of(spec)
    if chain.batch.scheme != Scheme.CYCLIC:
        return spec.n - 1
    size = chain.divisor(spec.n)
    last_batch = (chain.steps - 1) % chain.batches_per_epoch(spec.n)
    return min(spec.n, (last_batch + 1) * size) - 1


def extremal_scores(spec: Spec, pair: NeighbourPair, weight_decay: float) -> tuple[Score, ...]:
    """What to look at in the releases of an extremal quadratic: one point, or a path."""
    if spec.view is not View.ALL_ITERATES:
        return (FirstAxis(spec.dim),)
    chain = chain_of(spec)
    whole = len(chain.kept_iterates(spec.view)) == chain.steps
    if not whole or not isinstance(chain.noise, GaussianNoise):
        return FirstAxis(spec.dim), LinearOnFirstAxis(spec.dim)
    pulls = [pair.first.features[pair.position, 0], 0.0]
    if spec.relation == Relation.REPLACE_ONE:
        pulls[1] = pair.second.features[pair.position, 0]
    uses = np.full(chain.steps, chain.rate(spec.n))
    if chain.batch.scheme == Scheme.CYCLIC:
        batch = np.arange(chain.steps) % chain.batches_per_epoch(spec.n)
        uses = (batch == pair.position // chain.divisor(spec.n)).astype(float)
    return (PathScore.of(spec, chain.noise, weight_decay, pulls, uses, spec.dim),)
