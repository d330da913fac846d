"""The JSON Schema of schema files, generated from the registries; the published copy is `schema.schema.json`."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from sordino.core.validate import InputError, one_of
from sordino.data.columns.base import FEATURE_KINDS, TARGET_KINDS
from sordino.data.scaling import shown_names
from sordino.data.schema import EXTRA_COLUMN_WORDS, FORMAT, MOST_DECLARED, VERSION
from sordino.data.sources.registry import unique_names

PUBLISHED = "schema.schema.json"


class _Declares(Protocol):
    word: str

    def json_schema(self) -> dict[str, Any]: ...


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a schema file; whatever `read_schema` accepts, this accepts."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sordino public schema",
        "description": "What a user declares about a sensitive table before anything reads it.",
        "type": "object",
        "properties": {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "description": {"type": ["string", "null"]},
            "reads_private_data": {
                "type": ["boolean", "null"],
                "description": "true if anything here was inferred from private rows; theorems then refuse it",
            },
            "records": {"type": "integer", "minimum": 1, "description": "declared number of records n"},
            "columns": {"type": "array", "minItems": 1, "items": {"oneOf": _declarations(FEATURE_KINDS)}},
            "target": {"anyOf": [*_declarations(TARGET_KINDS), {"type": "null"}]},
            "intercept": {"type": "boolean"},
            "row_norm": {"anyOf": [_row_norm(), {"type": "null"}]},
            "extra_columns": {"enum": [*EXTRA_COLUMN_WORDS, None]},
            "missing_tokens": {
                "anyOf": [{"type": "array", "items": {"type": "string"}, "uniqueItems": True}, {"type": "null"}]
            },
        },
        "required": ["format", "version", "records", "columns", "intercept"],
        "additionalProperties": False,
    }


def json_schema_text() -> str:
    """The text of the published file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def published_json_schema_text() -> str:
    """The published file as packaged; a test holds it equal to `json_schema_text()`."""
    return resources.files("sordino.data").joinpath(PUBLISHED).read_text(encoding="utf-8")


def _declarations(kinds: Any) -> list[dict[str, Any]]:
    return [_declaration(word, kind) for word, kind in kinds.items()]


def _declaration(word: str, kind: _Declares) -> dict[str, Any]:
    declared = kind.json_schema()
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}, "kind": {"const": word}} | declared["properties"],
        "required": ["name", "kind", *declared["required"]],
        "additionalProperties": False,
    }


def _row_norm() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "cap": {"type": "number", "minimum": 1e-9, "maximum": 1e15, "description": "cap on the length of a row"},
            "includes_intercept": {"type": "boolean", "description": "whether the intercept's 1 counts towards it"},
        },
        "required": ["cap", "includes_intercept"],
        "additionalProperties": False,
    }


# A schema file to fill in: column names from the header, null wherever a person must decide.


def new_schema_template(
    columns: Sequence[str], *, target: str | None = None, kinds: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A schema with every decision left open; reads nothing but names, so it is safe on private files.

    Columns are declared as numbers unless `kinds` says category or boolean. `read_schema` refuses the result until
    each null is replaced: bounds, categories and the number of records must come from public knowledge.
    """
    names = unique_names(columns)
    if len(names) > MOST_DECLARED:
        raise InputError(
            f"Expected at most {MOST_DECLARED} columns for a template, got {len(names)}; write a schema of those that "
            "matter by hand and set extra_columns to 'ignore'."
        )
    chosen = dict(kinds or {})
    unknown = [name for name in (*chosen, *(() if target is None else (target,))) if name not in names]
    if unknown:
        raise InputError(f"Expected names among {shown_names(names)}, got {shown_names(unknown)}; check the spelling.")
    return {
        "format": FORMAT,
        "version": VERSION,
        "description": "",
        "reads_private_data": False,
        "records": None,
        "columns": [_blank(name, chosen, FEATURE_KINDS) for name in names if name != target],
        "target": None if target is None else _blank(target, chosen, TARGET_KINDS),
        "intercept": True,
        "row_norm": None,
        "extra_columns": "refuse",
        "missing_tokens": [""],
    }


def template_text(template: dict[str, Any]) -> str:
    """The text of a template file."""
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


def _blank(name: str, chosen: Mapping[str, str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    word = one_of(f"the kind of column {name!r}", chosen.get(name, "number"), kinds)
    return {"name": name, "kind": word} | kinds[word].template()
