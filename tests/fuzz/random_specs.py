"""Random specs over the whole grammar: examples with changed words and numbers, and objects drawn from the schema.

Numbers are log-uniform over 30 decades and more, so that most runs are absurd. Each must be answered all the same.
"""

import json
import math
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sordino import InputError, Spec
from sordino.accounting.evaluate import explain, theorems
from sordino.core.spec.document import json_schema

EXAMPLES = Path(__file__).parents[2] / "examples" / "specs"
DECADES = 15.0  # on either side of 1
WORDS = {
    "relation": ("add-remove", "replace-one"),
    "view": ("last-iterate", "all-iterates", "average", "one-sample"),
    "scheme": (
        "full",
        "cyclic",
        "shuffle-once",
        "reshuffled",
        "without-replacement",
        "with-replacement",
        "poisson",
        "truncated-poisson",
        "random-allocation",
        "min-separation",
    ),
}
SECONDS = 10


class TooSlow(Exception):
    """An answer took longer than `SECONDS`."""


@cache
def _examples() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(path.read_text()) for path in sorted(EXAMPLES.glob("*.json")))


@cache
def _schema() -> dict[str, Any]:
    return json_schema()


def random_spec(generator: np.random.Generator) -> dict[str, Any]:
    """Plain JSON values that the reader may still refuse."""
    document = deepcopy(_examples()[generator.integers(len(_examples()))])
    document.pop("instance", None)
    # All numbers of some runs, few of others.
    share = (0.1, 0.3, 1.0)[generator.integers(3)]
    document = _changed(document, "", generator, share)
    if generator.random() < 0.3:
        _add_key(document, generator)
    document["delta"] = float(10 ** -generator.uniform(0.1, 2 * DECADES))
    return document


def _changed(value: Any, name: str, generator: np.random.Generator, share: float) -> Any:
    if isinstance(value, dict):
        return {key: _changed(entry, key, generator, share) for key, entry in value.items()}
    if isinstance(value, list):
        return [_changed(entry, name, generator, share) for entry in value]
    if isinstance(value, str) and name in WORDS and generator.random() < 0.15:
        return str(generator.choice(WORDS[name]))
    if isinstance(value, bool) or not isinstance(value, int | float) or generator.random() >= share:
        return value
    return _number(generator, isinstance(value, int), 0.0, 1.0 if 0 < value < 1 and generator.random() < 0.5 else 1e300)


def _number(generator: np.random.Generator, whole: bool, low: float, high: float) -> float | int:
    size = 10 ** generator.uniform(-DECADES, DECADES)
    if whole:
        size = 10 ** generator.uniform(0, DECADES)
        return int(min(max(size if generator.random() < 0.5 else generator.integers(1, 40), low), high))
    if low >= 0 and high <= 1.0:
        near = 10 ** -generator.uniform(0, 2 * DECADES)
        return float(near if generator.random() < 0.7 else 1 - near)
    return float(min(max(size, low), high))


def _add_key(document: dict[str, Any], generator: np.random.Generator) -> None:
    """A key that the schema allows somewhere, with a value drawn from the schema."""
    places = [
        (section, key, schema)
        for section, properties in _sections(document, _schema())
        for key, schema in properties.items()
        if key not in ("kind", "instance")
    ]
    section, key, schema = places[generator.integers(len(places))]
    section[key] = _drawn(schema, generator)


def _sections(value: Any, schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    schema = _resolved(schema, value)
    if isinstance(value, dict) and "properties" in schema:
        yield value, schema["properties"]
        for key, entry in value.items():
            yield from _sections(entry, schema["properties"].get(key, {}))
    elif isinstance(value, list):
        for entry in value:
            yield from _sections(entry, schema.get("items", {}))


def _resolved(schema: dict[str, Any], value: Any) -> dict[str, Any]:
    """The part of a schema that describes a value: by its kind, or the first object."""
    if "$ref" in schema:
        return _resolved(_schema()["$defs"][schema["$ref"].rsplit("/", 1)[1]], value)
    for part in schema.get("oneOf", schema.get("anyOf", ())):
        found = _resolved(part, value)
        kind = found.get("properties", {}).get("kind", {}).get("const")
        if isinstance(value, dict) and "properties" in found and kind in (None, value.get("kind")):
            return found
        if isinstance(value, list) and found.get("type") == "array":
            return found
    return schema


def _drawn(schema: dict[str, Any], generator: np.random.Generator, depth: int = 0) -> Any:
    if "$ref" in schema:
        return _drawn(_schema()["$defs"][schema["$ref"].rsplit("/", 1)[1]], generator, depth)
    parts = [part for part in schema.get("oneOf", schema.get("anyOf", ())) if part != {"type": "null"}]
    if parts:
        return _drawn(parts[generator.integers(len(parts))], generator, depth)
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return choices[generator.integers(len(choices))]
    match schema.get("type"):
        case "object":
            wanted = schema.get("required", [])
            return {
                key: _drawn(part, generator, depth + 1)
                for key, part in schema.get("properties", {}).items()
                if key in wanted or (depth < 4 and generator.random() < 0.3)
            }
        case "array":
            most = min(schema.get("maxItems", 4), 4)
            count = int(generator.integers(schema.get("minItems", 1), most + 1)) if depth < 4 else 1
            return [_drawn(schema["items"], generator, depth + 1) for _ in range(count)]
        case "integer" | "number" as kind:
            low = schema.get("minimum", schema.get("exclusiveMinimum", -1e300))
            high = schema.get("maximum", schema.get("exclusiveMaximum", 1e300))
            return _number(generator, kind == "integer", low, high)
        case "boolean":
            return bool(generator.random() < 0.5)
        case _:
            return "text"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in the main thread after so many seconds of computing: others on the machine do not count."""

    def stop(*_: object) -> None:
        raise TooSlow(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answered(document: dict[str, Any], seconds: float = SECONDS) -> bool | None:
    """Whether a spec has a finite bound; None where it is refused in a sentence. Whatever else happens is raised."""
    with warnings.catch_warnings(), within(seconds):
        warnings.simplefilter("error")
        try:
            found = explain(Spec.from_dict(document), document["delta"])
        except InputError:
            return None
    assert all(epsilon >= 0 for _, epsilon in found.bounds)  # not NaN either
    assert len(found.bounds) + len(found.inapplicable) == len(theorems())
    assert all(answer.reason and answer.reason.isprintable() for answer in found.inapplicable)
    return math.isfinite(found.epsilon)
