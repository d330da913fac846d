"""JSON Schema of bounds and scaling, shared by number features and number targets."""

from typing import Any

OUT_OF_RANGE_WORDS = ("clip", "refuse")

_CONSTANTS = {
    "type": "object",
    "properties": {
        "centre": {"type": "number", "minimum": -1e30, "maximum": 1e30},
        "scale": {"type": "number", "minimum": 1e-30, "maximum": 1e30},
    },
    "required": ["centre", "scale"],
    "additionalProperties": False,
}
BOUNDS_JSON_SCHEMA: dict[str, Any] = {
    "low": {"type": "number", "minimum": -1e30, "maximum": 1e30, "description": "public lower bound"},
    "high": {"type": "number", "minimum": -1e30, "maximum": 1e30, "description": "public upper bound, above low"},
    "scaling": {"anyOf": [{"enum": ["symmetric", "unit", "none", None]}, _CONSTANTS]},
    "out_of_range": {"enum": [*OUT_OF_RANGE_WORDS, None], "description": "clip (and count) unless declared otherwise"},
}
