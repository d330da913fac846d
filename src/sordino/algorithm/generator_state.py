"""The state of a NumPy generator as plain text, and back: what a checkpoint holds of it."""

import json
from typing import Any

import numpy as np

# The kind of a generator, its key, and how it works: the same from the first draw to the last.
_FIXED = frozenset({"bit_generator", "keysetup", "rounds", "inc"})


def generator_text(generator: np.random.Generator) -> str:
    """The generator's state; equal texts mean equal draws to come."""
    return state_text(generator.bit_generator.state)


def state_text(state: Any) -> str:
    """The text of a state that was taken earlier from `generator.bit_generator.state`."""
    return json.dumps(state, default=_plain, sort_keys=True)


def set_generator(generator: np.random.Generator, text: str) -> None:
    """Put a generator of the same kind and key into the state that `text` describes; `ValueError` for another."""
    found, present = json.loads(text, object_hook=_arrays), generator.bit_generator.state
    if not _alike(found, present):
        raise ValueError("not a state of this generator")
    generator.bit_generator.state = found


def _alike(found: Any, present: Any, name: str = "") -> bool:
    """Whether a state has the form of the present one, and the same in it that a stream never changes."""
    if isinstance(present, dict):
        if not isinstance(found, dict) or found.keys() != present.keys():
            return False
        return all(_alike(found[key], present[key], key) for key in present)
    if isinstance(present, np.ndarray):
        of_form = isinstance(found, np.ndarray) and (found.dtype, found.shape) == (present.dtype, present.shape)
        return of_form and (name not in _FIXED or np.array_equal(found, present))
    if isinstance(found, bool) or not isinstance(found, int if isinstance(present, int) else type(present)):
        return False
    return found == present if name in _FIXED else not isinstance(found, int) or 0 <= found < 2**128


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item()


def _arrays(value: dict[str, Any]) -> Any:
    return np.array(value["values"], value["dtype"]) if set(value) == {"dtype", "values"} else value
