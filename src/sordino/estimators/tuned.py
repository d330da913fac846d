"""Settings that were tuned on public synthetic tables; `bench/tune_utility.py` writes the file."""

import json
from pathlib import Path
from typing import Any

TUNED: dict[str, Any] = json.loads(Path(__file__).with_name("tuned.json").read_text(encoding="utf-8"))
