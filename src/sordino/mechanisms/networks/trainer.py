"""Training runs: noised sums of clipped gradients, then any optimiser, averages of weights, and resumption.

    sum_k = sum over the batch of clipped gradients + noise;   params <- params + optimiser(sum_k / public divisor)

Whatever is done with a noised sum is post-processing: momentum, Adam, schedules, running averages of the weights and
kept points cost nothing. A spec of kind noised-sums has independent noise, one of kind matrix-mechanism correlated
noise. Batches have any size: they go over the device in microbatches of one public size, the last one masked.

In *whole numbers* (`WholeSteps`) sums are those of `integer_sums`. Noise is a whole-number Gaussian on their lattice,
drawn on the host or on the accelerator, and nothing but the noised whole numbers reaches the optimiser. Three programs
make a step, each of a shape that depends on public numbers alone: one moves examples into blocks, which changes no bit;
one adds a block to the sum; one moves the parameters by the noised sum. So what floating point does before rounding and
after noise is the same for neighbours, whatever the number of examples is.

In *single precision* (`FloatingSteps`) sums and noise are floats, and the release says that floating point is not
covered. Correlated noise, which no lattice holds, has this way only.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from sordino.core.bound import NOT_COVERED, Certificate, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import InputError, instance_of
from sordino.mechanisms.chain.batch_stream import BatchState
from sordino.mechanisms.chain.release import Progress, ProgressCallback
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, validating
from sordino.mechanisms.checkpoint_file import Record
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.training import Training, TrainingRun
from sordino.models.clip import check_sums
from sordino.noise.device_gaussian import step_gaussians
from sordino.noise.lattice import COVERED, Total, in_doubles
from sordino.noise.port import ADDED, NoisePort, gaussian_call
from sordino.noise.randomness import Purpose, Randomness
from sordino.noise.rounded_gaussian import SCALES

# Noise of so many steps is drawn at once, by the number of its draws.
_DRAWS_AT_ONCE = 2**18


class TrainingState(NamedTuple):
    """Where a run is: parameters, what the optimiser remembers, averaged parameters, and past noise."""

    params: Array
    memory: Any
    averaged: Array
    noise: Array


class TrainingSteps(ABC):
    """Makes the steps of a run, from the numbers of a batch's examples."""

    def __init__(self, run: TrainingRun, randomness: Randomness) -> None:
        self.run, self.randomness = run, randomness
        self.size = run.block
        words = randomness.generator(Purpose.DRAWS).integers(0, 2**32, 2, dtype=np.uint32)
        self.views_key = jax.random.wrap_key_data(jnp.asarray(words))
        self.gathered, self.leaves_of = jax.jit(self._block), jax.jit(run.unravel)

    @abstractmethod
    def __call__(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        """The next state, and what is handed out of the noised sum."""

    def _total(self, total: Any, plus: Callable[..., Any], params: Array, k: Array, indices: NDArray[np.int32]) -> Any:
        """A sum over examples, block by block: `plus` adds one block to it. The last one is filled up and masked."""
        leaves = self.leaves_of(params)
        for first in range(0, len(indices), self.size):
            chosen = indices[first : first + self.size]
            present = np.zeros(self.size, np.float32)
            present[: len(chosen)] = 1.0
            padded = jnp.asarray(np.pad(chosen, (0, self.size - len(chosen))))
            # Examples are an input: as constants of the program they would be compiled into it.
            total = plus(total, leaves, self.gathered(self.run.examples, k, padded), jnp.asarray(present))
        return total

    def seen(self, noised: Array) -> Any:
        """What is handed out of a noised sum."""
        watch = self.run.training.watch
        return None if watch is None else watch(self.run.whole(self.run.unravel(noised)))

    def _moved(self, state: TrainingState, k: Array, noised: Array, past: Array) -> tuple[TrainingState, Any]:
        run, training = self.run, self.run.training
        gradient = run.unravel(noised / run.divisor)
        update, memory = training.optimiser.update(gradient, state.memory, run.unravel(state.params))
        moved = state.params + ravel_pytree(update)[0]
        # A running average that starts at the first points would hold them for long: its decay grows with the steps.
        decay = jnp.minimum(training.average, (1.0 + k) / (10.0 + k))
        averaged = decay * state.averaged + (1.0 - decay) * moved
        return TrainingState(moved, memory, averaged, past), self.seen(noised)

    def _block(self, examples: Any, k: Array, chosen: Array) -> Any:
        """Some examples, each with the words of its own views."""
        key = jax.random.fold_in(self.views_key, k)
        words = jax.vmap(lambda row: jax.random.key_data(jax.random.fold_in(key, row)))(chosen)
        return jax.tree.map(lambda leaf: leaf[chosen], examples), words


class FloatingSteps(TrainingSteps):
    """Sums and noise in single precision."""

    def __init__(self, run: TrainingRun, randomness: Randomness) -> None:
        super().__init__(run, randomness)
        self.plus, self.move = jax.jit(self._plus), jax.jit(self._noised_and_moved, donate_argnums=0)

    def __call__(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        number, none = jnp.asarray(k, jnp.int32), jnp.zeros(self.run.dim, jnp.float32)
        total = self._total(none, self.plus, state.params, number, indices)
        gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.run.dim,), jnp.float32)[0]
        return self.move(state, number, total, gaussian, jnp.asarray(self.run.noise[k], jnp.float32))

    def _plus(self, total: Array, leaves: Any, block: Any, present: Array) -> Array:
        return total + ravel_pytree(self.run.clipped.part(leaves, block, present))[0]

    def _noised_and_moved(
        self, state: TrainingState, k: Array, total: Array, gaussian: Array, scale: Array
    ) -> tuple[TrainingState, Any]:
        noise, past = self.run.correlation.step(gaussian, state.noise)
        return self._moved(state, k, noised_total(self.randomness.port, total, scale, noise), past)


class WholeSteps(TrainingSteps):
    """Sums and noise in whole numbers."""

    def __init__(self, run: TrainingRun, randomness: Randomness, sums: WholeSums) -> None:
        super().__init__(run, randomness)
        self.sums = sums
        self.scales = np.maximum(np.ldexp(run.noise, -self.sums.exponent), SCALES.low)
        self.move = jax.jit(lambda state, k, noised: self._moved(state, k, noised, state.noise), donate_argnums=0)
        self.as_floats = jax.jit(self._as_floats)
        self._drawn: tuple[int, Any] = (0, ())

    def __call__(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        number = jnp.asarray(k, jnp.int32)
        total = self._total(self.sums.zeros(), self.sums.plus, state.params, number, indices)
        return self.move(state, number, self._noised(total, k))

    def _noised(self, total: Array, k: int) -> Array:
        port = self.randomness.port
        if port is ADDED:
            with in_doubles():
                return self.as_floats(total, self._noise(k))
        sums = np.asarray(total)
        answer = port.answer(
            gaussian_call(sums, self.run.noise[k], self.sums.spacing),
            lambda: np.ldexp((sums + np.asarray(self._noise(k))).astype(np.float64), self.sums.exponent),
        )
        return jnp.asarray(np.asarray(answer), jnp.float32)

    def _as_floats(self, total: Array, noise: Array) -> Array:
        return ((total + noise).astype(jnp.float64) * self.sums.spacing).astype(jnp.float32)

    def _noise(self, k: int) -> Any:
        """Noise of a step, which depends on its number alone; drawn for several steps at once."""
        first, drawn = self._drawn
        if not first <= k < first + len(drawn):
            steps = min(max(1, _DRAWS_AT_ONCE // self.run.dim), self.run.steps - k)
            if jax.default_backend() == "cpu":
                drawn = self.randomness.whole_gaussians(Purpose.NOISE, k, steps, self.scales, self.run.dim)
            else:
                drawn = step_gaussians(self.randomness, Purpose.NOISE, k, self.scales[k : k + steps], self.run.dim)
            first, self._drawn = k, (k, drawn)
        with in_doubles():
            return jnp.asarray(drawn[k - first])


def whole_sums_of(run: TrainingRun) -> WholeSums | None:
    """The sums of a run in whole numbers; None where it is in single precision, or where places are not alike here.

    Where a device's own products differ by place, `reproducible_ops` takes their place. What decides is public: a drawn
    example, the parameters that the run starts from, and the device.
    """
    if not run.exact:
        return None
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), run.examples)
    example = (one, jax.ShapeDtypeStruct((2,), jnp.uint32))
    leaves, noise = run.unravel(run.first), float(run.noise.max())
    for own_bits in (False, True):
        sums = WholeSums(run.clipped, leaves, example, run.block, noise, max(run.rows, run.records), own_bits)
        if sums.places_alike(leaves, np.random.default_rng(0)):
            return sums
    if run.training.exact:
        raise InputError(
            "Expected a program that computes the same bits for an example wherever it stands in a block, got one that "
            f"does not on {jax.devices()[0].device_kind}; set exact=False, and the release says that floating point is "
            "not covered, or microbatch=1, which is slow."
        )
    return None


def noised_total(port: NoisePort, total: Array, scale: Array, noise: Array) -> Array:
    """The sum plus noise, through the port where noise meets statistics of rows."""
    if port is ADDED:
        return total + scale * noise
    return port.added(Total(total, jnp.zeros_like(total)), scale, noise)


@dataclass(frozen=True, eq=False)
class Trained:
    """What leaves a training run: post-processing of its noised sums, every one of which its spec certifies.

    Attributes:
        spec: the very object that ran.
        params: the weights after the last step, frozen leaves included.
        averaged: their running average; the same as `params` where none was asked for.
        kept: the weights after each step that `Training.keep` names.
        watched: what `Training.watch` took of the noised sums, stacked over steps; None where it took nothing.
        exact: whether sums and noise were whole numbers, so that floating point is covered.
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
    trainable: Callable[[str], bool] | None = None,
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Train a network by noised sums of clipped gradients.

    Args:
        spec: kind noised-sums, its query beginning with "clipped gradients", or kind matrix-mechanism.
        loss: `loss(params, example)` of one example, a number.
        params: a tree of arrays to start from: public, or drawn without the data.
        examples: a tree of arrays, examples along the first axis.
        randomness: `SecureRandomness` for a release, `SeededRandomness` to try things out.
        training: the optimiser and other public choices.
        trainable: told the path of a leaf, such as "['head']['w']", whether it is trained; absent: all are.
        checkpoint: where the run is written down, to be gone on with after it was stopped.
        progress: called after every step.

    Returns:
        `Trained`: weights, running average and kept points.

    Raises:
        InputError: for a loss that mixes examples, leaves that cannot be trained, or rows that do not fit the spec.
    """
    instance_of("randomness", randomness, Randomness)
    check_sums()
    run = TrainingRun(spec, loss, params, examples, training, trainable, randomness.draws_exactly)
    sums = whole_sums_of(run)
    run.exact = sums is not None
    keeper = None
    if checkpoint is not None:
        keeper = Keeper(checkpoint, run.steps, run.identity)
        if keeper.found is not None:
            with validating(checkpoint.path):
                randomness = randomness.resumed(keeper.found.record.values["randomness"])
    steps = FloatingSteps(run, randomness) if sums is None else WholeSteps(run, randomness, sums)
    return _Loop(run, randomness, steps, keeper, progress).made()


class _Loop:
    """The steps of a run: the one place where it makes progress, is written down, and is stopped."""

    def __init__(
        self,
        run: TrainingRun,
        randomness: Randomness,
        steps: TrainingSteps,
        keeper: Keeper | None,
        progress: ProgressCallback | None,
    ) -> None:
        self.run, self.randomness, self.steps, self.keeper, self.progress = run, randomness, steps, keeper, progress
        self.batches = run.batches(randomness)
        self.everybody = np.arange(run.rows, dtype=np.int32)

    def made(self) -> Trained:
        run, training = self.run, self.run.training
        state = TrainingState(
            run.first,
            training.optimiser.init(run.unravel(run.first)),
            run.first,
            jnp.zeros((len(run.correlation.past), run.dim)),
        )
        kept: list[NDArray[Any]] = []
        watched: list[Any] = []
        begun, number = time.monotonic(), 0
        if self.keeper is not None:
            state, number, kept, watched = self._taken_up(state)
        # A step is computed from copies, because its memory is given to the next one.
        state = jax.tree.map(jnp.array, state)
        with nullcontext() if self.keeper is None else self.keeper.stop:
            for k in range(number, run.steps):
                state, seen = self._one(state, k)
                if training.watch is not None:
                    watched.append(jax.tree.map(np.asarray, seen))
                if k + 1 in training.keep:
                    kept.append(np.asarray(state.params))
                if self.progress is not None:
                    self.progress(Progress(k + 1, run.steps, time.monotonic() - begun))
                if self.keeper is not None and self.keeper.due and k + 1 < run.steps:
                    self.keeper.keep(self._moment(state, k + 1, kept, watched))
        trained = Trained(
            run.spec,
            self._tree(state.params),
            self._tree(state.averaged if training.average else state.params),
            tuple(self._tree(one) for one in kept),
            jax.tree.map(lambda *values: np.stack(values), *watched) if watched else None,
            run.exact,
        )
        if self.keeper is not None:
            self.keeper.complete()
        return trained

    def _one(self, state: TrainingState, k: int) -> tuple[TrainingState, Any]:
        if self.batches is None:
            return self.steps(state, k, self.everybody)
        block = self.batches.take(1)
        first, count = int(block.starts[0, 0]), int(block.counts[0, 0])
        return self.steps(state, k, block.records[first : first + count])

    def _tree(self, flat: Any) -> Any:
        return self.run.whole([np.asarray(leaf) for leaf in self.run.unravel(jnp.asarray(flat))])

    def _moment(self, state: TrainingState, step: int, kept: list[Any], watched: list[Any]) -> Snapshot:
        stream = None if self.batches is None else self.batches.state()
        values = {
            "block": 1,
            "randomness": self.randomness.held(),
            "batches": None if stream is None else [stream.generator, int(stream.number)],
        }
        leaves = [*jax.tree.leaves(state), *kept, *jax.tree.leaves(watched)]
        arrays = {f"leaf{place:05d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        arrays["waiting"] = np.zeros(0) if stream is None else np.asarray(stream.waiting)
        return Snapshot(step, Record(values, arrays))

    def _taken_up(self, state: TrainingState) -> tuple[TrainingState, int, list[Any], list[Any]]:
        """The state to begin from: the first one, or that of the moment an earlier process wrote."""
        keeper = self.keeper
        kept: list[Any] = []
        watched: list[Any] = []
        step = 0
        if keeper is not None and keeper.found is not None:
            with validating(keeper.checkpoint.path):
                state, kept, watched = self._restored(keeper.found, state)
                step = keeper.found.step
        if keeper is not None:
            keeper.begin(self._moment(state, step, kept, watched))
        return state, step, kept, watched

    def _restored(self, moment: Snapshot, first: TrainingState) -> tuple[TrainingState, list[Any], list[Any]]:
        values, arrays = moment.record.values, moment.record.arrays
        leaves, structure = jax.tree.flatten(first)
        found = [arrays[name] for name in sorted(name for name in arrays if name.startswith("leaf"))]
        for leaf, array in zip(leaves, found, strict=False):
            # A file holds a single number as an array of one.
            if (jnp.shape(leaf) or (1,)) != array.shape or jnp.result_type(leaf) != array.dtype:
                raise ValueError(array.shape)
        shaped = [jnp.asarray(array).reshape(jnp.shape(leaf)) for leaf, array in zip(leaves, found, strict=False)]
        state = jax.tree.unflatten(structure, shaped)
        many = sum(one <= moment.step for one in self.run.training.keep)
        kept, rest = found[len(leaves) : len(leaves) + many], found[len(leaves) + many :]
        watched: list[Any] = []
        if self.run.training.watch is not None and moment.step:
            shapes, inner = jax.tree.flatten(jax.eval_shape(self.steps.seen, self.run.first))
            for k in range(moment.step):
                some = rest[k * len(shapes) : (k + 1) * len(shapes)]
                shaped = [array.reshape(shape.shape) for array, shape in zip(some, shapes, strict=True)]
                watched.append(jax.tree.unflatten(inner, shaped))
        if self.batches is not None:
            stream = values["batches"]
            self.batches.restore(BatchState(str(stream[0]), stream[1], arrays["waiting"]), moment.step)
        return state, kept, watched
