"""Checks of a schema, alone and against a table; templates to fill in; the JSON Schema of schema files."""

import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from sordino.core.bound import Relation
from sordino.core.spec.fields import object_schema
from sordino.core.validate import InputError, shown_names
from sordino.data.encode import cells_of, encode, encode_features, undeclared_columns, unit_groups
from sordino.data.raw_columns import MISSING, TEXT
from sordino.data.schema import FORMAT, VERSION, DeclaredColumn, ExtraColumns, Schema
from sordino.data.table import Table
from sordino.data.units import key_codes, sounds_like_an_identifier

LEVELS = ("error", "warning", "note")


class SchemaFinding(NamedTuple):
    """An error, which stops a run, a warning or a note; NON-PRIVATE where it was learned from private rows."""

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
    length = f"Each encoded record has norm at most {schema.norm_bound:.4g}, intercept included."
    findings = [SchemaFinding("note", f"{length} Every further column adds noise.")]
    if schema.reads_private_data:
        inferred = "The schema was taken from private rows: fits, looks and theorems refuse it."
        findings.append(SchemaFinding("error", inferred))
    if schema.target is None:
        findings.append(SchemaFinding("warning", "No target is declared; only prediction is possible."))
    if schema.row_norm is not None and schema.clip_length is None:
        idle = f"The row-norm cap never acts: the bounds alone imply {schema.natural_norm:.6g}."
        findings.append(SchemaFinding("note", idle))
    stops: dict[str, list[str]] = {}
    for name, content in schema.can_refuse:
        stops.setdefault(content, []).append(name)
    for content, names in stops.items():
        seen = f"The run stops on {content} in {shown_names(names)}. That it stopped is visible;"
        named = names[0] if len(names) == 1 else None
        findings.append(SchemaFinding("note", f"{seen} no guarantee covers that.", named))
    if schema.unit is not None:
        unit = f"The unit of privacy is {schema.unit.words}."
        return [*findings, SchemaFinding("note", unit, schema.unit_column)]
    key = (
        "The name looks like an identifier, and the column is declared as a feature. If it identifies a person, "
        "declare it as the unit; without a unit, each record is protected by itself."
    )
    names = (column.name for column in schema.declared_columns())
    return findings + [SchemaFinding("warning", key, name) for name in names if sounds_like_an_identifier(name)]


def _table_findings(schema: Schema, table: Table, relation: Relation | None) -> list[SchemaFinding]:
    findings: list[SchemaFinding] = []

    def private(level: str, message: str, column: str | None = None) -> None:
        findings.append(SchemaFinding(level, message, column, True))

    column, groups, number = schema.unit_column, None, table.rows
    if column is None:
        findings += _repeating_findings(schema, table)
    try:
        groups = unit_groups(schema, table)
        number = table.rows if groups is None else groups.number
    except InputError as error:
        number = schema.records  # nobody knows it
        private("error", str(error), column)
    # Under add-remove the number is private and stops nothing.
    level, rest = ("warning", "") if relation is Relation.ADD_REMOVE else ("error", ": under replace-one a run stops")
    if number != schema.records:
        private(level, f"{schema.records} {schema.counted} are declared and the table has {number}{rest}.", column)
    if schema.unit is not None and groups is not None and groups.cut:
        most = f"{schema.unit.most_records} records, up to {groups.largest}; only the first ones are used."
        private("warning", f"{groups.cut} of {number} units have more than {most}", column)
    if groups is not None and groups.missing:
        private("warning", f"{groups.missing} records have no value and count as one unit together.", column)
    if table.rows == 0:
        private(level, "The table has no records.")
    if extra := undeclared_columns(schema, table.names):
        refused = schema.extra_columns == ExtraColumns.REFUSE
        named = extra[0] if len(extra) == 1 else None
        rest = f"{'declare or drop' if refused else 'the run ignores'} {'it' if named else 'them'}"
        message = f"The schema does not name {shown_names(extra)} of the table; {rest}."
        findings.append(SchemaFinding("error" if refused else "note", message, named))
    for declared in schema.declared_columns():
        findings += _column_findings(schema, declared, table)
    if not any(finding.level == "error" for finding in findings):
        # What a run refuses besides, such as weights that are not there.
        try:
            encode(schema, table, Relation.ADD_REMOVE) if schema.target else encode_features(schema, table)
        except InputError as error:
            private("error", str(error))
    return findings


def _repeating_findings(schema: Schema, table: Table) -> list[SchemaFinding]:
    """Columns whose name looks like that of a unit, and whose values repeat, where no unit is declared."""
    findings: list[SchemaFinding] = []
    for name in filter(sounds_like_an_identifier, table.names):
        with suppress(InputError):
            codes = key_codes(name, table.columns[name], schema.missing_tokens)
            _, sizes = np.unique(codes[codes != MISSING], return_counts=True)
            if sizes.max(initial=0) > 1 and len(sizes) > 1:
                message = (
                    f"Values repeat: up to {sizes.max()} records share one of {len(sizes)}. If the column identifies a "
                    "person, declare it as the unit. Without a unit the guarantee protects one record, and a person "
                    "with several gets weaker protection."
                )
                findings.append(SchemaFinding("warning", message, name, True))
    return findings


def _column_findings(schema: Schema, declared: DeclaredColumn, table: Table) -> list[SchemaFinding]:
    if any(name not in table.columns for name in declared.reads):
        absent = "The schema declares this column and the table does not have it."
        return [SchemaFinding("error", absent, declared.name)]
    findings = []
    for name in (name for name in declared.reads if table.columns[name].kind == TEXT):
        # Bytes that are not of the file's encoding: the reader spells them out, and no declared word fits.
        odd = table.columns[name].codes(lambda word: int(re.search(r"\\x[0-9a-f]{2}", word) is not None)) == 1
        if odd.any():
            wrong = f"{int(odd.sum())} of {table.rows} cells are not text in the file's encoding"
            remedy = "Declare another, such as 'encoding = windows-1252' among the lines, or the key encoding of file."
            findings.append(SchemaFinding("warning", f"{wrong}. {remedy}", name, True))
    try:
        cells = cells_of(schema, declared, table)
    except InputError as error:
        return [*findings, SchemaFinding("error", str(error), declared.name, True)]
    counts = {"missing or unreadable": cells.missing.sum(), "out of range (clipped)": cells.clipped}
    counts["unseen"] = cells.unseen
    messages = [f"{count} of {table.rows} values are {what}." for what, count in counts.items() if count]
    if table.rows > 1 and np.all(cells.values[:1] == cells.values) and len(set(cells.missing.tolist())) == 1:
        messages.append("Every record has the same encoded value.")
    return [*findings, *(SchemaFinding("warning", message, declared.name, True) for message in messages)]


def json_schema() -> dict[str, object]:
    """JSON Schema (2020-12) of a schema file; whatever `read_schema` accepts, this accepts."""
    definitions: dict[str, Any] = {}
    tags = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sordino public schema"}
    about = "What a user declares about a sensitive table before anything reads it."
    return head | object_schema(Schema, definitions, tags) | {"description": about, "$defs": definitions}


def json_schema_text() -> str:
    """The text of schema.schema.json, which a wheel holds."""
    return json.dumps(json_schema(), indent=2) + "\n"
