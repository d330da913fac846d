"""A number with declared bounds, scaled by public constants; counts are numbers with scaling ``none``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import shapes
from sordino.core.spec.shapes import Contradiction, Word
from sordino.core.validate import Interval, refuse
from sordino.data.columns.base import REFUSE, Cells, ColumnKind, Missing, MissingRule, column_kind
from sordino.data.scaling import LARGEST_ENCODED, RAW_RANGE, SYMMETRIC, Scaled, Scaling, add_up, float32_up
from sordino.data.table import Column, as_numbers

_RAW = shapes.Number(RAW_RANGE)


class OutOfRange(StrEnum):
    """What a value outside the bounds does: it is clipped to them and counted, or stops the run."""

    CLIP = "clip"
    REFUSE = "refuse"


@column_kind("number")
@dataclass(frozen=True)
class Number(ColumnKind):
    """A measurement in [low, high]; values outside are clipped and counted, or refused if so declared."""

    low: Annotated[float, _RAW, "public lower bound"]
    high: Annotated[float, _RAW, "public upper bound, above low"]
    scaling: Annotated[Scaling, Scaled()] = SYMMETRIC
    missing: Annotated[MissingRule, Missing(_RAW)] = REFUSE
    out_of_range: Annotated[str, Word(tuple(OutOfRange)), "clip and count, or stop"] = OutOfRange.CLIP

    def contradictions(self) -> Iterator[Contradiction]:
        """The bounds have a width that survives the scaling, and a constant for missing values lies between them."""
        if not self.low < self.high:
            yield Contradiction("high", f"to be above low = {self.low:g}", self.high, "leave out a constant column")
            return
        fill, allowed = self.missing.value, Interval(self.low, self.high)
        if isinstance(fill, float) and fill not in allowed:
            yield Contradiction("missing.value", f"in {allowed}", fill, "stay inside the bounds")
        if self.scaling.affine(self.low, self.high)[1] <= 0.0:
            yield Contradiction(
                "high", f"to be further apart from low = {self.low:g}", self.high, "change the unit of measurement"
            )
        elif max(map(abs, self.limits)) > LARGEST_ENCODED:
            yield Contradiction("scaling", f"to encode within {LARGEST_ENCODED:g}", self.scaling.word, "scale down")

    @property
    def limits(self) -> tuple[float, float]:
        """The encoded bounds."""
        return self.scaling.limits(self.low, self.high)

    @property
    def centre_and_scale(self) -> tuple[float, float]:
        """The constants of the scaling: encoded = (value - centre) / scale."""
        return self.scaling.affine(self.low, self.high)

    def _refused_content(self) -> tuple[str, ...]:
        return ("values out of range",) if self.out_of_range == OutOfRange.REFUSE else ()

    @property
    def block_norm(self) -> float:
        return max(self.bound, 1.0) if self.missing.adds_indicator else self.bound

    @property
    def bound(self) -> float:
        """The largest encoded magnitude, rounded up to a single-precision number so that it holds there too."""
        return float32_up(max(map(abs, self.limits)))

    @property
    def width(self) -> float:
        """Largest distance of two encoded values, also after a cast to single precision."""
        low, high = self.limits
        return add_up(float32_up(high), float32_up(-low))

    def read(self, name: str, column: Column, tokens: Sequence[str]) -> Cells:
        values = as_numbers(column, name, tokens)
        missing = np.isnan(values)
        self.missing.check(name, missing)
        clipped = int(np.count_nonzero((values < self.low) | (values > self.high)))
        if clipped and self.out_of_range == OutOfRange.REFUSE:
            raise refuse(
                f"the values of column {name!r}",
                f"in [{self.low:g}, {self.high:g}]",
                f"{clipped} outside",
                "correct them, or declare out_of_range as 'clip'",
            )
        if clipped:
            np.clip(values, self.low, self.high, out=values)
        if self.missing.value is not None:
            values[missing] = self.missing.value
        return Cells(self.scaled(values), missing, clipped)

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale values between the bounds, in place."""
        centre, scale = self.centre_and_scale
        np.subtract(values, centre, out=values)
        np.divide(values, scale, out=values)
        return np.clip(values, *self.limits, out=values)

    def decode(self, encoded: Any) -> NDArray[Any]:
        centre, scale = self.centre_and_scale
        return np.asarray(encoded, dtype=np.float64) * scale + centre

    def extremes(self) -> tuple[float, float]:
        low, high = map(abs, self.limits)
        return (self.low, self.high) if low > high else (self.high, self.low)

    def target_extremes(self) -> tuple[float, float]:
        return self.high, self.low


NumberTarget = Number
