"""Training runs: noised sums of clipped gradients, then any optimiser, averages of weights, and resumption.

    sum_k = sum over the batch of clipped gradients + noise;   params <- params + optimiser(sum_k / public divisor)

Whatever is done with a noised sum is post-processing: momentum, Adam, schedules, running averages of the weights and
kept points cost nothing. A spec of kind noised-sums has independent noise, one of kind matrix-mechanism correlated
noise. Batches have any size: they go over the device in microbatches of one public size, the last one masked.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from sordino.algorithm.chain.batch_stream import Batches, BatchState, Sampling
from sordino.algorithm.chain.batches import batches_for
from sordino.algorithm.chain.release import Progress, ProgressCallback
from sordino.algorithm.io.checkpoint import Checkpoint, Keeper, Moment, believing, content_digest, described, traced
from sordino.algorithm.io.checkpoint_file import Record
from sordino.algorithm.noise.exact_sums import Total
from sordino.algorithm.noise.randomness import ADDED, NoisePort, Purpose, Randomness
from sordino.algorithm.training.clipped import Clipped, check_examples
from sordino.algorithm.training.correlated import INDEPENDENT, Correlation, by_place, correlation_of, participating
from sordino.algorithm.training.uses import Loss, check_leaves
from sordino.core.bound import Relation, View
from sordino.core.spec import MatrixMechanism, NoisedSums, Spec, SumShape, Unit
from sordino.core.validate import COUNT, Interval, instance_of, number, refuse, whole_number
from sordino.core.version import __version__

QUERY = "clipped gradients"
_SHARE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class Descent:
    """Gradient descent with momentum, for whoever has no optax."""

    rate: float
    momentum: float = 0.0

    def init(self, params: Any) -> Any:
        """No velocity."""
        return jax.tree.map(jnp.zeros_like, params)

    def update(self, gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        """The update and the next velocity."""
        del params
        velocity = jax.tree.map(lambda old, new: self.momentum * old + new, state, gradient)
        return jax.tree.map(lambda one: -self.rate * one, velocity), velocity


@dataclass(frozen=True)
class Training:
    """Public choices of a training run; none of them touches the guarantee.

    Attributes:
        optimiser: turns noised mean gradients into updates, such as `optax.adam(1e-3)`.
        average: decay of the running average of the weights; 0 for none.
        microbatch: examples on the device at once.
        precision: "float32" or "mixed" (see `Clipped`).
        augment: `augment(key, example)`, another view of an example, or None.
        views: how many views of an example its gradient is averaged over before it is clipped.
        divisor: what sums are divided by where the spec does not say (matrix mechanisms).
        keep: numbers of the steps after which the weights are kept, such as those of an ensemble.
        watch: of every noised sum, a tree like the parameters, what is handed out beside the weights.
    """

    optimiser: Any
    average: float = 0.0
    microbatch: int = 512
    precision: str = "float32"
    augment: Callable[[Array, Any], Any] | None = None
    views: int = 1
    divisor: int | None = None
    keep: tuple[int, ...] = field(default=())
    watch: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not (callable(getattr(self.optimiser, "init", None)) and callable(getattr(self.optimiser, "update", None))):
            raise refuse("optimiser", "to have init and update, as those of optax", type(self.optimiser).__name__)
        object.__setattr__(self, "average", number("average", self.average, _SHARE))
        object.__setattr__(self, "views", whole_number("views", self.views))
        if self.divisor is not None:
            object.__setattr__(self, "divisor", whole_number("divisor", self.divisor, COUNT))
        if self.views > 1 and self.augment is None:
            raise refuse("views", "to be 1 where nothing is augmented", self.views, "give augment")


@dataclass(frozen=True, eq=False)
class Trained:
    """What leaves a training run: post-processing of its noised sums, every one of which its spec certifies.

    Attributes:
        spec: the very object that ran.
        params: the weights after the last step, frozen leaves included.
        averaged: their running average; the same as `params` where none was asked for.
        kept: the weights after each step that `Training.keep` names.
        watched: what `Training.watch` took of the noised sums, stacked over steps; None where it took nothing.
    """

    spec: Spec
    params: Any
    averaged: Any
    kept: tuple[Any, ...] = ()
    watched: Any = None


class _State(NamedTuple):
    params: Array
    memory: Any
    averaged: Array
    noise: Array


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
    run = _Run(spec, loss, params, examples, training, trainable)
    instance_of("randomness", randomness, Randomness)
    keeper = None
    if checkpoint is not None:
        keeper = Keeper(checkpoint, run.steps, run.identity)
        if keeper.found is not None:
            with believing(checkpoint.path):
                randomness = randomness.resumed(keeper.found.record.values["randomness"])
    return _Loop(run, randomness, keeper, progress).made()


def frozen_apart(params: Any, trainable: Callable[[str], bool] | None) -> tuple[list[Any], Callable[[Any], Any]]:
    """The leaves that are trained, and how to put them back among the others."""
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    chosen = [trainable is None or bool(trainable(jax.tree_util.keystr(path))) for path, _ in found]
    leaves = [leaf for _, leaf in found]

    def whole(trained: Sequence[Any]) -> Any:
        fresh = iter(trained)
        return jax.tree.unflatten(
            structure, [next(fresh) if use else leaf for use, leaf in zip(chosen, leaves, strict=True)]
        )

    return [leaf for use, leaf in zip(chosen, leaves, strict=True) if use], whole


class _Run:
    """A described run on given examples, checked before any of them is used."""

    def __init__(
        self,
        spec: Spec,
        loss: Loss,
        params: Any,
        examples: Any,
        training: Training,
        trainable: Callable[[str], bool] | None,
    ) -> None:
        self.spec, self.training = spec, instance_of("training", training, Training)
        if not isinstance(spec.algorithm, NoisedSums | MatrixMechanism):
            words = spec.algorithm.words
            raise refuse("algorithm.kind", "to be noised-sums or matrix-mechanism for a training run", words)
        self.algorithm = spec.algorithm
        self.rows = check_examples(examples)
        self.noise, self.correlation = self._noise()
        self.examples = jax.tree.map(jnp.asarray, examples)
        trained, self.whole = frozen_apart(params, trainable)
        check_leaves(params if trainable is None else trained)
        flat, self.unravel = ravel_pytree([jnp.asarray(leaf, jnp.float32) for leaf in trained])
        self.first, self.dim = flat, len(flat)
        self.loss = loss
        self.clipped = Clipped(self._own_loss, self._contribution, training.microbatch, training.precision)

    @property
    def steps(self) -> int:
        return self.algorithm.rounds if isinstance(self.algorithm, NoisedSums) else self.algorithm.steps

    @property
    def _contribution(self) -> float:
        return self.algorithm.contribution

    def _noise(self) -> tuple[NDArray[np.float64], Correlation]:
        """The noise of every step, and its correlation; what this run cannot be is refused."""
        run = self.algorithm
        if self.spec.view is not View.ALL_ITERATES:
            raise refuse("view", "to be all-iterates for a training run", self.spec.view.value)
        if isinstance(run, NoisedSums):
            if not run.query.startswith(QUERY):
                raise refuse("algorithm.query", f"to begin with {QUERY!r} for a training run", run.query)
            if run.unit is not Unit.RECORD or run.shape is not SumShape.VECTOR:
                raise refuse("algorithm.unit", "to be one record, and sums of vectors", run.words)
            self._check_rows(run.records)
            return run.sum_noise, INDEPENDENT
        if self.training.divisor is None:
            raise refuse("divisor", "to be given for a matrix mechanism", None, "state the expected batch")
        if by_place(run.participation) and self.spec.relation is not Relation.REPLACE_ONE:
            raise refuse(
                "relation",
                "to be replace-one where turns go by place in the table",
                self.spec.relation.value,
                "draw turns by balls-in-bins, poisson or random-allocation",
            )
        return np.full(run.steps, run.noise_multiplier * run.contribution), correlation_of(run.strategy, run.steps)

    def _check_rows(self, records: int) -> None:
        """Under replace-one the number of rows is public and stated; under add-remove it is not to be told."""
        if self.spec.relation is Relation.REPLACE_ONE and self.rows != records:
            raise refuse("examples", f"to be algorithm.records = {records} rows", self.rows)

    @property
    def divisor(self) -> int:
        """The public number that sums are divided by; never one that is read off the rows."""
        given = self.training.divisor
        if given is None and isinstance(self.algorithm, NoisedSums):
            return self.algorithm.batch_size
        return whole_number("divisor", given, COUNT)

    def batches(self, randomness: Randomness) -> Batches | None:
        generator = randomness.generator(Purpose.BATCHES)
        run = self.algorithm
        if isinstance(run, MatrixMechanism):
            return participating(run, self.rows, generator)
        sampling = Sampling(
            rows=self.rows,
            size=run.batch_size,
            rate=run.sampling.chance(run.records),
            chains=1,
            steps=run.rounds,
            generator=generator,
            round=run.batches_per_epoch,
            uses=run.sampling.uses or 1,
            cap=run.sampling.most,
            separation=run.sampling.apart(run.records),
        )
        return batches_for(run.sampling.scheme, sampling)

    def _own_loss(self, leaves: Any, example: Any) -> Array:
        """The loss of an example, in the leaves that are trained, averaged over its views."""
        values, words = example
        params = self.whole(leaves)
        if self.training.augment is None:
            return self.loss(params, values)
        key = jax.random.wrap_key_data(words)
        augment = self.training.augment
        if self.training.views == 1:
            return self.loss(params, augment(key, values))
        keys = jax.random.split(key, self.training.views)
        return jnp.mean(jax.vmap(lambda one: self.loss(params, augment(one, values)))(keys))

    def identity(self, salt: bytes) -> dict[str, Any]:
        """What a checkpoint is bound to."""
        leaves = jax.tree.leaves(self.examples)
        one = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
        structure = jax.tree.structure(self.examples)
        start = content_digest(b"start", np.asarray(self.first))
        digest = traced(
            lambda flat, *values: self._own_loss(
                self.unravel(flat), (jax.tree.unflatten(structure, values), jnp.zeros(2, jnp.uint32))
            ),
            jax.ShapeDtypeStruct((self.dim,), jnp.float32),
            *one,
        )
        chosen = self.training
        public = [chosen.average, chosen.microbatch, chosen.precision, chosen.views, chosen.divisor, list(chosen.keep)]
        return {
            "sordino": __version__,
            "jax": [jax.__version__, version("jaxlib")],
            "numpy": np.__version__,
            "device": [jax.default_backend(), jax.devices()[0].device_kind],
            "precision": chosen.precision,
            "spec": self.spec.to_dict(),
            "model": [digest, start, described(chosen.optimiser), public],
            "rows": [self.rows, [list(leaf.shape) for leaf in leaves]],
            "content": content_digest(salt, *(np.asarray(leaf) for leaf in leaves)),
        }


class _Loop:
    """The steps of a run: the one place where it makes progress, is written down, and is stopped."""

    def __init__(
        self, run: _Run, randomness: Randomness, keeper: Keeper | None, progress: ProgressCallback | None
    ) -> None:
        self.run, self.randomness, self.keeper, self.progress = run, randomness, keeper, progress
        self.batches = run.batches(randomness)
        words = randomness.generator(Purpose.DRAWS).integers(0, 2**32, 2, dtype=np.uint32)
        self.views_key = jax.random.wrap_key_data(jnp.asarray(words))
        self.step = jax.jit(self._stepped, donate_argnums=0)
        self.everybody = self._padded(np.arange(run.rows, dtype=np.int32))

    def made(self) -> Trained:
        run, training = self.run, self.run.training
        state = _State(
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
        )
        if self.keeper is not None:
            self.keeper.complete()
        return trained

    def _one(self, state: _State, k: int) -> tuple[_State, Any]:
        if self.batches is None:
            indices, count = self.everybody, self.run.rows
        else:
            block = self.batches.take(1)
            count = int(block.counts[0, 0])
            first = int(block.starts[0, 0])
            indices = self._padded(block.records[first : first + count])
        gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.run.dim,), jnp.float32)[0]
        scale = jnp.asarray(self.run.noise[k], jnp.float32)
        number, many = jnp.asarray(k, jnp.int32), jnp.asarray(count, jnp.int32)
        # Examples are an input: as constants of the program they would be compiled into it.
        return self.step(state, self.run.examples, number, indices, many, gaussian, scale)

    def _padded(self, indices: NDArray[np.int32]) -> Array:
        """Room for whole microbatches, in sizes that grow by half: nearby batches share a program."""
        size = min(self.run.training.microbatch, max(1, self.run.rows))
        parts = 1
        while parts * size < len(indices):
            parts = -(-3 * parts // 2)
        return jnp.asarray(np.pad(indices, (0, parts * size - len(indices))))

    def _stepped(
        self, state: _State, examples: Any, k: Array, indices: Array, count: Array, gaussian: Array, scale: Array
    ) -> tuple[_State, Any]:
        run, training = self.run, self.run.training
        total = self._total(run.unravel(state.params), examples, k, indices, count)
        noise, past = run.correlation.step(gaussian, state.noise)
        noised = noised_total(self.randomness.port, ravel_pytree(total)[0], scale, noise)
        gradient = run.unravel(noised / run.divisor)
        update, memory = training.optimiser.update(gradient, state.memory, run.unravel(state.params))
        moved = state.params + ravel_pytree(update)[0]
        # A running average that starts at the first points would hold them for long: its decay grows with the steps.
        decay = jnp.minimum(training.average, (1.0 + k) / (10.0 + k))
        averaged = decay * state.averaged + (1.0 - decay) * moved
        return _State(moved, memory, averaged, past), self._seen(noised)

    def _seen(self, noised: Array) -> Any:
        """What is handed out of a noised sum."""
        watch = self.run.training.watch
        return None if watch is None else watch(self.run.whole(self.run.unravel(noised)))

    def _total(self, leaves: Any, examples: Any, k: Array, indices: Array, count: Array) -> Any:
        run = self.run
        size = min(run.training.microbatch, max(1, run.rows))
        key = jax.random.fold_in(self.views_key, k)

        def added(j: Array, total: Any) -> Any:
            chosen = lax.dynamic_slice_in_dim(indices, j * size, size)
            present = (j * size + jnp.arange(size) < count).astype(jnp.float32)
            values = jax.tree.map(lambda leaf: leaf[chosen], examples)
            words = jax.vmap(lambda row: jax.random.key_data(jax.random.fold_in(key, row)))(chosen)
            return jax.tree.map(jnp.add, total, run.clipped.part(leaves, (values, words), present))

        none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), leaves)
        return lax.fori_loop(0, (count + size - 1) // size, added, none)

    def _tree(self, flat: Any) -> Any:
        return self.run.whole([np.asarray(leaf) for leaf in self.run.unravel(jnp.asarray(flat))])

    def _moment(self, state: _State, step: int, kept: list[Any], watched: list[Any]) -> Moment:
        stream = None if self.batches is None else self.batches.state()
        values = {
            "block": 1,
            "randomness": self.randomness.held(),
            "batches": None if stream is None else [stream.generator, int(stream.number)],
        }
        leaves = [*jax.tree.leaves(state), *kept, *jax.tree.leaves(watched)]
        arrays = {f"leaf{place:05d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        arrays["waiting"] = np.zeros(0) if stream is None else np.asarray(stream.waiting)
        return Moment(step, Record(values, arrays))

    def _taken_up(self, state: _State) -> tuple[_State, int, list[Any], list[Any]]:
        """The state to begin from: the first one, or that of the moment an earlier process wrote."""
        keeper = self.keeper
        kept: list[Any] = []
        watched: list[Any] = []
        step = 0
        if keeper is not None and keeper.found is not None:
            with believing(keeper.checkpoint.path):
                state, kept, watched = self._restored(keeper.found, state)
                step = keeper.found.step
        if keeper is not None:
            keeper.begin(self._moment(state, step, kept, watched))
        return state, step, kept, watched

    def _restored(self, moment: Moment, first: _State) -> tuple[_State, list[Any], list[Any]]:
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
            shapes, inner = jax.tree.flatten(jax.eval_shape(self._seen, self.run.first))
            for k in range(moment.step):
                some = rest[k * len(shapes) : (k + 1) * len(shapes)]
                shaped = [array.reshape(shape.shape) for array, shape in zip(some, shapes, strict=True)]
                watched.append(jax.tree.unflatten(inner, shaped))
        if self.batches is not None:
            stream = values["batches"]
            self.batches.restore(BatchState(str(stream[0]), stream[1], arrays["waiting"]), moment.step)
        return state, kept, watched


def noised_total(port: NoisePort, total: Array, scale: Array, noise: Array) -> Array:
    """The sum plus noise, through the port where noise meets statistics of rows."""
    if port is ADDED:
        return total + scale * noise
    return port.added(Total(total, jnp.zeros_like(total)), scale, noise)
