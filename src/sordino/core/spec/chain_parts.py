"""The parts of a noisy gradient chain: noise, batches, clipping, projection, start, and what is kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.schedule import Schedule, Scheduled
from sordino.core.spec.section import Nested, Section
from sordino.core.spec.shape import COUNT, Number, Numbers, Schema, Shape, Whole, Word
from sordino.core.spec.tagged import Tagged
from sordino.core.validate import ANY_REAL, POSITIVE, Interval

NOISES = Tagged()
PROJECTIONS = Tagged()
STARTS = Tagged()

RATE = Interval(0.0, 1.0, low_open=True)
TAIL_INDEX = Interval(1.0, 2.0, low_open=True)
NoiseScale = Annotated[Schedule, Scheduled(), "absolute noise scale tau of each step"]


@NOISES.register("gaussian")
@dataclass(frozen=True)
class GaussianNoise(Section):
    """Standard Gaussian noise times an absolute scale."""

    scale: NoiseScale


@NOISES.register("stable")
@dataclass(frozen=True)
class StableNoise(Section):
    """Rotation-invariant stable noise, characteristic function exp(-|u|^alpha), times an absolute scale."""

    alpha: Annotated[float, Number(TAIL_INDEX), "tail index; at 2 the noise is N(0, 2I)"]
    scale: NoiseScale


Noise = GaussianNoise | StableNoise


class Scheme(StrEnum):
    """How a step's batch is chosen."""

    FULL = "full"
    CYCLIC = "cyclic"
    SHUFFLE_ONCE = "shuffle-once"
    RESHUFFLED = "reshuffled"
    WITHOUT_REPLACEMENT = "without-replacement"
    POISSON = "poisson"


@dataclass(frozen=True)
class Batch(Section):
    """How batches are chosen, and the public constant their sum is divided by."""

    scheme: Annotated[Scheme, Word(tuple(Scheme))]
    size: Annotated[int | None, Whole(), "public divisor b; absent only for full batches, where it is n"] = None
    rate: Annotated[float | None, Number(RATE), "Poisson inclusion probability; absent: size / n"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        """Only full batches know their size, only Poisson batches have a rate of their own."""
        if self.size is None and self.scheme != Scheme.FULL:
            yield Contradiction("size", f"to be given for {self.scheme.value} batches", None)
        if self.rate is not None and self.scheme != Scheme.POISSON:
            yield Contradiction(
                "rate", f"to be absent for {self.scheme.value} batches", self.rate, "only poisson has a rate"
            )


class ClippingKind(StrEnum):
    """What is clipped: the per-example gradient, its scalar residual, or the feature row."""

    NORM = "norm"
    RESIDUAL = "residual"
    FEATURE = "feature"


@dataclass(frozen=True)
class Clipping(Section):
    """Per-example clipping."""

    kind: Annotated[ClippingKind, Word(tuple(ClippingKind))]
    bound: Annotated[
        float, Number(POSITIVE), "norm, residual: bound on the per-example gradient norm; feature: row norm cap"
    ]
    classes: Annotated[int | None, Whole(Interval(2, COUNT.high)), "number of classes of a softmax loss"] = None


@PROJECTIONS.register("ball")
@dataclass(frozen=True)
class Ball(Section):
    """Projection on the ball of this radius around the origin, after the noise."""

    radius: Annotated[float, Number(POSITIVE)]

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2.0 * self.radius


@STARTS.register("point")
@dataclass(frozen=True)
class PointStart(Section):
    """A fixed public point; the origin unless its coordinates are given."""

    values: Annotated[tuple[float, ...] | None, Numbers(Number(ANY_REAL)), "coordinates; absent: the origin"] = None


@STARTS.register("gaussian")
@dataclass(frozen=True)
class GaussianStart(Section):
    """A draw from a centred isotropic Gaussian with this standard deviation."""

    scale: Annotated[float, Number(POSITIVE)]


# Where a chain starts is never computed from data.
Start = PointStart | GaussianStart
ORIGIN = PointStart()


class Keep(StrEnum):
    """Which iterates are kept, in one word."""

    LAST = "last"
    ALL = "all"


@dataclass(frozen=True)
class Thinning(Section):
    """Keep iterates burn_in + 1, burn_in + 1 + thin, burn_in + 1 + 2 thin, ... (the first step makes iterate 1)."""

    burn_in: Annotated[int, Whole(Interval(0, COUNT.high)), "how many first iterates are dropped"]
    thin: Annotated[int, Whole(), "then every thin-th one is kept"]


_KEEP = Word(tuple(Keep))
_THINNING = Nested(Thinning)


class Keeping(Shape):
    """A word, or an object with burn_in and thin."""

    def read(self, path: str, value: Any) -> Keep | Thinning:
        """Read a word as `Keep`, an object as `Thinning`."""
        if isinstance(value, str):
            return _KEEP.read(path, value)
        return _THINNING.read(path, value, ' or one of "last", "all"')

    def write(self, value: Keep | Thinning) -> str | dict[str, Any]:
        """Write the word or the object."""
        return _KEEP.write(value) if isinstance(value, Keep) else _THINNING.write(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """Either form."""
        return {"anyOf": [_KEEP.schema(definitions), _THINNING.schema(definitions)]}
