"""The public schema: everything about the table that the user declares and nobody reads off private rows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino.core.bound import ROW_NORM, TARGET_BOUND, TARGET_WIDTH, Certificate, Constant, Evidence
from sordino.core.spec.document import LARGEST_FILE, check_plain
from sordino.core.validate import InputError, instance_of, one_of, refuse, whole_number
from sordino.data.columns.base import FeatureKind, TargetKind, read_feature_kind, read_target_kind
from sordino.data.scaling import JsonFields, RowNorm, clean_name, clean_text, clean_texts, norm_up, repeats, shown_names
from sordino.data.sources.registry import existing_file

INTERCEPT = "intercept"
EXTRA_COLUMN_WORDS = ("refuse", "ignore")
DEFAULT_MISSING_TOKENS = ("",)


@dataclass(frozen=True)
class Feature:
    """A named feature column and its declared kind."""

    name: str
    kind: FeatureKind

    def __post_init__(self) -> None:
        clean_name("column name", self.name)
        instance_of(f"the kind of column {self.name!r}", self.kind, FeatureKind)


@dataclass(frozen=True)
class Target:
    """The named target column and its declared kind."""

    name: str
    kind: TargetKind

    def __post_init__(self) -> None:
        clean_name("target name", self.name)
        instance_of(f"the kind of target {self.name!r}", self.kind, TargetKind)


@dataclass(frozen=True)
class Schema:
    """Column kinds, bounds, categories, number of records and row-norm cap, all declared.

    `reads_private_data` is true for a schema that `infer_schema` made; every certificate carries it, and theorems
    refuse such certificates.

    Attributes:
        records: the public number of records.
        features: the declared columns that are learned from.
        target: the declared column that is learned, if there is one.
        intercept: whether a column of ones is added.
        row_norm: how long an encoded row may be.
        extra_columns: what to do with columns that are not declared.
        missing_tokens: texts that mean a missing value.
        description: words for people.
        reads_private_data: whether it was inferred from private rows.

    Examples:
        >>> from sordino import ArrayBounds
        >>> ArrayBounds(-1, 1, target=(0, 1)).schema(2, 100, None).records
        100
    """

    records: int
    features: tuple[Feature, ...]
    target: Target | None
    intercept: bool
    row_norm: RowNorm | None = None
    extra_columns: str = "refuse"
    missing_tokens: tuple[str, ...] = DEFAULT_MISSING_TOKENS
    description: str = ""
    reads_private_data: bool = False

    def __post_init__(self) -> None:
        whole_number("records", self.records)
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise InputError("Expected at least one column in the schema, got none; declare the features.")
        instance_of("intercept", self.intercept, bool)
        instance_of("reads_private_data", self.reads_private_data, bool)
        one_of("extra_columns", self.extra_columns, EXTRA_COLUMN_WORDS)
        object.__setattr__(self, "missing_tokens", clean_texts("missing_tokens", self.missing_tokens))
        clean_text("description", self.description)
        self._check_names()
        self._check_tokens()
        if self.row_norm is not None:
            self.row_norm.feature_cap(self.intercept)

    def _check_names(self) -> None:
        repeated = repeats(column.name for column in self._declared_columns())
        if repeated:
            raise InputError(f"Expected each column to be declared once, got {shown_names(repeated)} more than once.")
        repeated = repeats(self.feature_names)
        if repeated:
            raise InputError(f"Expected different encoded names, got {shown_names(repeated)} twice; rename a column.")

    def _check_tokens(self) -> None:
        for column in self._declared_columns():
            both = set(column.kind.words) & set(self.missing_tokens)
            if both:
                raise InputError(
                    f"Expected missing tokens that are no value of a column, got {shown_names(sorted(both))}, which "
                    f"column {column.name!r} declares; remove it from one of the two."
                )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns, the intercept first."""
        encoded = (name for feature in self.features for name in feature.kind.feature_names(feature.name))
        return ((INTERCEPT,) if self.intercept else ()) + tuple(encoded)

    def blocks(self) -> Iterator[tuple[Feature, slice]]:
        """Each feature with the slice of encoded columns it fills."""
        start = int(self.intercept)
        for feature in self.features:
            stop = start + len(feature.kind.feature_names(feature.name))
            yield feature, slice(start, stop)
            start = stop

    @property
    def natural_norm(self) -> float:
        """What the declared bounds alone imply for |x|, intercept included, rounded up."""
        return norm_up(self._block_norms() + ([1.0] if self.intercept else []))

    @property
    def norm_bound(self) -> float:
        """R of theory.md: the smaller of the declared cap and what the bounds imply, intercept included."""
        if self.row_norm is None:
            return self.natural_norm
        return min(self.row_norm.total(self.intercept), self.natural_norm)

    @property
    def clip_length(self) -> float | None:
        """The length to which features without the intercept must be clipped; None where bounds suffice."""
        if self.row_norm is None:
            return None
        cap = self.row_norm.feature_cap(self.intercept)
        return None if norm_up(self._block_norms()) <= cap else cap

    def feature_norm_certificate(self) -> Certificate:
        """An upper bound on the length of every encoded record, true because rows are clipped to it."""
        how = "bounds declared in the schema" if self.clip_length is None else "rows clipped to the declared cap"
        return self._certify(ROW_NORM, self.norm_bound, f"{how}, intercept {'in' if self.intercept else 'ex'}cluded")

    def target_bound_certificate(self) -> Certificate:
        """An upper bound on the magnitude of every encoded target."""
        target = self._declared_target()
        return self._certify(TARGET_BOUND, _magnitude(target.kind.bound, target), "targets clipped to declared bounds")

    def target_width_certificate(self) -> Certificate:
        """An upper bound on the distance of any two encoded targets."""
        target = self._declared_target()
        return self._certify(TARGET_WIDTH, _magnitude(target.kind.width, target), "targets clipped to declared bounds")

    def with_target(self, target: Target | None) -> "Schema":
        """The same schema with another target."""
        return replace(self, target=target)

    @property
    def can_refuse(self) -> tuple[tuple[str, str], ...]:
        """Column and content that may stop a run: whether it stops is seen by whoever runs it."""
        return tuple(
            (column.name, content) for column in self._declared_columns() for content in column.kind.can_refuse
        )

    def _declared_columns(self) -> "tuple[Feature | Target, ...]":
        return (*self.features, *((self.target,) if self.target else ()))

    def _block_norms(self) -> list[float]:
        return [feature.kind.block_norm for feature in self.features]

    def _certify(self, constant: Constant, value: float, reason: str) -> Certificate:
        marked = f"{reason}; the schema was inferred from private rows" if self.reads_private_data else reason
        return Certificate(constant, value, Evidence.BY_CONSTRUCTION, marked, self.reads_private_data)

    def _declared_target(self) -> Target:
        if self.target is None:
            raise InputError("Expected a schema with a target, got one without; declare the target.")
        return self.target


def _magnitude(value: float | None, target: Target) -> float:
    if value is None:
        raise InputError(
            f"Expected a number or boolean target, got the category {target.name!r}; its codes are labels."
        )
    return value


# Reading and writing schema files: versioned JSON, unknown keys are errors, the round trip is exact.

FORMAT = "sordino-schema"
VERSION = 1
# No model takes as many; a longer list is refused before each of its entries is looked at.
MOST_DECLARED = 10_000


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """The JSON form of a schema, every key written out."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "description": schema.description,
        "reads_private_data": schema.reads_private_data,
        "records": schema.records,
        "columns": [_declaration(feature) for feature in schema.features],
        "target": None if schema.target is None else _declaration(schema.target),
        "intercept": schema.intercept,
        "row_norm": None if schema.row_norm is None else schema.row_norm.to_json(),
        "extra_columns": schema.extra_columns,
        "missing_tokens": list(schema.missing_tokens),
    }


def schema_from_dict(document: Any) -> Schema:
    """Read the JSON form; anything unknown, missing or out of range is an `InputError` that names the key."""
    fields = JsonFields("the schema", document)
    if fields.required("format") != FORMAT:
        raise refuse("format", f"to be {FORMAT!r}", fields.required("format"), "is this a schema file?")
    version = fields.required("version")
    if isinstance(version, bool) or version != VERSION:
        raise refuse("version", f"to be {VERSION}", version, "use the version of Sordino that wrote the file")
    target = fields.optional("target", None)
    row_norm = fields.optional("row_norm", None)
    return fields.build(
        Schema,
        records=fields.required("records"),
        features=_features(fields.required("columns")),
        target=None if target is None else _target(target),
        intercept=fields.required("intercept"),
        row_norm=None if row_norm is None else RowNorm.from_json(row_norm),
        extra_columns=fields.optional("extra_columns", "refuse"),
        missing_tokens=fields.optional("missing_tokens", DEFAULT_MISSING_TOKENS),
        description=fields.optional("description", ""),
        reads_private_data=fields.optional("reads_private_data", False),
    )


def schema_to_text(schema: Schema) -> str:
    """The text of a schema file."""
    return json.dumps(schema_to_dict(schema), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema_from_text(text: str) -> Schema:
    """Read the text of a schema file; repeated keys, NaN and infinities are errors."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected a schema file in JSON, got text that does not parse: {error}.") from None
    _check_length(document)
    check_plain(document)
    return schema_from_dict(document)


def read_schema(path: str | Path) -> Schema:
    """Read a schema file.

    Args:
        path: of the file.

    Returns:
        The `Schema`.

    Raises:
        InputError: for a file that cannot be read, or that declares no schema, in one sentence.

    Examples:
        >>> import json, pathlib, tempfile
        >>> import sordino
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "schema.json"
        >>> age = {"name": "age", "kind": "number", "low": 0, "high": 110}
        >>> declared = {"format": "sordino-schema", "version": 1, "records": 100, "intercept": True, "columns": [age]}
        >>> _ = path.write_text(json.dumps(declared))
        >>> sordino.read_schema(path).records
        100
    """
    file = existing_file(path)
    if file.stat().st_size > LARGEST_FILE:
        raise InputError(f"Expected a schema file of at most {LARGEST_FILE} bytes, got a larger one at {str(path)!r}.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(
            f"Expected a schema file in UTF-8 at {str(path)!r}, got one that cannot be read: {error}."
        ) from None
    return schema_from_text(text)


def write_schema(schema: Schema, path: str | Path) -> None:
    """Write a schema file."""
    try:
        Path(path).write_text(schema_to_text(schema), encoding="utf-8")
    except OSError as error:
        raise InputError(f"Expected a path that can be written, got {str(path)!r}: {error}.") from None


def _declaration(column: Feature | Target) -> dict[str, Any]:
    return {"name": column.name, "kind": column.kind.word} | column.kind.to_json()


def _check_length(document: Any) -> None:
    columns = document.get("columns") if isinstance(document, dict) else None
    if isinstance(columns, list) and len(columns) > MOST_DECLARED:
        raise InputError(
            f"Expected a schema of at most {MOST_DECLARED} columns, got {len(columns)}; declare those that matter and "
            "set extra_columns to 'ignore'."
        )


def _features(given: Any) -> tuple[Feature, ...]:
    if not isinstance(given, list | tuple):
        raise refuse("columns", "to be a list of declarations", given)
    return tuple(_feature(index, declaration) for index, declaration in enumerate(given))


def _feature(index: int, declaration: Any) -> Feature:
    fields = JsonFields(f"columns[{index}]", declaration)
    name = fields.required("name")
    return Feature(name, read_feature_kind(fields))


def _target(declaration: Any) -> Target:
    fields = JsonFields("target", declaration)
    name = fields.required("name")
    return Target(name, read_target_kind(fields))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = repeats(key for key, _ in pairs)
    if repeated:
        raise InputError(f"Expected each key once in an object of the schema file, got {shown_names(repeated)} twice.")
    return dict(pairs)


def _no_constant(word: str) -> Any:
    raise InputError(f"Expected finite numbers in the schema file, got {word}; write a number.")
