"""A fleet: what thousands of models compute, how they are trained, and their training in groups that fit the memory.

What a model draws depends on its own number, never on its company: Threefry-2x32 with 20 rounds (Salmon et al. 2011)
turns a key, of the seed and the number, and a counter, the step and the coordinate pair, into two random words, on any
device bit for bit. Gaussians are Box-Muller transforms of them, exact but for rounding, with |z| up to 6.7. One
compiled program makes an epoch of a group of models, whose size does not depend on how many there are.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from math import prod
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sordino.auditing.experiment import chain_of
from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Clipping, ClippingKind, GaussianNoise, GaussianStart, PointStart, Scheme, Spec
from sordino.core.validate import COUNT, NON_NEGATIVE, POSITIVE, Declared, Interval, instance_of, refuse
from sordino.mechanisms.chain.claims import check_regulariser
from sordino.models.base import Model
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
        inputs, scores = networks.forward(parts, X, self.model.activation)
        deltas = networks.backward(parts, inputs, self.model.output_gradient(scores, y), self.model.activation)
        factors = weights
        if clip_norm is not None:
            factors = weights * networks.clip_factors(networks.dense_squares(inputs, deltas), clip_norm, self.dim)
        return networks.outer_sums(inputs, [delta * factors[..., None] for delta in deltas])


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


Arrays = NDArray[np.float32]
# The two words of a key, of one member or of many.
Keys = tuple[Array, Array]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_UNIT = np.float32(2.0**-32)
_EIGHTH_TURN = np.float32(2.0**-31)
# Taylor coefficients of cos and sin / v of an angle v pi / 4 with |v| <= 1, in v^2: the error is below 2^-24.
_COS = tuple(np.float32(c) for c in (1.0, -0.308425137534, 0.0158543442438, -0.000325991886927, 3.59086044859e-06))
_SIN = tuple(
    np.float32(c) for c in (0.785398163397, -0.080745512188, 0.00249039457019, -3.65762041821e-05, 3.13361689e-07)
)


class KeyPurpose(IntEnum):
    """What a member's random words are for; each purpose has a key of its own."""

    NOISE = 0
    BATCHES = 1
    START = 2


def threefry(key: Keys, first: Array, second: Array) -> Keys:
    """Two random words for each counter (first, second); shapes broadcast."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = first + keys[0], second + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = x ^ y
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


_words = jax.jit(threefry)  # a hundred small operations, in one


def member_keys(seed: int, members: Array, purpose: KeyPurpose) -> Keys:
    """The two key words of each member for a purpose; `members` are unsigned 32-bit numbers."""
    words = np.random.SeedSequence(seed, spawn_key=(int(purpose),)).generate_state(2, np.uint32)
    return _words((words[0], words[1]), members.astype(jnp.uint32), np.uint32(0))


def gaussians(keys: Keys, step: Array, dim: int) -> Array:
    """Standard Gaussians of one step, (members, dim): coordinates 2j and 2j + 1 come from counter (step, j)."""
    coordinates = jnp.arange(dim, dtype=jnp.uint32)[None, :]
    pairs = coordinates >> np.uint32(1)
    first, second = threefry((keys[0][:, None], keys[1][:, None]), step.astype(jnp.uint32), pairs)
    # Half a unit more keeps the logarithm finite.
    radius = jnp.sqrt(-2.0 * jnp.log(first.astype(jnp.float32) * _UNIT + 0.5 * _UNIT))
    cosine, sine = _on_circle(second)
    return radius * jnp.where(coordinates & np.uint32(1), sine, cosine)


def _on_circle(word: Array) -> Keys:
    """A uniform point of the circle: two bits choose the quarter, thirty the place in it."""
    place = jax.lax.bitcast_convert_type(word << np.uint32(2), jnp.int32).astype(jnp.float32) * _EIGHTH_TURN
    square = place * place
    cosine, sine = _polynomial(_COS, square), place * _polynomial(_SIN, square)
    swapped = (word >> np.uint32(30)) & np.uint32(1)
    sign = jnp.where(word >> np.uint32(31), jnp.float32(-1.0), jnp.float32(1.0))
    return sign * jnp.where(swapped, -sine, cosine), sign * jnp.where(swapped, cosine, sine)


def _polynomial(coefficients: tuple[np.float32, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


@partial(jax.jit, static_argnums=(0, 1))
def first_points(start: GaussianStart | PointStart, network: FleetNetwork, keys: Keys) -> Array:
    """The points members with these keys start from, shape (members, dim): each from its own key, never from data."""
    if isinstance(start, GaussianStart):
        return start.scale * gaussians(keys, jnp.uint32(0), network.dim)
    if start.values is not None and len(start.values) != network.dim:
        raise refuse("start.values", f"to have {network.dim} coordinates", len(start.values))
    point = jnp.asarray(0.0 if start.values is None else start.values, jnp.float32)
    return jnp.broadcast_to(point, (keys[0].shape[0], network.dim))


@partial(jax.jit, static_argnums=(0, 3, 4))
def epoch_batches(scheme: Scheme, keys: Keys, epoch: Array, records: int, size: int) -> Array:
    """The records of an epoch's batches, (members, steps, size); beyond the last 0, which `batch_weights` takes out."""
    steps, listed = -(-records // size), jnp.arange(records, dtype=jnp.int32)

    def order(key: Array) -> Array:
        """The places of an epoch's records of one member in order, shape (records,) or (steps * size,)."""
        if scheme in {Scheme.FULL, Scheme.CYCLIC}:
            return listed
        if scheme is Scheme.SHUFFLE_ONCE:
            return jax.random.permutation(key, listed)
        own = jax.random.fold_in(key, epoch)
        if scheme is Scheme.RESHUFFLED:
            return jax.random.permutation(own, listed)
        return _subsets(own, steps, records, size)

    orders = jax.vmap(order)(jax.random.wrap_key_data(jnp.stack(keys, axis=-1)))
    orders = jnp.pad(orders, ((0, 0), (0, steps * size - orders.shape[1])))
    return orders.reshape(-1, steps, size)


def batch_weights(scheme: Scheme, records: int, size: int) -> Array | None:
    """Which places of an epoch's batches hold a record, shape (steps, size); None if all do."""
    if records % size == 0 or scheme == Scheme.WITHOUT_REPLACEMENT:
        return None
    steps = -(-records // size)
    return (jnp.arange(steps * size) < records).astype(jnp.float32).reshape(steps, size)


def _subsets(key: Array, steps: int, records: int, size: int) -> Array:
    """A uniform subset for each step, by Floyd's algorithm: a draw that was drawn before is replaced by its limit."""
    limits = jnp.arange(records - size, records, dtype=jnp.int32)
    drawn = jax.random.randint(key, (steps, size), 0, limits + 1)

    def fill(place: Array, chosen: Array) -> Array:
        # Places not filled yet hold -1, which is never drawn.
        taken = jnp.any(chosen == drawn[:, place, None], axis=1)
        return chosen.at[:, place].set(jnp.where(taken, limits[place], drawn[:, place]))

    return jax.lax.fori_loop(0, size, fill, jnp.full((steps, size), -1, jnp.int32)).reshape(-1)


# A step's numbers should stay in the cache of a processor, and fit the memory of an accelerator with room to spare.
_ON_PROCESSOR, _MOST_ON_PROCESSOR = 2**23, 64
_ON_ACCELERATOR, _MOST_ON_ACCELERATOR = 2**33, 1024
_LEAST = 4
_COPIES = 6  # parameters: old, new, gradients, noise, and two of the compiler's


def trained_at_once(network: FleetNetwork, batch_size: int, platform: str) -> int:
    """How many models are trained together."""
    on_processor = platform == "cpu"
    room, most = (_ON_PROCESSOR, _MOST_ON_PROCESSOR) if on_processor else (_ON_ACCELERATOR, _MOST_ON_ACCELERATOR)
    batch = batch_size * (network.features + network.floats_per_example)
    fitting = room // (4 * (_COPIES * network.dim + batch))
    return min(most, max(_LEAST, 1 << max(0, fitting.bit_length() - 1)))


class FleetProgram(NamedTuple):
    """What is compiled in; all else is an argument."""

    network: FleetNetwork
    scheme: Scheme
    records: int
    size: int
    clip_norm: float | None
    noisy: bool

    @classmethod
    def of(cls, network: FleetNetwork, plan: FleetPlan, records: int) -> "FleetProgram":
        noisy = plan.noise_scale > 0.0
        return cls(network, plan.batch.scheme, records, plan.batch_size(records), plan.clip_norm, noisy)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def trained_an_epoch(
    program: FleetProgram, theta: Array, noise: Keys, orders: Array, numbers: tuple[Array, ...], X: Array, y: Array
) -> Array:
    """Models after an epoch of steps in a scan; `numbers` are step size, scale of the noise and number of the epoch."""
    network, size, (step_size, noise_scale, epoch) = program.network, program.size, numbers
    orders = orders.transpose(1, 0, 2)
    steps = orders.shape[0]
    weights = batch_weights(program.scheme, program.records, size)
    decay = network.model.weight_decay

    def step(parts: Parts, each: tuple[Array, Array, Array | None]) -> tuple[Parts, None]:
        k, chosen, present = each
        ones = jnp.ones(chosen.shape, theta.dtype)
        rows = X.at[chosen].get(mode="promise_in_bounds")
        targets = y.at[chosen].get(mode="promise_in_bounds")
        present = ones if present is None else present * ones
        total = network.gradient_sum(parts, rows, targets, present, program.clip_norm)
        drifts = (sums / size + decay * part for sums, part in zip(total, parts, strict=True))
        moved = tuple(part - step_size * drift for part, drift in zip(parts, drifts, strict=True))
        if program.noisy:
            drawn = network.split(gaussians(noise, epoch * steps + k, network.dim))
            moved = tuple(part + noise_scale * xi for part, xi in zip(moved, drawn, strict=True))
        return moved, None

    parts, _ = lax.scan(step, network.split(theta), (jnp.arange(steps, dtype=jnp.uint32), orders, weights))
    return network.join(parts)


def train_fleet(model: Model, features: ArrayLike, target: ArrayLike, plan: FleetPlan, count: int) -> Arrays:
    """The parameters of so many models, (count, dim), each trained as the plan says, on the first device."""
    instance_of("model", model, Model)
    X, y = (np.ascontiguousarray(values, np.float32) for values in (features, target))
    if X.ndim != 2 or y.shape != X.shape[:1] or not len(y) or not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise refuse("features and target", "to be finite numbers, one row for each of one or more records", X.shape)
    check_steps(plan, len(y))
    network, device = network_for(model, X.shape[1]), jax.local_devices()[0]
    program, placed = FleetProgram.of(network, plan, len(y)), jax.device_put((X, y), device)
    width, groups = trained_at_once(network, program.size, device.platform), []
    for first in range(0, count, width):
        # A short group is filled up with models that nobody looks at.
        members = jax.device_put(np.arange(first, first + width, dtype=np.uint32), device)
        noise, batches, start = (member_keys(plan.seed, members, purpose) for purpose in KeyPurpose)
        theta = first_points(plan.start, network, start)
        for epoch in range(plan.epochs):
            orders = epoch_batches(plan.batch.scheme, batches, jnp.uint32(epoch), len(y), program.size)
            numbers = jnp.float32(plan.step_size), jnp.float32(plan.noise_scale), jnp.uint32(epoch)
            theta = trained_an_epoch(program, theta, noise, orders, numbers, *placed)
        groups.append(theta)  # every group is on its way before the first one is waited for
    return np.concatenate([np.asarray(group) for group in groups])[:count]


def check_steps(plan: FleetPlan, records: int) -> None:
    """Refuse so many steps that counters of noise would come again."""
    if plan.epochs * plan.steps_per_epoch(records) >= 2**32:
        raise refuse("the steps of a fleet", "to be fewer than 2^32, or noise would repeat", plan.epochs)
