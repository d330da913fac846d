"""A training run: its public choices, its examples, its loss of one example, and checks of these."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sordino.core import validate
from sordino.core.bound import Relation, View
from sordino.core.spec import NoisedSums, Spec, SumShape, Unit
from sordino.mechanisms.chain.batches import Batches, described_batches
from sordino.mechanisms.checkpoint import content_digest, described, platform, traced
from sordino.mechanisms.networks.integer_sums import check_examples, sums_exponent
from sordino.mechanisms.networks.jaxpr import Loss, check_leaves
from sordino.noise.randomness import Purpose, Randomness

QUERY = "clipped gradients"
_SHARE = validate.Interval(0.0, 1.0, high_open=True)
_MEAN_SHARE, _SQUARE_SHARE, _FLOOR = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Descent:
    """Gradient descent with momentum, for users without optax."""

    rate: float
    momentum: float = 0.0
    fall: int | None = None  # in so many steps the rate falls to 0 in a straight line

    def init(self, params: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32)

    def update(self, gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        velocity = jax.tree.map(lambda old, new: self.momentum * old + new, state[0], gradient)
        rate = self.rate if self.fall is None else self.rate * jnp.maximum(1.0 - state[1] / self.fall, 0.0)
        return jax.tree.map(lambda one: -rate * one, velocity), (velocity, state[1] + 1)


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba 2015 in the form of optax, for one array: running means of the gradient and of its square."""

    def init(self, params: Array) -> Any:
        return jnp.zeros_like(params), jnp.zeros_like(params), jnp.zeros((), jnp.int32)

    def update(self, gradient: Array, state: Any, params: Any = None) -> tuple[Array, Any]:
        """The update for a rate of 1, and the next state; both means are corrected for their start."""
        mean = _MEAN_SHARE * state[0] + (1.0 - _MEAN_SHARE) * gradient
        square = _SQUARE_SHARE * state[1] + (1.0 - _SQUARE_SHARE) * gradient * gradient
        made = state[2].astype(gradient.dtype) + 1.0
        spread = jnp.sqrt(square / (1.0 - _SQUARE_SHARE**made))
        return -(mean / (1.0 - _MEAN_SHARE**made)) / (spread + _FLOOR), (mean, square, state[2] + 1)


@dataclass(frozen=True)
class Training:
    """Public choices of a training run; none of them touches the guarantee.

    Attributes:
        optimiser: turns noised mean gradients into updates, such as `optax.adam(1e-3)`.
        average: decay of the running average of the weights; 0 for none.
        microbatch: examples on the device at once.
        keep: numbers of the steps after which the weights are kept, such as those of an ensemble.
        watch: of every noised sum, a tree like the parameters, an array that is handed out beside the weights.

    Examples:
        >>> import optax
        >>> import sordino
        >>> sordino.Training(optax.adam(1e-3), average=0.99).microbatch
        512
    """

    optimiser: Any
    average: float = 0.0
    microbatch: int = 512
    keep: tuple[int, ...] = ()
    watch: Callable[[Any], Array] | None = None

    def __post_init__(self) -> None:
        if not (callable(getattr(self.optimiser, "init", None)) and callable(getattr(self.optimiser, "update", None))):
            word = type(self.optimiser).__name__
            raise validate.refuse("optimiser", "to have init and update, as those of optax", word)
        object.__setattr__(self, "average", validate.number("average", self.average, _SHARE))
        object.__setattr__(self, "microbatch", validate.whole_number("microbatch", self.microbatch))


class TrainingRun:
    """A described run on given examples, checked before any of them is used."""

    def __init__(self, spec: Spec, loss: Loss, params: Any, examples: Any, training: Training) -> None:
        self.spec, self.training, self.loss = spec, validate.instance_of("training", training, Training), loss
        self.algorithm = run = validate.instance_of("spec.algorithm", spec.algorithm, NoisedSums)
        self.rows = check_examples(examples)
        if spec.view is not View.ALL_ITERATES:
            raise validate.refuse("view", "to be all-iterates for a training run", spec.view.value)
        if not run.query.startswith(QUERY):
            raise validate.refuse("algorithm.query", f"to begin with {QUERY!r} for a training run", run.query)
        if run.unit is not Unit.RECORD or run.shape is not SumShape.VECTOR:
            raise validate.refuse("algorithm.unit", "to be one record, and sums of vectors", run.words)
        # Under replace-one the number of rows is public and stated; under add-remove it must stay secret.
        if spec.relation is Relation.REPLACE_ONE and self.rows != run.records:
            raise validate.refuse("examples", f"to be algorithm.records = {run.records} rows", self.rows)
        self.noise, self.steps = run.sum_noise, run.rounds
        self.examples = jax.tree.map(jnp.asarray, examples)
        check_leaves(params)
        self.first, self.unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params))
        self.dim = len(self.first)

    @property
    def block(self) -> int:
        """Examples on the device at once: public, which the number at hand is not, under add-remove."""
        return min(self.training.microbatch, max(1, self.algorithm.records))

    @property
    def example(self) -> Any:
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self.examples)

    def batches(self, randomness: Randomness) -> Batches | None:
        """The examples of every step; None where each uses all."""
        generator, run = randomness.generator(Purpose.BATCHES), self.algorithm
        return described_batches(run.sampling, run.records, self.rows, run.rounds, generator)

    def identity(self, salt: bytes) -> dict[str, Any]:
        leaves, structure = jax.tree.flatten(self.examples)
        start = content_digest(b"start", np.asarray(self.first))
        digest = traced(
            lambda flat, *values: self.loss(self.unravel(flat), jax.tree.unflatten(structure, values)),
            jax.ShapeDtypeStruct((self.dim,), jnp.float32),
            *jax.tree.leaves(self.example),
        )
        chosen = self.training
        public = [chosen.average, chosen.microbatch, list(chosen.keep)]
        return platform() | {
            "spec": self.spec.to_dict(),
            "model": [digest, start, described(chosen.optimiser), public],
            "rows": [self.rows, [list(leaf.shape) for leaf in leaves]],
            "content": content_digest(salt, *(np.asarray(leaf) for leaf in leaves)),
        }


def check_run(spec: Spec, loss: Loss, params: Any, examples: Any, training: Training) -> None:
    """Refuse, before a debit, what `train` would: a trace of one step by types and shapes alone, which are public."""
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(examples)]
    if len({shape[:1] for shape in shapes} - {()}) != 1 or () in shapes:
        raise validate.refuse("examples", "to be arrays with one first axis of examples", "others")
    records = validate.instance_of("spec.algorithm", spec.algorithm, NoisedSums).records

    def stand_in(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((records, *leaf.shape[1:]), jax.dtypes.canonicalize_dtype(leaf.dtype))

    def step(rows: Any) -> Any:
        run = TrainingRun(spec, loss, params, rows, training)
        tree = run.unravel(run.first)
        gradient = jax.grad(lambda leaves: loss(leaves, jax.tree.map(lambda leaf: leaf[0], run.examples)))(tree)
        return training.optimiser.update(gradient, training.optimiser.init(tree), tree)

    try:
        jax.eval_shape(step, jax.tree.map(stand_in, examples))
    except validate.InputError:
        raise
    except Exception as error:  # of the caller's loss or optimiser, which have seen no number
        raise validate.InputError(
            f"The arrays, the loss and the optimiser do not fit each other. They raised {type(error).__name__}: "
            f"{str(error)[:200]}"
        ) from None
    check_room(spec, sum(jnp.size(leaf) for leaf in jax.tree.leaves(params)), training)


def check_room(spec: Spec, size: int, training: Training) -> None:
    """Refuse, before a debit, sums of gradients of so many parameters that whole numbers do not hold."""
    run = validate.instance_of("spec.algorithm", spec.algorithm, NoisedSums)
    block = min(training.microbatch, max(1, run.records))
    sums_exponent(run.contribution, size, float(run.sum_noise.max()), run.records, block)
