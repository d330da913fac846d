"""Gradients of one example as products of what a layer was given and derivatives, and their lengths from those.

For a product of what a layer was given, A (positions by inputs), with a weight, and derivatives D (positions by
outputs) of the loss in its answers, the gradient of one example is A'D. Its squared length is the sum over pairs of
positions of (AA') times (DD'), entry by entry: two matrices of positions by positions, however large the weight is.
With one position that is |A|^2 |D|^2. A convolution is such a product with the patches under its window as rows; an
embedding is one whose rows have a single 1, so AA' says which positions hold the same word. Whichever of the two ways
touches fewer numbers is taken, by shapes alone.

A rule says for one kind of equation what is multiplied; what no rule answers for is computed from gradients of one
example each.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sordino.mechanisms.networks.jaxpr import Use

_ROUNDING, _SPARE = 2.0**-24, 2.0**9


class Products(NamedTuple):
    """Gradients A'D of a weight, one for each example and group.

    Attributes:
        rows: A, shape (examples, groups, positions, inputs).
        derivatives: D, shape (examples, groups, positions, outputs).
        axes: which axes of the weight the groups, inputs and outputs stand for, in that order.
        shape: of the weight.
    """

    rows: Array
    derivatives: Array
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    def squares(self) -> Array:
        """Squared lengths of the gradients."""
        return of_products(self.rows, self.derivatives)

    def as_weight(self, sums: Array) -> Array:
        """A sum of gradients, shape (groups, inputs, outputs), in the shape of the weight; first axes stay."""
        ahead = sums.ndim - 3
        shaped = sums.reshape(*sums.shape[:ahead], *(self.shape[axis] for axis in self.axes))
        back = (int(axis) + ahead for axis in np.argsort(self.axes))
        return jnp.transpose(shaped, (*range(ahead), *back))


class Picked(NamedTuple):
    """Gradients of a table of which every position picked one row.

    Attributes:
        rows: which row, shape (examples, positions).
        derivatives: shape (examples, positions, entries), 0 where a position's row is none of the table.
        outside: whether an example may not count, since what a device does with its words is not said.
        shape: of the table.
    """

    rows: Array
    derivatives: Array
    outside: Array
    shape: tuple[int, ...]

    def squares(self) -> Array:
        """Squared lengths of the gradients: positions that hold the same row add up before the length is taken."""
        found, positions = self.derivatives, self.rows.shape[1]
        same = self.rows[:, :, None] == self.rows[:, None, :]
        alike = jnp.where(same, jnp.einsum("epo,eqo->epq", found, found), 0.0)
        lengths = jnp.sqrt(_squares(found))
        # As in `of_products`: positions of one row may cancel, and rounding is what is left of their squares.
        reach = jnp.sum(jnp.where(same, lengths[:, :, None] * lengths[:, None, :], 0.0), axis=(1, 2))
        rounding = (found.shape[2] + 2 * positions) * _ROUNDING * reach if positions > 1 else 0.0
        squares = jnp.maximum(jnp.sum(jnp.sum(alike, axis=2), axis=1), 0.0) + rounding
        return jnp.where(self.outside, jnp.inf, squares)


Factors = Products | Picked
# given: values of the example, a first axis of examples added; answers: derivatives of the loss in what the use
# answered, likewise. None where the rule does not apply.
Rule = Callable[[Use, Sequence[Array], Array], Factors | None]
_RULES: dict[str, Rule] = {}


def factor_rule(name: str) -> Callable[[Rule], Rule]:
    """Register the rule of an operation."""

    def registered(rule: Rule) -> Rule:
        _RULES[name] = rule
        return rule

    return registered


def factors_of(use: Use, given: Sequence[Array], derivatives: Sequence[Array]) -> Factors | None:
    """What the gradients in a use's one derived value are products of; None where no rule answers."""
    rule = _RULES.get(use.name)
    if rule is None or len(derivatives) != 1 or len(use.derived) != 1:
        return None
    return rule(use, given, derivatives[0])


def of_products(rows: Array, derivatives: Array) -> Array:
    """Squared lengths of A'D, summed over groups: both have shape (examples, groups, positions, entries).

    Never too small by rounding. The parts of positions may cancel in A'D; what is then left of sums of squares is
    rounding, which a bound of it is added to. Values are scaled first: squares of small ones would be 0, however
    large what they are multiplied by.
    """
    positions, inputs, outputs = rows.shape[2], rows.shape[3], derivatives.shape[3]
    if positions > 1 and 2 * positions * positions * (inputs + outputs) >= (2 * positions + 1) * inputs * outputs:
        rows, derivatives = (values.astype(_wide(values)) for values in (rows, derivatives))
        found = jnp.sum(jnp.square(jnp.einsum("egpi,egpo->egio", rows, derivatives)), axis=(1, 2, 3))
        # The sum that leaves adds positions in another order, so it is off by other roundings: `_SPARE` times both.
        return found + positions * (_SPARE * _ROUNDING) ** 2 * _reach(_squares(rows), _squares(derivatives))
    rows, first = _scaled(rows)
    derivatives, second = _scaled(derivatives)
    unit, squares = jnp.square(first * second), (_squares(rows), _squares(derivatives))
    if positions == 1:
        return unit * jnp.sum(squares[0] * squares[1], axis=(1, 2))
    alike = jnp.einsum("egpi,egqi->egpq", rows, rows) * jnp.einsum("egpo,egqo->egpq", derivatives, derivatives)
    found = jnp.sum(jnp.sum(alike, axis=3), axis=(1, 2))
    # Entries of sums of n products are off by n roundings at most, relative to the lengths multiplied.
    return unit * (jnp.maximum(found, 0.0) + (inputs + outputs + 2 * positions) * _ROUNDING * _reach(*squares))


def _reach(rows: Array, derivatives: Array) -> Array:
    """The squared length of A'D if the parts of all positions pointed one way, of squared lengths of both."""
    return jnp.sum(jnp.square(jnp.sum(jnp.sqrt(rows) * jnp.sqrt(derivatives), axis=2)), axis=1)


@factor_rule("dot_general")
def _product(use: Use, given: Sequence[Array], derivatives: Array) -> Factors | None:
    ((left, right), (left_batch, right_batch)) = use.equation.params["dimension_numbers"]
    weight_first = use.derived[0] == 0
    contracted, batch = (right, right_batch) if weight_first else (left, left_batch)
    own_contracted, own_batch = (left, left_batch) if weight_first else (right, right_batch)
    shared = use.equation.invars[1 if weight_first else 0].aval.shape
    weight = use.equation.invars[use.derived[0]].aval.shape
    free = [axis for axis in range(len(shared)) if axis not in (*contracted, *batch)]
    groups, positions = (math.prod(shared[axis] for axis in axes) for axes in (batch, free))
    order = (0, *(1 + axis for axis in (*batch, *free, *contracted)))
    rows = jnp.transpose(given[0], order).reshape(len(given[0]), groups, positions, -1)
    outputs = math.prod(weight) // max(1, groups * rows.shape[3])
    # An answer has the axes of the groups first, then the free ones of the left operand, then those of the right.
    if weight_first:
        found = derivatives.reshape(len(derivatives), groups, outputs, positions).swapaxes(2, 3)
    else:
        found = derivatives.reshape(len(derivatives), groups, positions, outputs)
    own_free = (axis for axis in range(len(weight)) if axis not in (*own_contracted, *own_batch))
    return Products(rows, found, (*own_batch, *own_contracted, *own_free), weight)


@factor_rule("conv_general_dilated")
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
    patches = lax.conv_general_dilated_patches(
        given[0].reshape(examples * images, *given[0].shape[2:]),
        window,
        parameters["window_strides"],
        parameters["padding"],
        lhs_dilation=parameters["lhs_dilation"],
        rhs_dilation=parameters["rhs_dilation"],
        dimension_numbers=numbers,
        precision=parameters["precision"],
    )

    def positions(values: Array) -> Array:
        """Examples, one group, images and places, entries."""
        order = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
        moved = jnp.transpose(values, order)
        return moved.reshape(examples, 1, -1, moved.shape[-1])

    # Patches have the channels first, then the places of the window.
    axes = (numbers.rhs_spec[1], *numbers.rhs_spec[2:], numbers.rhs_spec[0])
    return Products(positions(patches), positions(derivatives.reshape(-1, *derivatives.shape[2:])), axes, kernel)


@factor_rule("gather")
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
    found = derivatives.reshape(examples, positions, -1).astype(_wide(derivatives))
    found = jnp.where(dropped.reshape(examples, positions, 1), 0.0, found)
    rows = jnp.clip(given[0], 0, table[0] - 1).reshape(examples, positions)
    unsaid = mode is lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return Picked(rows, found, jnp.any(outside.reshape(examples, -1), axis=1) & unsaid, table)


def _squares(values: Array) -> Array:
    return jnp.sum(jnp.square(values), axis=-1)


def _scaled(values: Array) -> tuple[Array, Array]:
    """The values of each example over a power of two as large as they are, exactly, and that one."""
    wide = values.astype(_wide(values))
    largest = jnp.max(jnp.abs(wide), axis=(1, 2, 3))
    sound = jnp.isfinite(largest) & (largest >= jnp.finfo(wide.dtype).tiny)
    over = jnp.where(sound, jnp.ldexp(jnp.ones_like(largest), jnp.frexp(jnp.where(sound, largest, 1.0))[1] - 1), 1.0)
    return wide / over.reshape(-1, 1, 1, 1), over


def _wide(values: Array) -> Any:
    """Lengths are computed in single precision at least."""
    return jnp.promote_types(values.dtype, jnp.float32)
