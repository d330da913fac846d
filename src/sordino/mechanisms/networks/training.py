"""Training runs: noised sums of clipped gradients, then any optimiser, averages of weights, and resumption.

    sum_k = sum over the batch of clipped gradients + noise;   params <- params + optimiser(sum_k / public divisor)

Sums are the whole numbers of `integer_sums`. Noise is a whole-number Gaussian on their lattice, drawn on the host or on
the accelerator, and nothing but the noised whole numbers reaches the optimiser. Three programs make a step, each of a
shape that depends on public numbers alone: one moves examples into blocks, which changes no bit; one adds a block to
the sum; one moves the parameters by the noised sum. So what floating point does before rounding and after noise is the
same for neighbours, whatever the number of examples is.

On a device that does not compute the same bits for an example in all places of a block, noise is drawn in single
precision, and the release says that floating point is not covered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.bound import NOT_COVERED, Certificate, Relation, View, exactly_computed
from sordino.core.spec import NoisedSums, Spec, SumShape, Unit
from sordino.mechanisms.chain.batches import Batches, described_batches
from sordino.mechanisms.chain.run import Progress
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, content_digest, described, platform, traced
from sordino.mechanisms.networks.integer_sums import WholeSums, check_examples, sums_exponent
from sordino.mechanisms.networks.jaxpr import Loss, check_leaves
from sordino.models.clip import check_sums
from sordino.noise.lattice import COVERED
from sordino.noise.port import NetworkNoise
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


class TrainingState(NamedTuple):
    """Where a run is: parameters, what the optimiser remembers, and averaged parameters."""

    params: Array
    memory: Any
    averaged: Array


class TrainingRun:
    """A described run on given examples, checked before any of them is used."""

    def __init__(self, spec: Spec, loss: Loss, params: Any, examples: Any, training: Training) -> None:
        self.spec, self.training, self.loss = spec, validate.instance_of("training", training, Training), loss
        self.algorithm = run = validate.instance_of("spec.algorithm", spec.algorithm, NoisedSums)
        self.rows, self.steps = check_examples(examples), run.rounds
        if spec.view is not View.ALL_ITERATES:
            raise validate.refuse("view", "to be all-iterates for a training run", spec.view.value)
        if not run.query.startswith(QUERY):
            raise validate.refuse("algorithm.query", f"to begin with {QUERY!r} for a training run", run.query)
        if run.unit is not Unit.RECORD or run.shape is not SumShape.VECTOR:
            raise validate.refuse("algorithm.unit", "to be one record, and sums of vectors", run.words)
        # Under replace-one the number of rows is public and stated; under add-remove it must stay secret.
        if spec.relation is Relation.REPLACE_ONE and self.rows != run.records:
            raise validate.refuse("examples", f"to be algorithm.records = {run.records} rows", self.rows)
        self.examples = jax.tree.map(jnp.asarray, examples)
        self.example = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self.examples)
        check_leaves(params)
        self.first, self.unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params))

    def begin(self, randomness: Randomness) -> TrainingState:
        """The state before the first step, and what steps are made with."""
        self.sums, self.exact = self._sums(randomness)
        noise, size = self.algorithm.sum_noise, len(self.first)
        self.noise = NetworkNoise(randomness, noise, self.sums.exponent, size, exact=self.exact)
        self.gathered = jax.jit(lambda examples, chosen: jax.tree.map(lambda leaf: leaf[chosen], examples))
        self.leaves_of = jax.jit(self.unravel)
        self.move = jax.jit(self._moved, donate_argnums=0)
        return TrainingState(self.first, self.training.optimiser.init(self.unravel(self.first)), self.first)

    def batches(self, randomness: Randomness) -> Batches | None:
        """The examples of every step; None where each uses all."""
        generator, run = randomness.generator(Purpose.BATCHES), self.algorithm
        return described_batches(run.sampling, run.records, self.rows, run.rounds, generator)

    def step(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        """The next state, and what is watched of the noised sum of these examples."""
        leaves, total, size = self.leaves_of(state.params), self.sums.zeros(), self.sums.block
        for first in range(0, len(indices), size):
            # The last block is filled up and masked.
            chosen = indices[first : first + size]
            present = np.zeros(size, np.float32)
            present[: len(chosen)] = 1.0
            padded = jnp.asarray(np.pad(chosen, (0, size - len(chosen))))
            # Examples are an input: as constants of the program they would be compiled into it.
            total = self.sums.plus(total, leaves, self.gathered(self.examples, padded), jnp.asarray(present))
        return self.move(state, jnp.asarray(k, jnp.int32), self.noise.added(total, k))

    def _moved(self, state: TrainingState, k: Array, noised: Array) -> tuple[TrainingState, Any]:
        training, gradient = self.training, self.unravel(noised / self.algorithm.batch_size)
        update, memory = training.optimiser.update(gradient, state.memory, self.unravel(state.params))
        moved = state.params + ravel_pytree(update)[0]
        # A running average that starts at the first points would hold them for long: its decay grows with the steps.
        decay = jnp.minimum(training.average, (1.0 + k) / (10.0 + k))
        averaged = decay * state.averaged + (1.0 - decay) * moved
        seen = jnp.zeros(0) if training.watch is None else training.watch(self.unravel(noised))
        return TrainingState(moved, memory, averaged), seen

    def _sums(self, randomness: Randomness) -> tuple[WholeSums, bool]:
        """The sums of a run, and whether whole numbers can be noised that have the same bits in all places of a block.

        What decides is public: a drawn example, the parameters that the run starts from, and the device.
        """
        run, leaves, exact = self.algorithm, self.unravel(self.first), randomness.draws_exactly
        # Examples on the device at once: public, which the number at hand is not, under add-remove.
        block, most = _block(self.training, run), max(self.rows, run.records)

        def sums(noise: float, own_bits: bool = False) -> WholeSums:
            return WholeSums(self.loss, run.contribution, leaves, self.example, block, noise, most, own_bits)

        noise = float(run.sum_noise.max())
        for own_bits in (False, True) if exact else ():
            made = sums(noise, own_bits)
            if made.places_alike(leaves, np.random.default_rng(0)):
                return made, True
        return sums(noise if exact else 0.0), False

    def identity(self, salt: bytes) -> dict[str, Any]:
        """Everything a checkpoint is bound to, in plain values."""
        leaves, structure = jax.tree.flatten(self.examples)
        digest = traced(
            lambda flat, *values: self.loss(self.unravel(flat), jax.tree.unflatten(structure, values)),
            jax.ShapeDtypeStruct(self.first.shape, jnp.float32),
            *jax.tree.leaves(self.example),
        )
        chosen, start = self.training, content_digest(b"start", np.asarray(self.first))
        public = [chosen.average, chosen.microbatch, list(chosen.keep)]
        return platform() | {
            "spec": self.spec.to_dict(),
            "model": [digest, start, described(chosen.optimiser), public],
            "rows": [self.rows, [list(leaf.shape) for leaf in leaves]],
            "content": content_digest(salt, *(np.asarray(leaf) for leaf in leaves)),
        }

    def restored(self, found: Snapshot, first: TrainingState) -> tuple[TrainingState, Any, Any]:
        """The state of a snapshot, kept points and what was seen; `ValueError` for what does not fit this run."""
        seen = []
        if self.training.watch is not None:
            seen = [jax.eval_shape(self.training.watch, self.unravel(self.first))] * found.step
        kept = [first.params] * sum(one <= found.step for one in self.training.keep)
        expected, structure = jax.tree.flatten((first, kept, seen))
        arrays = [array for _, array in sorted(found.arrays.items())]
        for leaf, array in zip(expected, arrays, strict=True):
            # A file holds a single number as an array of one.
            if (jnp.shape(leaf) or (1,)) != array.shape or jnp.result_type(leaf) != array.dtype:
                raise ValueError(array.shape)
        shaped = [array.reshape(jnp.shape(leaf)) for leaf, array in zip(expected, arrays, strict=True)]
        return jax.tree.unflatten(structure, shaped)


def _block(training: Training, run: NoisedSums) -> int:
    return min(training.microbatch, max(1, run.records))


@dataclass(frozen=True, eq=False)
class Trained:
    """The release of a training run: post-processing of its noised sums, every one of which its spec certifies.

    Attributes:
        spec: the very object that ran.
        params: the weights after the last step.
        averaged: their running average; the same as `params` where none was asked for.
        kept: the weights after each step that `Training.keep` names.
        watched: what `Training.watch` took of the noised sums, stacked over steps; None where it took nothing.
        exact: whether noise was drawn in whole numbers, as sums are, so that floating point is covered.
    """

    spec: Spec
    params: Any
    averaged: Any
    kept: tuple[Any, ...] = ()
    watched: Any = None
    exact: bool = False

    @property
    def floating_point(self) -> Certificate:
        """What the release says about floating point."""
        return exactly_computed(COVERED) if self.exact else NOT_COVERED


def train(
    spec: Spec,
    loss: Loss,
    params: Any,
    examples: Any,
    randomness: Randomness,
    training: Training,
    *,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a network by noised sums of clipped gradients of `loss(params, example)`, one number for one example.

    The spec is of kind noised-sums, its query beginning with "clipped gradients". `params` is a tree of arrays that is
    public, or drawn without the data; `examples` one with examples along the first axis. A run that was killed resumes
    from its checkpoint. `progress` gets the steps made and their number.
    """
    validate.instance_of("randomness", randomness, Randomness)
    check_sums()
    run = TrainingRun(spec, loss, params, examples, training)
    keeper = Keeper(checkpoint, run.steps, run.identity, randomness)
    randomness = keeper.randomness
    state, batches = run.begin(randomness), run.batches(randomness)
    everybody = np.arange(run.rows, dtype=np.int32)
    kept, watched = list[NDArray[Any]](), list[NDArray[Any]]()

    def snapshot(step: int) -> Snapshot:
        leaves = jax.tree.leaves((state, kept, watched))
        arrays = {f"leaf{place:07d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        return Snapshot(step, arrays, randomness.held())

    if keeper.found is not None:
        with keeper.validating():
            state, kept, watched = run.restored(keeper.found, state)
        if batches is not None:
            batches.skip(keeper.begun)
    keeper.begin(snapshot)
    # A step is computed from copies, because its memory is given to the next one.
    state = jax.tree.map(jnp.array, state)
    for k in range(keeper.begun, run.steps):
        state, seen = run.step(state, k, everybody if batches is None else batches.take(1).batch())
        if training.watch is not None:
            watched.append(np.asarray(seen))
        if k + 1 in training.keep:
            kept.append(np.asarray(state.params))
        if progress is not None:
            progress(k + 1, run.steps)
        if keeper.due and k + 1 < run.steps:
            keeper.keep(snapshot(k + 1))

    def tree(flat: Any) -> Any:
        return jax.tree.map(np.asarray, run.unravel(jnp.asarray(flat)))

    last, averaged = tree(state.params), tree(state.averaged if training.average else state.params)
    seen = np.stack(watched) if watched else None
    trained = Trained(spec, last, averaged, tuple(map(tree, kept)), seen, run.exact)
    keeper.complete()
    return trained


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
    sums_exponent(run.contribution, size, float(run.sum_noise.max()), run.records, _block(training, run))
