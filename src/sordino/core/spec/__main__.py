"""Print the JSON Schema of SPEC.json: ``python -m sordino.core.spec``."""

import sys

from sordino.core.spec.document import schema_text

sys.stdout.write(schema_text())
