"""The sum of clipped gradients of a training run, in whole numbers, so that floating point can be covered.

Statement. Every example of a block that `WholeSums` works on contributes a vector of whole numbers of the public
spacing 2^exponent, at most the clip long as whole numbers are; the answer is the sum of those vectors, without
rounding. So the sums of neighbours, over any blocks in any order, differ by one such vector (or two).

Proof. A block goes through two programs. The first one is floating point: the loss runs forward and backward once, down
to what every use of a parameter answered (`jaxpr.Traced`). From what the uses were given and the derivatives of their
answers follow, for every leaf, either gradients of one example each or factors whose products those gradients are, and
lengths (`norms`). Nothing is claimed of its accuracy. The second one makes whole numbers:

1. *gradients* times the example's weight are rounded to the lattice, entry by entry;
2. *factors* are rounded each: what a layer was given to 2^bits whole numbers of a power of two of its own, derivatives
   times the weight so that a product of the two is a whole number of spacings. The contribution *is* the product of the
   rounded factors, for one example a sum over positions; it is never written down;
3. *the clip* is enforced on those whole numbers: squares are added in double precision, and an example whose sum plus
   an error bound could exceed the squared clip contributes nothing. In any order a sum of n terms is off by at most
   n 2^-53 times the sum of the terms' sizes;
4. *sums* over the block are products and sums of whole numbers in double precision. Each factor is cut to a range in
   which all partial sums stay below 2^53 (`_room`), so none rounds. Blocks are added as whole numbers of 64 bits.

Assumed: a contribution is computed from its own example and the parameters alone, that is, the first program treats all
places of a block alike. There is one program for all blocks, of one public size. `places_alike` puts one drawn example
into every place of a block and compares bits, before a run begins. Where they differ, products with weights are made of
whole numbers, which have no order (`reproducible_ops`). Where bits differ still, a run is not called exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.validate import POSITIVE, InputError, number, refuse
from sordino.mechanisms.networks.jaxpr import Loss, Traced, traced
from sordino.mechanisms.networks.norms import Gradients, Picked, WeightProducts, backward, gradients_of
from sordino.mechanisms.networks.reproducible_ops import bound_with_own_bits
from sordino.models.contributions import exponent_above, two_to
from sordino.noise.lattice import check_sums, in_doubles, lattice_exponent

# What is left of the clip for rounding of lengths and weights; of factors 2^-16 of each, more where many cancel.
_INSIDE, _INSIDE_OF_FACTORS = 1.0 - 2.0**-17, 1.0 - 2.0**-11
_FACTOR_BITS, _FEWEST_BITS = 16, 8
# Lattices are at least as fine as those of so many parameters: a product of rounded factors is then near the gradient.
_FINE = 2**18
_EXACT = 2**53
_SMALLEST = 1e-30
# Covers the rounding of a few last additions and comparisons, of numbers that are not negative.
_LAST = 1.0 + 2.0**-45

# What is known of each leaf's gradients: None where nothing uses it.
Pieces = tuple[Gradients | WeightProducts | Picked | None, ...]
# Squared lengths, no less than those of the contributions in spacings; and the sum over the examples that count (1).
Whole = tuple[Array, Callable[[Array], Array]]


def sums_exponent(clip: float, size: int, noise: float, records: int, block: int) -> int:
    """The spacing of sums with so many entries; refused where whole numbers do not hold them, all of it public."""
    exponent = lattice_exponent(clip, max(size, _FINE), noise)
    check_sums(records, clip, exponent)
    most = math.ldexp(clip, -exponent)
    if block * (most + 1) > _EXACT:
        raise InputError(
            f"Expected blocks of at most {int(_EXACT / (most + 1))} examples for a clip of {clip:g} and {size} "
            f"parameters, so that sums of 53 bits hold them, got {block}; make microbatch smaller."
        )
    return exponent


@dataclass(eq=False)
class WholeSums:
    """Sums of clipped gradients over blocks of one size, as whole numbers of 2^exponent."""

    loss: Loss
    clip: float
    params: Any  # a tree of arrays or of their shapes
    example: Any  # a tree of shapes
    block: int  # how many examples a block has, a public number
    noise: float  # the largest scale of noise that is added to a sum in whole numbers, which have to hold it
    records: int  # the most examples that a sum may have
    own_bits: bool = False  # whether products with weights are exact, for devices where they differ by place

    def __post_init__(self) -> None:
        self.clip = number("clip", self.clip, POSITIVE)
        self.sizes = [math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(self.params)]
        self.exponent = sums_exponent(self.clip, sum(self.sizes), self.noise, self.records, self.block)
        self.apart: Traced = traced(self.loss, self.params, self.example)
        if self.own_bits:
            self.apart = replace(self.apart, bind=bound_with_own_bits(self.apart.bind))
        self._factored, self._added = jax.jit(self._in_floating_point), jax.jit(self._in_whole_numbers)

    @property
    def most(self) -> float:
        """The clip in spacings."""
        return math.ldexp(self.clip, -self.exponent)

    def zeros(self) -> Array:
        with in_doubles():
            return jnp.zeros(sum(self.sizes), jnp.int64)

    def plus(self, total: Array, params: Any, examples: Any, present: Array) -> Array:
        """A sum with a block of examples added, of which `present` is 1 for the places that are filled, otherwise 0."""
        pieces, weights = self._factored(params, examples, present)
        with in_doubles():
            return self._added(total, pieces, weights)[0]

    def places_alike(self, params: Any, generator: np.random.Generator) -> bool:
        """Whether the program here has the same bits for a drawn example wherever it stands in a block."""

        def everywhere(leaf: Any) -> Array:
            whole = not jnp.issubdtype(leaf.dtype, jnp.floating)
            drawn = generator.integers(0, 2, leaf.shape) if whole else generator.normal(size=leaf.shape)
            return jnp.broadcast_to(jnp.asarray(drawn).astype(leaf.dtype), (self.block, *leaf.shape))

        pieces, weights = self._factored(params, jax.tree.map(everywhere, self.example), jnp.ones(self.block))
        with in_doubles():
            squares = self._added(self.zeros(), pieces, weights)[1]
        found = jax.tree.leaves((pieces, weights, squares))
        words = [np.ascontiguousarray(part).view(np.uint8).reshape(self.block, -1) for part in found]
        return all(bool((one == one[:1]).all()) for one in words)

    def _in_floating_point(self, params: Any, examples: Any, present: Array) -> tuple[Pieces, Array]:
        """Gradients or factors of every leaf, and the weights that shorten examples to the clip."""
        leaves = jax.tree.leaves(params)
        with jax.default_matmul_precision("highest"):
            given, derivatives = backward(self.apart, leaves, jax.tree.leaves(examples), self.block)
            pieces = gradients_of(self.apart, leaves, given, derivatives)
            squares = sum((piece.squares() for piece in pieces if piece is not None), jnp.zeros(self.block))
        lengths = jnp.sqrt(squares)
        sound = jnp.isfinite(lengths) & (present > 0)
        # Entries that are rounded one by one need nothing to speak of.
        factors = any(isinstance(piece, WeightProducts | Picked) for piece in pieces)
        reach = self.clip * (_INSIDE_OF_FACTORS if factors else _INSIDE)
        shortened = jnp.minimum(1.0, reach / jnp.maximum(jnp.where(sound, lengths, 1.0), _SMALLEST))
        return pieces, jnp.where(sound, shortened, 0.0)

    def _in_whole_numbers(self, total: Array, pieces: Pieces, weights: Array) -> tuple[Array, Array]:
        """The sum with the contributions of a block added, and squared lengths, by which it is decided what counts."""
        weights = weights.astype(jnp.float64)
        parts = [None if piece is None else self._whole(piece, weights) for piece in pieces]
        squares = sum((part[0] for part in parts if part is not None), jnp.zeros(self.block, jnp.float64))
        within = (squares * _LAST <= self.most * self.most).astype(jnp.float64)
        found = [
            jnp.zeros(size, jnp.float64) if part is None else part[1](within).reshape(-1)
            for part, size in zip(parts, self.sizes, strict=True)
        ]
        return total + jnp.concatenate(found).astype(jnp.int64), squares

    def _whole(self, piece: Gradients | WeightProducts | Picked, weights: Array) -> Whole:
        if isinstance(piece, Gradients):
            whole = self._rounded(piece.gradients, weights, self.exponent, self.most)
            off = 1.0 + (math.prod(whole.shape[1:]) + 8) * 2.0**-52
            squares = jnp.sum(jnp.square(whole).reshape(self.block, -1), axis=1) * off
            return squares, lambda within: jnp.tensordot(within, whole, 1)
        if isinstance(piece, Picked):
            return self._whole_rows(piece, weights)
        return self._whole_factors(piece, weights)

    def _whole_factors(self, piece: WeightProducts, weights: Array) -> Whole:
        groups, positions, inputs = piece.rows.shape[1:]
        outputs = piece.derivatives.shape[3]
        bits, room = _room(self.block * positions)
        counted = jnp.where(weights.reshape(-1, 1, 1, 1) > 0.0, piece.rows.astype(jnp.float64), 0.0)
        above = exponent_above(jnp.max(jnp.abs(counted), axis=(1, 2, 3)))
        first = jnp.rint(counted * two_to(bits - above).reshape(-1, 1, 1, 1))
        second = self._rounded(piece.derivatives, weights, self.exponent + bits - above, room)
        squares, reach = piece.measured(first, second)
        off = (inputs + outputs + groups * positions * positions + 32) * 2.0**-52

        def total(within: Array) -> Array:
            found = jnp.einsum("egpi,egpo->gio", first, second * within.reshape(-1, 1, 1, 1))
            return self.apart.restored(piece.place, piece.as_weight(found))

        return squares + off * reach * _LAST, total

    def _whole_rows(self, piece: Picked, weights: Array) -> Whole:
        rows, positions = piece.rows, piece.rows.shape[1]
        room = min(self.most, _EXACT // (self.block * positions))
        whole = self._rounded(piece.derivatives, weights, self.exponent, room)
        squares, reach = piece.measured(whole)
        off = (whole.shape[2] + positions * positions + 32) * 2.0**-52

        def total(within: Array) -> Array:
            kept = (whole * within.reshape(-1, 1, 1)).reshape(self.block * positions, -1)
            found = jnp.zeros((piece.shape[0], kept.shape[1]), jnp.float64).at[rows.reshape(-1)].add(kept)
            return self.apart.restored(piece.place, found.reshape(piece.shape))

        return squares + off * reach * _LAST, total

    def _rounded(self, values: Array, weights: Array, exponents: Any, room: float) -> Array:
        """Values times weights to whole numbers of 2^exponents, cut at `room`; nothing of an example of weight 0."""

        def along(each: Array) -> Array:
            return each.reshape(-1, *(1,) * (values.ndim - 1))

        counted = jnp.where(along(weights) > 0.0, values.astype(jnp.float64), 0.0)
        # Clamped, so that a power of two is an ordinary number; what is beyond it is 0, or cut.
        units = two_to(jnp.clip(-jnp.asarray(exponents), -1000, 1000) * jnp.ones(len(weights), jnp.int64))
        scaled = counted * along(weights) * along(units)
        return jnp.rint(jnp.clip(jnp.where(jnp.isnan(scaled), 0.0, scaled), -float(room), float(room)))


def _room(terms: int) -> tuple[int, int]:
    """Bits of the one factor, and the largest whole number of the other, so that this many products add up exactly."""
    bits = min(_FACTOR_BITS, (53 - max(1, terms - 1).bit_length()) // 2)
    if bits < _FEWEST_BITS:
        raise InputError(
            f"Expected at most 2^{53 - 2 * _FEWEST_BITS} positions in a block, so that sums of 53 bits hold them, got "
            f"{terms}; make microbatch smaller."
        )
    return bits, _EXACT // (terms << bits)


def check_examples(examples: Any) -> int:
    """The number of examples; every leaf has them along its first axis."""
    sizes = {len(leaf) if getattr(leaf, "ndim", 0) else -1 for leaf in jax.tree.leaves(examples)}
    if len(sizes) != 1 or -1 in sizes:
        raise refuse("examples", "to be arrays with one first axis of examples", "others")
    return sizes.pop()
