"""Networks as their libraries write them: an Equinox module, a Flax module (linen or nnx), and a loss of its output.

What is given is the module and `loss(output, ...)`, whose other arguments name arrays of the data; the arrays that the
loss does not name are the module's input. Equinox modules are called with one example, as they are meant to be; Flax
modules with a batch of one. So no gradient of an example can see another one, and what a module does beside that is
refused with the layer named: statistics over a batch, draws for a whole batch, an output for one example that changes
with the others of its batch.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.validate import InputError, refuse
from sordino.models.custom.base import CustomModel, FrontEnd, RecordLayout, blank, front_end
from sordino.models.custom.pytree_loss import PytreeLoss, arrays_apart, put_together, refuse_layers

_TRIED = 3
_SAME = 1e-5
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

    @abstractmethod
    def check(self, inputs: Sequence[Array]) -> None:
        """Refuse a module that mixes examples; `inputs` are made-up ones, along a first axis."""


class EquinoxAdapter(Adapter):
    """Equinox: the module is its own tree of parameters and sees one example."""

    def __init__(self, module: Any, params: Any, example: Sequence[Array]) -> None:
        del params, example
        refuse_layers(module, "the module")
        # Plain numbers in a module are settings of its layers, as the library has it.
        self.params, self.rest = arrays_apart(module)

    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        return put_together(params, self.rest)(*inputs)

    def check(self, inputs: Sequence[Array]) -> None:
        """One example has none to be mixed with; that it can be called is seen here."""
        jax.eval_shape(lambda: self.applied(self.params, [part[0] for part in inputs]))


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
                place = _first_path(variables[name])
                raise InputError(
                    f"Expected a module with parameters alone, got {name!r} of the layer {place}, such as statistics "
                    "over the batch; use group or layer normalisation."
                )
        self.params = variables["params"]

    def applied(self, params: Any, inputs: Sequence[Array]) -> Any:
        return self.module.apply({"params": params}, *(part[None] for part in inputs))[0]

    def check(self, inputs: Sequence[Array]) -> None:
        def seen(several: Sequence[Array]) -> Any:
            return self.module.apply(
                {"params": self.params}, *several, capture_intermediates=True, mutable=["intermediates"]
            )

        _refuse_mixing(lambda several: _layer_outputs(*self._ran(lambda: seen(several))), inputs)

    def _ran(self, call: Callable[[], Any]) -> Any:
        errors = import_module("flax.errors")
        try:
            return call()
        except errors.InvalidRngError as error:
            raise InputError(
                "Expected layers without draws for a whole batch, got one: "
                f"{str(error).split(' (https')[0][:200]}; switch it to deterministic or leave it out."
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
        return self._module(params)(*(part[None] for part in inputs))[0]

    def check(self, inputs: Sequence[Array]) -> None:
        module = self._module(self.params)
        _refuse_mixing(lambda several: [("the module", module(*several))], inputs)

    def _module(self, params: Any) -> Any:
        state = jax.tree.map(lambda leaf: leaf, self.state)
        self.nnx.replace_by_pure_dict(state, params)
        return self.nnx.merge(self.graph, state, self.rest)


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

        def of_all(vector: Array) -> Any:
            params = self.unravel(vector)
            return jax.vmap(lambda *one: self._adapter.applied(params, one))(*given)

        return {_OUTPUT: jax.jit(lambda vectors: jax.lax.map(of_all, vectors))(jnp.asarray(theta))}

    @property
    def _adapter(self) -> Adapter:
        if self.adapter is None:
            raise InputError("Expected a model with a module, got one without.")
        return self.adapter


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
        made = blank(layout, _TRIED, seed=1)
        several = [_typed(made[name], wholes[name]) for name in inputs]
        try:
            adapter = found(model, options.get("params"), [part[0] for part in several])
            adapter.check(several)
        except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"Expected a module that takes {', '.join(inputs)}, got a {type(error).__name__} when it was called "
                f"with made-up examples: {str(error)[:200]}"
            ) from None

        def of_one(params: Any, **record: Any) -> Any:
            output = adapter.applied(params, [_typed(record[name], wholes[name]) for name in inputs])
            return loss(output, **{name: record[name] for name in targets}, **constants)

        return ModuleLoss(of_one, layout, adapter.params, None, adapter=adapter, inputs=inputs)

    def _targets(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        loss, constants = options.get("loss"), options.get("constants") or {}
        if not callable(loss):
            raise InputError(
                "Expected loss(output, ...), a number for one example, with a module, got none; give loss."
            )
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


def _first_path(tree: Any) -> str:
    """The place of the first leaf of a tree, without the leaf itself."""
    path, _ = jax.tree_util.tree_leaves_with_path(tree)[0]
    words = [str(getattr(key, "key", key)) for key in path]
    return ".".join(words[:-1]) or "at the root"


def _layer_outputs(output: Any, state: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The outputs of all layers, the module's own last."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state["intermediates"]):
        words = [str(key.key) for key in path if hasattr(key, "key")]
        found.append((".".join(word for word in words if word != "__call__") or "the module", leaf))
    named = [one for one in found if one[0] != "the module"]
    return [*named, ("the module", output)]


def _refuse_mixing(outputs: Callable[[Sequence[Array]], list[tuple[str, Any]]], inputs: Sequence[Array]) -> None:
    """Refuse a layer whose output for the first example changes when the others do; the innermost is named."""
    others = [jnp.concatenate([part[:1], part[1:][::-1] * 2 + 1]) for part in inputs]
    before, after = outputs(inputs), outputs(others)
    for (name, one), (_, other) in zip(before, after, strict=True):
        for first, second in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            if jnp.ndim(first) == 0 or len(first) != _TRIED:
                if name == "the module":
                    raise InputError("The module must return one output for each example of a batch.")
                continue
            difference = np.abs(np.asarray(first[0], np.float64) - np.asarray(second[0], np.float64))
            if np.any(difference > _SAME * (1.0 + np.abs(np.asarray(first[0], np.float64)))):
                raise InputError(
                    f"Expected layers that treat every record alone, got {name}, whose output for one example changes "
                    "with the others of its batch."
                )
