"""The JSON Schema of schema files, generated from the registries; the published copy is `schema.schema.json`."""

import json
from importlib import resources
from typing import Any, Protocol

from sordino.data.kinds import FEATURE_KINDS
from sordino.data.schema import EXTRA_COLUMN_WORDS
from sordino.data.schema_file import FORMAT, VERSION
from sordino.data.targets import TARGET_KINDS

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
