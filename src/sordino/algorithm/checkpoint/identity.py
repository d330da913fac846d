"""What has to be the same for a run to go on from a checkpoint: spec, model, rows, versions, device."""

import dataclasses
import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.checkpoint.errors import CheckpointError
from sordino.algorithm.lipschitz import LipschitzFunction
from sordino.core.spec import Spec
from sordino.core.version import __version__
from sordino.model.base import Model

# In the order in which a difference is reported, with what to do about it.
_REMEDIES = {
    "sordino": "finish the run with the version that began it",
    "jax": "finish the run with the version that began it",
    "numpy": "finish the run with the version that began it",
    "device": "finish the run on the kind of machine that began it",
    "precision": "finish the run in the precision that began it",
    "spec": "give the spec the run began with",
    "model": "give the model the run began with",
    "function": "give the averaged function the run began with",
    "rows": "give the rows the run began with",
    "content": "give the rows the run began with: going on with others would use their noise twice",
    "placement": "give the devices the run began with",
}


def identity(
    spec: Spec, model: Model, function: LipschitzFunction | None, rows: Mapping[str, Any], dtype: np.dtype
) -> dict[str, Any]:
    """Everything a checkpoint is bound to, in plain values; `rows` describes the rows and where they are."""
    return {
        "sordino": __version__,
        "jax": [jax.__version__, version("jaxlib")],
        "numpy": np.__version__,
        "device": [jax.default_backend(), jax.devices()[0].device_kind],
        "precision": dtype.name,
        "spec": spec.to_dict(),
        "model": described(model),
        "function": None if function is None else described(function.function),
        **rows,
    }


def check_identity(held: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that belongs to another run, naming the first thing that differs."""
    for name, remedy in _REMEDIES.items():
        if held.get(name) != present.get(name):
            raise CheckpointError(f"Expected the checkpoint of this run, got one with another {name}; {remedy}.")


def described(value: Any) -> Any:
    """A value as text that is the same in every process: names instead of addresses, fields instead of objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: described(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__qualname__, fields]
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    if isinstance(value, str | int | float | bool | None):
        return value
    return type(value).__qualname__


def content_digest(salt: bytes, *arrays: NDArray[Any]) -> str:
    """A keyed digest of private arrays; without the salt it cannot be compared with guesses."""
    digest = hashlib.blake2b(key=salt, digest_size=32)
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()
