"""The attack: fit many models on two neighbours, learn to distinguish them, and count errors on fresh models.

Of every side's models some teach a score, some choose a rule, and the others, which nothing has seen, are counted. A
score is a number that is larger when a release looks like one of the second dataset; where it is known beforehand
nothing is learned, so every model is counted. Work that nobody would wait for is refused before it starts. Models are
fitted here, or on a cluster.
"""

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import linalg

from sordino.auditing.confidence import ErrorCounts, band_cap, band_tests, choose_threshold, count_errors, joint_epsilon
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.core.atomic_write import write_file
from sordino.core.bound import Relation, View
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError, instance_of, refuse
from sordino.data.neighbours import Dataset, NeighbourPair
from sordino.engines.totals import Engine, PartAnswer, each_once
from sordino.mechanisms import KeptIterates, LastIterate, NoisedAverage, SeededRandomness, parameters
from sordino.mechanisms.chain.run import run
from sordino.models.base import Model

Seeds = NDArray[np.uint64]
Releases = NDArray[np.floating]
Scores = NDArray[np.float64]
ScoreFunction = Callable[[Releases], Scores]
Score = Callable[[Releases, Releases], ScoreFunction]  # learned from releases of both datasets
# Fits many independent models of one dataset: one release for each seed, shape (seeds, numbers).
FitMany = Callable[[Any, Seeds], Releases]


# Random numbers drawn and batch entries chosen, and products of gradients: a few minutes each.
ON_PROCESSOR, ON_ACCELERATOR = (1e9, 1e12), (1e13, 1e14)
# Schemes whose batches are the same for every model; the others are drawn model by model.
_SHARED = frozenset({Scheme.FULL, Scheme.CYCLIC})


def chain_of(spec: Spec) -> NoisyGradient:
    """The noisy gradient chain of a spec; audits that train models can run no other kind."""
    if not isinstance(spec.algorithm, NoisyGradient):
        kind = spec.to_dict()["algorithm"]["kind"]
        raise refuse("the spec", "to describe a noisy gradient chain to train models of", kind, "use the exact audit")
    return spec.algorithm


def need_feasible(spec: Spec, models: int, most: tuple[float, float] = ON_PROCESSOR) -> None:
    """Refuse an attack that takes longer than a person waits; gradients of the worst-case quadratic cost nothing."""
    chain = chain_of(spec)
    rows = chain.divisor(spec.n)
    steps = chain.chains * chain.steps
    draws = steps * (spec.dim + (0 if chain.batch.scheme in _SHARED else rows))
    products = 0 if spec.instance is None else steps * rows * spec.dim
    share = max(draws / most[0], products / most[1])
    if models * share > 1.0:
        affordable = int(1.0 / share)
        remedy = "audit a shorter run" if affordable < 8 else f"train at most {affordable} models"
        work = f"to be at most {most[0]:.0e} random numbers and {most[1]:.0e} products of gradients"
        raise refuse("the work of the audit", work, f"{models * draws:.1e} and {models * products:.1e}", remedy)


@dataclass(frozen=True)
class FitInBlocks(ABC):
    """`FitMany` of a noisy gradient spec, in blocks that come out the same wherever they are fitted."""

    spec: Spec
    model: Model

    def __call__(self, data: Dataset, seeds: Seeds, /) -> Releases:
        return np.concatenate([self._block(data, block) for block in self.blocks(seeds)])

    def blocks(self, seeds: Seeds) -> list[Seeds]:
        return [seeds[first : first + self.at_once] for first in range(0, len(seeds), self.at_once)]

    @property
    @abstractmethod
    def at_once(self) -> int:
        """How many models run together."""

    @abstractmethod
    def _block(self, data: Dataset, seeds: Seeds) -> Releases:
        """The releases of models that run together."""


_CHAINS_AT_ONCE = 1024
_RELEASED = {LastIterate: "iterates", KeptIterates: "iterates", NoisedAverage: "averages"}


@dataclass(frozen=True)
class ChainFit(FitInBlocks):
    """Models of a spec by the kernel that makes releases: a replica with as many chains, seen one at a time."""

    def __post_init__(self) -> None:
        chain_of(self.spec)
        instance_of("model", self.model, Model)

    @property
    def at_once(self) -> int:
        return max(1, _CHAINS_AT_ONCE // chain_of(self.spec).chains)

    def _block(self, data: Dataset, seeds: Seeds) -> Releases:
        own = chain_of(self.spec)
        chain = replace(own, chains=own.chains * len(seeds))
        replica = replace(self.spec, algorithm=chain, instance=None)
        randomness = SeededRandomness(seed_of_run(seeds))
        function = parameters(self.spec.dim) if self.spec.view == View.AVERAGE else None
        release = run(replica, self.model, data.features, data.target, randomness, function=function)
        return finite(np.asarray(getattr(release, _RELEASED[type(release)]))).reshape(len(seeds), -1)


def finite(iterates: NDArray[np.floating]) -> NDArray[np.floating]:
    """Iterates as they are; a chain that diverged is refused."""
    if not np.isfinite(iterates).all():
        raise InputError("The chain diverged. Take smaller steps.")
    return iterates


def fitted_sides(fit_many: FitMany, first: Any, second: Any, each_side: int, options: AuditOptions) -> list[Releases]:
    """So many models of each dataset, with seeds of 64 random bits each."""
    drawn = np.random.SeedSequence(options.seed).generate_state(2 * each_side, np.uint64).astype(np.uint64)
    datasets, seeds = (first, second), (drawn[:each_side], drawn[each_side:])
    if options.fit_sides is not None:
        return options.fit_sides(fit_many, datasets, seeds)
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


About = Claim | Spec  # both have a relation and a view


def seed_of_run(seeds: Seeds) -> int:
    """One seed for models that run together, 128 bits: made of the seeds of all, so that no two runs share a stream."""
    entropy = np.random.SeedSequence([int(seed) for seed in seeds]).generate_state(2, np.uint64)
    return (int(entropy[0]) << 64) | int(entropy[1])


def seed_policy(options: AuditOptions) -> str:
    """One sentence on where randomness came from."""
    return f"Every model has its own seed, {options.origin}{'' if options.seed is None else ' of the audit'}."


def attack_parts(models: int) -> tuple[int, int]:
    """How many of each side's models teach the scores, and as many choose a rule; and how many others are counted."""
    each_side = models // 2
    if each_side < 4:
        raise refuse("models", "to be at least 8 for an attack", models)
    return each_side // 4, each_side - 2 * (each_side // 4)


def linear_score(first: Releases, second: Releases) -> ScoreFunction:
    """The linear discriminant, best for two Gaussians with one covariance; that is shrunk towards the identity."""
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


def audit_by_attack(
    fit_many: FitMany,
    first: Any,
    second: Any,
    scores: Sequence[Score],
    claim: About,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon of a mechanism, from models of two neighbouring datasets.

    One part of the models teaches the scores, one chooses among scores and thresholds, and the last, which nothing has
    seen, is counted: so the bound holds whatever the scores are.
    """
    if not scores:
        raise refuse("scores", "to hold at least one score", scores)
    quarter, counted = attack_parts(options.models)
    each_side = 2 * quarter + counted
    sides = fitted_sides(fit_many, first, second, each_side, options)
    seen, unseen = [side[: 2 * quarter] for side in sides], [side[2 * quarter :] for side in sides]
    tried: list[tuple[float, ScoreFunction, float]] = []
    for score in scores:
        rule = score(seen[0][:quarter], seen[1][:quarter])
        values = rule(seen[0][quarter:]), rule(seen[1][quarter:])
        threshold = choose_threshold(*values, options.delta, options.confidence)
        # How well a rule did: the log odds of its smoothed error rates, comparable across scores.
        errors = np.array(count_errors(*values, threshold), float)
        rates = (errors + 0.5) / (quarter + 1.0)
        tried.append((float(np.max(np.log((1 - rates[::-1]) / rates))), rule, threshold))
    _, rule, threshold = max(tried, key=lambda each: each[0])
    false_positives, false_negatives = count_errors(rule(unseen[0]), rule(unseen[1]), threshold)
    counts = ErrorCounts(false_positives, counted, false_negatives, counted)
    return bound_from_counts(counts, claim, options, evidence, 2 * each_side)


def bound_from_counts(
    counts: ErrorCounts, claim: About, options: AuditOptions, evidence: str, models: int
) -> LowerBound:
    """The lower bound of one rule whose errors were counted on models it had not seen, in one exact test."""
    best = ErrorCounts(0, counts.first_models, 0, counts.second_models)
    proved, most = (joint_epsilon(each, options.delta, options.confidence) for each in (counts, best))
    stated = {"counts": _named(models, counts), "cap": most, "seed_policy": seed_policy(options)}
    return options.bound(claim, "attack", proved, evidence, curve=(counts.point(options.confidence),), **stated)


def _named(models: int, counts: ErrorCounts) -> tuple[tuple[str, int], ...]:
    return (
        ("models", models),
        ("counted models of the first dataset", counts.first_models),
        ("false positives", counts.false_positives),
        ("counted models of the second dataset", counts.second_models),
        ("false negatives", counts.false_negatives),
    )


def audit_by_fixed_score(
    fit_many: FitMany, first: Any, second: Any, score: ScoreFunction, claim: About, options: AuditOptions, evidence: str
) -> LowerBound:
    """Lower bound from a score fixed before any model was seen, with limits that hold for all thresholds at once."""
    each_side = options.models // 2
    scores = [score(side) for side in fitted_sides(fit_many, first, second, each_side, options)]
    tests = band_tests(scores[0], scores[1], options.confidence)
    best = max(tests, key=lambda test: test.point.epsilon(options.delta))
    most = band_cap(each_side, each_side, options.delta, options.confidence)
    counts = (*_named(2 * each_side, best.counts), ("thresholds covered", 2 * each_side + 1))
    stated = {"counts": counts, "cap": most, "seed_policy": seed_policy(options)}
    epsilon, curve = best.point.epsilon(options.delta), tuple(test.point for test in tests)
    return options.bound(claim, "attack", epsilon, evidence, curve=curve, **stated)


def model_scores(model: Model, pair: NeighbourPair) -> tuple[Score, ...]:
    """What to look at in models of two neighbours: the loss of the record in question, and the parameters.

    The former is minus the loss on the first of one or two records, plus that on the second; a mean over points.
    """
    replaced = pair.relation is Relation.REPLACE_ONE
    holding = (pair.second, pair.first) if replaced else (max(pair.first, pair.second, key=len),)
    rows = np.stack([data.features[pair.position] for data in holding])
    records = Dataset(rows, np.array([data.target[pair.position] for data in holding]))

    def fits(releases: Releases) -> Scores:
        own, *others = record_losses(model, releases, records).T
        return others[0] - own if others else -own

    def canary_loss(first: Releases, second: Releases) -> ScoreFunction:
        sign = -1.0 if np.median(fits(second)) < np.median(fits(first)) else 1.0
        return lambda releases: sign * fits(releases)

    return canary_loss, linear_score


def record_losses(model: Model, releases: Releases, records: Dataset) -> Scores:
    """The loss of each record under every release, the mean over the points of a release; shape (releases, records)."""
    dtype = jnp.zeros(()).dtype
    rows, targets = jnp.asarray(records.features, dtype), jnp.asarray(records.target, dtype)
    points = np.asarray(releases).reshape(len(releases), -1, model.dim(rows.shape[1]))
    return np.asarray(_losses(model, jnp.asarray(points, dtype), rows, targets), float)


@partial(jax.jit, static_argnums=0)
def _losses(model: Model, points: Array, rows: Array, targets: Array) -> Array:
    def of_release(each: Array) -> Array:
        return jax.vmap(lambda x, y: jax.vmap(lambda theta: model.loss(theta, x, y))(each).mean())(rows, targets)

    return jax.vmap(of_release)(points)


# Blocks of models on an engine: processes of this machine, or a cluster; each is kept once it is done. A block is what
# it is here, bit for bit, and a lost worker costs time alone. Anyone who can reach a scheduler without authentication
# can run code on its workers, and what workers answer is unpickled by the auditor: client, scheduler and workers are
# one trust boundary. Processes of this machine have no address.


class Block(NamedTuple):
    """Models of one of the datasets, by its place, and their seeds: a part that any process can answer for."""

    name: str
    side: int
    seeds: Seeds
    shared: bool = True


@dataclass(frozen=True, eq=False)
class FitWork:
    """A mechanism, and the datasets it is run on; travels to where blocks are fitted, as `Work` does to rows."""

    adds: ClassVar[bool] = False
    asked: ClassVar[SimpleNamespace] = SimpleNamespace(name="models")

    fit_many: FitMany
    datasets: tuple[Any, ...]

    def answer(self, part: Block, key: str) -> PartAnswer:
        made = io.BytesIO()
        np.save(made, fitted(self.fit_many, self.datasets[part.side], part.seeds), allow_pickle=False)
        return PartAnswer(key, made.getvalue(), len(part.seeds), 0, "")


class Checkpoints:
    """Finished blocks of an audit in a folder, for their owner only; `fingerprint` distinguishes audits."""

    def __init__(self, folder: Path, work: FitWork, blocks: Sequence[Block]) -> None:
        digest = hashlib.sha256(repr(work.fit_many).encode())
        sides = [part for data in work.datasets for part in (data.features, data.target)]
        for array in map(np.ascontiguousarray, (*sides, *(block.seeds for block in blocks))):
            digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
        self.folder, self.fingerprint = folder, digest.hexdigest()

    def save(self, number: int, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._file(number), content, private=True)

    def load(self, number: int) -> Releases | None:
        """What was saved of a block, or None; a torn file counts as none."""
        try:
            return np.load(self._file(number), allow_pickle=False)
        except (FileNotFoundError, EOFError, ValueError):
            return None

    def remove(self, count: int) -> None:
        for number in range(count):
            self._file(number).unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, number: int) -> Path:
        return self.folder / f"fleet-{self.fingerprint[:16]}-{number:05d}.npy"


@dataclass(frozen=True, eq=False)
class FitOnCluster:
    """How `fit_sides` fits: on an `engine`, once; blocks that are kept in `partial_results` let an audit resume."""

    engine: Engine
    partial_results: Path | None = None

    def __call__(self, fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
        """The releases of each dataset's models, one row for each seed."""
        work: Any = FitWork(fit_many, tuple(datasets))
        # A mechanism's models are in one block, unless it says otherwise.
        cut = fit_many.blocks if isinstance(fit_many, FitInBlocks) else lambda own: [own]
        listed = [(side, block) for side, own in enumerate(seeds) for block in cut(own)]
        blocks = [Block(f"block {number + 1} of the models", *one) for number, one in enumerate(listed)]
        kept = None if self.partial_results is None else Checkpoints(self.partial_results, work, blocks)
        loaded = {} if kept is None else {number: kept.load(number) for number in range(len(blocks))}
        results = {number: releases for number, releases in loaded.items() if releases is not None}
        missing: dict[str, Any] = {str(place): one for place, one in enumerate(blocks) if place not in results}
        try:
            for key, content, *_ in each_once(self.engine, work, missing):
                if kept is not None:
                    kept.save(int(key), content)
                results[int(key)] = np.load(io.BytesIO(content), allow_pickle=False)
        finally:
            self.engine.close()
        if kept is not None:
            kept.remove(len(blocks))
        return [
            np.concatenate([results[number] for number, block in enumerate(blocks) if block.side == side])
            for side in range(len(datasets))
        ]
