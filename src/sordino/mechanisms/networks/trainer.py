"""Training runs: noised sums of clipped gradients, then any optimiser, averages of weights, and resumption.

    sum_k = sum over the batch of clipped gradients + noise;   params <- params + optimiser(sum_k / public divisor)

Whatever is done with a noised sum is post-processing: momentum, Adam, schedules, running averages of the weights and
kept points cost nothing. A spec of kind noised-sums has independent noise, one of kind matrix-mechanism correlated
noise. Batches have any size: they go over the device in microbatches of one public size, the last one masked.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import NOT_COVERED, Certificate, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.mechanisms.chain.batch_stream import BatchState
from sordino.mechanisms.chain.release import Progress, ProgressCallback
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, validating
from sordino.mechanisms.checkpoint_file import Record
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.steps import FloatingSteps, State, Steps, WholeSteps, whole_sums_of
from sordino.mechanisms.networks.training import Run, Training
from sordino.model.compiled import check_sums
from sordino.noise.lattice import COVERED
from sordino.noise.randomness import Randomness


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
    run = Run(spec, loss, params, examples, training, trainable, randomness.draws_exactly)
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
        run: Run,
        randomness: Randomness,
        steps: Steps,
        keeper: Keeper | None,
        progress: ProgressCallback | None,
    ) -> None:
        self.run, self.randomness, self.steps, self.keeper, self.progress = run, randomness, steps, keeper, progress
        self.batches = run.batches(randomness)
        self.everybody = np.arange(run.rows, dtype=np.int32)

    def made(self) -> Trained:
        run, training = self.run, self.run.training
        state = State(
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

    def _one(self, state: State, k: int) -> tuple[State, Any]:
        if self.batches is None:
            return self.steps(state, k, self.everybody)
        block = self.batches.take(1)
        first, count = int(block.starts[0, 0]), int(block.counts[0, 0])
        return self.steps(state, k, block.records[first : first + count])

    def _tree(self, flat: Any) -> Any:
        return self.run.whole([np.asarray(leaf) for leaf in self.run.unravel(jnp.asarray(flat))])

    def _moment(self, state: State, step: int, kept: list[Any], watched: list[Any]) -> Snapshot:
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

    def _taken_up(self, state: State) -> tuple[State, int, list[Any], list[Any]]:
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

    def _restored(self, moment: Snapshot, first: State) -> tuple[State, list[Any], list[Any]]:
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
