"""Everything that can be said about a schema and a table before a run, in one list instead of one error at a time."""

from dataclasses import dataclass

import numpy as np

from sordino.core.errors import InputError
from sordino.data.declared_text import shown_names
from sordino.data.encode import undeclared_columns
from sordino.data.encoding_report import ColumnCounts
from sordino.data.schema import Feature, Schema, Target
from sordino.data.table import Table

LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One remark: an error stops a run, a warning deserves a decision, a note is for information.

    `reads_private_data` says whether the remark was learnt from private rows; such a finding is NON-PRIVATE.
    """

    level: str
    message: str
    column: str | None = None
    reads_private_data: bool = False


def check(schema: Schema, table: Table | None = None) -> tuple[Finding, ...]:
    """Check a schema on its own and, if a table is given, against it; errors first."""
    findings = [*_schema_findings(schema), *([] if table is None else _table_findings(schema, table))]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _schema_findings(schema: Schema) -> list[Finding]:
    findings = [
        Finding("note", f"Every encoded record has length at most {schema.norm_bound:.6g}, intercept included.")
    ]
    if schema.reads_private_data:
        findings.append(
            Finding("warning", "The schema was inferred from private rows; theorems refuse its certificates.")
        )
    if schema.target is None:
        findings.append(Finding("warning", "No target is declared; only prediction is possible."))
    stops: dict[str, list[str]] = {}
    for name, content in schema.can_refuse:
        stops.setdefault(content, []).append(name)
    findings += [
        Finding(
            "note",
            f"The run stops on {content} in {shown_names(names)}, which whoever runs it can see; no guarantee covers "
            "that.",
            names[0] if len(names) == 1 else None,
        )
        for content, names in stops.items()
    ]
    if schema.row_norm is not None and schema.clip_length is None:
        findings.append(
            Finding("note", f"The row-norm cap never acts: the bounds alone imply {schema.natural_norm:.6g}.")
        )
    return findings


def _table_findings(schema: Schema, table: Table) -> list[Finding]:
    findings: list[Finding] = []
    if table.rows != schema.records:
        findings.append(
            Finding("warning", f"{schema.records} records are declared and the table has {table.rows}.", None, True)
        )
    if table.rows == 0:
        return [*findings, Finding("error", "The table has no records.", None, True)]
    extra = undeclared_columns(schema, table)
    if extra:
        level, rest = ("error", "declare or drop") if schema.extra_columns == "refuse" else ("note", "the run ignores")
        named = extra[0] if len(extra) == 1 else None
        findings.append(
            Finding(level, f"The schema does not name {shown_names(extra)} of the table; {rest} them.", named)
        )
    for declared in (*schema.features, *((schema.target,) if schema.target else ())):
        findings += _column_findings(schema, declared, table)
    return findings


def _column_findings(schema: Schema, declared: Feature | Target, table: Table) -> list[Finding]:
    if declared.name not in table.columns:
        return [Finding("error", "The schema declares this column and the table does not have it.", declared.name)]
    try:
        counts, constant = _dry_run(schema, declared, table)
    except InputError as error:
        return [Finding("error", str(error), declared.name, True)]
    said = {"missing": counts.missing, "out of range (clipped)": counts.clipped, "unseen": counts.unseen}
    findings = [
        Finding("warning", f"{count} of {table.rows} values are {what}.", declared.name, True)
        for what, count in said.items()
        if count
    ]
    if constant and table.rows > 1:
        findings.append(Finding("warning", "Every record has the same encoded value.", declared.name, True))
    return findings


def _dry_run(schema: Schema, declared: Feature | Target, table: Table) -> tuple[ColumnCounts, bool]:
    column = table.columns[declared.name]
    if isinstance(declared, Target):
        values, counts = declared.kind.encode(declared.name, column, schema.missing_tokens)
    else:
        values = np.empty((table.rows, len(declared.kind.feature_names(declared.name))))
        counts = declared.kind.encode(declared.name, column, schema.missing_tokens, values)
    return counts, bool(np.all(values == values[0]))
