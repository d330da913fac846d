"""The JSON Schema of SPEC.json, generated from the declarations that also read and write it."""

import json
from pathlib import Path
from typing import Any

from sordino.core.spec.document import Spec
from sordino.core.spec.section import define
from sordino.core.spec.shape import Schema

SCHEMA_FILE = "spec.schema.json"


def json_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. It accepts every spec the reader accepts; rules across keys are the reader's."""
    definitions: dict[str, Schema] = {}
    root = define(Spec, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sordino SPEC.json",
        **root,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The text of the published schema file; `python -m sordino.core.spec` prints it."""
    return json.dumps(json_schema(), indent=2) + "\n"


def published_schema() -> str:
    """The schema file that ships with the package."""
    return Path(__file__).with_name(SCHEMA_FILE).read_text(encoding="utf-8")
