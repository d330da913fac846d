"""Where the parameters of a loss meet an example: the equations at which gradients of parameters arise.

A value that is made of parameters alone (a reshaped weight, a sum of two leaves) is *derived*; an equation that takes a
derived value and something of the example is a *use*. The gradient of a leaf is a function of what its uses were given
and of the derivatives of the loss in what they answered, so norms and sums need no other pass through the network.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend import core as jex

from sordino.core.validate import InputError
from sordino.models.custom.modules import refuse_layers

# Wrappers around equations that can be taken apart without changing what is computed.
_WRAPPERS = frozenset({"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"})
Loss = Callable[..., Array]


@dataclass(frozen=True, eq=False)
class Use:
    """One equation that takes derived values, at places `derived` of its inputs, and values of the example."""

    equation: Any
    derived: tuple[int, ...]
    given: tuple[int, ...]

    @property
    def name(self) -> str:
        """The operation, such as dot_general."""
        return self.equation.primitive.name

    @property
    def shapes(self) -> tuple[Any, ...]:
        """What it answers for one example: arrays of floats; other answers have no derivative."""
        smooth = (var.aval for var in self.equation.outvars if _smooth(var.aval))
        return tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in smooth)

    def answers(self, derived: Sequence[Array], given: Sequence[Array]) -> tuple[Array, ...]:
        """What the equation answers for one example, floats only."""
        inputs: list[Any] = [None] * len(self.equation.invars)
        for place, value in zip((*self.derived, *self.given), (*derived, *given), strict=True):
            inputs[place] = value
        found = bound(self.equation, inputs)
        return tuple(one for one, var in zip(found, self.equation.outvars, strict=True) if _smooth(var.aval))


@dataclass(frozen=True, eq=False)
class Traced:
    """A loss of one example, taken apart; `bind` evaluates an equation of the forward pass."""

    jaxpr: Any  # its equations; inputs are the leaves of the parameters, then those of an example
    leaves: int  # how many of the inputs are leaves of the parameters
    uses: tuple[Use, ...]  # in the order of the equations
    roots: tuple[frozenset[int], ...]  # for every use, the numbers of the leaves that its derived values are made of
    _derived: frozenset[Any]
    bind: Callable[[Any, Sequence[Any]], list[Any]] = field(default_factory=lambda: bound)

    def forward(self, leaves: Sequence[Array], taps: Any, example: Sequence[Array]) -> tuple[Array, Any]:
        """The loss, with `taps` added to what the uses answer, and what each use was given besides derived values."""
        pending = {id(use.equation): place for place, use in enumerate(self.uses)}
        given: list[Any] = [None] * len(self.uses)
        values = self._values(leaves, example)
        for equation in self.jaxpr.jaxpr.eqns:
            inputs = [_read(values, var) for var in equation.invars]
            answers = self.bind(equation, inputs)
            place = pending.get(id(equation))
            if place is not None:
                given[place] = tuple(inputs[one] for one in self.uses[place].given)
                added, pairs = iter(taps[place]), zip(answers, equation.outvars, strict=True)
                answers = [one + next(added) if _smooth(var.aval) else one for one, var in pairs]
            values.update(zip(equation.outvars, answers, strict=True))
        return _read(values, self.jaxpr.jaxpr.outvars[0]), tuple(given)

    def derived(self, leaves: Sequence[Array]) -> tuple[tuple[Array, ...], ...]:
        """The derived values that every use takes: functions of the parameters alone."""
        values = self._values(leaves, None)
        for equation in self.jaxpr.jaxpr.eqns:
            if all(isinstance(var, jex.Literal) or var in values for var in equation.invars) and any(
                var in self._derived for var in equation.outvars
            ):
                answers = bound(equation, [_read(values, var) for var in equation.invars])
                values.update(zip(equation.outvars, answers, strict=True))
        return tuple(tuple(_read(values, use.equation.invars[place]) for place in use.derived) for use in self.uses)

    def plain(self, place: int) -> int | None:
        """The leaf that a use takes as it is, but for its shape and order; None where it is anything else."""
        if len(self.uses[place].derived) != 1 or len(self.roots[place]) != 1:
            return None
        found = self._steps(place)
        return None if found is None else self.jaxpr.jaxpr.invars.index(found[0])

    def restored(self, place: int, sums: Array) -> Array:
        """Sums of gradients in the derived value of a use of a plain leaf, as those in the leaf: only moved."""
        use = self.uses[place]
        var, steps = self._steps(place) or (use.equation.invars[use.derived[0]], [])

        def moved(leaf: Array) -> Array:
            for equation in reversed(steps):
                # A conversion would round whole numbers that the leaf's own precision does not hold.
                if equation.primitive.name != "convert_element_type":
                    leaf = bound(equation, (leaf,))[0]
            return leaf

        return jax.linear_transpose(moved, jax.ShapeDtypeStruct(var.aval.shape, sums.dtype))(sums)[0]

    def _steps(self, place: int) -> tuple[Any, list[Any]] | None:
        """The leaf a use's derived value is made of, and by what equations, the last first; None where they compute."""
        use = self.uses[place]
        made = {var: equation for equation in self.jaxpr.jaxpr.eqns for var in equation.outvars}
        var, steps = use.equation.invars[use.derived[0]], []
        while var in made:
            equation = made[var]
            same_size = equation.invars[0].aval.size == equation.outvars[0].aval.size
            if equation.primitive.name not in _REARRANGING or not same_size:
                return None
            steps.append(equation)
            var = equation.invars[0]
        return var, steps

    def _values(self, leaves: Sequence[Array], example: Sequence[Array] | None) -> dict[Any, Any]:
        jaxpr = self.jaxpr.jaxpr
        values = dict(zip(jaxpr.constvars, self.jaxpr.consts, strict=True))
        values.update(zip(jaxpr.invars[: self.leaves], leaves, strict=True))
        if example is not None:
            values.update(zip(jaxpr.invars[self.leaves :], example, strict=True))
        return values


# What leaves the length of a gradient as it is. A conversion rounds, and is one-to-one up to that.
_REARRANGING = frozenset(
    {"reshape", "transpose", "squeeze", "expand_dims", "rev", "convert_element_type", "copy", "broadcast_in_dim"}
)


def traced(loss: Loss, params: Any, example: Any) -> Traced:
    """Take a loss of one example apart; `params` and `example` are trees of arrays or of their shapes.

    What cannot be clipped example by example is refused with its name: batch statistics, leaves without numbers, a loss
    that is no number, or one that no example enters.
    """
    check_leaves(params)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), (params, example))
    flat, structure = jax.tree.flatten(shapes)
    leaves = len(jax.tree.leaves(params))

    def of_flat(*values: Array) -> Array:
        return loss(*jax.tree.unflatten(structure, values))

    try:
        first = jax.make_jaxpr(of_flat)(*flat)
    except NameError as error:
        raise InputError(
            f"The loss looks across the examples of a batch ({error}). Use layers without batch statistics, "
            "such as group normalisation."
        ) from None
    jaxpr = jax.make_jaxpr(partial(_taken_apart, first))(*flat)
    outputs = jaxpr.jaxpr.outvars
    if len(outputs) != 1 or outputs[0].aval.shape != () or not _smooth(outputs[0].aval):
        found = [str(getattr(var, "aval", "?")) for var in outputs]
        raise InputError(f"Expected the loss of one example to be one number, got {', '.join(found)}.")
    return _classified(jaxpr, leaves)


def _taken_apart(closed: Any, *inputs: Any) -> list[Any]:
    """Evaluate, with the equations inside wrappers in the place of the wrappers."""
    values = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *inputs), strict=True))
    for equation in closed.jaxpr.eqns:
        given = [_read(values, var) for var in equation.invars]
        inner = equation.params.get("jaxpr") if equation.primitive.name in _WRAPPERS else None
        if inner is None:
            found = bound(equation, given)
        else:
            found = _taken_apart(inner if hasattr(inner, "consts") else jex.ClosedJaxpr(inner, ()), *given)
        values.update(zip(equation.outvars, found, strict=True))
    return [_read(values, var) for var in closed.jaxpr.outvars]


def _classified(jaxpr: Any, leaves: int) -> Traced:
    """Find the uses; `roots` of a derived value are the leaves it is made of."""
    roots = {var: frozenset({place}) for place, var in enumerate(jaxpr.jaxpr.invars[:leaves])}
    of_example = set(jaxpr.jaxpr.invars[leaves:])
    uses, use_roots = [], []
    for equation in jaxpr.jaxpr.eqns:
        inputs: list[Any] = [None if isinstance(var, jex.Literal) else var for var in equation.invars]
        derived = tuple(place for place, var in enumerate(inputs) if var in roots and _smooth(var.aval))
        if not any(var in of_example for var in inputs):
            found = frozenset().union(*(roots[var] for var in inputs if var in roots))
            if found:
                roots.update(dict.fromkeys(equation.outvars, found))
            continue
        of_example.update(equation.outvars)
        if derived:
            given = tuple(place for place in range(len(inputs)) if place not in derived)
            uses.append(Use(equation, derived, given))
            use_roots.append(frozenset().union(*(roots[inputs[place]] for place in derived)))
    if not any(var in of_example for var in jaxpr.jaxpr.outvars):
        raise InputError("The loss does not depend on its example.")
    return Traced(jaxpr, leaves, tuple(uses), tuple(use_roots), frozenset(roots))


def check_leaves(params: Any) -> None:
    """Refuse parameters that have no gradient, and layers known to mix examples, by name."""
    refuse_layers(params, draws=True)
    found = jax.tree_util.tree_leaves_with_path(params)
    if not found:
        raise InputError("There are no parameters to train.")
    for path, leaf in found:
        name, dtype = jax.tree_util.keystr(path) or "the parameters", jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise InputError(f"Expected {name} to hold floats, got {dtype}; freeze it, or make it part of the loss.")
        if 0 in jnp.shape(leaf):
            raise InputError(f"Expected {name} to hold numbers, got an empty leaf of shape {jnp.shape(leaf)}.")


def _read(values: Mapping[Any, Any], var: Any) -> Any:
    return var.val if isinstance(var, jex.Literal) else values[var]


def bound(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    """What an equation answers."""
    found = equation.primitive.get_bind_params(equation.params)
    # A pair of functions and parameters in some versions of JAX, parameters alone in others.
    functions, parameters = found if isinstance(found, tuple) else ((), found)
    found = equation.primitive.bind(*functions, *inputs, **parameters)
    return list(found) if equation.primitive.multiple_results else [found]


def widened(value: Array) -> Array:
    """A value in single precision at least; what is no array of floats stays."""
    narrow = jnp.issubdtype(value.dtype, jnp.floating) and jnp.finfo(value.dtype).bits < 32
    return value.astype(jnp.float32) if narrow else value


def _smooth(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.floating)
