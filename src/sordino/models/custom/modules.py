"""Losses on a pytree of parameters: dictionaries, and networks as Equinox or Flax (linen or nnx) write them.

A loss is called with the parameters and the arrays of one record, so that no gradient of a record can see another. Of a
module, arguments of `loss(output, ...)` name arrays of the data; all others are its input. Equinox modules are called
with one example, Flax modules with a batch of one. Layers that mean something else in a batch of one are refused with
their name: statistics over a batch, draws for a whole batch.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sordino.core.validate import POSITIVE, InputError, number, refuse
from sordino.models.custom import base
from sordino.models.custom.base import Data, Options, RecordLayout, ReleasedParameter, UserModel, blank

# Collections of parameters, and modules, that hold statistics over a batch, by the names that libraries give them.
_BATCH_STATISTICS = ("batch_stats", "BatchNorm", "SpectralNorm")
_DROPOUT = "Dropout"
Tree = Any  # of parameters, as JAX knows trees


class PytreeLoss(base.CustomModel):
    """The loss on the flat vector of the leaves; each leaf is a site under its path."""

    def __init__(
        self, loss: Callable[..., Any], layout: RecordLayout, params: Tree, prior_scale: float | None = None
    ) -> None:
        self.loss, self.layout, self.prior_scale = loss, layout, prior_scale
        refuse_layers(params)
        learned, rest = _partitioned(params)
        leaves, structure = jax.tree_util.tree_flatten_with_path(learned)
        self.flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, learned))
        self.named = tuple(ReleasedParameter(_path(path) or "params", tuple(np.shape(leaf))) for path, leaf in leaves)
        self.leaves = tuple(jnp.asarray(leaf) for _, leaf in leaves)
        self.unravel = lambda theta: put_together(unravel(theta.astype(self.flat.dtype)), rest)
        self.rebuilt = lambda some: put_together(jax.tree.unflatten(structure, some), rest)
        record = {name: jnp.asarray(part[0]) for name, part in blank(layout, 1, seed=1).items()}
        words = "The loss must take one record, without an axis of records. Called with one"
        shape = base.tried(words, lambda: jax.eval_shape(lambda theta: loss(self.unravel(theta), **record), self.flat))
        if jax.tree.leaves(shape) != [shape] or shape.shape != ():
            raise refuse("the loss", "to be one number for one record", f"{shape}", "sum over its parts")

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


def _partitioned(params: Tree) -> tuple[Tree, Tree]:
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


def _is_array(leaf: object) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def arrays_apart(tree: Tree) -> tuple[Tree, Tree]:
    """A tree with its arrays alone, and one with everything else; None stands where the other has a leaf."""
    chosen = jax.tree.map(lambda leaf: leaf if _is_array(leaf) else None, tree)
    return chosen, jax.tree.map(lambda leaf: None if _is_array(leaf) else leaf, tree)


def put_together(chosen: Tree, rest: Tree) -> Tree:
    """The tree that `arrays_apart` took apart."""
    whole = lambda one, other: other if one is None else one  # noqa: E731
    return jax.tree.map(whole, chosen, rest, is_leaf=lambda leaf: leaf is None)


def refuse_layers(params: Tree, where: str = "params", *, draws: bool = False) -> None:
    """Refuse layers whose output for one record depends on others or, without `draws`, on a draw for a whole batch."""
    name = type(params).__name__
    if any(word in name for word in _BATCH_STATISTICS):
        raise _follows_the_batch(name, where)
    if not draws and _DROPOUT in name and not getattr(params, "inference", False) and getattr(params, "p", 1.0):
        raise _draws_for_a_batch(f"{name} at {where}", "inference")
    if isinstance(params, Mapping):
        if found := next((key for key in params if str(key) in _BATCH_STATISTICS), None):
            raise _follows_the_batch(repr(found), where)
        inside = [(f"{where}[{key!r}]", value) for key, value in params.items()]
    elif isinstance(params, list | tuple):
        inside = [(f"{where}[{place}]", value) for place, value in enumerate(params)]
    else:
        named = getattr(params, "__dataclass_fields__", ())
        inside = [(f"{where}.{key}", getattr(params, key, None)) for key in named]
    for place, value in inside:
        refuse_layers(value, place, draws=draws)


def _follows_the_batch(what: str, where: str) -> InputError:
    return InputError(
        f"Layers must treat every record alone, and {where} keeps statistics over the batch ({what}). Use group or "
        "layer normalisation."
    )


def _draws_for_a_batch(what: str, mode: str) -> InputError:
    return InputError(f"Expected layers without draws for a whole batch: {what}; switch it to {mode}, or leave it out.")


def _path(path: tuple[object, ...]) -> str:
    """The place of a leaf as a name, such as layers.0.weight."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


@base.front_end("pytree-loss")
class PytreeFrontEnd(base.FrontEnd):
    """Takes a function of parameters and one record where parameters are given."""

    def takes(self, model: UserModel, options: Options) -> bool:
        return callable(model) and options.get("params") is not None

    def names(self, model: UserModel, options: Options) -> tuple[str, ...]:
        constants = options.get("constants") or {}
        return tuple(name for name in list(inspect.signature(model).parameters)[1:] if name not in constants)

    def method(self, model: base.CustomModel) -> str:
        return "rounds"

    def build(self, model: UserModel, layout: RecordLayout, options: Options) -> base.CustomModel:
        scale = options.get("prior_scale")
        prior = None if scale is None else number("prior_scale", scale, POSITIVE)
        return PytreeLoss(partial(model, **(options.get("constants") or {})), layout, options["params"], prior)


_OUTPUT = "output"


class Applied(NamedTuple):
    """A library's module taken apart: its parameters, and its output for parameters and the input of one example."""

    params: Tree
    output: Callable[[Tree, Sequence[Array]], Tree]


# Reads a module, with parameters that are given or its own; the example has the shapes of its input.
Adapter = Callable[[UserModel, Tree, Sequence[Array]], Applied]


def _equinox(module: UserModel, _params: Tree, _example: Sequence[Array]) -> Applied:
    """The module is its own tree of parameters and sees one example."""
    refuse_layers(module, "the module")
    # Plain numbers in a module are settings of its layers, as the library has it.
    own, rest = arrays_apart(module)
    return Applied(own, lambda params, inputs: put_together(params, rest)(*inputs))


def _linen(module: UserModel, params: Tree, example: Sequence[Array]) -> Applied:
    """Parameters are given or drawn with a public key; the module is called with a batch of one."""

    def ran(call: Callable[..., Any], first: Any, inputs: Sequence[Array]) -> Tree:
        try:
            return call(first, *(part[None] for part in inputs))
        except import_module("flax.errors").InvalidRngError as error:
            raise _draws_for_a_batch(str(error).split(" (https")[0][:200], "deterministic") from None

    if params is None:
        variables = ran(module.init, jax.random.key(0), example)
    else:
        variables = params if "params" in params else {"params": params}
    for name in variables:
        if name != "params":
            path, _ = jax.tree_util.tree_leaves_with_path(variables[name])[0]
            place = ".".join(str(getattr(key, "key", key)) for key in path[:-1]) or "at the root"
            raise _follows_the_batch(repr(name), f"the layer {place}")
    return Applied(variables["params"], lambda params, inputs: ran(module.apply, {"params": params}, inputs)[0])


def _nnx(module: UserModel, _params: Tree, _example: Sequence[Array]) -> Applied:
    """Parameters are the module's own; it is called with a batch of one."""
    nnx = import_module("flax.nnx")
    for path, node in nnx.iter_graph(module):
        name, place = type(node).__name__, ".".join(map(str, path))
        if isinstance(node, nnx.BatchStat):
            raise _follows_the_batch(name, place)
        if _DROPOUT in name and not getattr(node, "deterministic", True) and getattr(node, "rate", 0.0):
            raise _draws_for_a_batch(f"{name} at {place}", "deterministic")
    graph, state, rest = nnx.split(module, nnx.Param, ...)

    def output(params: Tree, inputs: Sequence[Array]) -> Tree:
        own = jax.tree.map(lambda leaf: leaf, state)
        nnx.replace_by_pure_dict(own, params)
        return nnx.merge(graph, own, rest)(*(part[None] for part in inputs))[0]

    return Applied(nnx.to_pure_dict(state), output)


# By the module that defines the library's own base class; nothing is imported that is not loaded already.
_ADAPTERS: Mapping[tuple[str, str], Adapter] = {
    ("equinox", "Module"): _equinox,
    ("flax.linen", "Module"): _linen,
    ("flax.nnx", "Module"): _nnx,
}


def adapter_for(module: UserModel) -> Adapter | None:
    """The adapter of a module by its base classes, or None."""
    for kind in type(module).__mro__:
        for (home, name), found in _ADAPTERS.items():
            if kind.__name__ == name and f"{kind.__module__}.".startswith(f"{home}."):
                return found
    return None


class ModuleLoss(PytreeLoss):
    """The loss of a module's output, on the flat vector of its parameters; `inputs` are the arrays that it is given."""

    def __init__(
        self, loss: Callable[..., Any], layout: RecordLayout, applied: Applied, inputs: tuple[str, ...]
    ) -> None:
        super().__init__(loss, layout, applied.params)
        self.applied, self.inputs = applied, inputs

    def predict(self, theta: Array, data: Data, key: Array) -> dict[str, Array]:
        """The module's output for new examples, one for each vector of parameters."""
        missing = [name for name in self.inputs if name not in data]
        if missing:
            raise refuse("data", f"to hold the module's input, {', '.join(self.inputs)}", ", ".join(data) or "nothing")
        wholes = {leaf.name: leaf.whole for leaf in self.layout.leaves}
        given = [_typed(data[name], wholes[name]) for name in self.inputs]

        def of_all(vector: Array) -> Tree:
            params = self.unravel(vector)
            return jax.vmap(lambda *one: self.applied.output(params, one))(*given)

        return {_OUTPUT: jax.jit(lambda vectors: jax.lax.map(of_all, vectors))(jnp.asarray(theta))}


@base.front_end("module")
class ModuleFrontEnd(base.FrontEnd):
    """Takes a module of Equinox or Flax with a loss of its output."""

    def takes(self, model: UserModel, options: Options) -> bool:
        return adapter_for(model) is not None

    def names(self, model: UserModel, options: Options) -> tuple[str, ...]:
        targets, given = self._targets(options), options.get("arrays")
        if given is None:
            return (*self._inputs_of(model), *targets)
        return (*(name for name in given if name not in targets and name != options.get("unit")), *targets)

    def method(self, model: base.CustomModel) -> str:
        return "training"

    def build(self, model: UserModel, layout: RecordLayout, options: Options) -> base.CustomModel:
        found, loss, constants = adapter_for(model), options["loss"], options.get("constants") or {}
        if found is None:
            raise InputError(f"Expected an Equinox or Flax module, got a {type(model).__name__}.")
        targets, wholes = self._targets(options), {leaf.name: leaf.whole for leaf in layout.leaves}
        inputs = tuple(name for name in wholes if name not in targets)
        if not inputs or set(targets) - set(wholes):
            raise InputError(
                f"The data need the module's input and {', '.join(targets)} of the loss, got {', '.join(wholes)}."
            )
        made = blank(layout, 1, seed=1)
        example = [_typed(made[name][0], wholes[name]) for name in inputs]
        words = f"The module must take {', '.join(inputs)}. Called with made-up examples"
        applied = base.tried(words, partial(found, model, options.get("params"), example))
        base.tried(words, lambda: jax.eval_shape(lambda: applied.output(applied.params, example)))

        def of_one(params: Tree, **record: Any) -> Tree:
            output = applied.output(params, [_typed(record[name], wholes[name]) for name in inputs])
            return loss(output, **{name: record[name] for name in targets}, **constants)

        return ModuleLoss(of_one, layout, applied, inputs)

    def _targets(self, options: Options) -> tuple[str, ...]:
        loss, constants = options.get("loss"), options.get("constants") or {}
        if not callable(loss):
            raise InputError("A module needs loss(output, ...), a number for one example. Give loss.")
        return tuple(name for name in list(inspect.signature(loss).parameters)[1:] if name not in constants)

    @staticmethod
    def _inputs_of(model: UserModel) -> tuple[str, ...]:
        """The arguments of a module that have no default; one named x where it does not say."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        try:
            parameters = inspect.signature(model.__call__).parameters.values()
        except (TypeError, ValueError):
            return ("x",)
        return tuple(one.name for one in parameters if one.kind in kinds and one.default is one.empty) or ("x",)


def _typed(values: Any, whole: bool) -> Array:
    """Arrays in the precision that networks are trained in."""
    return jnp.asarray(values).astype(jnp.int32 if whole else jnp.float32)
