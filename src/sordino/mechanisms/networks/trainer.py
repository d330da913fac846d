"""Training runs: noised sums of clipped gradients, then any optimiser, averages of weights, and resumption.

    sum_k = sum over the batch of clipped gradients + noise;   params <- params + optimiser(sum_k / public divisor)

Whatever is done with a noised sum is post-processing: momentum, Adam, schedules, running averages of the weights and
kept points cost nothing. A spec of kind noised-sums has independent noise, one of kind matrix-mechanism correlated
noise. Batches have any size: they go over the device in microbatches of one public size, the last one masked.

Sums are the whole numbers of `integer_sums`. Noise is a whole-number Gaussian on their lattice, drawn on the host or on
the accelerator, and nothing but the noised whole numbers reaches the optimiser. Three programs make a step, each of a
shape that depends on public numbers alone: one moves examples into blocks, which changes no bit; one adds a block to
the sum; one moves the parameters by the noised sum. So what floating point does before rounding and after noise is the
same for neighbours, whatever the number of examples is.

Correlated noise, which no lattice holds, is drawn in single precision, and the release says that floating point is not
covered.
"""

import time
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
from sordino.mechanisms.chain.release import Progress, ProgressCallback
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, validating
from sordino.mechanisms.checkpoint_file import Record
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.training import Training, TrainingRun
from sordino.models.clip import check_sums
from sordino.noise.device_gaussian import step_gaussians
from sordino.noise.lattice import COVERED, Total, in_doubles
from sordino.noise.port import ADDED, gaussian_call
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


class TrainingSteps:
    """Makes the steps of a run, from the numbers of a batch's examples."""

    def __init__(self, run: TrainingRun, randomness: Randomness, sums: WholeSums) -> None:
        self.run, self.randomness, self.sums = run, randomness, sums
        words = randomness.generator(Purpose.DRAWS).integers(0, 2**32, 2, dtype=np.uint32)
        self.views_key = jax.random.wrap_key_data(jnp.asarray(words))
        self.scales = np.maximum(np.ldexp(run.noise, -sums.exponent), SCALES.low)
        self.gathered, self.leaves_of = jax.jit(self._block), jax.jit(run.unravel)
        self.as_floats, self.move = jax.jit(self._as_floats), jax.jit(self._moved, donate_argnums=0)
        self._drawn: tuple[int, Any] = (0, ())

    def __call__(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        """The next state, and what is handed out of the noised sum."""
        number = jnp.asarray(k, jnp.int32)
        total = self._total(state.params, number, indices)
        noised, past = (self._noised(total, k), state.noise) if self.run.exact else self._floating(total, k, state)
        return self.move(state, number, noised, past)

    def _total(self, params: Array, k: Array, indices: NDArray[np.int32]) -> Array:
        """The sum over examples, block by block; the last one is filled up and masked."""
        leaves, total, size = self.leaves_of(params), self.sums.zeros(), self.sums.block
        for first in range(0, len(indices), size):
            chosen = indices[first : first + size]
            present = np.zeros(size, np.float32)
            present[: len(chosen)] = 1.0
            padded = jnp.asarray(np.pad(chosen, (0, size - len(chosen))))
            # Examples are an input: as constants of the program they would be compiled into it.
            block = self.gathered(self.run.examples, k, padded)
            total = self.sums.plus(total, leaves, block, jnp.asarray(present))
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

    def _as_floats(self, total: Array, noise: Array | int = 0) -> Array:
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

    def _floating(self, total: Array, k: int, state: TrainingState) -> tuple[Array, Array]:
        """The noised sum in single precision, and the noise that later steps are correlated with."""
        gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.run.dim,), jnp.float32)[0]
        noise, past = self.run.correlation.step(gaussian, state.noise)
        with in_doubles():
            sums = self.as_floats(total)
        scale, port = jnp.asarray(self.run.noise[k], jnp.float32), self.randomness.port
        added = sums + scale * noise if port is ADDED else port.added(Total(sums, jnp.zeros_like(sums)), scale, noise)
        return added, past


def sums_of(run: TrainingRun) -> tuple[WholeSums, bool]:
    """The sums of a run, and whether a contribution has the same bits in all places of a block here.

    Where a device's own products differ by place, `reproducible_ops` takes their place. What decides is public: a drawn
    example, the parameters that the run starts from, and the device.
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), run.examples)
    example = (one, jax.ShapeDtypeStruct((2,), jnp.uint32))
    leaves, noise = run.unravel(run.first), float(run.noise.max()) if run.exact else 0.0

    def made(own_bits: bool) -> WholeSums:
        most = max(run.rows, run.records)
        clip, precision = run.algorithm.contribution, run.training.precision
        return WholeSums(run.own_loss, clip, leaves, example, run.block, noise, most, precision, own_bits)

    if not run.exact:
        return made(False), False
    for own_bits in (False, True):
        sums = made(own_bits)
        if sums.places_alike(leaves, np.random.default_rng(0)):
            return sums, True
    if run.training.exact:
        raise InputError(
            "Expected a program that computes the same bits for an example wherever it stands in a block, got one that "
            f"does not on {jax.devices()[0].device_kind}; set exact=False, and the release says that floating point is "
            "not covered, or microbatch=1, which is slow."
        )
    return made(False), False


@dataclass(frozen=True, eq=False)
class Trained:
    """What leaves a training run: post-processing of its noised sums, every one of which its spec certifies.

    Attributes:
        spec: the very object that ran.
        params: the weights after the last step, frozen leaves included.
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
        checkpoint: the file from which an interrupted run resumes.
        progress: called after every step.

    Returns:
        `Trained`: weights, running average and kept points.

    Raises:
        InputError: for a loss that mixes examples, leaves that cannot be trained, or rows that do not fit the spec.
    """
    instance_of("randomness", randomness, Randomness)
    check_sums()
    run = TrainingRun(spec, loss, params, examples, training, trainable, randomness.draws_exactly)
    sums, run.exact = sums_of(run)
    keeper = None
    if checkpoint is not None:
        keeper = Keeper(checkpoint, run.steps, run.identity)
        randomness = keeper.resumed(randomness)
    return _Loop(run, randomness, TrainingSteps(run, randomness, sums), keeper, progress).made()


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
            state, number, kept, watched = self._taken_up(state, self.keeper)
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
        values = {"block": 1, "randomness": self.randomness.held()}
        leaves = jax.tree.leaves((state, kept, watched))
        arrays = {f"leaf{place:07d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        return Snapshot(step, Record(values, arrays))

    def _taken_up(self, state: TrainingState, keeper: Keeper) -> tuple[TrainingState, int, list[Any], list[Any]]:
        """The state to begin from: the first one, or that of the moment an earlier process wrote."""
        kept, watched, step = list[Any](), list[Any](), 0
        if keeper.found is not None:
            with validating(keeper.checkpoint.path):
                state, kept, watched = self._restored(keeper.found, state)
                step = keeper.found.step
        keeper.begin(self._moment(state, step, kept, watched))
        return state, step, kept, watched

    def _restored(self, moment: Snapshot, first: TrainingState) -> tuple[TrainingState, list[Any], list[Any]]:
        training = self.run.training
        seen = [] if training.watch is None else [jax.eval_shape(self.steps.seen, self.run.first)] * moment.step
        kept = [first.params] * sum(one <= moment.step for one in training.keep)
        expected, structure = jax.tree.flatten((first, kept, seen))
        found = [array for _, array in sorted(moment.record.arrays.items())]
        for leaf, array in zip(expected, found, strict=True):
            # A file holds a single number as an array of one.
            if (jnp.shape(leaf) or (1,)) != array.shape or jnp.result_type(leaf) != array.dtype:
                raise ValueError(array.shape)
        if self.batches is not None:
            self.batches.skip(moment.step)
        shaped = [array.reshape(jnp.shape(leaf)) for leaf, array in zip(expected, found, strict=True)]
        return jax.tree.unflatten(structure, shaped)
