"""A schema file to fill in: column names from the header, null wherever a person must decide."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import one_of
from sordino.data.declared_text import shown_names
from sordino.data.kinds import FEATURE_KINDS
from sordino.data.schema_file import FORMAT, MOST_DECLARED, VERSION
from sordino.data.sources.arrow_table import unique_names
from sordino.data.targets import TARGET_KINDS


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
