"""Arrays without names or a schema of their own: their declared bounds, what their types allow, and their numbers.

Types and shapes are public and looked at before anything is debited; cells are read after it, and one that is no number
counts as missing. No message names a cell, and no foreign exception, which might, is chained.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import Checks, InputError, number, one_of, refuse, shown_names, whole_number
from sordino.data import Category, DeclaredWeight, Feature, MissingRule, Number, RowNorm, Schema, Target
from sordino.data.raw_columns import ObjectColumn, arrow
from sordino.data.schema import INTERCEPT
from sordino.data.sources.in_memory import arrow_schema, is_arrow, is_pandas
from sordino.data.sources.registry import is_instance_named, read_table, unique_names
from sordino.data.table import as_numbers


class NonPrivateWarning(UserWarning):
    """Something seen in private rows: only for people who may see the rows, never part of a release."""


PUBLIC_LABELS = "public"
TARGET, WEIGHT = "target", "sample_weight"
MIDDLE, REFUSE_MISSING = "middle", "refuse"


@dataclass(frozen=True)
class ArrayBounds:
    """Bounds for arrays; values outside are clipped to them.

    Attributes:
        low: smallest value of every feature, or a list with one for each column; or names with a pair of bounds each,
            ``{"age": (0, 110)}``, for data frames, whose columns are then taken by name.
        high: largest value of every feature, or a list; left out where `low` has names.
        target: smallest and largest target, for regression.
        classes: the labels, for classification; "public" declares that the set of labels that occur is public
            knowledge, so that it may be read off the targets.
        records: the number of records; may be left out under replace-one, where it is public by definition.
        row_norm: a cap on the length of a row scaled to [-1, 1], intercept excluded; longer rows are shortened.
        missing: what a cell that is no number counts as: "middle" of the bounds, of the target as well, so that no row
            can stop a fit; or "refuse", which stops, after the debit, and that it stopped is covered by no guarantee.
            Infinities are clipped to the bounds, or refused too. A label that is not declared always stops the fit.
        names: of the columns, where they are declared by name; otherwise a data frame's own names are kept.
        weight: bounds (low, high) of `sample_weight`, or (low, high, mean) with the public mean of the weights, which
            is 1 if left out; weights outside count as the bounds, and one that is no number as the mean.

    Examples:
        >>> ArrayBounds(0, 10, target=(0, 1)).schema(features=2, records=100, labels=None).feature_names
        ('intercept', 'x0', 'x1')
        >>> ArrayBounds({"age": (0, 110), "bmi": (10, 60)}, target=(0, 1)).schema(2, 100, None).feature_names
        ('intercept', 'age', 'bmi')
    """

    low: Any
    high: Any = None
    target: tuple[float, float] | None = None
    classes: Sequence[Any] | str | None = None
    records: int | None = None
    row_norm: float | None = None
    missing: str = MIDDLE
    names: Sequence[str] | None = None
    weight: tuple[float, float] | tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        self._take_bounds()
        self._declared_weight(WEIGHT)
        one_of("missing", self.missing, (MIDDLE, REFUSE_MISSING))
        if self.target is not None:
            if not isinstance(self.target, Sequence) or len(self.target) != 2:
                raise refuse("target", "to be a pair (low, high)", self.target)
            Number(*self.target)
        if isinstance(self.classes, str) and self.classes != PUBLIC_LABELS:
            raise refuse("classes", f"to be a list of labels or {PUBLIC_LABELS!r}", self.classes)
        if self.classes is not None and not isinstance(self.classes, str):
            self.__dict__["classes"] = tuple(self.classes)
        if self.records is not None:
            whole_number("records", self.records)
        if self.row_norm is not None:
            number("row_norm", self.row_norm)

    def _take_bounds(self) -> None:
        """One pair of bounds, or as many as there are columns; all mistakes at once, by the name of the column."""
        if isinstance(self.low, Mapping):
            pairs = list(self.low.values())
            if self.high is not None or self.names is not None or not pairs:
                raise refuse("bounds by name", "to come alone, a pair for each column", dict(self.low))
            if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
                raise refuse("bounds by name", "to be pairs (low, high)", pairs)
            lows, highs = zip(*pairs, strict=True)
            self.__dict__.update(names=tuple(self.low), low=lows, high=highs)
        if self.names is not None:
            self.__dict__["names"] = unique_names(list(self.names))
        checks = Checks()
        for place, (low, high) in enumerate(self._pairs()):
            called = place if self.names is None else repr(self.names[place])
            name = "" if np.isscalar(self.low) else f"Column {called}: "
            try:
                Number(low, high)
            except InputError as error:
                checks.refused(InputError(f"{name}{error}"))
        checks.finish()
        ends = {"low": self.low, "high": self.high}
        self.__dict__.update({end: tuple(one) for end, one in ends.items() if one is not None and not np.isscalar(one)})

    def _pairs(self) -> list[tuple[Any, Any]]:
        """The bounds, one pair for all columns or one for each."""
        lows, highs = ([end] if np.isscalar(end) or end is None else list(end) for end in (self.low, self.high))
        if len(lows) == len(highs):
            return list(zip(lows, highs, strict=True))
        if 1 in (len(lows), len(highs)):
            return [(low, high) for low in lows for high in highs]
        raise refuse("low and high", "to have one number for each column", f"{len(lows)} and {len(highs)} of them")

    def schema(
        self, features: int, records: int, labels: Sequence[object] | None, names: Sequence[str] | None = None
    ) -> Schema:
        """The full schema for arrays of this width; labels become codes, and `names` are those of a data frame."""
        pairs = self._pairs()
        listed = self.names is not None or not (np.isscalar(self.low) and np.isscalar(self.high))
        if listed and len(self.names or pairs) != features:
            given = f"bounds for {len(self.names or pairs)}; give one pair for all, or one for each."
            raise InputError(f"Expected ArrayBounds for {features} columns, got {given}")
        ends = pairs * (features // len(pairs))
        if self.names is None and names is not None:  # numbers are names of another kind
            texts = all(isinstance(name, str) and name.strip() for name in names)
            clash = len(set(names)) < len(names) or INTERCEPT in names or f"{TARGET} (y)" in names
            names = None if clash or not texts else tuple(names)
        called = self.names or names or tuple(f"x{index}" for index in range(features))
        target = None
        if labels is not None:
            target = Category(tuple(str(code) for code in range(len(labels))))
        elif self.target is not None:
            target = Number(*self.target, missing=self._rule(*self.target))
        return Schema(
            records=records,
            features=tuple(
                Feature(name, Number(*pair, missing=self._rule(*pair))) for name, pair in zip(called, ends, strict=True)
            ),
            target=None if target is None else Target(TARGET if TARGET not in called else f"{TARGET} (y)", target),
            intercept=True,
            row_norm=None if self.row_norm is None else RowNorm(self.row_norm, includes_intercept=False),
            weight=self._declared_weight(WEIGHT if WEIGHT not in called else f"{WEIGHT} (of records)"),
        )

    def _declared_weight(self, name: str) -> DeclaredWeight | None:
        if self.weight is None:
            return None
        if not isinstance(self.weight, Sequence) or len(self.weight) not in (2, 3):
            raise refuse("weight", "to be (low, high) or (low, high, mean)", self.weight)
        low, high, mean = (*self.weight, 1.0)[:3]
        try:
            return DeclaredWeight(column=name, low=low, high=high, mean=mean)
        except InputError as error:
            raise InputError(f"Bounds of {WEIGHT}: {error}") from None

    def _rule(self, low: float, high: float) -> MissingRule:
        return MissingRule("value", low / 2 + high / 2) if self.missing == MIDDLE else MissingRule("refuse")


_NUMBERS, _TEXT = "biuf", "UT"
_WORDS = {
    "c": "complex numbers",
    "M": "dates",
    "m": "durations",
    "U": "text",
    "S": "bytes",
    "T": "text",
    "V": "structured records",
}
_REMEDY = "convert it to numbers by public rules first, or declare a schema for a table with named columns"

_is_sparse = is_instance_named("scipy", "sparray", "spmatrix")
_is_pandas_series = is_instance_named("pandas", "Series")


class NotNumbers(InputError, TypeError):
    """Cells of Python objects that are no finite numbers; a `TypeError` too, as scikit-learn has it."""


@dataclass(frozen=True)
class Bare:
    """Something like an array whose type was looked at and whose cells were not.

    `kind` is numpy's letter for its type, "O" where cells may be anything. `read` (float64), `cells` and `labels`
    (Python values, of targets) read private rows.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    read: Callable[[], Array]
    cells: Callable[[], np.ndarray] = lambda: np.zeros(0)
    labels: Callable[[], list[Any]] = list
    names: tuple[Any, ...] | None = None


def bare_features(X: object, names: Sequence[str] | None = None) -> Bare:
    """Rows of numbers, of a frame the columns with these names; refused where type or shape says that they are none."""
    if _is_sparse(X):
        raise InputError("X is a sparse matrix. Sparse rows are not supported; make them dense.")
    bare = _of_pandas(X, names) if is_pandas(X) else _of_arrow(X, names) if is_arrow(X) else _of_array("X", X)
    if len(bare.shape) != 2:
        wanted = f"Expected X to be 2-dimensional, got shape {bare.shape}"
        raise InputError(f"{wanted}. Reshape your data: one row for each record, one column for each feature.")
    if bare.shape[1] == 0:
        raise InputError(f"Expected columns, got 0 feature(s) (shape={bare.shape}) while a minimum of 1 is required.")
    return bare


def bare_target(y: object, labels: bool, name: str = "y") -> Bare:
    """One target, or weight, for each record: numbers, or labels, which may also be text."""
    kind = getattr(y, "dtype", None) if _is_pandas_series(y) else None
    if kind is not None and not labels and _pandas_kind(kind) not in (*_NUMBERS, "O"):
        raise _wrong(name, kind)
    return _of_array(name, y, _NUMBERS + (_TEXT if labels else ""))


def numbers_of(given: Bare, bounds: ArrayBounds) -> Array:
    """The numbers, after the debit; NaN of other cells, with a NON-PRIVATE warning, or a refusal if declared."""
    numbers = given.read()
    if np.isfinite(numbers).all():
        return numbers
    if bounds.missing == REFUSE_MISSING:
        kind = NotNumbers if given.kind == "O" else InputError
        raise kind(
            f"Expected finite numbers in {given.name}, got NaN, an infinity or something else (an argument must be a "
            f'string or a real number), which ArrayBounds(missing="{REFUSE_MISSING}") refuses; correct them, or '
            'declare missing="middle".'
        )
    words = f"NON-PRIVATE: some cells of {given.name} are not finite numbers. As ArrayBounds declares, NaN and "
    words += "non-numbers count as the middle of the bounds (as a weight: the mean), infinities as the nearer bound."
    warnings.warn(f"{words} This message comes from private rows: keep it with them.", NonPrivateWarning, stacklevel=2)
    return numbers


def _of_array(name: str, given: object, allowed: str = _NUMBERS) -> Bare:
    """An array, or what can become one; of a list, which has no type, cells are looked at later."""
    try:
        array = np.asarray(given)
    except Exception:  # whatever a foreign class raises may quote what it holds
        array = None
    if isinstance(given, list | tuple) and (array is None or array.dtype.kind not in _NUMBERS):
        array = _cells_of_lists(given, 2 if name == "X" else 1)
    if array is None:
        raise InputError(f"{name} is not an array of numbers, or its rows have different lengths.")
    kind = array.dtype.kind
    if kind == "c":
        raise InputError(f"Complex data not supported: {name} has complex numbers; {_REMEDY}.")
    if kind not in (*allowed, "O"):
        raise _wrong(name, array.dtype)
    return Bare(name, array.shape, kind, lambda: numbers_in(array), lambda: array, lambda: _listed(given))


def _listed(given: Any) -> list[Any]:
    """The cells of an array, a series or a list; no type that they share changes one."""
    way = next((way for way in ("to_pylist", "to_list", "tolist") if hasattr(given, way)), None)
    return list(given) if way is None else getattr(given, way)()


def _cells_of_lists(given: Sequence[Any], dimensions: int) -> np.ndarray | None:
    """Python objects in an array of so many dimensions, none of them looked at; None for rows of unequal length."""
    if dimensions == 1:
        return np.fromiter(given, object, len(given))
    if not given or not all(isinstance(row, list | tuple | np.ndarray) for row in given):
        return None
    rows, width = len(given), len(given[0])
    if any(len(row) != width for row in given):
        return None
    return np.fromiter((cell for row in given for cell in row), object, rows * width).reshape(rows, width)


def numbers_in(cells: np.ndarray) -> Array:
    """Cells as float64; NaN for those that are no real number, each by itself."""
    if cells.dtype.kind != "O":
        return cells.astype(np.float64)
    return ObjectColumn.of(cells.ravel()).numbers(()).reshape(cells.shape)


def _places(names: Sequence[str] | None, there: Sequence[Any]) -> list[int]:
    """The places of columns that are declared by name, in that order; of all columns where none is."""
    if names is None:
        return list(range(len(there)))
    absent, extra = [name for name in names if name not in there], [name for name in there if name not in names]
    if absent or extra:
        wanted = f"Expected the columns that ArrayBounds names, got a frame without {shown_names(absent) or 'none'}"
        raise InputError(f"{wanted} and with {shown_names(map(str, extra)) or 'none'} besides; select the columns.")
    return [there.index(name) for name in names]


def _of_pandas(frame: Any, names: Sequence[str] | None) -> Bare:
    places = _places(names, list(frame.columns))
    kinds = [_pandas_kind(frame.dtypes.iloc[place]) for place in places]
    for place, kind in zip(places, kinds, strict=True):
        if kind not in (*_NUMBERS, "O"):
            raise _wrong(f"column {frame.columns[place]!r} of X", frame.dtypes.iloc[place])

    def column(place: int) -> Array:
        series = frame.iloc[:, place]
        if isinstance(series.dtype, np.dtype):
            return numbers_in(np.asarray(series))
        return series.to_numpy(dtype=np.float64, na_value=np.nan)

    def read() -> Array:
        return np.column_stack([column(place) for place in places])

    called = tuple(frame.columns[place] for place in places)
    return Bare("X", (len(frame), len(places)), "O" if "O" in kinds else "f", read, names=called)


def _pandas_kind(kind: object) -> str:
    """The letter of a type; types that are pandas's own and hold neither numbers nor truth have none."""
    letter = getattr(kind, "kind", "")
    return letter if isinstance(kind, np.dtype) or letter in _NUMBERS else ""


def _wrong(where: str, kind: object) -> InputError:
    """A refusal by the name of a type: the text of one of pandas's own would list its categories."""
    holds = kind if isinstance(kind, str) else f"values of type {type(kind).__name__}"
    if isinstance(kind, np.dtype):
        holds = _WORDS.get(kind.kind, "values of another type")
    return InputError(f"Expected numbers in {where}, got {holds}; {_REMEDY}.")


def _of_arrow(frame: Any, names: Sequence[str] | None) -> Bare:
    types, schema = arrow().types, arrow_schema(frame)
    called = [schema.names[place] for place in _places(names, schema.names)]
    for name, kind in zip(schema.names, schema.types, strict=True):
        if not any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)):
            raise _wrong(f"column {name!r} of X", "values that are no numbers by their type")

    def read() -> Array:
        columns = read_table(frame).columns
        return np.column_stack([as_numbers(columns[name], name, ()) for name in called])

    return Bare("X", (len(frame), len(called)), "f", read, names=tuple(called))
