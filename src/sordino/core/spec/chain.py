"""Kind `noisy-gradient`: schedules, noise, batches, clipping, projection, start and what is kept of a chain."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core.bound import View
from sordino.core.spec.fields import (
    COUNT,
    Contradiction,
    Nested,
    Number,
    Numbers,
    Section,
    TaggedUnion,
    Whole,
    Word,
    WordOrObject,
)
from sordino.core.spec.problem import RUNS, Algorithm, Problem, Schedule, Scheduled, required
from sordino.core.validate import ANY_REAL, NON_NEGATIVE, POSITIVE, SHARE, Interval

NOISES = TaggedUnion()
PROJECTIONS = TaggedUnion()
STARTS = TaggedUnion()

TAIL_INDEX = Interval(1.0, 2.0, low_open=True)
NoiseScale = Annotated[Schedule, Scheduled(), "absolute noise scale tau of each step"]


@NOISES.register("gaussian")
class GaussianNoise(Section):
    """Standard Gaussian noise times an absolute scale."""

    alpha: ClassVar[float] = 2.0
    deviation: ClassVar[float] = 1.0  # of each coordinate at scale 1

    scale: NoiseScale


@NOISES.register("stable")
class StableNoise(Section):
    """Rotation-invariant stable noise, characteristic function exp(-|u|^alpha), times an absolute scale."""

    deviation: ClassVar[float] = math.sqrt(2.0)  # where it is Gaussian

    alpha: Annotated[float, TAIL_INDEX, "tail index; at 2 the noise is N(0, 2I)"]
    scale: NoiseScale


Noise = GaussianNoise | StableNoise


class Scheme(StrEnum):
    """How the batch of a step or round is chosen."""

    FULL = "full"
    CYCLIC = "cyclic"
    SHUFFLE_ONCE = "shuffle-once"
    RESHUFFLED = "reshuffled"
    WITHOUT_REPLACEMENT = "without-replacement"
    WITH_REPLACEMENT = "with-replacement"
    POISSON = "poisson"
    TRUNCATED_POISSON = "truncated-poisson"
    RANDOM_ALLOCATION = "random-allocation"
    MIN_SEPARATION = "min-separation"


# Schemes that place every record on its own: one more or less moves no other, but for one that a full batch leaves out.
OWN_PLACES = frozenset(
    {Scheme.FULL, Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION}
)
_RATED = frozenset({Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.MIN_SEPARATION})
_OWN_KEYS = {
    "uses": ({Scheme.RANDOM_ALLOCATION}, "only random-allocation has a number of uses"),
    "separation": ({Scheme.MIN_SEPARATION}, "only min-separation has one"),
    "cap": ({Scheme.TRUNCATED_POISSON}, "only truncated-poisson has a cap"),
    "rate": (_RATED, "only poisson has a rate"),
}


@dataclass(frozen=True)
class Batch(Section):
    """How batches are chosen, and the public constant their sum is divided by."""

    scheme: Annotated[Scheme, Word(Scheme)]
    size: Annotated[int | None, Whole(), "public divisor b; absent only for full batches, where it is n"] = None
    rate: Annotated[float | None, SHARE, "Poisson inclusion probability; absent: a step expects size"] = None
    cap: Annotated[
        int | None, Whole(), "truncated Poisson: most records of a batch, the first ones; absent: 2 size"
    ] = None
    uses: Annotated[int | None, Whole(), "random allocation: uses in a round of ceil(n / size) steps; absent: 1"] = None
    separation: Annotated[int | None, Whole(), "min-separation: steps between uses; absent: floor(n / (2 size))"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        if self.size is None and self.scheme != Scheme.FULL:
            yield Contradiction("size", f"to be given for {self.scheme.value} batches", None)
        for name, (schemes, remedy) in _OWN_KEYS.items():
            if getattr(self, name) is not None and self.scheme not in schemes:
                yield Contradiction(name, f"to be absent for {self.scheme.value} batches", getattr(self, name), remedy)

    @property
    def words(self) -> str:
        if self.scheme is Scheme.FULL:
            return "all records each time"
        if self.scheme is Scheme.RANDOM_ALLOCATION:
            times = "once" if self.uses in (None, 1) else f"{self.uses} times"
            return f"every record {times} a round, in steps drawn for it alone, sums divided by {self.size}"
        if self.scheme is Scheme.MIN_SEPARATION:
            apart = "half a pass" if self.separation is None else f"{self.separation} steps"
            return f"every record by chance, at least {apart} apart, sums divided by {self.size}"
        expected = " on average" if self.scheme in _RATED else ""
        return f"{self.scheme} batches of {self.size}{expected}{'' if self.most is None else f', at most {self.most}'}"

    def misfits(self, records: int, called: str) -> Iterator[Contradiction]:
        """What keeps these batches from being drawn from so many records, a number found under the key `called`."""
        size = self.divisor(records)
        if size > records:
            yield Contradiction("size", f"to be at most {called} = {records}", size)
        if self.scheme is Scheme.FULL and size != records:
            yield Contradiction("size", f"to be absent or {called} = {records} for full batches", size)
        if self.most is not None and self.most < self.inclusion(records) * records:
            mean = f"{self.inclusion(records) * records:g} records expected in a batch"
            yield Contradiction("cap", f"to be at least the {mean}", self.most, "raise it, or lower size or rate")
        if self.separation is not None and self.rate is None and self.separation * size > records:
            most = f"to be at most {records // size} = floor({called} {records} / size {size})"
            yield Contradiction("separation", most, self.separation, "lower it or size, or give a rate")
        if self.uses is not None and self.uses > (room := self.per_epoch(records)):
            yield Contradiction("uses", f"to be at most {room} = ceil({called} {records} / size {size})", self.uses)

    @property
    def most(self) -> int | None:
        """Records that a truncated batch holds at most, the default resolved; None for other schemes."""
        if self.scheme is not Scheme.TRUNCATED_POISSON:
            return None
        return self.cap if self.cap is not None or self.size is None else 2 * self.size

    def divisor(self, records: int) -> int:
        """The public size b; the default resolved."""
        return records if self.size is None else self.size

    def apart(self, records: int) -> int:
        """Steps from a use of a record to the next it may have; the default resolved, 1 for other schemes."""
        if self.scheme is not Scheme.MIN_SEPARATION:
            return 1
        return max(1, records // (2 * self.divisor(records))) if self.separation is None else self.separation

    def chance(self, records: int) -> float:
        """The probability that a step draws a given record that it may draw."""
        if self.scheme is not Scheme.MIN_SEPARATION or self.rate is not None:
            return self.inclusion(records) if self.rate is None else self.rate
        # Of records that wait for their uses a share of 1 - (s - 1) b / n is free.
        share = self.divisor(records) / records
        return min(1.0, share / max(share, 1 - (self.apart(records) - 1) * share))

    def inclusion(self, records: int) -> float:
        """The probability that a batch holds a given record: the Poisson rate, or b / records."""
        if self.scheme is Scheme.MIN_SEPARATION:
            chance = self.chance(records)
            return chance / (1 + (self.apart(records) - 1) * chance)
        if self.scheme is Scheme.RANDOM_ALLOCATION:
            return (self.uses or 1) / self.per_epoch(records)
        if self.scheme is Scheme.WITH_REPLACEMENT:
            return -math.expm1(self.divisor(records) * math.log1p(-1 / records)) if records > 1 else 1.0
        return self.divisor(records) / records if self.rate is None else self.rate

    def per_epoch(self, records: int) -> int:
        """How many batches one pass over the records takes, a partial last one included."""
        return -(-records // self.divisor(records))


class ClippingKind(StrEnum):
    """What is clipped: the per-example gradient, its scalar residual, or the feature row."""

    NORM = "norm"
    RESIDUAL = "residual"
    FEATURE = "feature"


@dataclass(frozen=True)
class Clipping(Section):
    """Per-example clipping."""

    kind: Annotated[ClippingKind, Word(ClippingKind)]
    bound: Annotated[float, POSITIVE, "norm, residual: bound on the per-example gradient norm; feature: row norm cap"]
    classes: Annotated[int | None, Interval(2, COUNT.high), "number of classes of a softmax loss"] = None


@PROJECTIONS.register("ball")
class Ball(Section):
    """Projection on the ball of this radius around the origin, after the noise."""

    radius: Annotated[float, POSITIVE]

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius


@STARTS.register("point")
class PointStart(Section):
    """A fixed public point; the origin unless its coordinates are given."""

    values: Annotated[tuple[float, ...] | None, Numbers(Number(ANY_REAL)), "coordinates; absent: the origin"] = None


@STARTS.register("gaussian")
class GaussianStart(Section):
    """A draw from a centred isotropic Gaussian with this standard deviation."""

    scale: Annotated[float, POSITIVE]


Start = PointStart | GaussianStart  # never computed from data
ORIGIN = PointStart()


class Keep(StrEnum):
    """Which iterates are kept, in one word."""

    LAST = "last"
    ALL = "all"


@dataclass(frozen=True)
class Thinning(Section):
    """Keep iterates burn_in + 1, burn_in + 1 + thin, burn_in + 1 + 2 thin, ... (the first step makes iterate 1)."""

    burn_in: Annotated[int, Interval(0, COUNT.high), "how many first iterates are dropped"]
    thin: Annotated[int, Whole(), "then every thin-th one is kept"]


Kept = Keep | Thinning | None
KEEPING = WordOrObject(Word(Keep), Nested(Thinning))

_ROUNDING = "how far floating point takes a step at most, over the noise scale; absent: bounds are about real numbers"


@RUNS.register("noisy-gradient")
class NoisyGradient(Algorithm):
    """The chain theta <- Proj[theta - eta * (sum of batch gradients / b + grad r) + tau * xi]."""

    views: ClassVar[frozenset[View]] = frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE})

    steps: Annotated[int, Whole()]
    step_size: Annotated[Schedule, Scheduled(), "eta, for the mean loss"]
    noise: Annotated[Noise, NOISES]
    batch: Annotated[Batch, Nested(Batch)]
    clipping: Annotated[Clipping | None, Nested(Clipping)] = None
    projection: Annotated[Ball | None, PROJECTIONS] = None
    start: Annotated[Start, STARTS] = ORIGIN
    chains: Annotated[int, Whole(), "independent chains released together"] = 1
    keep: Annotated[Kept, KEEPING, "kept iterates; absent: last for view last-iterate, else all"] = None
    rounding: Annotated[float | None, NON_NEGATIVE, _ROUNDING] = None

    @property
    def words(self) -> str:
        chains = f"{self.chains} chains of " if self.chains > 1 else ""
        return f"{chains}{self.steps} noisy gradient steps, {NOISES.word_of(self.noise)} noise, {self.batch.words}"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self.step_size.misfits(self.steps, "step_size")
        yield from self.noise.scale.misfits(self.steps, "noise.scale")
        if isinstance(self.keep, Thinning) and self.keep.burn_in >= self.steps:
            yield Contradiction("keep.burn_in", f"to be below the {self.steps} steps", self.keep.burn_in)

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        yield from required(problem, "n", "dim")
        if problem is not None and problem.n is not None and problem.dim is not None:
            yield from (misfit.under("algorithm.batch") for misfit in self.batch.misfits(problem.n, "problem.n"))
            given = self.start.values if isinstance(self.start, PointStart) else None
            if given is not None and len(given) != problem.dim:
                coordinates = f"to have problem.dim = {problem.dim} coordinates"
                yield Contradiction("algorithm.start.values", coordinates, len(given))
        if self.rounding is not None and not isinstance(self.noise, GaussianNoise):
            yield Contradiction("algorithm.rounding", "to be absent but for gaussian noise", NOISES.word_of(self.noise))
        if view == View.LAST_ITERATE and self.keep not in (None, Keep.LAST):
            allowed = 'to be "last" when the view is last-iterate'
            yield Contradiction("algorithm.keep", allowed, KEEPING.write(self.keep))

    def divisor(self, n: int) -> int:
        return self.batch.divisor(n)

    def rate(self, n: int) -> float:
        return self.batch.inclusion(n)

    def batches_per_epoch(self, n: int) -> int:
        return self.batch.per_epoch(n)

    def kept_iterates(self, view: View) -> range:
        """The positions of the kept iterates; step k = 0 makes iterate 1, the last one is `steps`."""
        kept = self.keep or (Keep.LAST if view == View.LAST_ITERATE else Keep.ALL)
        if isinstance(kept, Thinning):
            return range(kept.burn_in + 1, self.steps + 1, kept.thin)
        return range(self.steps if kept == Keep.LAST else 1, self.steps + 1)
