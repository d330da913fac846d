"""The plan of a fleet: what its models compute, and how they are trained.

A network holds its parameters as parts, each of shape (models, ...). Backward passes are written out, because they know
every example's norm: in a dense layer the gradient of one example is the outer product of its input a and its delta d,
so its squared norm is |d|^2 (|a|^2 + 1), biases included, and no gradient is formed to be clipped.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.auditing.experiment import chain_of
from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Clipping, ClippingKind, GaussianNoise, GaussianStart, PointStart, Scheme, Spec
from sordino.core.validate import COUNT, NON_NEGATIVE, POSITIVE, Declared, Interval, instance_of, refuse
from sordino.mechanisms.chain.claims import check_regulariser
from sordino.models.base import Model
from sordino.models.clip import exact_product, working_bound
from sordino.models.families import networks
from sordino.models.families.networks import DenseNetwork, Shapes

Parts = tuple[Array, ...]


@dataclass(frozen=True)
class FleetNetwork(ABC):
    """Many copies of a model, for rows with this many features; hashable, because it is compiled in."""

    model: Model
    features: int

    @property
    def dim(self) -> int:
        return self.model.dim(self.features)

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The shapes of one copy's parts, in the order of the model's flat vector."""

    @property
    @abstractmethod
    def floats_per_example(self) -> int:
        """About how many numbers a gradient step holds for each example of a batch."""

    @abstractmethod
    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        """Each copy's weighted sum of per-example gradients, shortened to `clip_norm`; X: (models, batch, features)."""

    def split(self, theta: Array) -> Parts:
        parts = jnp.split(theta, np.cumsum([prod(shape) for shape in self.shapes])[:-1], axis=1)
        return tuple(part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True))

    def join(self, parts: Parts) -> Array:
        return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], axis=1)


@dataclass(frozen=True)
class AnyModel(FleetNetwork):
    """A model without a network of its own: its per-example loss, vectorised by the compiler."""

    @property
    def shapes(self) -> Shapes:
        return ((self.dim,),)

    @property
    def floats_per_example(self) -> int:
        return 2 * self.dim

    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        clipping = None if clip_norm is None else Clipping(ClippingKind.NORM, clip_norm)

        def of_one(theta: Array, X: Array, y: Array, weights: Array) -> Array:
            return self.model.batch_gradient(theta, X, y, weights, clipping)

        return (jax.vmap(of_one)(parts[0], X, y, weights),)


def clip_factors(squares: Array, clip_norm: float, dim: int) -> Array:
    """What per-example gradients with these squared norms are multiplied by; 0 where the norm is not finite."""
    target = working_bound(clip_norm, dim)
    norms = jnp.sqrt(squares)
    return jnp.where(jnp.isfinite(norms), target / jnp.maximum(norms, target), 0.0)


# The slope of an activation as a function of its value, so that the backward pass keeps one array and not two.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda value: 1.0 - value * value,
    "relu": lambda value: (value > 0.0).astype(value.dtype),
    "softplus": lambda value: -jnp.expm1(-value),
}


@dataclass(frozen=True)
class DenseFleet(FleetNetwork):
    """Copies of a dense network."""

    model: DenseNetwork

    @property
    def shapes(self) -> Shapes:
        return networks.dense_shapes((self.features, *self.model.hidden, self.model.outputs))

    @property
    def floats_per_example(self) -> int:
        return 4 * sum(self.model.hidden) + 4 * self.model.outputs

    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        inputs, scores = forward(parts, X, self.model.activation)
        deltas = backward(parts, inputs, self.model.output_gradient(scores, y), self.model.activation)
        factors = weights
        if clip_norm is not None:
            factors = weights * clip_factors(dense_squares(inputs, deltas), clip_norm, self.dim)
        return outer_sums(inputs, [delta * factors[..., None] for delta in deltas])


def forward(parts: Parts, X: Array, act: str) -> tuple[list[Array], Array]:
    """The inputs of every layer, and the scores of the last one."""
    function = networks.activation(act)
    inputs = [X]
    for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        inputs.append(function(inputs[-1] @ weight + bias[:, None, :]))
    return inputs, inputs[-1] @ parts[-2] + parts[-1][:, None, :]


def backward(parts: Parts, inputs: list[Array], delta: Array, act: str) -> list[Array]:
    """The derivatives in the output of every layer before its activation, first layer first."""
    slope, deltas = SLOPES[act], [delta]
    for weight, values in zip(parts[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, (deltas[0] @ weight.transpose(0, 2, 1)) * slope(values))
    return deltas


def dense_squares(inputs: list[Array], deltas: list[Array]) -> Array:
    """The squared norm of each example's gradient in these layers, shape (models, batch)."""
    squares = jnp.zeros(())
    for values, delta in zip(inputs, deltas, strict=True):
        squares = squares + jnp.sum(delta * delta, axis=-1) * (1.0 + jnp.sum(values * values, axis=-1))
    return squares


def outer_sums(inputs: list[Array], deltas: list[Array]) -> Parts:
    """The gradients of weights and biases, summed over the batch."""
    parts: list[Array] = []
    for values, delta in zip(inputs, deltas, strict=True):
        parts += [exact_product(values.transpose(0, 2, 1), delta), delta.sum(axis=1)]
    return tuple(parts)


# A model with a faster way than its own vectorised gradient registers it here.
NETWORKS: dict[type[Model], type[FleetNetwork]] = {
    networks.MLPRegression: DenseFleet,
    networks.MLPClassification: DenseFleet,
}


def network_for(model: Model, features: int) -> FleetNetwork:
    """The fastest network there is for a model."""
    return NETWORKS.get(type(model), AnyModel)(model, features)


_ATTACK = "use the attack method"  # what to do about a chain that no fleet trains
_SCHEMES = {Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT}


@dataclass(frozen=True)
class FleetPlan(Declared):
    """theta <- theta - step_size * (sum of batch gradients / b + grad r) + noise_scale * gaussian, for whole epochs.

    `clip_norm` shortens every example's gradient first. The seed fixes every member's start, batches and noise.
    """

    step_size: Annotated[float, POSITIVE]
    noise_scale: Annotated[float, NON_NEGATIVE]
    batch: Batch
    epochs: Annotated[int, COUNT]
    seed: Annotated[int, Interval(0, 2**128 - 1)]
    clip_norm: Annotated[float | None, POSITIVE] = None
    start: GaussianStart | PointStart = field(default_factory=PointStart)

    def __post_init__(self) -> None:
        super().__post_init__()
        instance_of("batch", self.batch, Batch)
        if self.batch.scheme not in _SCHEMES:
            raise refuse("batch.scheme of a fleet", "to have a fixed size", self.batch.scheme.value, _ATTACK)

    def batch_size(self, records: int) -> int:
        size = records if self.batch.size is None else self.batch.size
        if size > records:
            raise refuse("batch.size", f"to be at most the {records} records", size)
        return size

    def steps_per_epoch(self, records: int) -> int:
        return -(-records // self.batch_size(records))


def plan_of(spec: Spec, model: Model, seed: int) -> FleetPlan:
    """The plan that trains what a spec describes, or a refusal."""
    instance_of("model", model, Model)
    chain = chain_of(spec)
    check_regulariser(spec, model)
    for holds, name, wanted, given in (
        (spec.relation is Relation.REPLACE_ONE, "relation", "replace-one", spec.relation.value),
        (spec.view is View.LAST_ITERATE, "view", "last-iterate", spec.view.value),
        (chain.chains == 1, "algorithm.chains", "1", chain.chains),
        (chain.projection is None, "algorithm.projection", "absent", "one"),
    ):
        if not holds:
            raise refuse(name, f"to be {wanted} for a fleet", given, _ATTACK)
    noise, clipping = chain.noise, chain.clipping
    if not isinstance(noise, GaussianNoise):
        raise refuse("algorithm.noise", "to be gaussian for a fleet", "stable noise", _ATTACK)
    if clipping is not None and clipping.kind is not ClippingKind.NORM:
        raise refuse("algorithm.clipping.kind", 'to be "norm" for a fleet', clipping.kind.value, _ATTACK)
    per_epoch = chain.batches_per_epoch(spec.n)
    if chain.steps % per_epoch:
        raise refuse("algorithm.steps", f"to be whole epochs of {per_epoch} steps for a fleet", chain.steps, _ATTACK)
    step_size, noise_scale = chain.step_size.constant, noise.scale.constant
    if step_size is None or noise_scale is None:
        raise refuse("step size and noise scale", "to be the same at every step of a fleet", "a schedule", _ATTACK)
    clip_norm = None if clipping is None else clipping.bound
    return FleetPlan(step_size, noise_scale, chain.batch, chain.steps // per_epoch, seed, clip_norm, chain.start)
