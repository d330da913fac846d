"""The experiment behind an attack: which models are fitted, with which seeds, for what, and how they are scored.

An attack may run a mechanism on a dataset as often as it likes, each time with fresh randomness. Of every side's models
some teach a score, some choose a rule, and the others, which nothing has seen, are counted. A score is a number that is
larger when a release looks like one of the second dataset. Work that nobody would wait for is refused before it starts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from sordino.auditing.lower_bound import AuditOptions
from sordino.core.bound import Relation, View
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import POSITIVE, InputError, instance_of, number, refuse

Seeds = NDArray[np.uint64]
Releases = NDArray[np.floating]
Scores = NDArray[np.float64]
ScoreFunction = Callable[[Releases], Scores]


class Work(NamedTuple):
    """Random numbers drawn and batch entries chosen; products of gradients."""

    draws: float
    products: float


# A few minutes each.
ON_PROCESSOR = Work(1e9, 1e12)
ON_ACCELERATOR = Work(1e13, 1e14)
# Schemes whose batches are the same for every model; the others are drawn model by model.
_SHARED = frozenset({Scheme.FULL, Scheme.CYCLIC})


def chain_of(spec: Spec) -> NoisyGradient:
    """The noisy gradient chain of a spec; audits that train models can run no other kind."""
    if not isinstance(spec.algorithm, NoisyGradient):
        kind = spec.to_dict()["algorithm"]["kind"]
        raise refuse("the spec", "to describe a noisy gradient chain to train models of", kind, "use the exact audit")
    return spec.algorithm


def need_feasible(spec: Spec, models: int, most: Work = ON_PROCESSOR) -> None:
    """Refuse an attack that would draw more random numbers, or sum more gradients, than a person waits for.

    On the extremal quadratic gradients are constant and cost nothing.
    """
    chain = chain_of(spec)
    rows = chain.divisor(spec.n)
    steps = chain.chains * chain.steps
    draws = steps * (spec.dim + (0 if chain.batch.scheme in _SHARED else rows))
    products = 0 if spec.instance is None else steps * rows * spec.dim
    share = max(draws / most.draws, products / most.products)
    if models * share > 1.0:
        affordable = int(1.0 / share)
        remedy = "audit a shorter run" if affordable < 8 else f"train at most {affordable} models"
        raise refuse(
            "the work of the audit",
            f"to be at most {most.draws:.0e} random numbers and {most.products:.0e} products of gradients",
            f"{models * draws:.1e} and {models * products:.1e}",
            remedy,
        )


class FitMany(Protocol):
    """Fit many independent models of one dataset, all at once where the mechanism allows it."""

    def __call__(self, data: Any, seeds: Seeds, /) -> Releases:
        """One release for each seed, shape (seeds, numbers); equal seeds may give equal releases."""
        ...


@runtime_checkable
class InBlocks(Protocol):
    """A mechanism that fits its models in blocks, each of which comes out the same wherever it is fitted."""

    def blocks(self, seeds: Seeds) -> list[Seeds]:
        """The seeds, cut into blocks."""
        ...


# Fits the models of several datasets: the mechanism, the datasets and the seeds of each.
FitSides = Callable[[FitMany, Sequence[Any], Sequence[Seeds]], list[Releases]]


def blocks_of(fit_many: FitMany, seeds: Seeds) -> list[Seeds]:
    """How a mechanism's models are cut into blocks; all in one, unless it says otherwise."""
    return fit_many.blocks(seeds) if isinstance(fit_many, InBlocks) else [seeds]


def fit_here(fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
    """Fit one dataset's models after the other's, in this process."""
    return [fitted(fit_many, data, own) for data, own in zip(datasets, seeds, strict=True)]


def one_by_one(fit: Callable[[Any, int], Any]) -> FitMany:
    """A mechanism that fits one model at a time, as one that fits many: `fit(data, seed)` answers an array."""

    def fit_many(data: Any, seeds: Seeds, /) -> Releases:
        return np.stack([np.asarray(fit(data, int(seed)), float).reshape(-1) for seed in seeds])

    return fit_many


def fitted(fit_many: FitMany, data: Any, seeds: Seeds) -> Releases:
    """The releases of a mechanism, checked to be one row of numbers for each seed."""
    releases = np.asarray(fit_many(data, seeds))
    if releases.ndim < 2 or len(releases) != len(seeds) or releases.dtype.kind != "f":
        raise InputError(
            f"Expected fit_many to answer one row of floats for each of {len(seeds)} seeds, "
            f"got {releases.dtype} of shape {releases.shape}."
        )
    return releases.reshape(len(seeds), -1)


@dataclass(frozen=True)
class Claim:
    """What an attack is about: the relation of its two datasets and what of a run it sees."""

    relation: Relation
    view: View

    def __post_init__(self) -> None:
        instance_of("relation", self.relation, Relation)
        instance_of("view", self.view, View)


@dataclass(frozen=True)
class Parts:
    """How many models of each dataset serve for learning a score, choosing a rule, and counting its errors."""

    learn: int
    choose: int
    count: int

    @classmethod
    def of(cls, models: int, *, learns: bool) -> "Parts":
        """A quarter of the models chooses, a quarter learns where that is needed, and all others are counted."""
        each_side = models // 2
        quarter = each_side // 4
        if quarter < 1:
            raise refuse("models", "to be at least 8 for an attack", models)
        learn = quarter if learns else 0
        return cls(learn, quarter, each_side - quarter - learn)

    @property
    def each_side(self) -> int:
        """Models of one dataset."""
        return self.learn + self.choose + self.count


def drawn_seeds(options: AuditOptions, each_side: int) -> tuple[Seeds, Seeds]:
    """Seeds of the models of the two datasets, 64 random bits each."""
    seeds = np.random.SeedSequence(options.seed).generate_state(2 * each_side, np.uint64).astype(np.uint64)
    return seeds[:each_side], seeds[each_side:]


def seed_of_run(seeds: Seeds) -> int:
    """One seed for models that run together, 128 bits: made of the seeds of all, so that no two runs share a stream."""
    entropy = np.random.SeedSequence([int(seed) for seed in seeds]).generate_state(2, np.uint64)
    return (int(entropy[0]) << 64) | int(entropy[1])


def seed_policy(options: AuditOptions) -> str:
    """One sentence on where randomness came from."""
    if options.seed is None:
        return "Every model has its own seed, drawn afresh from the operating system."
    return f"Every model has its own seed, drawn from the seed {options.seed} of the audit."


class Score(ABC):
    """A way to turn releases into one number each."""

    learns: ClassVar[bool] = True

    @abstractmethod
    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        """The score after seeing releases of both datasets."""


@dataclass(frozen=True)
class LikelihoodRatio(Score):
    """The best score there is, for releases whose two laws are known: log density of the second minus of the first."""

    learns: ClassVar[bool] = False
    first: Callable[[Releases], Scores]
    second: Callable[[Releases], Scores]

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return lambda releases: self.second(releases) - self.first(releases)


@dataclass(frozen=True)
class Feature(Score):
    """Any function of the releases, turned round if it is smaller on the second dataset."""

    function: Callable[[Releases], Scores]

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        difference = np.median(self.function(second)) - np.median(self.function(first))
        sign = -1.0 if difference < 0 else 1.0
        return lambda releases: sign * np.asarray(self.function(releases), float)


@dataclass(frozen=True)
class LinearScore(Score):
    """The linear discriminant: best for two Gaussians with one covariance.

    The covariance is shrunk towards a multiple of the identity, `shrinkage` times its mean variance, and solved in the
    space of the models where these are fewer than the numbers of a release.
    """

    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        number("shrinkage", self.shrinkage, POSITIVE)

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        gap = second.mean(axis=0) - first.mean(axis=0)
        centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)]).astype(float)
        direction = _shrunk_solve(centred, gap.astype(float), self.shrinkage)
        return lambda releases: releases @ direction


@dataclass(frozen=True)
class LogisticScore(Score):
    """Logistic regression on standardised releases, with a small ridge; learns what no covariance shows."""

    ridge: float = 1e-2
    iterations: ClassVar[int] = 25

    def __post_init__(self) -> None:
        number("ridge", self.ridge, POSITIVE)

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        pooled = np.concatenate([first, second]).astype(float)
        centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        rows = np.concatenate([(pooled - centre) / scale, np.ones((len(pooled), 1))], axis=1)
        labels = np.repeat([0.0, 1.0], [len(first), len(second)])
        weights = _newton(rows, labels, self.ridge * len(rows), self.iterations)
        return lambda releases: ((releases - centre) / scale) @ weights[:-1] + weights[-1]


def _shrunk_solve(centred: NDArray[np.float64], gap: NDArray[np.float64], shrinkage: float) -> NDArray[np.float64]:
    models, numbers = centred.shape
    ridge = shrinkage * float(np.mean(centred * centred)) + 1e-300
    if numbers <= models:
        covariance = centred.T @ centred / models + ridge * np.eye(numbers)
        return linalg.solve(covariance, gap, assume_a="pos")
    # Woodbury: (C'C / n + r I)^-1 g = (g - C' (n r I + C C')^-1 C g) / r.
    inner = centred @ centred.T + models * ridge * np.eye(models)
    return (gap - centred.T @ linalg.solve(inner, centred @ gap, assume_a="pos")) / ridge


def _newton(rows: NDArray[np.float64], labels: NDArray[np.float64], ridge: float, iterations: int) -> Scores:
    weights = np.zeros(rows.shape[1])
    for _ in range(iterations):
        chance = special.expit(rows @ weights)
        gradient = rows.T @ (chance - labels) + ridge * weights
        curvature = (rows.T * (chance * (1 - chance))) @ rows + ridge * np.eye(len(weights))
        weights = weights - linalg.solve(curvature, gradient, assume_a="pos")
    return weights
