"""The JSON Schema of schema files, and a file to fill in; both generated from the declared fields."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from sordino.core.spec.fields import Section, keys_of, object_schema
from sordino.core.validate import InputError, one_of
from sordino.data.columns.base import KINDS
from sordino.data.schema import FORMAT, MOST_DECLARED, VERSION, Schema
from sordino.data.sources.registry import unique_names
from sordino.data.text import shown_names

PUBLISHED = "schema.schema.json"


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
    """The text of the published file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def published_json_schema_text() -> str:
    """The published file as packaged; a test holds it equal to `json_schema_text()`."""
    return resources.files("sordino.data").joinpath(PUBLISHED).read_text(encoding="utf-8")


def new_schema_template(
    columns: Sequence[str],
    *,
    target: str | None = None,
    kinds: Mapping[str, str] | None = None,
    unit: str | None = None,
) -> dict[str, Any]:
    """A schema with every decision left open; reads nothing but names, so it is safe on private files.

    Columns are declared as numbers unless `kinds` says category or boolean. `read_schema` refuses the result until
    each null is replaced: bounds, categories and the number of records must come from public knowledge. `unit` names
    the column that says whose a record is; `records` then is the number of units.
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
    keys = _defaults(Schema) | given
    if unit is None:  # a null would ask for a decision that most tables do not need
        del keys["unit"]
    else:
        keys["unit"] = {"column": unit, "most_records": None}
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
