"""The JSON Schemas of a spec and of a schema file, made for the wheel from the declarations that read such files."""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where each stands in the wheel, and what makes its text.
SCHEMAS = {
    "sordino/core/spec/spec.schema.json": ("sordino.core.spec.document", "schema_text"),
    "sordino/data/schema.schema.json": ("sordino.data.schema_check", "json_schema_text"),
}


class SchemaHook(BuildHookInterface):
    """Adds them to the wheel; an editable installation has the code that makes them, and no copy to grow old."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write both into a folder that goes with this object, and name them to the builder."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        sys.path.insert(0, str(Path(self.root) / "src"))
        try:
            for place, (module, function) in SCHEMAS.items():
                made = Path(self._folder.name) / Path(place).name
                made.write_text(getattr(import_module(module), function)(), encoding="utf-8")
                build_data["force_include"][str(made)] = place
        finally:
            sys.path.pop(0)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()
