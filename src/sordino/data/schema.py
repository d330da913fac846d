"""The public schema: everything about the table that the user declares; nothing comes from private rows."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

from sordino.core.bound import ROW_NORM, TARGET_BOUND, TARGET_WIDTH, Certificate, Constant, Evidence
from sordino.core.gaussian import down
from sordino.core.spec import fields
from sordino.core.spec.document import check_plain, parse, read_text
from sordino.core.spec.fields import Contradiction
from sordino.core.validate import COUNT, Checks, InputError, refuse, shown_names
from sordino.data.columns.base import KINDS, ColumnKind, TextLine, Unquoted, WordList, repeats, written
from sordino.data.scaling import RowNorm, norm_up
from sordino.data.sources.csv_files import CsvFile, Dialect, is_csv_path
from sordino.data.sources.registry import existing_file
from sordino.data.units import DeclaredUnit, DeclaredWeight

INTERCEPT = "intercept"
FORMAT = "sordino-schema"
VERSION = 1
HEAD = {"format": FORMAT, "version": VERSION}
MOST_DECLARED = 10_000  # no model takes as many; a longer list is refused before each of its entries is looked at


@dataclass(frozen=True)
class DeclaredColumn(fields.Section):
    """A named column and its declared kind."""

    name: Annotated[str, TextLine(blank=False)]
    kind: Annotated[ColumnKind, KINDS]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the table that it is read from: its own, or those of a product."""
        return self.kind.reads or (self.name,)


@dataclass(frozen=True)
class Feature(DeclaredColumn):
    """A named feature column and its declared kind."""


@dataclass(frozen=True)
class Target(DeclaredColumn):
    """The named target column and its declared kind."""

    def contradictions(self) -> Iterator[Contradiction]:
        for key in fields.keys_of(type(self.kind)):
            value = getattr(self.kind, key.attribute)
            if key.name in self.kind.feature_keys and value != key.default:
                yield Contradiction(key.name, "to be absent here", value, "it is for a feature")
        if not self.kind.as_target:
            yield Contradiction("kind", "that a target can have", self.kind.word, "declare a number or a category")
        if self.kind.missing.adds_indicator:
            yield Contradiction("missing", 'to be "refuse" or a value', "indicator", "a target has no indicator")
        if len(self.kind.words) == 1:
            yield Contradiction("values", "to list at least two classes", list(self.kind.words))


@dataclass(frozen=True)
class DeclarationShape(fields.Shape):
    """The declaration of one column: an object with its name, its kind and the keys of the kind."""

    section: type[DeclaredColumn]

    def read(self, path: str, value: object) -> Any:
        """Read a declaration; from here on a column of a list is called by its name, if it has one."""
        if isinstance(value, self.section):
            return value
        given = fields.as_object(path, value)
        name = given.get("name")
        above, _, _ = path.rpartition(".")
        place = fields.join(above, name) if above and isinstance(name, str) and name.strip() else path
        checks = Checks()
        if name is None:
            checks.refused(fields.missing_key(place, "name", "name the column"))
        else:
            checks.attempt(TextLine(blank=False).read, fields.join(place, "name"), name)
        values = {"name": name, "kind": checks.attempt(KINDS.read, place, given)}
        checks.finish()
        return fields.build(self.section, place, values)

    def write(self, value: DeclaredColumn) -> dict[str, object]:
        """The name, the kind, and every key that means something here."""
        absent = value.kind.feature_keys if isinstance(value, Target) else ()
        keys = KINDS.write(value.kind).items()
        return {"name": value.name} | {key: entry for key, entry in keys if key not in absent}

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        for word, kind in KINDS.table.items():
            if kind.__name__ not in definitions:
                tags = {"name": TextLine(blank=False).schema(definitions), "kind": {"const": word}}
                definitions[kind.__name__] = fields.object_schema(kind, definitions, tags)
        return {"oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in KINDS.table.values()]}


class ExtraColumns(StrEnum):
    """What a column of the table does that nobody declared: stop the run, or nothing."""

    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True)
class Schema(fields.Section):
    """Column kinds, bounds, categories, number of records and row-norm cap, all declared.

    `reads_private_data` says that bounds were taken from private rows; every certificate carries it, and theorems
    refuse such certificates.

    Attributes:
        records: the public number of records, or of units where a unit column is declared.
        features: the declared columns that are learned from.
        target: the declared column that is learned, if there is one.
        intercept: whether a column of ones is added.
        row_norm: how long an encoded row may be.
        extra_columns: what to do with columns that are not declared.
        missing_tokens: texts that mean a missing value.
        unit: whose records belong together; None where every record is a unit by itself.
        file: how a CSV file of such a table is written; None where its header shows it.
        charged: columns whose bounds came from a look that a budget was charged for; None where all are public.
        weight: the column of survey weights with its bounds; None where every record counts alike.
        description: words for people.
        reads_private_data: whether bounds were taken from private rows.

    Examples:
        >>> from sordino import ArrayBounds
        >>> ArrayBounds(-1, 1, target=(0, 1)).schema(2, 100, None).records
        100
    """

    root: ClassVar[str] = "the schema"
    optional_keys: ClassVar[frozenset[str]] = frozenset({"unit", "file", "charged", "weight"})  # that few tables need

    description: Annotated[str, TextLine()] = field(default="", kw_only=True)
    reads_private_data: Annotated[
        bool, fields.Flag(), "true if anything here was taken from private rows; theorems then refuse it"
    ] = field(default=False, kw_only=True)
    records: Annotated[int, fields.Whole(COUNT), "declared number of records n, or of units where unit.column is given"]
    features: Annotated[tuple[Feature, ...], fields.Several(DeclarationShape(Feature)), fields.Spelled("columns")]
    target: Annotated[Target | None, DeclarationShape(Target)]
    intercept: Annotated[bool, fields.Flag()]
    row_norm: Annotated[RowNorm | None, fields.Nested(RowNorm)] = None
    extra_columns: Annotated[str, fields.Word(tuple(ExtraColumns))] = ExtraColumns.REFUSE
    missing_tokens: Annotated[tuple[str, ...], WordList(least=0)] = ("",)
    unit: Annotated[DeclaredUnit | None, fields.Nested(DeclaredUnit), "whose records belong together"] = None
    file: Annotated[Dialect | None, fields.Nested(Dialect), "how a CSV file of the table is written"] = None
    charged: Annotated[tuple[str, ...] | None, WordList(), "columns whose bounds a charged look suggested"] = None
    weight: Annotated[DeclaredWeight | None, fields.Nested(DeclaredWeight), "survey weights with bounds"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        names = [column.name for column in self.declared_columns()]
        if repeats(names):
            given = Unquoted(f"{shown_names(repeats(names))} more than once")
            yield Contradiction("columns", "to declare each column once", given)
        elif repeats(self.feature_names):
            given = Unquoted(f"{shown_names(repeats(self.feature_names))} twice")
            yield Contradiction("columns", "to have different encoded names", given, "rename a column")
        if self.unit_column in names:
            remedy = "a unit's column is a key to group by and nothing is learned from it, so declare it once"
            yield Contradiction("unit.column", "to be neither a feature nor the target", self.unit_column, remedy)
        if self.weight is not None and self.weight.column in (self.unit_column, *names):
            wanted = "to be neither a feature, nor the target, nor the unit's column"
            yield Contradiction("weight.column", wanted, self.weight.column)
        strange = [name for name in self.charged or () if name not in names]
        if strange:
            yield Contradiction("charged", "to name declared columns", Unquoted(shown_names(strange)))
        for column in self.declared_columns():
            both = sorted(set(column.kind.words) & set(self.missing_tokens))
            if both:
                given = Unquoted(f"{shown_names(both)}, which column {column.name!r} declares")
                remedy = "remove it from one of the two"
                yield Contradiction("missing_tokens", "to be no value of a column", given, remedy)
        cap = self.row_norm
        if cap is not None and cap.includes_intercept and self.intercept and cap.cap <= 1.0:
            remedy = "raise it or set includes_intercept to false"
            yield Contradiction("row_norm.cap", "above 1 because it includes the intercept's 1", cap.cap, remedy)

    # Kept where they are asked for once for every few thousand rows of a table.
    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns, the intercept first."""
        encoded = (name for feature in self.features for name in feature.kind.feature_names(feature.name))
        return ((INTERCEPT,) if self.intercept else ()) + tuple(encoded)

    @cached_property
    def blocks(self) -> tuple[tuple[Feature, slice], ...]:
        """Each feature with the slice of encoded columns it fills."""
        widths = [len(feature.kind.feature_names(feature.name)) for feature in self.features]
        ends = accumulate(widths, initial=int(self.intercept))
        return tuple((feature, slice(*span)) for feature, span in zip(self.features, pairwise(ends), strict=True))

    @property
    def natural_norm(self) -> float:
        """What the declared bounds alone imply for |x|, intercept included, rounded up."""
        return norm_up(self._block_norms() + ([1.0] if self.intercept else []))

    @property
    def norm_bound(self) -> float:
        """The norm bound R: the smaller of the declared cap and what the bounds imply, intercept included."""
        if self.row_norm is None:
            return self.natural_norm
        return min(self.row_norm.total(self.intercept), self.natural_norm)

    @property
    def clip_length(self) -> float | None:
        """The length to which features without the intercept must be clipped; None where bounds suffice."""
        if self.row_norm is None:
            return None
        cap = self.row_norm.cap
        if self.intercept and self.row_norm.includes_intercept:  # sqrt(cap^2 - 1), rounded down
            cap = down(math.sqrt(down(down(cap * cap) - 1.0)), 2)
        return None if norm_up(self._block_norms()) <= cap else cap

    def feature_norm_certificate(self) -> Certificate:
        """An upper bound on the length of every encoded record, true because rows are clipped to it."""
        how = "bounds declared in the schema" if self.clip_length is None else "rows clipped to the declared cap"
        return self._certify(ROW_NORM, self.norm_bound, f"{how}, intercept {'in' if self.intercept else 'ex'}cluded")

    def target_certificates(self) -> tuple[Certificate, Certificate]:
        """Upper bounds on the magnitude of every encoded target, and on the distance of any two."""
        target, reason = self.declared_target(), "targets clipped to declared bounds"
        bound, width = target.kind.bound, target.kind.width
        if bound is None or width is None:
            got = f"the category {target.name!r}; its codes are labels"
            raise InputError(f"Expected a number or boolean target, got {got}.")
        return self._certify(TARGET_BOUND, bound, reason), self._certify(TARGET_WIDTH, width, reason)

    def with_target(self, target: Target | None) -> "Schema":
        return replace(self, target=target)

    @property
    def can_refuse(self) -> tuple[tuple[str, str], ...]:
        """Column and content that may stop a run; that it stopped is visible."""
        return tuple((column.name, content) for column in self.declared_columns() for content in column.kind.can_refuse)

    def declared_columns(self) -> tuple[DeclaredColumn, ...]:
        """Every declared column that is encoded, the target last."""
        return (*self.features, *((self.target,) if self.target else ()))

    @property
    def unit_column(self) -> str | None:
        return None if self.unit is None else self.unit.column

    @property
    def counted(self) -> str:
        """What `records` counts, in the plural."""
        return "records" if self.unit_column is None else "units"

    def named_columns(self) -> tuple[str, ...]:
        """Every name that the schema knows: features, the target, the unit's column and that of weights."""
        unit = () if self.unit_column is None else (self.unit_column,)
        named = (name for column in self.declared_columns() for name in column.reads)
        weight = () if self.weight is None else (self.weight.column,)
        return (*dict.fromkeys(named), *unit, *weight)

    def source(self, given: Any) -> Any:
        """A table as it was given, or the CSV file as the schema says that it is written."""
        return CsvFile(given, self.file) if self.file is not None and is_csv_path(given) else given

    def _block_norms(self) -> list[float]:
        return [feature.kind.block_norm for feature in self.features]

    def _certify(self, constant: Constant, value: float, reason: str) -> Certificate:
        marked = f"{reason}; the schema was taken from private rows" if self.reads_private_data else reason
        if self.charged:
            marked += f"; bounds of {shown_names(self.charged)} from a look that was charged"
        return Certificate(constant, value, Evidence.BY_CONSTRUCTION, marked, self.reads_private_data)

    def declared_target(self) -> Target:
        if self.target is None:
            raise InputError("The schema has no target. Declare it.")
        return self.target


def schema_to_dict(schema: Schema) -> dict[str, object]:
    """The JSON form of a schema, every key written out; optional ones only where given."""
    return HEAD | written(schema)


def schema_from_dict(document: object) -> Schema:
    """Read the JSON form; whatever is unknown, missing or out of range is named, all of it at once."""
    given = fields.as_object(Schema.root, document)
    for key, expected in HEAD.items():
        if given.get(key) is None:
            raise fields.missing_key("", key, "is this a schema file?")
        if isinstance(given[key], bool) or given[key] != expected:
            raise refuse(key, f"to be {expected!r}", given[key], "is this a schema file of this version?")
    return fields.read_keys(Schema, "", given, "format", "version")


def schema_to_text(schema: Schema) -> str:
    """The text of a schema file."""
    return json.dumps(schema_to_dict(schema), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema_from_text(text: str) -> Schema:
    """Read the text of a schema file; repeated keys, NaN and infinities are errors."""
    document = parse(text, Schema.root)
    columns = document.get("columns") if isinstance(document, dict) else None
    if isinstance(columns, list) and len(columns) > MOST_DECLARED:
        remedy = "declare those that matter and set extra_columns to 'ignore'"
        raise InputError(f"A schema has at most {MOST_DECLARED} columns, got {len(columns)}; {remedy}.")
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
    return schema_from_text(read_text(existing_file(path)))


def write_schema(schema: Schema, path: str | Path) -> None:
    """Write a schema file."""
    try:
        Path(path).write_text(schema_to_text(schema), encoding="utf-8")
    except OSError as error:
        raise InputError(f"Expected a path that can be written, got {str(path)!r}: {error}.") from None
