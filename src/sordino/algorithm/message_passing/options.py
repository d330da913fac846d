"""Public choices that shape a run without touching its guarantee: each acts on released values or on public constants.

The spec says what is certified. What is here changes how noised sums are read and used, which is post-processing, or
what messages are before they are clipped, which the clip bounds either way.
"""

from dataclasses import dataclass, field

from sordino.algorithm.message_passing.coordinates import Coordinates, NaturalCoordinates
from sordino.algorithm.message_passing.repair import RaiseEigenvalues, Repair
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, instance_of, number, refuse

_BELOW_ONE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class Prior:
    """An isotropic Gaussian prior, public; unknown precisions have the prior their site states."""

    precision: float = 1.0
    mean: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", number("prior precision", self.precision, POSITIVE))
        if isinstance(self.mean, tuple):
            object.__setattr__(self, "mean", tuple(number("prior mean", value) for value in self.mean))
        else:
            object.__setattr__(self, "mean", number("prior mean", self.mean))


@dataclass(frozen=True)
class Refinement:
    """How messages are written, repaired and averaged.

    Attributes:
        coordinates: what is clipped and noised; the natural parameters as published, or centred ones.
        repair: what happens to a precision that noise made indefinite; its floor is the least precision.
        momentum: share of the last displacement that a round keeps.
        start_scale: standard deviation of the random, data-free means a run starts from; 0 starts at the prior.
        clamp: range in which the eigenvalues of 1 - v k are kept, v the cavity's variance; the coordinates have one.
    """

    coordinates: Coordinates = field(default_factory=NaturalCoordinates)
    repair: Repair = field(default_factory=lambda: RaiseEigenvalues(1e-2))
    momentum: float = 0.0
    start_scale: float = 0.0
    clamp: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        instance_of("coordinates", self.coordinates, Coordinates)
        instance_of("repair", self.repair, Repair)
        object.__setattr__(self, "momentum", number("momentum", self.momentum, _BELOW_ONE))
        object.__setattr__(self, "start_scale", number("start_scale", self.start_scale, NON_NEGATIVE))
        if self.clamp is not None:
            low, high = (number("clamp", value, POSITIVE) for value in self.clamp)
            if not low <= 1.0 <= high:
                raise refuse("clamp", "to be a range that contains 1", self.clamp)
            object.__setattr__(self, "clamp", (low, high))

    @property
    def kept_range(self) -> tuple[float, float]:
        """The clamp, or the coordinates' own where none is given."""
        return self.coordinates.usual_clamp if self.clamp is None else self.clamp
