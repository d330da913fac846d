"""The experiment behind an attack: which models are fitted, with which seeds, for what, and how they are scored.

An attack may run a mechanism on a dataset as often as it likes, each time with fresh randomness. Of every side's models
some teach a score, some choose a rule, and the others, which nothing has seen, are counted. A score is a number that is
larger when a release looks like one of the second dataset. Work that nobody would wait for is refused before it starts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sordino.auditing.lower_bound import AuditOptions
from sordino.core.bound import Relation, View
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError, refuse
from sordino.models.base import Model

Seeds = NDArray[np.uint64]
Releases = NDArray[np.floating]
Scores = NDArray[np.float64]
ScoreFunction = Callable[[Releases], Scores]


class WorkLoad(NamedTuple):
    """Random numbers drawn and batch entries chosen; products of gradients."""

    draws: float
    products: float


# A few minutes each.
ON_PROCESSOR = WorkLoad(1e9, 1e12)
ON_ACCELERATOR = WorkLoad(1e13, 1e14)
# Schemes whose batches are the same for every model; the others are drawn model by model.
_SHARED = frozenset({Scheme.FULL, Scheme.CYCLIC})


def chain_of(spec: Spec) -> NoisyGradient:
    """The noisy gradient chain of a spec; audits that train models can run no other kind."""
    if not isinstance(spec.algorithm, NoisyGradient):
        kind = spec.to_dict()["algorithm"]["kind"]
        raise refuse("the spec", "to describe a noisy gradient chain to train models of", kind, "use the exact audit")
    return spec.algorithm


def need_feasible(spec: Spec, models: int, most: WorkLoad = ON_PROCESSOR) -> None:
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


@dataclass(frozen=True)
class FitInBlocks(ABC):
    """`FitMany` of a noisy gradient spec on encoded records, in blocks that come out the same wherever they are fitted.

    `at_once` is how many models share a block. The seeds of a block decide all that it draws.
    """

    spec: Spec
    model: Model

    def __call__(self, data: Any, seeds: Seeds, /) -> Releases:
        return np.concatenate([self._block(data, block) for block in self.blocks(seeds)])

    def blocks(self, seeds: Seeds) -> list[Seeds]:
        """The seeds, cut into blocks."""
        return [seeds[first : first + self.at_once] for first in range(0, len(seeds), self.at_once)]

    @property
    @abstractmethod
    def at_once(self) -> int:
        """How many models run together."""

    @abstractmethod
    def _block(self, data: Any, seeds: Seeds) -> Releases:
        """The releases of models that run together."""


def finite(iterates: NDArray[np.floating]) -> NDArray[np.floating]:
    """Iterates as they are; a chain that diverged is refused."""
    if not np.isfinite(iterates).all():
        raise InputError("Expected finite iterates, got a chain that diverged; take smaller steps.")
    return iterates


def blocks_of(fit_many: FitMany, seeds: Seeds) -> list[Seeds]:
    """How a mechanism's models are cut into blocks; all in one, unless it says otherwise."""
    return fit_many.blocks(seeds) if isinstance(fit_many, FitInBlocks) else [seeds]


def fit_here(fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
    """Fit one dataset's models after the other's, in this process."""
    return [fitted(fit_many, data, own) for data, own in zip(datasets, seeds, strict=True)]


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
    return f"Every model has its own seed, {drawn_from(options)}{'' if options.seed is None else ' of the audit'}."


def drawn_from(options: AuditOptions) -> str:
    """Where the randomness of an audit was drawn from."""
    return "drawn afresh from the operating system" if options.seed is None else f"drawn from the seed {options.seed}"


class Score(ABC):
    """A way to turn releases into one number each."""

    learns: ClassVar[bool] = True

    @abstractmethod
    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        """The score after seeing releases of both datasets."""


@dataclass(frozen=True)
class LinearScore(Score):
    """The linear discriminant: best for two Gaussians with one covariance.

    The covariance is shrunk towards a multiple of the identity, a tenth of its mean variance, and solved in the space
    of the models where these are fewer than the numbers of a release.
    """

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        gap = (second.mean(axis=0) - first.mean(axis=0)).astype(float)
        centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)]).astype(float)
        models, numbers = centred.shape
        ridge = 0.1 * float(np.mean(centred * centred)) + 1e-300
        if numbers <= models:
            covariance = centred.T @ centred / models + ridge * np.eye(numbers)
            direction: Scores = linalg.solve(covariance, gap, assume_a="pos")
        else:  # Woodbury: (C'C / n + r I)^-1 g = (g - C' (n r I + C C')^-1 C g) / r.
            inner = centred @ centred.T + models * ridge * np.eye(models)
            direction = (gap - centred.T @ linalg.solve(inner, centred @ gap, assume_a="pos")) / ridge
        return lambda releases: releases @ direction
