"""Gradients of one example as products of layer inputs and derivatives, and their lengths from those.

For a product of what a layer was given, A (positions by inputs), with a weight, and derivatives D (positions by
outputs) of the loss in its answers, the gradient of one example is A'D. Its squared length is the sum over pairs of
positions of (AA') times (DD'), entry by entry. A convolution is such a product with the patches under its window as
rows; an embedding is one whose rows have a single 1. A rule says for one kind of equation what is multiplied; what no
rule answers for is computed from gradients of one example each.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sordino.mechanisms.networks.jaxpr import Traced, Use, widened
from sordino.mechanisms.networks.reproducible_ops import patches

_ROUNDING = 2.0**-24


@partial(jax.tree_util.register_dataclass, data_fields=["gradients"], meta_fields=[])
@dataclass(frozen=True)
class Gradients:
    """Gradients of each example in a leaf, written down: shape (examples, *leaf)."""

    gradients: Array

    def squares(self) -> Array:
        return jnp.sum(jnp.square(self.gradients.reshape(len(self.gradients), -1)), axis=1)


@partial(jax.tree_util.register_dataclass, data_fields=["rows", "derivatives"], meta_fields=["axes", "shape", "place"])
@dataclass(frozen=True)
class WeightProducts:
    """Gradients A'D of a weight, of which `shape` is the shape, one for each example and group."""

    rows: Array  # A, shape (examples, groups, positions, inputs)
    derivatives: Array  # D, shape (examples, groups, positions, outputs)
    axes: tuple[int, ...]  # of the weight that groups, inputs and outputs stand for, in that order
    shape: tuple[int, ...]
    place: int = -1  # of the use that takes the weight

    @property
    def small(self) -> bool:
        """Whether gradients of one example are not much larger than their factors."""
        positions, inputs, outputs = *self.rows.shape[2:], self.derivatives.shape[3]
        return positions > 1 and inputs * outputs <= 2 * positions * (inputs + outputs)

    def written(self) -> Array:
        """The gradients, shape (examples, *weight)."""
        return self.as_weight(jnp.einsum("egpi,egpo->egio", widened(self.rows), widened(self.derivatives)))

    def squares(self) -> Array:
        """Squared lengths of the gradients, summed over groups; not too small by rounding."""
        positions, inputs, outputs = *self.rows.shape[2:], self.derivatives.shape[3]
        squares, reach = self.measured(widened(self.rows), widened(self.derivatives))
        # Entries of sums of n products are off by n roundings at most, relative to the lengths multiplied.
        return squares if positions == 1 else squares + (inputs + outputs + 2 * positions) * _ROUNDING * reach

    @staticmethod
    def measured(rows: Array, derivatives: Array) -> tuple[Array, Array]:
        """Squared lengths of A'D, summed over groups, and of as much as if the parts of all positions pointed one way.

        They may cancel in A'D, and rounding, a share of the second number, is then what is left of their squares.
        """
        lengths = jnp.sum(jnp.square(rows), axis=-1), jnp.sum(jnp.square(derivatives), axis=-1)
        if rows.shape[2] == 1:
            squares = jnp.sum(lengths[0] * lengths[1], axis=(1, 2))
            return squares, squares
        alike = jnp.einsum("egpi,egqi->egpq", rows, rows) * jnp.einsum("egpo,egqo->egpq", derivatives, derivatives)
        reach = jnp.sum(jnp.square(jnp.sum(jnp.sqrt(lengths[0]) * jnp.sqrt(lengths[1]), axis=2)), axis=1)
        return jnp.maximum(jnp.sum(jnp.sum(alike, axis=3), axis=(1, 2)), 0.0), reach

    def as_weight(self, sums: Array) -> Array:
        """A sum of gradients, shape (groups, inputs, outputs), in the shape of the weight; first axes stay."""
        ahead = sums.ndim - 3
        shaped = sums.reshape(*sums.shape[:ahead], *(self.shape[axis] for axis in self.axes))
        return jnp.transpose(shaped, (*range(ahead), *(int(axis) + ahead for axis in np.argsort(self.axes))))


@partial(
    jax.tree_util.register_dataclass, data_fields=["rows", "derivatives", "outside"], meta_fields=["shape", "place"]
)
@dataclass(frozen=True)
class Picked:
    """Gradients of a table, of which `shape` is the shape, and of which every position picked one row."""

    rows: Array  # which row, shape (examples, positions)
    derivatives: Array  # shape (examples, positions, entries), 0 where a position's row is none of the table
    outside: Array  # whether an example may not count, since what a device does with its words is not said
    shape: tuple[int, ...]
    place: int = -1  # of the use that takes the table

    def squares(self) -> Array:
        """Squared lengths of the gradients: positions that hold the same row add up before the length is taken."""
        positions, (squares, reach) = self.rows.shape[1], self.measured(self.derivatives)
        rounding = (self.derivatives.shape[2] + 2 * positions) * _ROUNDING * reach if positions > 1 else 0.0
        return jnp.where(self.outside, jnp.inf, squares + rounding)

    def measured(self, derivatives: Array) -> tuple[Array, Array]:
        """As of `WeightProducts`; parts of positions of one row add up before the length is taken."""
        same = self.rows[:, :, None] == self.rows[:, None, :]
        alike = jnp.where(same, jnp.einsum("epo,eqo->epq", derivatives, derivatives), 0.0)
        lengths = jnp.sqrt(jnp.sum(jnp.square(derivatives), axis=-1))
        reach = jnp.sum(jnp.where(same, lengths[:, :, None] * lengths[:, None, :], 0.0), axis=(1, 2))
        return jnp.maximum(jnp.sum(jnp.sum(alike, axis=2), axis=1), 0.0), reach


Factors = WeightProducts | Picked
# given: values of the example, a first axis of examples added; answers: derivatives of the loss in what the use
# answered, likewise. None where the rule does not apply.
Rule = Callable[[Use, Sequence[Array], Array], Factors | None]


def _product(use: Use, given: Sequence[Array], derivatives: Array) -> Factors | None:
    ((left, right), (left_batch, right_batch)) = use.equation.params["dimension_numbers"]
    weight_first = use.derived[0] == 0
    contracted, batch = (right, right_batch) if weight_first else (left, left_batch)
    own_contracted, own_batch = (left, left_batch) if weight_first else (right, right_batch)
    shared, weight = (use.equation.invars[place].aval.shape for place in (int(weight_first), use.derived[0]))
    free = [axis for axis in range(len(shared)) if axis not in (*contracted, *batch)]
    groups, positions = (math.prod(shared[axis] for axis in axes) for axes in (batch, free))
    order = (0, *(1 + axis for axis in (*batch, *free, *contracted)))
    rows = jnp.transpose(given[0], order).reshape(len(given[0]), groups, positions, -1)
    outputs = math.prod(weight) // max(1, groups * rows.shape[3])
    # An answer has the axes of the groups first, then the free ones of the left operand, then those of the right.
    shape = (outputs, positions) if weight_first else (positions, outputs)
    found = derivatives.reshape(len(derivatives), groups, *shape)
    found = found.swapaxes(2, 3) if weight_first else found
    own_free = (axis for axis in range(len(weight)) if axis not in (*own_contracted, *own_batch))
    return WeightProducts(rows, found, (*own_batch, *own_contracted, *own_free), weight)


def _convolution(use: Use, given: Sequence[Array], derivatives: Array) -> Factors | None:
    parameters = use.equation.params
    if use.derived != (1,) or parameters["feature_group_count"] != 1 or parameters["batch_group_count"] != 1:
        return None
    numbers = parameters["dimension_numbers"]
    kernel = use.equation.invars[1].aval.shape
    examples, images = given[0].shape[:2] if numbers.lhs_spec[0] == 0 else (len(given[0]), 0)
    if images == 0:
        return None
    window = tuple(kernel[axis] for axis in numbers.rhs_spec[2:])
    order = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
    rows = patches(given[0].reshape(examples * images, *given[0].shape[2:]), window, parameters)
    signals = jnp.transpose(derivatives.reshape(-1, *derivatives.shape[2:]), order)
    # One group; positions are images and places; patches have the channels first, then the places of the window.
    rows, signals = (values.reshape(examples, 1, -1, values.shape[-1]) for values in (rows, signals))
    return WeightProducts(rows, signals, (numbers.rhs_spec[1], *numbers.rhs_spec[2:], numbers.rhs_spec[0]), kernel)


def _embedding(use: Use, given: Sequence[Array], derivatives: Array) -> Factors | None:
    """Rows of a table."""
    numbers, table = use.equation.params["dimension_numbers"], use.equation.invars[0].aval.shape
    words = use.equation.invars[1].aval.shape
    whole_rows = tuple(use.equation.params["slice_sizes"]) == (1, *table[1:])
    of_rows = numbers.start_index_map == (0,) and numbers.collapsed_slice_dims == (0,)
    last = tuple(range(len(words) - 1, len(words) - 1 + len(table) - 1))
    if use.derived != (0,) or not (whole_rows and of_rows) or numbers.offset_dims != last:
        return None
    # What a word that no row has does to a gradient: nothing, the last row's part, or whatever a device likes. In that
    # case its length is made infinite, so that its record contributes nothing.
    outside = (given[0] < 0) | (given[0] >= table[0])
    mode = use.equation.params["mode"]
    dropped = outside if mode is not lax.GatherScatterMode.CLIP else jnp.zeros_like(outside)
    examples, positions = len(derivatives), math.prod(words[:-1])
    found = widened(derivatives).reshape(examples, positions, -1)
    found = jnp.where(dropped.reshape(examples, positions, 1), 0.0, found)
    rows = jnp.clip(given[0], 0, table[0] - 1).reshape(examples, positions)
    unsaid = mode is lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return Picked(rows, found, jnp.any(outside.reshape(examples, -1), axis=1) & unsaid, table)


_RULES: dict[str, Rule] = {"dot_general": _product, "conv_general_dilated": _convolution, "gather": _embedding}


def backward(apart: Traced, leaves: Sequence[Array], examples: Sequence[Array], rows: int) -> tuple[Any, Any]:
    """What every use was given, and the derivatives of each example's loss in what it answered."""
    taps = tuple(tuple(jnp.zeros((rows, *one.shape), one.dtype) for one in use.shapes) for use in apart.uses)

    def total(taps: Any) -> tuple[Array, Any]:
        losses, given = jax.vmap(apart.forward, in_axes=(None, 0, 0))(list(leaves), taps, list(examples))
        return jnp.sum(losses), given

    derivatives, given = jax.grad(total, has_aux=True)(taps)
    return given, derivatives


def gradients_of(
    apart: Traced, leaves: Sequence[Array], given: Any, derivatives: Any
) -> tuple[Gradients | Factors | None, ...]:
    """The gradients of each example in every leaf, as factors where a rule says so; None where nothing uses it."""
    places = [[place for place, roots in enumerate(apart.roots) if leaf in roots] for leaf in range(apart.leaves)]
    found: list[Gradients | Factors | None] = []
    for leaf, used in enumerate(places):
        alone = len(used) == 1 and apart.plain(used[0]) == leaf
        rule = _RULES.get(apart.uses[used[0]].name) if alone else None
        one = rule is not None and len(derivatives[used[0]]) == 1
        factors = rule(apart.uses[used[0]], given[used[0]], derivatives[used[0]][0]) if rule and one else None
        if isinstance(factors, WeightProducts) and factors.small:
            found.append(Gradients(jax.vmap(partial(apart.restored, used[0]))(factors.written())))
        else:
            found.append(None if factors is None else replace(factors, place=used[0]))
    left = [leaf for leaf, used in enumerate(places) if used and found[leaf] is None]
    written = _written(apart, leaves, left, given, derivatives) if left else ()
    for leaf, gradients in zip(left, written, strict=True):
        found[leaf] = Gradients(widened(gradients))
    return tuple(found)


def _written(apart: Traced, leaves: Sequence[Array], left: Sequence[int], given: Any, derivatives: Any) -> Any:
    """Gradients of each example in some of the leaves: (examples, *shape of the leaf)."""
    touched = [place for place, roots in enumerate(apart.roots) if roots & set(left)]

    def of_one(given_one: Any, derivatives_one: Any) -> Any:
        def answered(some: Sequence[Array]) -> Any:
            whole = list(leaves)
            for leaf, value in zip(left, some, strict=True):
                whole[leaf] = value
            derived = apart.derived(whole)
            return [apart.uses[place].answers(derived[place], given_one[place]) for place in touched]

        pull = jax.vjp(answered, [leaves[leaf] for leaf in left])[1]
        return pull([derivatives_one[place] for place in touched])[0]

    return jax.vmap(of_one)(given, derivatives)
