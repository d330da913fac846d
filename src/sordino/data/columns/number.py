"""A number with declared bounds, scaled by public constants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, Interval, number, one_of, refuse
from sordino.data.columns.base import (
    REFUSE,
    ColumnCounts,
    FeatureKind,
    MissingRule,
    RawValue,
    TargetKind,
    feature_kind,
    missing_json_schema,
    refusing_words,
    target_kind,
    target_missing,
)
from sordino.data.scaling import BOUNDS_JSON_SCHEMA, OUT_OF_RANGE_WORDS, SYMMETRIC, Bounds, JsonFields, Scaling
from sordino.data.table import Column, as_numbers


@feature_kind("number")
@dataclass(frozen=True)
class Number(FeatureKind):
    """A measurement in [low, high]; values outside are clipped and counted, or refused if so declared."""

    low: float
    high: float
    scaling: Scaling = SYMMETRIC
    missing: MissingRule = REFUSE
    out_of_range: str = "clip"

    def __post_init__(self) -> None:
        bounds = self.bounds
        object.__setattr__(self, "low", bounds.low)
        object.__setattr__(self, "high", bounds.high)
        one_of("out_of_range", self.out_of_range, OUT_OF_RANGE_WORDS)
        if self.missing.rule == "value":
            fill = number("missing.value", self.missing.value, Interval(self.low, self.high), "stay inside the bounds")
            object.__setattr__(self, "missing", MissingRule("value", fill))

    @property
    def bounds(self) -> Bounds:
        """The bounds with their scaling."""
        return Bounds(self.low, self.high, self.scaling)

    @property
    def can_refuse(self) -> tuple[str, ...]:
        missing = ("missing values",) if self.missing.rule == "refuse" else ()
        return missing + (("values out of range",) if self.out_of_range == "refuse" else ())

    def feature_names(self, name: str) -> tuple[str, ...]:
        return (name, f"{name} is missing") if self.missing.adds_indicator else (name,)

    @property
    def block_norm(self) -> float:
        return max(self.bounds.largest, 1.0) if self.missing.adds_indicator else self.bounds.largest

    def encode(self, name: str, column: Column, tokens: Sequence[str], out: NDArray[np.float64]) -> ColumnCounts:
        bounds = self.bounds
        values = as_numbers(column, name, tokens)
        missing = np.isnan(values)
        self.missing.check(name, missing)
        clipped = bounds.clip(values)
        if clipped and self.out_of_range == "refuse":
            raise out_of_range_error(name, clipped, bounds)
        if self.missing.value is not None:
            values[missing] = self.missing.value
        out[:, 0] = bounds.encode(values)
        if self.missing.adds_indicator:
            out[missing, 0] = 0.0
            out[:, 1] = missing
        return ColumnCounts(missing=int(missing.sum()), clipped=clipped)

    def extremes(self) -> tuple[RawValue, RawValue]:
        low, high = (abs(end) for end in self.scaling.limits(self.low, self.high))
        return (self.low, self.high) if low > high else (self.high, self.low)

    def to_json(self) -> dict[str, Any]:
        return {
            "low": self.low,
            "high": self.high,
            "scaling": self.scaling.to_json(),
            "missing": self.missing.to_json(),
            "out_of_range": self.out_of_range,
        }

    @classmethod
    def from_json(cls, fields: JsonFields) -> "Number":
        return fields.build(
            lambda low, high, scaling, missing, out_of_range: cls(
                low, high, Scaling.from_json(scaling), MissingRule.from_json(missing), out_of_range
            ),
            low=fields.required("low"),
            high=fields.required("high"),
            scaling=fields.optional("scaling", "symmetric"),
            missing=fields.optional("missing", "refuse"),
            out_of_range=fields.optional("out_of_range", "clip"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = BOUNDS_JSON_SCHEMA | {"missing": missing_json_schema({"type": "number"})}
        return {"properties": properties, "required": ["low", "high"]}

    @classmethod
    def template(cls) -> dict[str, Any]:
        return {"low": None, "high": None, "scaling": "symmetric", "missing": "refuse", "out_of_range": "clip"}


def out_of_range_error(name: str, count: int, bounds: Bounds) -> InputError:
    """The complaint of a column that declares ``out_of_range: refuse``."""
    return refuse(
        f"the values of column {name!r}",
        f"in [{bounds.low:g}, {bounds.high:g}]",
        f"{count} outside",
        "correct them, or declare out_of_range as 'clip'",
    )


# A target that is a number with declared bounds: regression, or counts with scaling ``none``.


@target_kind("number")
@dataclass(frozen=True)
class NumberTarget(TargetKind):
    """A measurement in [low, high], clipped and counted, scaled by public constants; `decode` is the inverse."""

    low: float
    high: float
    scaling: Scaling = SYMMETRIC
    missing: MissingRule = REFUSE
    out_of_range: str = "clip"

    def __post_init__(self) -> None:
        bounds = self.bounds
        object.__setattr__(self, "low", bounds.low)
        object.__setattr__(self, "high", bounds.high)
        one_of("out_of_range", self.out_of_range, OUT_OF_RANGE_WORDS)
        if target_missing(self.missing.to_json()).rule == "value":
            fill = number("missing.value", self.missing.value, Interval(self.low, self.high), "stay inside the bounds")
            object.__setattr__(self, "missing", MissingRule("value", fill))

    @property
    def bounds(self) -> Bounds:
        """The bounds with their scaling; `bounds.scaling.affine(low, high)` gives centre and scale."""
        return Bounds(self.low, self.high, self.scaling)

    @property
    def can_refuse(self) -> tuple[str, ...]:
        return refusing_words(self.missing, *(("values out of range",) if self.out_of_range == "refuse" else ()))

    @property
    def classes(self) -> int | None:
        return None

    @property
    def bound(self) -> float | None:
        return self.bounds.largest

    @property
    def width(self) -> float | None:
        return self.bounds.width

    def encode(self, name: str, column: Column, tokens: Sequence[str]) -> tuple[NDArray[Any], ColumnCounts]:
        bounds = self.bounds
        values = as_numbers(column, name, tokens)
        missing = np.isnan(values)
        self.missing.check(name, missing)
        clipped = bounds.clip(values)
        if clipped and self.out_of_range == "refuse":
            raise out_of_range_error(name, clipped, bounds)
        if self.missing.value is not None:
            values[missing] = self.missing.value
        return bounds.encode(values), ColumnCounts(missing=int(missing.sum()), clipped=clipped)

    def decode(self, encoded: Any) -> NDArray[Any]:
        return self.bounds.decode(encoded)

    def extremes(self) -> tuple[RawValue, RawValue]:
        return self.high, self.low

    def to_json(self) -> dict[str, Any]:
        return {
            "low": self.low,
            "high": self.high,
            "scaling": self.scaling.to_json(),
            "missing": self.missing.to_json(),
            "out_of_range": self.out_of_range,
        }

    @classmethod
    def from_json(cls, fields: JsonFields) -> "NumberTarget":
        return fields.build(
            lambda low, high, scaling, missing, out_of_range: cls(
                low, high, Scaling.from_json(scaling), target_missing(missing), out_of_range
            ),
            low=fields.required("low"),
            high=fields.required("high"),
            scaling=fields.optional("scaling", "symmetric"),
            missing=fields.optional("missing", "refuse"),
            out_of_range=fields.optional("out_of_range", "clip"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = BOUNDS_JSON_SCHEMA | {"missing": missing_json_schema({"type": "number"}, ("refuse",))}
        return {"properties": properties, "required": ["low", "high"]}

    @classmethod
    def template(cls) -> dict[str, Any]:
        return {"low": None, "high": None, "scaling": "symmetric", "missing": "refuse", "out_of_range": "clip"}
