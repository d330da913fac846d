"""Functional update of plain JSON values by dotted path."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from sordino.core.errors import InputError
from sordino.core.spec.refusal import join
from sordino.core.validate import instance_of, refuse


def updated(document: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `document` with the value at each dotted path replaced; objects on the way are made if absent."""
    copy = deepcopy(document)
    for path, value in values.items():
        _set(copy, instance_of("a path of with_values", path, str), deepcopy(value))
    return copy


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    place: Any = document
    walked = ""
    for word in way:
        place = _step(place, walked, word)
        walked = join(walked, word)
    if isinstance(place, list):
        place[_position(place, walked, last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise refuse(walked, f"to be an object, so that {path} can be set", place)


def _step(place: Any, walked: str, word: str) -> Any:
    if isinstance(place, list):
        return place[_position(place, walked, word)]
    if isinstance(place, dict):
        if place.get(word) is None:
            place[word] = {}
        return place[word]
    raise refuse(walked, f"to be an object, so that {join(walked, word)} can be set", place)


def _position(place: list[Any], walked: str, word: str) -> int:
    if not word.isdecimal() or int(word) >= len(place):
        raise InputError(f"Expected a position from 0 to {len(place) - 1} after {walked}, got {word!r}.")
    return int(word)
