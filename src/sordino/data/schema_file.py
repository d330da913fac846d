"""Reading and writing schema files: versioned JSON, unknown keys are errors, the round trip is exact."""

import json
from pathlib import Path
from typing import Any

from sordino.core.errors import InputError
from sordino.core.spec.json_text import LARGEST_FILE, check_plain
from sordino.core.validate import refuse
from sordino.data.declared_text import repeats, shown_names
from sordino.data.json_fields import JsonFields
from sordino.data.kinds import read_feature_kind
from sordino.data.row_norm import RowNorm
from sordino.data.schema import DEFAULT_MISSING_TOKENS, Feature, Schema, Target
from sordino.data.sources.registry import existing_file
from sordino.data.targets import read_target_kind

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
    """Read a schema file."""
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
