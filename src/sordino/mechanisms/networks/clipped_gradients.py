"""Sums of clipped gradients: lengths first, then one weighted sum, and no gradient of one example in memory.

For a batch the loss runs forward once and backward once, down to what every use of a parameter answered
(`uses.Traced`). From what the uses were given and the derivatives of their answers follow the length of each example's
whole gradient (`norms`), and with the weight min(1, clip / length) the sum of clipped gradients: the products that a
plain backward pass ends with, one weight for each example put in. Where a length needs the gradients themselves, those
very gradients are summed. An example whose gradient is not finite contributes nothing, and no other one is touched.

Floating point. Lengths are computed in single precision, from the very numbers that the sum is made of, and gradients
are shortened to a little less than the clip (`INSIDE`), so a single contribution is not longer than the clip unless
rounding inside one product exceeds that. Sums over examples are in single precision, whatever the network is in, so
the release differs from the exact one by rounding that may depend on records: the theorems are about real numbers, and
a release made this way says so. `integer_sums` has the same sums in whole numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.core.validate import POSITIVE, number, one_of, refuse, whole_number
from sordino.mechanisms.networks.jaxpr import Loss, Traced, traced, widened
from sordino.mechanisms.networks.norms import Factors, factors_of

# What is left of the clip for rounding of lengths and weights; of products of 8 binary digits there is more of it.
INSIDE = {"float32": 1.0 - 2.0**-17, "mixed": 1.0 - 2.0**-7}
PRECISIONS = tuple(INSIDE)
_SMALLEST = 1e-30


@dataclass(frozen=True)
class Clipped:
    """The sum of clipped gradients of a loss of one example, over any number of examples.

    Attributes:
        loss: `loss(params, example)`, a number.
        clip: the longest contribution of an example.
        microbatch: how many examples are on the device at once; it changes no result but by rounding.
        precision: "float32", or "mixed": the network in bfloat16, lengths and sums in single precision.
    """

    loss: Loss
    clip: float
    microbatch: int = 512
    precision: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", number("clip", self.clip, POSITIVE))
        object.__setattr__(self, "microbatch", whole_number("microbatch", self.microbatch))
        one_of("precision", self.precision, PRECISIONS)

    def __call__(self, params: Any, examples: Any, present: Array) -> Any:
        """The sum over the examples that are `present` (1, otherwise 0), a tree like the parameters.

        `examples` is a tree whose leaves have a first axis of examples, as many as `present` has entries.
        """
        rows = len(present)
        size = min(self.microbatch, rows)
        parts = -(-rows // size)
        padded = jax.tree.map(lambda leaf: _padded(leaf, parts * size), examples)
        mask = _padded(present.astype(jnp.float32), parts * size)
        if parts == 1:
            return self.part(params, padded, mask)
        cut = jax.tree.map(lambda leaf: leaf.reshape(parts, size, *leaf.shape[1:]), (padded, mask))
        none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), params)

        def added(total: Any, some: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, self.part(params, *some)), None

        return lax.scan(added, none, cut)[0]

    def part(self, params: Any, examples: Any, present: Array) -> Any:
        """The same for examples that fit on the device at once."""
        leaves, structure = jax.tree.flatten(params)
        weights, pull = self._weights(params, examples, present)
        found = pull(weights)
        return jax.tree.unflatten(
            structure, [one.astype(jnp.float32).reshape(leaf.shape) for one, leaf in zip(found, leaves, strict=True)]
        )

    def lengths(self, params: Any, examples: Any) -> Array:
        """Lengths of the gradients before they are clipped: private, and for tests."""
        rows = len(jax.tree.leaves(examples)[0])
        return self._lengths(params, examples, jnp.ones(rows))[0]

    def _weights(self, params: Any, examples: Any, present: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
        lengths, pull = self._lengths(params, examples, present)
        reach = self.clip * INSIDE[self.precision]
        sound = jnp.isfinite(lengths) & (present > 0)
        shortened = jnp.minimum(1.0, reach / jnp.maximum(jnp.where(sound, lengths, 1.0), _SMALLEST))
        return jnp.where(sound, shortened, 0.0), pull

    def _lengths(self, params: Any, examples: Any, present: Array) -> tuple[Array, Callable[[Array], list[Array]]]:
        if self.precision == "mixed":
            params, examples = (jax.tree.map(halved, tree) for tree in (params, examples))
        leaves, rows = jax.tree.leaves(params), len(present)
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), examples)
        apart = traced(self.loss, params, one)
        with jax.default_matmul_precision("highest" if self.precision == "float32" else "default"):
            given, derivatives = backward(apart, leaves, jax.tree.leaves(examples), rows)
            squares, own = _squares(apart, leaves, given, derivatives)
            # A sum of squares that overflows is not finite, and its example is left out.
            lengths = jnp.sqrt(squares)
        return lengths, partial(_pulled, apart, leaves, given, derivatives, own, self.precision)


def naive(loss: Loss, clip: float, params: Any, examples: Any, present: Array) -> Any:
    """The same sum from gradients of one example each, all in memory: what every other way is tested against."""
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, examples)
    leaves = jax.tree.leaves(gradients)
    squares = sum(jnp.sum(jnp.square(leaf.reshape(len(leaf), -1)), axis=1) for leaf in leaves)
    weights = present * jnp.minimum(1.0, clip / jnp.maximum(jnp.sqrt(squares), _SMALLEST))
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), gradients)


def backward(apart: Traced, leaves: Sequence[Array], examples: Sequence[Array], rows: int) -> tuple[Any, Any]:
    """What every use was given, and the derivatives of each example's loss in what it answered."""
    taps = jax.tree.map(lambda tap: jnp.zeros((rows, *tap.shape), tap.dtype), apart.zeros())

    def total(taps: Any) -> tuple[Array, Any]:
        losses, given = jax.vmap(apart.forward, in_axes=(None, 0, 0))(list(leaves), taps, list(examples))
        return jnp.sum(losses), given

    derivatives, given = jax.grad(total, has_aux=True)(taps)
    return given, derivatives


def _squares(
    apart: Traced, leaves: Sequence[Array], given: Any, derivatives: Any
) -> tuple[Array, dict[int, Array | int]]:
    """Squared lengths of whole gradients: leaf by leaf, by a rule where one answers, else from gradients.

    Beside them, for every leaf that is used: its gradients of one example each, or the place of its one use by a rule.
    """
    squares, left = jnp.zeros(len(jax.tree.leaves(derivatives)[0]), jnp.float32), []
    own: dict[int, Array | int] = {}
    for leaf in range(apart.leaves):
        place, found = factored(apart, leaf, given, derivatives)
        if place is not None and found is not None:
            squares, own[leaf] = squares + found.squares(), place
        elif place is not None:
            left.append(leaf)
    if left:
        gradients = [widened(one) for one in own_gradients(apart, leaves, left, given, derivatives)]
        squares += sum(jnp.sum(jnp.square(one.reshape(len(one), -1)), axis=1) for one in gradients)
        own |= dict(zip(left, gradients, strict=True))
    return squares, own


def factored(apart: Traced, leaf: int, given: Any, derivatives: Any) -> tuple[int | None, Factors | None]:
    """The first use of a leaf, None where it has none; and its gradients as products where a rule says so."""
    places = [place for place, roots in enumerate(apart.roots) if leaf in roots]
    if len(places) != 1 or apart.plain(places[0]) != leaf:
        return (places[0] if places else None), None
    return places[0], factors_of(apart.uses[places[0]], given[places[0]], derivatives[places[0]])


def own_gradients(apart: Traced, leaves: Sequence[Array], left: Sequence[int], given: Any, derivatives: Any) -> Any:
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


def _pulled(
    apart: Traced,
    leaves: Sequence[Array],
    given: Any,
    derivatives: Any,
    own: dict[int, Array | int],
    precision: str,
    weights: Array,
) -> list[Array]:
    """The weighted sum of the examples' gradients, in single precision at least.

    In less, a sum of many examples would move by more than the clip when one of them is left out.
    """
    # An example of weight 0 may hold infinities, and 0 times infinity is no number.
    counts = weights > 0

    def kept(values: Array, weight: Array | None = None) -> Array:
        if not jnp.issubdtype(values.dtype, jnp.floating):
            return values
        over = counts.reshape(-1, *(1,) * (values.ndim - 1))
        scaled = values if weight is None else widened(values) * weight.reshape(over.shape)
        return jnp.where(over, scaled, jnp.zeros_like(scaled))

    ruled = {leaf: place for leaf, place in own.items() if isinstance(place, int)}
    held = {place: jax.tree.map(kept, given[place]) for place in ruled.values()}
    wanted = [kept(derivatives[place][0], weights) for place in ruled.values()]

    def answered(some: Sequence[Array]) -> list[Array]:
        return [
            jax.vmap(apart.uses[place].wide_answer, in_axes=(None, 0))(apart.rearranged(place, leaf), held[place])
            for leaf, place in zip(some, ruled.values(), strict=True)
        ]

    sums = {leaf: jnp.zeros(values.shape, jnp.float32) for leaf, values in enumerate(leaves)}
    with jax.default_matmul_precision("highest" if precision == "float32" else "default"):
        pull = jax.vjp(answered, [widened(leaves[leaf]) for leaf in ruled])[1]
        sums |= dict(zip(ruled, pull(wanted)[0], strict=True))
        sums |= {
            leaf: jnp.tensordot(weights, kept(values), 1) for leaf, values in own.items() if not isinstance(values, int)
        }
    return [sums[leaf] for leaf in range(len(leaves))]


def _padded(leaf: Array, rows: int) -> Array:
    return jnp.pad(leaf, [(0, rows - len(leaf))] + [(0, 0)] * (leaf.ndim - 1))


def halved(leaf: Array) -> Array:
    """In bfloat16, where it is floats."""
    return leaf.astype(jnp.bfloat16) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def check_examples(examples: Any) -> int:
    """The number of examples; every leaf has them along its first axis."""
    sizes = {len(leaf) if getattr(leaf, "ndim", 0) else -1 for leaf in jax.tree.leaves(examples)}
    if len(sizes) != 1 or -1 in sizes:
        raise refuse("examples", "to be arrays with one first axis of examples", "others")
    return sizes.pop()
