"""Declared texts and JSON fields, public scalings of declared ranges, and row lengths that hold in single precision."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.gaussian import down, up
from sordino.core.validate import InputError, Interval, instance_of, number, one_of, refuse

# Names and other text that a person declares, checked once for all layers of the schema.

_SHOWN = 5


def clean_text(name: str, value: Any) -> str:
    """Return `value` if it is text that can be written to a UTF-8 file; lone surrogates cannot."""
    if not isinstance(value, str):
        raise refuse(name, "to be text", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse(name, "to be valid Unicode text", value) from None
    return value


def clean_name(name: str, value: Any) -> str:
    """Return `value` if it is text that is not blank."""
    if not clean_text(name, value).strip():
        raise refuse(name, "not to be blank", value)
    return value


def clean_texts(name: str, values: Any) -> tuple[str, ...]:
    """Return a list of different texts as a tuple."""
    if not isinstance(values, list | tuple):
        raise refuse(name, "to be a list of text", values)
    texts = tuple(clean_text(f"{name}[{index}]", value) for index, value in enumerate(values))
    repeated = repeats(texts)
    if repeated:
        raise InputError(f"Expected {name} to be different from one another, got {shown_names(repeated)} twice.")
    return texts


def repeats(names: Iterable[str]) -> tuple[str, ...]:
    """The names that occur more than once, in order of their second appearance."""
    seen: set[str] = set()
    again: dict[str, None] = {}
    for name in names:
        if name in seen:
            again[name] = None
        seen.add(name)
    return tuple(again)


def shown_names(names: Iterable[str]) -> str:
    """The first few names, quoted, and how many more there are."""
    every = list(names)
    first = ", ".join(repr(name) if len(name) <= 60 else repr(name[:57] + "...") for name in every[:_SHOWN])
    return first if len(every) <= _SHOWN else f"{first} and {len(every) - _SHOWN} more"


# A strict reader of one JSON object: required keys must be there, unknown keys are errors, null means absent.

Built = TypeVar("Built")


class JsonFields:
    """The keys of one object, taken one by one; `finish` refuses what nobody took."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise refuse(where, "to be an object with named keys", value)
        self.where = where
        self._values = dict(value)
        self._taken: list[str] = []

    def required(self, key: str) -> Any:
        """The value of a key that must be there."""
        self._taken.append(key)
        if self._values.get(key) is None:
            raise InputError(f"Expected {self.where} to have the key {key!r} with a value, got none; declare it.")
        return self._values[key]

    def optional(self, key: str, default: Any) -> Any:
        """The value of a key that may be absent or null."""
        self._taken.append(key)
        value = self._values.get(key)
        return default if value is None else value

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        unknown = [key for key in self._values if key not in self._taken]
        if unknown:
            allowed = ", ".join(sorted(set(self._taken)))
            raise InputError(f"Expected {self.where} to have only the keys {allowed}, got {shown_names(unknown)}.")

    def build(self, make: Callable[..., Built], **arguments: Any) -> Built:
        """Refuse unknown keys, then construct a value that checks itself; its complaint names this object."""
        self.finish()
        try:
            return make(**arguments)
        except InputError as error:
            raise InputError(f"In {self.where}: {error}") from None


# Bounds that survive a cast to single precision, which is what accelerators compute in.

# One cast to float32 lengthens a vector by at most a factor 1 + 2^-24; twice that covers the float64 error as well.
SHRINK = 1.0 - 2.0**-23


def float32_up(value: float) -> float:
    """The smallest single-precision number that is at least `value`."""
    rounded = np.float32(value)
    return float(rounded) if float(rounded) >= value else float(np.nextafter(rounded, np.float32(math.inf)))


def add_up(first: float, second: float) -> float:
    """The sum, one step up only where rounding made it too small; so 1 + 1 stays 2."""
    total = first + second
    return up(total) if math.fsum((first, second, -total)) > 0 else total


def norm_up(parts: list[float]) -> float:
    """An upper bound on the Euclidean norm of `parts`, exact where the result is a representable number."""
    squared = sum_of_squares_up(parts)
    root = math.sqrt(squared)
    return root if Fraction(root) ** 2 >= Fraction(squared) else up(root)


def sum_of_squares_up(parts: list[float]) -> float:
    """An upper bound on the sum of squares, exact for small whole numbers."""
    total = 0.0
    for part in parts:
        square = part * part
        total = add_up(total, square if part == int(part) and abs(part) < 2**26 else up(square))
    return total


# The length of each row, the same to the last bit wherever the row stands and however many others there are.

_ROWS_AT_ONCE = 8192


def row_lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square roots of sums of squares, added column by column.

    Each operation works entry by entry and is rounded as IEEE 754 says, so a row's length depends on that row alone. A
    reduction along rows would be faster, and may add in another order where there are few rows.
    """
    squares = np.zeros(len(rows))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        for column in np.ascontiguousarray(rows[part].T):
            squares[part] += column * column
    return np.sqrt(squares)


# Affine scaling by public constants: encoded = (value - centre) / scale.

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


# JSON Schema of bounds and scaling, shared by number features and number targets.

OUT_OF_RANGE_WORDS = ("clip", "refuse")

_CONSTANTS = {
    "type": "object",
    "properties": {
        "centre": {"type": "number", "minimum": -1e30, "maximum": 1e30},
        "scale": {"type": "number", "minimum": 1e-30, "maximum": 1e30},
    },
    "required": ["centre", "scale"],
    "additionalProperties": False,
}
BOUNDS_JSON_SCHEMA: dict[str, Any] = {
    "low": {"type": "number", "minimum": -1e30, "maximum": 1e30, "description": "public lower bound"},
    "high": {"type": "number", "minimum": -1e30, "maximum": 1e30, "description": "public upper bound, above low"},
    "scaling": {"anyOf": [{"enum": ["symmetric", "unit", "none", None]}, _CONSTANTS]},
    "out_of_range": {"enum": [*OUT_OF_RANGE_WORDS, None], "description": "clip (and count) unless declared otherwise"},
}


# The declared cap on the length of an encoded record, and the clipping that makes it true.

CAP_RANGE = Interval(1e-9, 1e15)


@dataclass(frozen=True)
class RowNorm:
    """A cap on |x|; `includes_intercept` says whether the intercept's 1 counts towards it.

    With the intercept included the other features are clipped to sqrt(cap^2 - 1), so the intercept stays 1.
    """

    cap: float
    includes_intercept: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", number("row_norm.cap", self.cap, CAP_RANGE))
        instance_of("row_norm.includes_intercept", self.includes_intercept, bool)

    def feature_cap(self, intercept: bool) -> float:
        """The cap on the features without the intercept, rounded down."""
        if not (intercept and self.includes_intercept):
            return self.cap
        if self.cap <= 1.0:
            raise InputError(
                f"Expected row_norm.cap above 1 because it includes the intercept's 1, got {self.cap:g}; raise it or "
                "set includes_intercept to false."
            )
        return down(math.sqrt(down(down(self.cap * self.cap) - 1.0)), 2)

    def total(self, intercept: bool) -> float:
        """The cap on the whole record, rounded up: R of theory.md, whose square includes the intercept's 1."""
        if self.includes_intercept or not intercept:
            return self.cap
        return norm_up([self.cap, 1.0])

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"cap": self.cap, "includes_intercept": self.includes_intercept}

    @classmethod
    def from_json(cls, given: Any) -> "RowNorm":
        """Read the JSON form; both keys are required."""
        fields = JsonFields("row_norm", given)
        return fields.build(cls, cap=fields.required("cap"), includes_intercept=fields.required("includes_intercept"))


def clip_rows(rows: NDArray[np.float64], cap: float) -> int:
    """Shorten, in place, every row longer than `cap`; return how many were.

    Rows are brought to at most ``cap * (1 - 2^-23)``, so that their exact length is at most `cap` in float64 and also
    after a cast to float32. Entries must be within 1e15.
    """
    lengths = row_lengths(rows)
    safe = cap * SHRINK
    long = np.flatnonzero(lengths > safe)
    rows[long] *= (safe / lengths[long])[:, None]
    return int(np.count_nonzero(lengths > cap))
