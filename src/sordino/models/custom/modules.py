"""Networks as their libraries write them: an Equinox module, a Flax module (linen or nnx), and a loss of its output.

Arguments of `loss(output, ...)` name arrays of the data; all others are the module's input. Equinox modules are called
with one example, Flax modules with a batch of one, so no gradient of an example can see another one. Layers that mean
something else in a batch of one are refused with their name: statistics over a batch, draws for a whole batch.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import InputError, refuse
from sordino.models.custom.base import CustomModel, FrontEnd, RecordLayout, blank, front_end
from sordino.models.custom.pytree_loss import PytreeLoss, arrays_apart, put_together, refuse_layers

_OUTPUT = "output"


class Adapter(ABC):
    """A library's module as a function of parameters and one example."""

    params: Any

    @abstractmethod
    def __init__(self, module: Any, params: Any, example: Sequence[Array]) -> None:
        """Read a module, from parameters that are given or its own; `example` has the shapes of its input."""

    @abstractmethod
    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        """The output for one example."""


class EquinoxAdapter(Adapter):
    """Equinox: the module is its own tree of parameters and sees one example."""

    def __init__(self, module: Any, params: Any, example: Sequence[Array]) -> None:
        del params, example
        refuse_layers(module, "the module")
        # Plain numbers in a module are settings of its layers, as the library has it.
        self.params, self.rest = arrays_apart(module)

    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        return put_together(params, self.rest)(*inputs)


class LinenAdapter(Adapter):
    """Flax linen: parameters are given or drawn with a public key; the module is called with a batch of one."""

    def __init__(self, module: Any, params: Any, example: Sequence[Array]) -> None:
        self.module = module
        if params is None:
            variables = self._ran(lambda: module.init(jax.random.key(0), *(part[None] for part in example)))
        else:
            variables = params if "params" in params else {"params": params}
        for name in variables:
            if name != "params":
                path, _ = jax.tree_util.tree_leaves_with_path(variables[name])[0]
                place = ".".join(str(getattr(key, "key", key)) for key in path[:-1]) or "at the root"
                raise InputError(
                    f"Expected a module with parameters alone, got {name!r} of the layer {place}, such as statistics "
                    "over the batch; use group or layer normalisation."
                )
        self.params = variables["params"]

    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        call = lambda: self.module.apply({"params": params}, *(part[None] for part in inputs))[0]  # noqa: E731
        return self._ran(call)

    def _ran(self, call: Callable[[], Any]) -> Any:
        errors = import_module("flax.errors")
        try:
            return call()
        except errors.InvalidRngError as error:
            raise InputError(
                f"A layer draws for a whole batch: {str(error).split(' (https')[0][:200]}. Switch it to "
                "deterministic or remove it."
            ) from None


class NnxAdapter(Adapter):
    """Flax nnx: parameters are the module's own; the module is called with a batch of one."""

    def __init__(self, module: Any, params: Any, example: Sequence[Array]) -> None:
        del params, example
        nnx = import_module("flax.nnx")
        for path, node in nnx.iter_graph(module):
            name, place = type(node).__name__, ".".join(map(str, path))
            if isinstance(node, nnx.BatchStat):
                raise InputError(
                    f"Expected layers that treat every record alone, got statistics over the batch at {place}; use "
                    "group or layer normalisation."
                )
            drawing = not getattr(node, "deterministic", True) and getattr(node, "rate", 0.0)
            if "Dropout" in name and drawing:
                raise InputError(
                    f"Expected layers without draws for a whole batch, got {name} at {place}; switch it to "
                    "deterministic or leave it out."
                )
        graph, state, rest = nnx.split(module, nnx.Param, ...)
        self.nnx, self.graph, self.state, self.rest = nnx, graph, state, rest
        self.params = nnx.to_pure_dict(state)

    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        state = jax.tree.map(lambda leaf: leaf, self.state)
        self.nnx.replace_by_pure_dict(state, params)
        return self.nnx.merge(self.graph, state, self.rest)(*(part[None] for part in inputs))[0]


# By the module that defines the library's own base class; nothing is imported that is not loaded already.
_ADAPTERS: Mapping[tuple[str, str], type[Adapter]] = {
    ("equinox", "Module"): EquinoxAdapter,
    ("flax.linen", "Module"): LinenAdapter,
    ("flax.nnx", "Module"): NnxAdapter,
}


def adapter_for(module: Any) -> type[Adapter] | None:
    """The adapter of a module by its base classes, or None."""
    for base in type(module).__mro__:
        for (home, name), found in _ADAPTERS.items():
            if base.__name__ == name and (base.__module__ == home or base.__module__.startswith(f"{home}.")):
                return found
    return None


@dataclass(frozen=True, eq=False)
class ModuleLoss(PytreeLoss):
    """The loss of a module's output, on the flat vector of its parameters."""

    adapter: Adapter | None = None
    inputs: tuple[str, ...] = ()

    def predict(self, theta: Array, data: Mapping[str, Any], key: Array) -> dict[str, Array]:
        """The module's output for new examples, one for each vector of parameters."""
        del key
        missing = [name for name in self.inputs if name not in data]
        if missing:
            raise refuse("data", f"to hold the module's input, {', '.join(self.inputs)}", ", ".join(data) or "nothing")
        wholes = {leaf.name: leaf.whole for leaf in self.layout.leaves}
        given = [_typed(data[name], wholes[name]) for name in self.inputs]
        adapter = self.adapter
        if adapter is None:
            raise InputError("This model has no module.")

        def of_all(vector: Array) -> Any:
            params = self.unravel(vector)
            return jax.vmap(lambda *one: adapter.applied(params, one))(*given)

        return {_OUTPUT: jax.jit(lambda vectors: jax.lax.map(of_all, vectors))(jnp.asarray(theta))}


@front_end("module")
class ModuleFrontEnd(FrontEnd):
    """Takes a module of Equinox or Flax with a loss of its output."""

    def takes(self, model: Any, options: Mapping[str, Any]) -> bool:
        del options
        return adapter_for(model) is not None

    def names(self, model: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
        targets = self._targets(options)
        given = options.get("arrays")
        if given is None:
            return (*self._inputs_of(model), *targets)
        unit = options.get("unit")
        return (*(name for name in given if name not in targets and name != unit), *targets)

    def method(self, model: CustomModel) -> str:
        return "training"

    def build(self, model: Any, layout: RecordLayout, options: Mapping[str, Any]) -> CustomModel:
        found, loss, constants = adapter_for(model), options["loss"], options.get("constants") or {}
        if found is None:
            raise InputError(f"Expected an Equinox or Flax module, got a {type(model).__name__}.")
        targets = self._targets(options)
        inputs = tuple(leaf.name for leaf in layout.leaves if leaf.name not in targets)
        absent = [name for name in targets if name not in {leaf.name for leaf in layout.leaves}]
        if absent or not inputs:
            raise InputError(
                f"Expected data with the module's input and what the loss names, {', '.join(targets)}, got "
                f"{', '.join(leaf.name for leaf in layout.leaves)}."
            )
        wholes = {leaf.name: leaf.whole for leaf in layout.leaves}
        made = blank(layout, 1, seed=1)
        example = [_typed(made[name][0], wholes[name]) for name in inputs]
        try:
            adapter = found(model, options.get("params"), example)
            jax.eval_shape(lambda: adapter.applied(adapter.params, example))
        except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"The module must take {', '.join(inputs)}. Called with made-up examples, it raised "
                f"{type(error).__name__}: {str(error)[:200]}"
            ) from None

        def of_one(params: Any, **record: Any) -> Any:
            output = adapter.applied(params, [_typed(record[name], wholes[name]) for name in inputs])
            return loss(output, **{name: record[name] for name in targets}, **constants)

        return ModuleLoss(of_one, layout, adapter.params, None, adapter=adapter, inputs=inputs)

    def _targets(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        loss, constants = options.get("loss"), options.get("constants") or {}
        if not callable(loss):
            raise InputError("A module needs loss(output, ...), a number for one example. Give loss.")
        return tuple(name for name in list(inspect.signature(loss).parameters)[1:] if name not in constants)

    @staticmethod
    def _inputs_of(model: Any) -> tuple[str, ...]:
        """The arguments of a module that have no default; one named x where it does not say."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        try:
            parameters = inspect.signature(model.__call__).parameters.values()
        except (TypeError, ValueError):
            return ("x",)
        found = tuple(one.name for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty)
        return found or ("x",)


def _typed(values: Any, whole: bool) -> Array:
    """In the precision that networks are trained in."""
    return jnp.asarray(values).astype(jnp.int32 if whole else jnp.float32)
