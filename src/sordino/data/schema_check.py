"""Beside a schema: one guessed from rows, which is marked as reading private data; a check; a file to fill in.

The file to fill in, and the JSON Schema of schema files, are generated from the declared fields.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.bound import Relation
from sordino.core.spec.fields import Section, keys_of, object_schema
from sordino.core.validate import InputError, one_of
from sordino.data.columns.base import INDICATOR, KINDS, REFUSE, ColumnCounts, ColumnKind, MissingRule, written
from sordino.data.columns.category import DEFAULT_FALSE, DEFAULT_TRUE, Boolean, Category
from sordino.data.columns.number import Number
from sordino.data.encode import column_of, encode, encode_features, grouped_records, undeclared_columns
from sordino.data.raw_columns import MISSING, Column, NumberColumn, ObjectColumn, TextColumn, parsed_number
from sordino.data.schema import (
    DEFAULT_MISSING_TOKENS,
    FORMAT,
    MOST_DECLARED,
    OPTIONAL,
    VERSION,
    DeclaredColumn,
    ExtraColumns,
    Feature,
    Schema,
    Target,
)
from sordino.data.sources.csv_files import Dialect
from sordino.data.sources.registry import unique_names
from sordino.data.table import Table, as_codes, as_numbers
from sordino.data.units import DeclaredUnit, key_codes, sounds_like_an_identifier
from sordino.data.words import shown_names

MOST_CATEGORIES = 1000
LEVELS = ("error", "warning", "note")
# A column that nobody declared, with more different words than this share of the records, may say whose they are.
_MANY = 0.1


def infer_schema(table: Table, target: str | None, *, intercept: bool = True) -> Schema:
    """Guess kinds, bounds, categories and the number of records from the rows.

    The result READS PRIVATE DATA: it is marked so, every certificate made from it is marked so, and every theorem
    refuses such certificates. Use it to explore, then declare a schema from public knowledge.
    """
    if target is not None and target not in table.columns:
        raise InputError(f"Expected the target {target!r} among the columns of the table, got none; check the name.")
    if table.rows == 0:
        raise InputError("Expected a table with at least one record to infer from, got none.")
    kinds = {name: _guess(name, column) for name, column in table.columns.items()}
    if target is not None and kinds[target].missing.adds_indicator:
        raise InputError(f"Expected a target without missing values, got some in {target!r}; drop or fill them first.")
    return Schema(
        records=table.rows,
        features=tuple(Feature(name, kind) for name, kind in kinds.items() if name != target),
        target=None if target is None else Target(target, kinds[target]),
        intercept=intercept,
        description="Inferred from the rows: READS PRIVATE DATA; theorems refuse certificates made from it.",
        reads_private_data=True,
    )


def _guess(name: str, column: Column) -> ColumnKind:
    """How a column can be declared: yes or no, a number within its range, or one of its words."""
    words = _words(column) if isinstance(column, TextColumn | ObjectColumn) else None
    if words is not None and len(words) == 2 and all(set(words) & set(side) for side in (DEFAULT_TRUE, DEFAULT_FALSE)):
        return Boolean(missing=_rule(_has_missing(name, column)))
    values = as_numbers(column, name, DEFAULT_MISSING_TOKENS)
    absent = np.isnan(values)
    if words is not None and any(parsed_number(word) is None for word in _words(column.take(np.flatnonzero(absent)))):
        return _guess_words(name, column, words)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        raise InputError(f"Expected column {name!r} to hold some values, got none that is finite; drop the column.")
    rule, low, high = _rule(bool(absent.any())), float(finite.min()), float(finite.max())
    if column.kind == "boolean" or (
        isinstance(column, NumberColumn) and np.unique(values[~absent]).tolist() == [0.0, 1.0]
    ):
        return Boolean(missing=rule)
    # A constant column has no width of its own; any interval around it will do.
    slack = max(1.0, abs(low)) if low == high else 0.0
    return Number(low - slack, high + slack, missing=rule)


def _guess_words(name: str, column: Column, words: tuple[str, ...]) -> ColumnKind:
    if len(words) > MOST_CATEGORIES:
        raise InputError(
            f"Expected at most {MOST_CATEGORIES} categories in column {name!r}, got {len(words)}; it looks like free "
            "text or an identifier, so drop it."
        )
    return Category(words, missing=_rule(_has_missing(name, column)))


def _has_missing(name: str, column: Column) -> bool:
    return bool((as_codes(column, name, (), DEFAULT_MISSING_TOKENS) == MISSING).any())


def _rule(has_missing: bool) -> MissingRule:
    return INDICATOR if has_missing else REFUSE


def _words(column: Column) -> tuple[str, ...]:
    """The different words of a column, missing ones left out."""
    found: dict[str, int] = dict.fromkeys(DEFAULT_MISSING_TOKENS, 0)
    column.codes(lambda word: found.setdefault(word, 1))
    return tuple(sorted(word for word, there in found.items() if there))


@dataclass(frozen=True)
class SchemaFinding:
    """One remark: an error stops a run, a warning deserves a decision, a note is for information.

    `reads_private_data` says whether the remark was learnt from private rows; such a finding is NON-PRIVATE.
    """

    level: str
    message: str
    column: str | None = None
    reads_private_data: bool = False


def check(schema: Schema, table: Table | None = None, relation: Relation | None = None) -> tuple[SchemaFinding, ...]:
    """Check a schema on its own and, if a table is given, against it; errors first.

    A number of records, or units, that is not the declared one is an error unless the relation is add-remove. Where a
    run would refuse the table there is an error.
    """
    findings = [*_schema_findings(schema), *([] if table is None else _table_findings(schema, table, relation))]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _schema_findings(schema: Schema) -> list[SchemaFinding]:
    stops: dict[str, list[str]] = {}
    for name, content in schema.can_refuse:
        stops.setdefault(content, []).append(name)
    length = f"Each encoded record has norm at most {schema.norm_bound:.4g}, intercept included."
    inferred = "The schema was inferred from private rows: fits and looks refuse it, and theorems do."
    said = [
        (True, "note", f"{length} Every further column adds noise."),
        (schema.reads_private_data, "error", inferred),
        (schema.target is None, "warning", "No target is declared; only prediction is possible."),
    ]
    findings = [SchemaFinding(level, message) for holds, level, message in said if holds]
    for content, names in stops.items():
        seen = f"The run stops on {content} in {shown_names(names)}. That it stopped is visible;"
        named = names[0] if len(names) == 1 else None
        findings.append(SchemaFinding("note", f"{seen} no guarantee covers that.", named))
    findings += _unit_findings(schema)
    if schema.row_norm is not None and schema.clip_length is None:
        idle = f"The row-norm cap never acts: the bounds alone imply {schema.natural_norm:.6g}."
        findings.append(SchemaFinding("note", idle))
    return findings


def _unit_findings(schema: Schema) -> list[SchemaFinding]:
    """What the declaration alone says about whose records are hidden; names are public."""
    if schema.unit is not None:
        return [SchemaFinding("note", f"The unit of privacy is {schema.unit.words}.", schema.unit_column)]
    return [
        SchemaFinding(
            "warning",
            "The name looks like an identifier, and the column is declared as a feature. If it identifies a person, "
            "declare it as the unit; without a unit, each record is protected by itself.",
            column.name,
        )
        for column in schema.declared_columns()
        if sounds_like_an_identifier(column.name)
    ]


def _number_findings(schema: Schema, number: int, relation: Relation | None) -> list[SchemaFinding]:
    """A number of records, or units, that is not the declared one; under add-remove it is private and stops nothing."""
    if number == schema.records:
        return []
    level, rest = ("warning", "") if relation is Relation.ADD_REMOVE else ("error", ": under replace-one a run stops")
    message = f"{schema.records} {schema.counted} are declared and the table has {number}{rest}."
    return [SchemaFinding(level, message, schema.unit_column, True)]


def _grouped_findings(
    schema: Schema, unit: DeclaredUnit, column: str, table: Table, relation: Relation | None
) -> list[SchemaFinding]:
    """The declared unit beside the rows."""
    if column not in table.columns:
        return [
            SchemaFinding(
                "error", "The schema declares this column as the unit's and the table does not have it.", column
            )
        ]
    try:
        groups = grouped_records(schema, column, unit.most_records, table)
    except InputError as error:
        return [SchemaFinding("error", str(error), column, True)]
    remarks = [
        (
            groups.cut > 0,
            f"{groups.cut} of {groups.number} units have more than {unit.most_records} records, up to "
            f"{groups.largest}; only the first ones are used.",
        ),
        (groups.missing > 0, f"{groups.missing} records have no value and count as one unit together."),
    ]
    told = [SchemaFinding("warning", message, column, True) for holds, message in remarks if holds]
    return [*_number_findings(schema, groups.number, relation), *told]


def _may_be_a_key(column: Column, schema: Schema) -> bool:
    """Whether a column holds words or whole numbers; every cell of a CSV file arrives as text."""
    if not isinstance(column, TextColumn | ObjectColumn):
        return False
    values = column.numbers(schema.missing_tokens)
    words = column.codes(lambda word: MISSING if word.strip() in schema.missing_tokens else 0) != MISSING
    present = values[np.isfinite(values)]
    return bool(np.any(words & np.isnan(values)) or np.all(present == np.round(present)))


def _repeating_findings(schema: Schema, table: Table) -> list[SchemaFinding]:
    """Columns that look like unit identifiers, and repeat, where no unit is declared."""
    named = set(schema.named_columns())
    findings: list[SchemaFinding] = []
    for name, column in table.columns.items():
        if not sounds_like_an_identifier(name) and (name in named or not _may_be_a_key(column, schema)):
            continue
        try:
            codes = key_codes(name, column, schema.missing_tokens)
        except InputError:
            continue
        _, sizes = np.unique(codes[codes != MISSING], return_counts=True)
        many = sounds_like_an_identifier(name) or len(sizes) > _MANY * table.rows
        if many and sizes.max(initial=0) > 1 and len(sizes) > 1:
            findings.append(
                SchemaFinding(
                    "warning",
                    f"Values repeat: up to {sizes.max()} records share one of {len(sizes)}. If the column identifies a "
                    "person, declare it as the unit. Without a unit the guarantee protects one record, and a person "
                    "with several gets weaker protection.",
                    name,
                    True,
                )
            )
    return findings


def _table_findings(schema: Schema, table: Table, relation: Relation | None) -> list[SchemaFinding]:
    findings: list[SchemaFinding] = []
    unit = schema.unit
    if unit is not None and unit.column is not None:
        findings += _grouped_findings(schema, unit, unit.column, table, relation)
    else:
        findings += [*_repeating_findings(schema, table), *_number_findings(schema, table.rows, relation)]
    if table.rows == 0:
        level = "warning" if relation is Relation.ADD_REMOVE else "error"
        findings.append(SchemaFinding(level, "The table has no records.", None, True))
    extra = undeclared_columns(schema, table)
    if extra:
        level, rest = (
            ("error", "declare or drop") if schema.extra_columns == ExtraColumns.REFUSE else ("note", "the run ignores")
        )
        named = extra[0] if len(extra) == 1 else None
        findings.append(
            SchemaFinding(
                level,
                f"The schema does not name {shown_names(extra)} of the table; {rest} {'it' if named else 'them'}.",
                named,
            )
        )
    for declared in schema.declared_columns():
        findings += _column_findings(schema, declared, table)
    if not any(finding.level == "error" for finding in findings):
        # What a run refuses besides, such as weights that are not there.
        try:
            encode(schema, table, Relation.ADD_REMOVE) if schema.target else encode_features(schema, table)
        except InputError as error:
            findings.append(SchemaFinding("error", str(error), None, True))
    return findings


def _column_findings(schema: Schema, declared: DeclaredColumn, table: Table) -> list[SchemaFinding]:
    if any(name not in table.columns for name in declared.reads):
        return [
            SchemaFinding("error", "The schema declares this column and the table does not have it.", declared.name)
        ]
    try:
        counts, constant = _dry_run(schema, declared, table)
    except InputError as error:
        return [SchemaFinding("error", str(error), declared.name, True)]
    numbers = {"missing or unreadable": counts.missing, "out of range (clipped)": counts.clipped}
    numbers |= {"unseen": counts.unseen}
    findings = [
        SchemaFinding("warning", f"{count} of {table.rows} values are {what}.", declared.name, True)
        for what, count in numbers.items()
        if count
    ]
    if constant and table.rows > 1:
        findings.append(SchemaFinding("warning", "Every record has the same encoded value.", declared.name, True))
    return findings


def _dry_run(schema: Schema, declared: DeclaredColumn, table: Table) -> tuple[ColumnCounts, bool]:
    column = column_of(table, declared)
    if isinstance(declared, Target):
        values, counts = declared.kind.encode_target(declared.name, column, schema.missing_tokens)
    else:
        values = np.empty((table.rows, len(declared.kind.feature_names(declared.name))))
        counts = declared.kind.encode_feature(declared.name, column, schema.missing_tokens, values)
    return counts, bool(np.all(values[:1] == values))


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a schema file; whatever `read_schema` accepts, this accepts."""
    definitions: dict[str, Any] = {}
    tags = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sordino public schema",
        **object_schema(Schema, definitions, tags),
        "description": "What a user declares about a sensitive table before anything reads it.",
        "$defs": definitions,
    }


def json_schema_text() -> str:
    """The text of schema.schema.json, which a wheel holds."""
    return json.dumps(json_schema(), indent=2) + "\n"


def new_schema_template(
    columns: Sequence[str],
    *,
    target: str | None = None,
    kinds: Mapping[str, str] | None = None,
    unit: str | None = None,
    file: Dialect | None = None,
) -> dict[str, Any]:
    """A schema with every decision left open; reads nothing but names, so it is safe on private files.

    Columns are declared as numbers unless `kinds` says category or boolean. `read_schema` refuses the result until
    each null is replaced: bounds, categories and the number of records must come from public knowledge. `unit` names
    the column that identifies the unit; `records` then is the number of units. `file` says how a CSV file is
    written.
    """
    names = unique_names(columns)
    if len(names) > MOST_DECLARED:
        raise InputError(
            f"Expected at most {MOST_DECLARED} columns for a template, got {len(names)}; write a schema of those that "
            "matter by hand and set extra_columns to 'ignore'."
        )
    chosen = dict(kinds or {})
    unknown = [name for name in (*chosen, target, unit) if name is not None and name not in names]
    if unknown:
        raise InputError(f"Expected names among {shown_names(names)}, got {shown_names(unknown)}; check the spelling.")
    if unit is not None and unit in (target, *chosen):
        raise InputError(f"Expected a unit's column of its own, got {unit!r}, which has a kind or is the target.")
    features = [_blank(name, chosen, "target") for name in names if name not in (target, unit)]
    answer = None if target is None else _blank(target, chosen, "feature")
    given = {"columns": features, "target": answer, "intercept": True}
    # A null would ask for a decision that most tables do not need.
    keys = {key: value for key, value in (_defaults(Schema) | given).items() if key not in OPTIONAL}
    if unit is not None:
        keys["unit"] = {"column": unit, "most_records": None}
    if file is not None:
        keys["file"] = written(file)
    return {"format": FORMAT, "version": VERSION} | keys


def template_text(template: dict[str, Any]) -> str:
    """The text of a template file."""
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


def _blank(name: str, chosen: Mapping[str, str], other_role: str) -> dict[str, Any]:
    word = one_of(f"the kind of column {name!r}", chosen.get(name, "number"), KINDS.table)
    kind: Any = KINDS.table[word]
    keys = {key: value for key, value in _defaults(kind).items() if key not in kind.keys_only_for[other_role]}
    return {"name": name, "kind": word} | keys


def _defaults(section: type[Section]) -> dict[str, Any]:
    """Every key with its default, null where a person must decide."""
    return {key.name: None if key.default is None else key.shape.write(key.default) for key in keys_of(section)}
