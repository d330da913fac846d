"""What has to be the same for a run to go on from a checkpoint: spec, model, rows, versions, device."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.checkpoint.errors import CheckpointError
from sordino.algorithm.lipschitz import LipschitzFunction
from sordino.core.spec import Spec
from sordino.core.version import __version__
from sordino.model.base import Model

_PIECE_BYTES = 2**20
# The text of a program may hold where in memory a function lies, which is another place in every process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
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
        "model": [described(model), *_of_model(spec, model, rows["rows"][1])],
        "function": None if function is None else traced(function.function, _numbers(spec.dim)),
        **rows,
    }


def traced(function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> str:
    """A digest of what a function computes: the program JAX makes of it for these arguments, and its constants.

    A name is not enough: two functions may have one, and one may hold numbers that change.
    """
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.blake2b(_ADDRESS.sub("", str(program.jaxpr)).encode(), digest_size=32)
    for constant in jax.tree.leaves(program.consts):
        _add(digest, np.asarray(constant))
    return digest.hexdigest()


def _of_model(spec: Spec, model: Model, features: int) -> list[str]:
    """The model's loss and penalty, which may be functions of the caller's own."""
    point, row, target = (_numbers(*shape) for shape in ((spec.dim,), (features,), ()))
    try:
        loss = traced(model.loss, point, row, target)
    except (TypeError, IndexError):  # a loss that chooses by its target
        loss = traced(model.loss, point, row, jax.ShapeDtypeStruct((), jnp.int32))
    return [loss, traced(model.penalty, point)]


def _numbers(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.zeros(()).dtype)


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
        _add(digest, array)
    return digest.hexdigest()


def file_digest(salt: bytes, paths: Iterable[Path], described: str = "") -> str:
    """A keyed digest of the bytes of files, and of words about them: some two seconds for every gigabyte.

    Sizes and times would be quicker to read, and are quickly restored.
    """
    digest = hashlib.blake2b(described.encode(), key=salt, digest_size=32)
    try:
        for path in paths:
            with path.open("rb") as file:
                digest.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
                while piece := file.read(_PIECE_BYTES):
                    digest.update(piece)
    except OSError as error:
        raise CheckpointError(f"Expected to be able to read the rows, got: {error.strerror or error}.") from None
    return digest.hexdigest()


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(f"{array.dtype.str} {array.shape} ".encode())
    if array.size:
        digest.update(np.ascontiguousarray(array).data.cast("B"))
