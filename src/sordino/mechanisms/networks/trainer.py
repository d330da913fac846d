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
from sordino.core.validate import instance_of
from sordino.mechanisms.chain.run import Progress
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.training import Training, TrainingRun
from sordino.models.clip import check_sums
from sordino.noise.kernel_noise import NetworkNoise, floating_noise
from sordino.noise.lattice import COVERED, Total, in_doubles
from sordino.noise.randomness import Randomness


class TrainingState(NamedTuple):
    """Where a run is: parameters, what the optimiser remembers, and averaged parameters."""

    params: Array
    memory: Any
    averaged: Array


class TrainingSteps:
    """Makes the steps of a run, from the numbers of a batch's examples."""

    def __init__(self, run: TrainingRun, randomness: Randomness) -> None:
        self.run, self.randomness = run, randomness
        self.sums, self.exact = _sums_of(run, randomness)
        self.noise = NetworkNoise(randomness, run.noise, self.sums.exponent, run.dim)
        self.gathered = jax.jit(lambda examples, chosen: jax.tree.map(lambda leaf: leaf[chosen], examples))
        self.leaves_of = jax.jit(run.unravel)
        self.move = jax.jit(self._moved, donate_argnums=0)

    def first(self) -> TrainingState:
        run = self.run
        return TrainingState(run.first, run.training.optimiser.init(run.unravel(run.first)), run.first)

    def __call__(self, state: TrainingState, k: int, indices: NDArray[np.int32]) -> tuple[TrainingState, Any]:
        """The next state, and what is watched of the noised sum."""
        noised = self.noised(self._total(state.params, indices), k)
        return self.move(state, jnp.asarray(k, jnp.int32), noised)

    def _total(self, params: Array, indices: NDArray[np.int32]) -> Array:
        """The sum over examples, block by block; the last one is filled up and masked."""
        leaves, total, size = self.leaves_of(params), self.sums.zeros(), self.sums.block
        for first in range(0, len(indices), size):
            chosen = indices[first : first + size]
            present = np.zeros(size, np.float32)
            present[: len(chosen)] = 1.0
            padded = jnp.asarray(np.pad(chosen, (0, size - len(chosen))))
            # Examples are an input: as constants of the program they would be compiled into it.
            block = self.gathered(self.run.examples, padded)
            total = self.sums.plus(total, leaves, block, jnp.asarray(present))
        return total

    def noised(self, total: Array, k: int) -> Array:
        """The sum of step k with its noise."""
        if self.exact:
            return self.noise.added(total, k)
        gaussian = floating_noise(self.randomness, k, (1, self.run.dim), jnp.float32)[0]
        with in_doubles():
            sums = self.noise.as_floats(total)
        scale = jnp.asarray(self.run.noise[k], jnp.float32)
        return self.randomness.port.added(Total(jnp.zeros_like(sums), sums), scale, gaussian)

    def _moved(self, state: TrainingState, k: Array, noised: Array) -> tuple[TrainingState, Any]:
        run, training = self.run, self.run.training
        gradient = run.unravel(noised / run.algorithm.batch_size)
        update, memory = training.optimiser.update(gradient, state.memory, run.unravel(state.params))
        moved = state.params + ravel_pytree(update)[0]
        # A running average that starts at the first points would hold them for long: its decay grows with the steps.
        decay = jnp.minimum(training.average, (1.0 + k) / (10.0 + k))
        averaged = decay * state.averaged + (1.0 - decay) * moved
        seen = jnp.zeros(0) if training.watch is None else training.watch(run.unravel(noised))
        return TrainingState(moved, memory, averaged), seen


def _sums_of(run: TrainingRun, randomness: Randomness) -> tuple[WholeSums, bool]:
    """The sums of a run, and whether whole numbers can be noised that have the same bits in all places of a block."""
    # What decides is public: a drawn example, the parameters that the run starts from, and the device.
    exact = randomness.draws_exactly
    leaves, most = run.unravel(run.first), max(run.rows, run.algorithm.records)

    def sums(noise: float, own_bits: bool = False) -> WholeSums:
        clip = run.algorithm.contribution
        return WholeSums(run.loss, clip, leaves, run.example, run.block, noise, most, own_bits)

    for own_bits in (False, True) if exact else ():
        made = sums(float(run.noise.max()), own_bits)
        if made.places_alike(leaves, np.random.default_rng(0)):
            return made, True
    return sums(float(run.noise.max()) if exact else 0.0), False


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
    instance_of("randomness", randomness, Randomness)
    check_sums()
    run, keeper, begun = TrainingRun(spec, loss, params, examples, training), None, 0
    if checkpoint is not None:
        keeper = Keeper(checkpoint, run.steps, run.identity)
        randomness = keeper.resumed(randomness)
    steps, batches = TrainingSteps(run, randomness), run.batches(randomness)
    everybody = np.arange(run.rows, dtype=np.int32)
    state, kept, watched = steps.first(), list[NDArray[Any]](), list[NDArray[Any]]()

    def snapshot(step: int) -> Snapshot:
        leaves = jax.tree.leaves((state, kept, watched))
        arrays = {f"leaf{place:07d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        return Snapshot(step, arrays, randomness.held())

    if keeper is not None:
        if keeper.found is not None:
            begun = keeper.found.step
            with keeper.validating():
                state, kept, watched = _restored(keeper.found, steps, state)
            if batches is not None:
                batches.skip(begun)
        keeper.begin(snapshot(begun))
    # A step is computed from copies, because its memory is given to the next one.
    state = jax.tree.map(jnp.array, state)
    for k in range(begun, run.steps):
        state, seen = steps(state, k, everybody if batches is None else batches.take(1).batch())
        if training.watch is not None:
            watched.append(np.asarray(seen))
        if k + 1 in training.keep:
            kept.append(np.asarray(state.params))
        if progress is not None:
            progress(k + 1, run.steps)
        if keeper is not None and keeper.due and k + 1 < run.steps:
            keeper.keep(snapshot(k + 1))

    def tree(flat: Any) -> Any:
        return jax.tree.map(np.asarray, run.unravel(jnp.asarray(flat)))

    last, averaged = tree(state.params), tree(state.averaged if training.average else state.params)
    seen = np.stack(watched) if watched else None
    trained = Trained(spec, last, averaged, tuple(map(tree, kept)), seen, steps.exact)
    if keeper is not None:
        keeper.complete()
    return trained


def _restored(found: Snapshot, steps: TrainingSteps, first: TrainingState) -> tuple[TrainingState, Any, Any]:
    """The state of a snapshot, kept points and what was seen; `ValueError` for what does not fit this run."""
    run, seen = steps.run, []
    if run.training.watch is not None:
        seen = [jax.eval_shape(run.training.watch, run.unravel(run.first))] * found.step
    kept = [first.params] * sum(one <= found.step for one in run.training.keep)
    expected, structure = jax.tree.flatten((first, kept, seen))
    arrays = [array for _, array in sorted(found.arrays.items())]
    for leaf, array in zip(expected, arrays, strict=True):
        # A file holds a single number as an array of one.
        if (jnp.shape(leaf) or (1,)) != array.shape or jnp.result_type(leaf) != array.dtype:
            raise ValueError(array.shape)
    shaped = [array.reshape(jnp.shape(leaf)) for leaf, array in zip(expected, arrays, strict=True)]
    return jax.tree.unflatten(structure, shaped)
