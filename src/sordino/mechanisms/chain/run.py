"""Run a described chain on private rows: the spec that runs is the spec that is certified.

A checkpoint holds the iterates and what was kept of them; draws are made again.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.core.bound import View
from sordino.core.spec import GaussianStart, PointStart, Spec, StableNoise
from sordino.core.validate import instance_of, refuse, whole_number
from sordino.mechanisms.chain import kernel
from sordino.mechanisms.chain.batches import (
    bucket,
    described_batches,
    part_of,
    power_of_two,
    power_of_two_within,
    taken,
)
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.mechanisms.chain.kernel import RowReader, StepBlock, StepInputs
from sordino.mechanisms.chain.release import (
    AverageSum,
    ChainRelease,
    KeptIterates,
    LastIterate,
    LipschitzFunction,
    NoisedAverage,
    averaged_function,
)
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, content_digest, described, platform, traced
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import GROUP, Lattice, in_doubles, in_precision
from sordino.noise.port import noised_average, stable_scales, step_noise
from sordino.noise.randomness import Law, Purpose, Randomness

_LONGEST_BLOCK = 1024
_BLOCK_PRODUCTS = 2**31  # about a second of one core, because a block cannot be interrupted
# The inputs of a block, and the rows that are worked on at once: on a processor they should not leave its cache between
# being written and read, an accelerator is kept busy. Gradients of one record each have to fit beside them.
_PROCESSOR_BYTES, _ACCELERATOR_BYTES, _GRADIENT_BYTES = 8 * 2**20, 2**28, 2**26
_DOUBLE_BYTES = 8
# Of 64 chains with batches of their own, this many at once were fastest on a processor (bench/chains.py).
_CHAINS_AT_ONCE = 8

# Called with the steps made so far and of all, before every block and at the end; it should answer quickly.
Progress = Callable[[int, int], None]


class Feed:
    """The inputs of a run on so many rows: step sizes, noise and batches, a block of steps after the other."""

    def __init__(self, plan: ChainPlan, rows: int, randomness: Randomness, dtype: np.dtype) -> None:
        chain, self._randomness, self._dtype = plan.chain, randomness, dtype
        self._chain, self._shape = chain, (chain.chains, plan.spec.dim)
        self.lattice: Lattice | None = plan.lattice if randomness.draws_exactly else None
        if chain.rounding is not None and self.lattice is None:
            raise refuse("algorithm.rounding", "to be absent where gradients have no bound", chain.rounding)
        # Hidden iterates have the noise themselves, others the sums that they are made of.
        self._scales = plan.sum_noise if chain.rounding is None else chain.noise.scale.values(chain.steps)
        self._step_sizes = chain.step_size.values(chain.steps)
        self._mixing = randomness.generator(Purpose.MIXING)
        drawn = randomness.generator(Purpose.BATCHES)
        self.batches = described_batches(chain.batch, plan.spec.n, rows, chain.steps, drawn, chain.chains)

    def block(self, first: int, length: int) -> StepBlock:
        """The inputs of `length` steps from `first` on; behind the last step of the run they are zeros."""
        drawn = map(jnp.asarray, taken(self.batches, length))
        sizes = jnp.asarray(part_of(self._step_sizes, first, length), float)
        scales = jnp.asarray(self._noise_scales(first, length), float)
        made = jnp.asarray(min(length, self._chain.steps - first), jnp.int32)
        return StepBlock(jnp.int32(first), made, StepInputs(sizes, scales, self._noise(first, length)), *drawn)

    def skip(self, steps: int, length: int) -> None:
        """Go on behind so many steps, whose draws are made again, a block at a time, and left."""
        if self.batches is not None:
            self.batches.skip(steps, length)
        for first in range(0, steps, length):
            self._noise_scales(first, length)

    def _noise_scales(self, first: int, length: int) -> NDArray[np.float64]:
        """The scale of the noise of every step and chain of a block, random where noise is stable."""
        noise, tau = self._chain.noise, part_of(self._scales, first, length)[:, None]
        if not isinstance(noise, StableNoise):
            return np.broadcast_to(tau, (length, self._chain.chains))
        return tau * stable_scales(self._mixing, (length, self._chain.chains), noise.alpha)

    def _noise(self, first: int, length: int) -> Any:
        """On the lattice of the sums where they have one, otherwise standard Gaussians in floating point."""
        noise = step_noise(self._randomness, self.lattice, self._scales, first, (length, *self._shape), self._dtype)
        return -noise if self.lattice is None else noise


class Collector:
    """What is kept of the iterates of one block after the other, for the release that a view allows."""

    def __init__(self, plan: ChainPlan, dtype: np.dtype, function: LipschitzFunction | None, lattice: Lattice | None):
        self.spec, self.dtype, self.steps, chains = plan.spec, dtype, plan.chain.steps, plan.chain.chains
        self.positions = plan.chain.kept_iterates(plan.spec.view)
        self.needs_iterates, self.number = plan.spec.view is not View.LAST_ITERATE, 0
        averaged, self.sum = averaged_function(plan.spec, function), None
        if averaged is not None:
            self.values = jax.jit(jax.vmap(jax.vmap(averaged.function)))
            lattice = None if plan.chain.rounding is None else lattice
            self.sum = AverageSum((chains, averaged.dim), len(self.positions), lattice)
        all_of_them = len(self.positions) if plan.spec.view is View.ALL_ITERATES else 0
        self.kept = np.empty((chains, all_of_them, plan.spec.dim), dtype)

    def add(self, iterates: Array, first: int) -> None:
        """Take the iterates after step `first` and later ones, shape (steps, chains, dim), and keep those asked for."""
        numbers = range(first + 1, min(first + len(iterates), self.steps) + 1)
        places = [place for place, number in enumerate(numbers) if number in self.positions]
        if not self.needs_iterates or not places:
            return
        if self.sum is not None:
            self.sum.add(np.asarray(self.values(iterates))[places])
            return
        after = self.number + len(places)
        self.kept[:, self.number : after] = in_precision(iterates, self.dtype)[places].transpose(1, 0, 2)
        self.number = after

    def held(self, step: int) -> NDArray[Any]:
        """What was kept until a step, as one array."""
        if self.sum is not None:
            return self.sum.sums
        self.number = sum(position <= step for position in self.positions) if self.needs_iterates else 0
        return self.kept[:, : self.number]

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        """The release, given the last iterates."""
        if self.spec.average is not None and self.sum is not None:
            noise = self.spec.average.noise
            mean = self.sum.mean(noise.exponent)
            return NoisedAverage(
                self.spec, noised_average(mean, Law(noise.kind), noise.scale, noise.exponent, randomness)
            )
        if self.needs_iterates:
            return KeptIterates(self.spec, self.kept)
        return LastIterate(self.spec, in_precision(theta, self.dtype))


def block_length(plan: ChainPlan, feed: Feed, rows: int, features: int, itemsize: int) -> int:
    """How many steps one call of the kernel makes: noise, batches and iterates of a block are in memory at once."""
    chains, dim, batches = plan.chain.chains, plan.spec.dim, feed.batches
    indices = 0 if batches is None else 4 * batches.groups * batches.capacity
    room = _PROCESSOR_BYTES if jax.default_backend() == "cpu" else _ACCELERATOR_BYTES
    by_memory = room // (2 * chains * dim * itemsize + indices)
    used = bucket(rows) if batches is None else batches.capacity
    by_work = _BLOCK_PRODUCTS // (chains * used * max(features, dim))
    most = power_of_two_within(max(1, min(by_memory, by_work)))
    return min(_LONGEST_BLOCK, power_of_two(plan.chain.steps), most)


def row_reader(plan: ChainPlan, feed: Feed, features: int) -> RowReader:
    """How many rows are worked on at once: a batch, or of all rows one group of exact sums, more on an accelerator."""
    on_processor = jax.default_backend() == "cpu"
    if feed.batches is not None:  # one of random size may, in the rarest runs, outgrow its plan
        return RowReader(feed.batches.capacity, True, True, _CHAINS_AT_ONCE if on_processor else None)
    gradients = _GRADIENT_BYTES // (plan.spec.dim * plan.chain.chains * _DOUBLE_BYTES)
    rows = GROUP if on_processor else _ACCELERATOR_BYTES // (features * _DOUBLE_BYTES)
    return RowReader(power_of_two_within(max(16, min(rows, gradients))), False)


def run(
    spec: Spec,
    model: Model,
    features: ArrayLike,
    target: ArrayLike,
    randomness: Randomness,
    *,
    function: LipschitzFunction | None = None,
    steps_per_block: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> ChainRelease:
    """Run the chains of a noisy gradient spec and release what its view allows.

    Every row is brought within the length for which the spec's claims hold, every gradient within its certified bound,
    and every label to one of the model's: a row that does not keep what was declared is shortened, not refused, because
    a refusal would reveal it. Rows are kept, and iterates released, in single precision, or double where
    JAX has 64-bit numbers enabled; steps are computed in double.

    Args:
        spec: a spec of kind noisy-gradient.
        model: whose loss is learned.
        features: a table of numbers, one row for each record.
        target: one number for each record.
        randomness: `SecureRandomness` for a release, `SeededRandomness` to try things out.
        function: what is averaged, given exactly when the view is average, with the constant that the spec states.
        steps_per_block: changes how much memory the run takes; its result only by rounding.
        checkpoint: the file from which a run that was killed resumes.
        progress: called before every block of steps and at the end, with the steps made so far and their number.

    Returns:
        What the view allows: `LastIterate`, `KeptIterates` or `NoisedAverage`.

    Raises:
        InputError: for rows or a model that do not fit the spec.

    Examples:
        >>> import numpy as np
        >>> import sordino
        >>> from sordino.mechanisms import SeededRandomness, noisy_gd
        >>> from sordino.models import Domain, Logistic
        >>> model, X = Logistic(weight_decay=0.1), np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
        >>> spec = noisy_gd(
        ...     model.problem(200, Domain(2, 1.0)), step_size=1.0, noise_scale=0.01, steps=100, relation="replace-one",
        ...     view="last-iterate",
        ... )
        >>> release = sordino.run(spec, model, X, np.sign(X[:, 0]), SeededRandomness(0))
        >>> release.iterates.shape, bool(release.iterates[0, 0] > 0.5)
        ((1, 2), True)
    """
    check_sums()
    plan, (X, y) = ChainPlan(spec, model), checked_rows(features, target)
    instance_of("randomness", randomness, Randomness)
    steps = plan.chain.steps
    with in_doubles() as dtype:
        plan.check_rows(*X.shape)
        stated = None if steps_per_block is None else whole_number("steps_per_block", steps_per_block)
        own = {"precision": dtype.name, "block": stated}
        keeper = Keeper(checkpoint, steps, lambda salt: _identity(plan, function, (X, y), salt) | own, randomness)
        randomness = keeper.randomness
        feed = Feed(plan, len(X), randomness, dtype)
        collector = Collector(plan, dtype, function, feed.lattice)
        reader = row_reader(plan, feed, X.shape[1])
        records = kernel.load(X, y, None if reader.listed else reader.block, dtype, plan.row_limits(X.shape[1]))
        length = steps_per_block or block_length(plan, feed, len(X), X.shape[1], dtype.itemsize)
        constants, theta = plan.constants(), _first(plan, feed, randomness, dtype)

        def snapshot(step: int) -> Snapshot:
            return Snapshot(step, {"theta": np.asarray(theta), "kept": collector.held(step)}, randomness.held())

        if keeper.found is not None:
            with keeper.validating():
                theta = _restored(keeper.found, theta, length, feed, collector)
        keeper.begin(snapshot)
        waiting: list[tuple[Array, int]] = []
        for first in range(keeper.begun, steps, length):
            if progress is not None:
                progress(first, steps)
            # Batches of random size may need more room from one block to the next.
            block, reader = feed.block(first, length), row_reader(plan, feed, X.shape[1])
            program = plan.program(reader, randomness.port, keeps=collector.needs_iterates)
            theta, iterates = kernel.advance(program, constants, records, theta, block)
            waiting.append((iterates if collector.needs_iterates else theta, first))
            writes = keeper.due and first + length < steps
            # The host prepares the next block while the device works on this one, never further ahead than that.
            while len(waiting) > (0 if writes or first + length >= steps else 1):
                collector.add(*jax.block_until_ready(waiting.pop(0)))
            if writes:
                keeper.keep(snapshot(first + length))
        if progress is not None:
            progress(steps, steps)
        release = collector.release(theta, randomness)
        keeper.complete()
        return release


def _first(plan: ChainPlan, feed: Feed, randomness: Randomness, dtype: np.dtype) -> Array:
    """Where the chains start: a public point or a Gaussian draw, inside the ball and within the lattice's ends."""
    start, shape = plan.chain.start, (plan.chain.chains, plan.spec.dim)
    if isinstance(start, GaussianStart):
        theta = jnp.asarray(start.scale, dtype) * randomness.gaussians(Purpose.START, 0, 1, shape, dtype)[0]
    else:
        values = instance_of("algorithm.start", start, PointStart).values
        theta = jnp.broadcast_to(jnp.asarray(0.0 if values is None else values, dtype), shape)
    theta = theta.astype(jnp.float64)
    if plan.chain.rounding is not None and feed.lattice is not None:
        theta = jnp.clip(theta, -feed.lattice.end, feed.lattice.end)  # as every iterate is
    return theta if plan.chain.projection is None else kernel.on_ball(theta, plan.constants().radius)


def _restored(found: Snapshot, first: Array, length: int, feed: Feed, collector: Collector) -> Array:
    """The iterates of a snapshot, everything else put back; `ValueError` for what does not fit this run."""
    expected = {"theta": np.asarray(first), "kept": collector.held(found.step)}
    for name, like in expected.items():
        array = found.arrays[name]
        if (array.shape, array.dtype) != (like.shape, like.dtype) or not np.isfinite(array).all():
            raise ValueError(array.shape)
    if found.step % length:
        raise ValueError(found.step)
    feed.skip(found.step, length)
    expected["kept"][...] = found.arrays["kept"]
    return jnp.asarray(found.arrays["theta"])


def _identity(
    plan: ChainPlan, function: LipschitzFunction | None, rows: tuple[NDArray[Any], NDArray[Any]], salt: bytes
) -> dict[str, Any]:
    """Everything a checkpoint is bound to, in plain values."""
    model, (X, _) = plan.model, rows
    point, row, number = (jax.ShapeDtypeStruct(shape, float) for shape in ((plan.spec.dim,), X.shape[1:], ()))
    try:
        loss = traced(model.loss, point, row, number)
    except (TypeError, IndexError):  # a loss that chooses by its target
        loss = traced(model.loss, point, row, jax.ShapeDtypeStruct((), jnp.int32))
    return platform() | {
        "spec": plan.spec.to_dict(),
        "model": [described(model), loss, traced(model.penalty, point)],
        "function": None if function is None else traced(function.function, point),
        "rows": list(X.shape),
        "content": content_digest(salt, *rows),
    }
