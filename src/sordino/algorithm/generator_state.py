"""The state of a NumPy generator as plain text, and back: what a checkpoint holds of it."""

import json
from typing import Any

import numpy as np


def generator_text(generator: np.random.Generator) -> str:
    """The generator's state; equal texts mean equal draws to come."""
    return state_text(generator.bit_generator.state)


def state_text(state: Any) -> str:
    """The text of a state that was taken earlier from `generator.bit_generator.state`."""
    return json.dumps(state, default=_plain, sort_keys=True)


def set_generator(generator: np.random.Generator, text: str) -> None:
    """Put a generator of the same kind into the state that `text` describes."""
    generator.bit_generator.state = json.loads(text, object_hook=_arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item()


def _arrays(value: dict[str, Any]) -> Any:
    return np.array(value["values"], value["dtype"]) if set(value) == {"dtype", "values"} else value
