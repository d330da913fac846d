"""Print the JSON Schema of SPEC.json: ``python -m sordino.core.spec > src/sordino/core/spec/spec.schema.json``."""

import sys

from sordino.core.spec.document import schema_text

sys.stdout.write(schema_text())
