"""Affine scaling by public constants: encoded = (value - centre) / scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.validate import Interval, number, one_of, refuse
from sordino.data.float32_safe import add_up, float32_up

# Beyond these a square overflows in single precision, which is what accelerators compute in.
RAW_RANGE = Interval(-1e30, 1e30)
LARGEST_ENCODED = 1e15

_BY_WORD: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "symmetric": lambda low, high: (low / 2 + high / 2, high / 2 - low / 2),
    "unit": lambda low, high: (low, high - low),
    "none": lambda *_: (0.0, 1.0),
}
_EXACT_LIMITS = {"symmetric": (-1.0, 1.0), "unit": (0.0, 1.0)}


@dataclass(frozen=True)
class Scaling:
    """``symmetric`` maps the bounds to [-1, 1], ``unit`` to [0, 1], ``none`` keeps values; or declared constants."""

    word: str
    centre: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        one_of("scaling", self.word, (*_BY_WORD, "constants"))
        if self.word != "constants":
            if self.centre is not None or self.scale is not None:
                raise refuse("scaling", f"{self.word!r} to come without centre and scale", (self.centre, self.scale))
            return
        object.__setattr__(self, "centre", number("scaling.centre", self.centre, RAW_RANGE))
        object.__setattr__(self, "scale", number("scaling.scale", self.scale, Interval(1e-30, 1e30)))

    def affine(self, low: float, high: float) -> tuple[float, float]:
        """Centre and scale for the declared bounds."""
        if self.centre is not None and self.scale is not None:
            return self.centre, self.scale
        return _BY_WORD[self.word](low, high)

    def limits(self, low: float, high: float) -> tuple[float, float]:
        """The encoded bounds; floating-point subtraction and division are monotone, so no value lands outside."""
        centre, scale = self.affine(low, high)
        return _EXACT_LIMITS.get(self.word, ((low - centre) / scale, (high - centre) / scale))

    def to_json(self) -> Any:
        """The JSON form: a word, or an object with both constants."""
        return {"centre": self.centre, "scale": self.scale} if self.word == "constants" else self.word

    @classmethod
    def from_json(cls, given: Any) -> "Scaling":
        """Read the JSON form."""
        if isinstance(given, dict):
            if set(given) != {"centre", "scale"}:
                raise refuse("scaling", "as an object to have exactly the keys 'centre' and 'scale'", given)
            return cls("constants", given["centre"], given["scale"])
        return cls(one_of("scaling", given, _BY_WORD, 'or an object {"centre":, "scale":}'))


SYMMETRIC, UNIT, UNSCALED = Scaling("symmetric"), Scaling("unit"), Scaling("none")


@dataclass(frozen=True)
class Bounds:
    """Public bounds of a number with their scaling: the part that features and targets share."""

    low: float
    high: float
    scaling: Scaling

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", number("low", self.low, RAW_RANGE))
        object.__setattr__(self, "high", number("high", self.high, RAW_RANGE))
        if not self.low < self.high:
            raise InputError(
                f"Expected low < high, got [{self.low:g}, {self.high:g}]; leave out a column with one value."
            )
        _, scale = self.scaling.affine(self.low, self.high)
        if scale <= 0.0:
            raise refuse("bounds", "to be further apart", (self.low, self.high), "change the unit of measurement")
        if max(abs(end) for end in self.scaling.limits(self.low, self.high)) > LARGEST_ENCODED:
            raise refuse("bounds", f"to encode within {LARGEST_ENCODED:g}", (self.low, self.high), "scale them down")

    @property
    def largest(self) -> float:
        """The largest encoded magnitude, rounded up to a single-precision number so that it holds there too."""
        return float32_up(max(abs(end) for end in self.scaling.limits(self.low, self.high)))

    def clip(self, values: NDArray[np.float64]) -> int:
        """Clip in place, NaN kept, and count what was outside."""
        outside = int(np.count_nonzero((values < self.low) | (values > self.high)))
        if outside:
            np.clip(values, self.low, self.high, out=values)
        return outside

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale clipped values, in place."""
        centre, scale = self.scaling.affine(self.low, self.high)
        np.subtract(values, centre, out=values)
        np.divide(values, scale, out=values)
        return np.clip(values, *self.scaling.limits(self.low, self.high), out=values)

    def decode(self, encoded: Any) -> NDArray[np.float64]:
        """The inverse of `encode`, in raw units."""
        centre, scale = self.scaling.affine(self.low, self.high)
        return np.asarray(encoded, dtype=np.float64) * scale + centre

    @property
    def width(self) -> float:
        """Largest distance of two encoded values, also after a cast to single precision."""
        low, high = self.scaling.limits(self.low, self.high)
        return add_up(float32_up(high), float32_up(-low))
