"""The committed example specs, which of them a theorem covers, and small changes to them."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sordino import InputError, Spec, read_spec
from sordino.accounting.evaluate import Theorem
from sordino.core.bound import Certificate
from sordino.core.spec.fields import Section, keys_of

FOLDER = Path(__file__).parents[2] / "examples" / "specs"
EXAMPLES = {path.stem: read_spec(path) for path in sorted(FOLDER.glob("*.json"))}
DELTA = 1e-5


@cache
def witnesses(theorem: Theorem) -> dict[str, Spec]:
    """The examples that a theorem applies to."""
    return {name: spec for name, spec in EXAMPLES.items() if theorem.failure(spec) is None}


def delta_of(spec: Spec) -> float:
    return spec.delta or DELTA


def changed(spec: Spec, values: dict[str, Any]) -> Spec | None:
    """The spec with other values, or None where the reader refuses them."""
    try:
        return spec.with_values(values)
    except InputError:
        return None


def value_at(spec: Spec, path: str) -> Any:
    """The JSON value at a dotted path, or None where the spec has none."""
    place: Any = spec.to_dict()
    for word in path.split("."):
        place = place.get(word) if isinstance(place, dict) else None
    return place


def certificates_in(section: Any, path: str = "") -> Iterator[tuple[str, Certificate]]:
    """Every certificate that a spec holds, with its dotted path."""
    if isinstance(section, Certificate):
        yield path, section
    elif isinstance(section, tuple):
        for position, entry in enumerate(section):
            yield from certificates_in(entry, f"{path}.{position}")
    elif isinstance(section, Section):
        for key in keys_of(type(section)):
            yield from certificates_in(getattr(section, key.attribute), f"{path}.{key.name}".lstrip("."))


def clippings_in(spec: Spec) -> list[str]:
    """The paths of every clipping a spec has, also those in the parts of a composite."""
    if spec.base() is not spec:
        return [f"algorithm.base.{path}" for path in clippings_in(spec.base())]
    parts = value_at(spec, "algorithm.parts")
    places = ["algorithm"] if parts is None else [f"algorithm.parts.{i}.algorithm" for i in range(len(parts))]
    kinds = [spec.algorithm] if parts is None else [run.algorithm for run in spec.runs()]
    return [f"{place}.clipping" for place, kind in zip(places, kinds, strict=True) if hasattr(kind, "clipping")]


def reading_private_data(spec: Spec, paths: list[str]) -> Spec:
    """The spec with the certificates at these paths computed from private rows, and nothing clipped."""
    stated = dict(certificates_in(spec))
    return spec.with_values({path: private(stated[path]) for path in paths} | dict.fromkeys(clippings_in(spec)))


def private(stated: Certificate) -> dict[str, Any]:
    """The same constant, computed from private rows."""
    found = {"value": stated.value, "evidence": stated.evidence.word, "reason": "computed from the rows"}
    return found | {"reads_private_data": True}


def ascending(spec: Spec, path: str) -> list[Spec]:
    """The spec between one with a smaller and one with a larger value at a path, where the reader accepts them.

    A count also becomes much smaller: a long run may have reached a plateau.
    """
    value = value_at(spec, path)
    if value is None:
        return []
    low, high = (max(1, value // 1000), value + max(1, value // 3)) if isinstance(value, int) else (None, None)
    changes = [low or _scaled(value, 0.8), value, high or _scaled(value, 1.3)]
    return [made for made in (changed(spec, {path: change}) for change in changes) if made is not None]


def _scaled(value: Any, factor: float) -> Any:
    if not isinstance(value, dict):
        return float(value) * factor
    numbers = {key: _scaled(value[key], factor) for key in ("value", "initial") if key in value}
    if "values" in value:
        numbers["values"] = [_scaled(entry, factor) for entry in value["values"]]
    return value | numbers
