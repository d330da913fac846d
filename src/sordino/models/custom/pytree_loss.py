"""A loss of one record on a pytree of parameters: dictionaries, Equinox modules, whatever has arrays as leaves.

The loss is called with the parameters and the arrays of one record, so that no gradient of a record can see another.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sordino.core.validate import POSITIVE, InputError, number, refuse
from sordino.models.custom.base import CustomModel, FrontEnd, RecordLayout, ReleasedParameter, blank, front_end

# Collections of parameters, and modules, that hold statistics over a batch, by the names that libraries give them.
_BATCH_STATISTICS = ("batch_stats", "BatchNorm", "SpectralNorm")
_DROPOUT = "Dropout"


@dataclass(frozen=True, eq=False)
class PytreeLoss(CustomModel):
    """The loss on the flat vector of the leaves; each leaf is a site under its path."""

    loss: Callable[..., Any]
    layout: RecordLayout
    params: Any
    prior_scale: float | None = None
    flat: Array = field(init=False)
    unravel: Callable[[Array], Any] = field(init=False)
    named: tuple[ReleasedParameter, ...] = field(init=False)
    leaves: tuple[Array, ...] = field(init=False)
    rebuilt: Callable[[Any], Any] = field(init=False)

    def __post_init__(self) -> None:
        refuse_layers(self.params)
        learned, rest = _partitioned(self.params)
        leaves, structure = jax.tree_util.tree_flatten_with_path(learned)
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, learned))
        sites = tuple(ReleasedParameter(_path(path) or "params", tuple(np.shape(leaf))) for path, leaf in leaves)
        object.__setattr__(self, "flat", flat)
        object.__setattr__(self, "unravel", lambda theta: put_together(unravel(theta.astype(flat.dtype)), rest))
        object.__setattr__(self, "named", sites)
        object.__setattr__(self, "leaves", tuple(jnp.asarray(leaf) for _, leaf in leaves))
        object.__setattr__(self, "rebuilt", lambda some: put_together(jax.tree.unflatten(structure, some), rest))
        self._check_value()

    @property
    def size(self) -> int:
        return int(self.flat.size)

    @property
    def sites(self) -> tuple[ReleasedParameter, ...]:
        return self.named

    def start(self) -> Array:
        return self.flat

    def unit_loss(self, theta: Array, row: Array) -> Array:
        record, mask = self.layout.unpack(row)
        params = self.unravel(theta)
        return jnp.sum(jnp.where(mask, jax.vmap(lambda each: self.loss(params, **each))(record), 0.0))

    def penalty(self, theta: Array) -> Array:
        if self.prior_scale is None:
            return jnp.zeros((), theta.dtype)
        return 0.5 * jnp.sum((theta / self.prior_scale) ** 2)

    def constrained(self, theta: Array) -> dict[str, Array]:
        parts = jnp.split(theta, np.cumsum([math.prod(site.shape) for site in self.named])[:-1])
        return {site.name: part.reshape(site.shape) for site, part in zip(self.named, parts, strict=True)}

    def _check_value(self) -> None:
        record = {name: jnp.asarray(part[0]) for name, part in blank(self.layout, 1, seed=1).items()}
        try:
            shape = jax.eval_shape(lambda theta: self.loss(self.unravel(theta), **record), self.flat)
        except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            raise InputError(
                "The loss must take one record, without an axis of records. Called with one, it raised "
                f"{type(error).__name__}: {str(error)[:200]}"
            ) from None
        if jax.tree.leaves(shape) != [shape] or shape.shape != ():
            raise refuse("the loss", "to be one number for one record", f"{shape}", "sum over its parts")


def _partitioned(params: Any) -> tuple[Any, Any]:
    """What is learned, and what stays: functions and other leaves that are no arrays."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        where = _path(path) or "params"
        if isinstance(leaf, bool | int | float | complex):
            raise InputError(f"Expected arrays of real numbers as leaves, got a plain number at {where}; make it one.")
        if not _is_array(leaf):
            continue
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InputError(f"Expected leaves of real numbers, got {leaf.dtype} at {where}; close over it instead.")
        if 0 in leaf.shape:
            raise InputError(f"Expected leaves with at least one number, got the empty {where}; leave it out.")
    if not any(map(_is_array, jax.tree.leaves(params))):
        raise InputError("params need at least one array.")
    return arrays_apart(params)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def arrays_apart(tree: Any) -> tuple[Any, Any]:
    """A tree with its arrays alone, and one with everything else; None stands where the other has a leaf."""
    chosen = jax.tree.map(lambda leaf: leaf if _is_array(leaf) else None, tree)
    return chosen, jax.tree.map(lambda leaf: None if _is_array(leaf) else leaf, tree)


def put_together(chosen: Any, rest: Any) -> Any:
    """The tree that `arrays_apart` took apart."""
    whole = lambda one, other: other if one is None else one  # noqa: E731
    return jax.tree.map(whole, chosen, rest, is_leaf=lambda leaf: leaf is None)


def refuse_layers(params: Any, where: str = "params", *, draws: bool = False) -> None:
    """Refuse layers whose output for one record depends on others or, without `draws`, on a draw for a whole batch."""
    name = type(params).__name__
    if any(word in name for word in _BATCH_STATISTICS):
        raise InputError(
            f"Expected layers that treat every record alone, got {name} at {where}, which keeps statistics over the "
            "batch; use group or layer normalisation."
        )
    if not draws and _DROPOUT in name and not getattr(params, "inference", False) and getattr(params, "p", 1.0):
        raise InputError(
            f"Expected layers without draws for a whole batch, got {name} at {where}; switch it to inference or leave "
            "it out."
        )
    if isinstance(params, Mapping):
        for key, value in params.items():
            if str(key) in _BATCH_STATISTICS:
                raise InputError(
                    f"Expected parameters without statistics over the batch, got {key!r} at {where}; use group or "
                    "layer normalisation."
                )
            refuse_layers(value, f"{where}[{key!r}]", draws=draws)
    elif isinstance(params, list | tuple):
        for place, value in enumerate(params):
            refuse_layers(value, f"{where}[{place}]", draws=draws)
    elif hasattr(params, "__dataclass_fields__"):
        for key in params.__dataclass_fields__:
            refuse_layers(getattr(params, key, None), f"{where}.{key}", draws=draws)


def _path(path: Any) -> str:
    """The place of a leaf as a name, such as layers.0.weight."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


@front_end("pytree-loss")
class PytreeFrontEnd(FrontEnd):
    """Takes a function of parameters and one record where parameters are given."""

    def takes(self, model: Any, options: Mapping[str, Any]) -> bool:
        return callable(model) and options.get("params") is not None

    def names(self, model: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
        constants = options.get("constants") or {}
        return tuple(name for name in list(inspect.signature(model).parameters)[1:] if name not in constants)

    def method(self, model: CustomModel) -> str:
        return "rounds"

    def build(self, model: Any, layout: RecordLayout, options: Mapping[str, Any]) -> CustomModel:
        scale = options.get("prior_scale")
        prior = None if scale is None else number("prior_scale", scale, POSITIVE)
        return PytreeLoss(partial(model, **(options.get("constants") or {})), layout, options["params"], prior)
