"""Run a described chain on private rows: the spec that runs is the spec that is certified.

Each view has a collector, which keeps, block by block, only what it will release.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.bound import View
from sordino.core.spec import Average, AverageNoiseKind, Spec
from sordino.core.validate import instance_of, refuse
from sordino.mechanisms.chain.batches import described_batches
from sordino.mechanisms.chain.claims import chain_lattice, described_chain, program_for, row_limits, run_constants
from sordino.mechanisms.chain.inputs import Feed, KeptSlots, first_points
from sordino.mechanisms.chain.kernel import Constants, Program, check_shape, on_ball
from sordino.mechanisms.chain.release import (
    ChainRelease,
    KeptIterates,
    LastIterate,
    LipschitzFunction,
    NoisedAverage,
    Progress,
    ProgressCallback,
    Values,
    WholeSum,
    averaged_function,
    noised_average,
)
from sordino.mechanisms.chain.rows import Placement, Reader, Reading, Rows, Workload
from sordino.mechanisms.checkpoint import Checkpoint, Keeper, Snapshot, checked_block, identity, validating
from sordino.mechanisms.checkpoint_file import Record
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.noise.lattice import Lattice, in_doubles, in_precision
from sordino.noise.port import Law, NoisedCall
from sordino.noise.randomness import Purpose, Randomness


class Collector(ABC):
    """Takes the kept iterates of one block after the other and turns them into the release."""

    needs_iterates: ClassVar[bool] = True

    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        self.spec, self.kept, self.dtype, self.collected = spec, kept, dtype, np.zeros(0)
        self.function = averaged_function(spec, function)

    def on_lattice(self, lattice: Lattice) -> None:
        """The iterates to come are those of a chain that states its rounding, on this lattice."""
        del lattice

    @abstractmethod
    def accept(self, block: Array, number: int) -> None:
        """Take the next block, shape (slots, chains, dim), of which the first `number` slots are filled."""

    @abstractmethod
    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        """The release, given the last iterates."""

    def state(self) -> Values:
        """What was collected so far, as one array."""
        return self.collected

    def restore(self, collected: Values, step: int) -> None:
        """Go on as the collector that gave `collected` after `step` steps; `ValueError` for what it cannot have."""
        expected = self.state()
        if (collected.shape, collected.dtype) != (expected.shape, expected.dtype) or not np.isfinite(collected).all():
            raise ValueError(collected.shape)
        expected[...] = collected


class _Last(Collector):
    needs_iterates = False  # the last iterates are all there is

    def accept(self, block: Array, number: int) -> None:
        block.block_until_ready()

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        return LastIterate(self.spec, in_precision(theta, self.dtype))


class _Kept(Collector):
    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        super().__init__(spec, kept, chains, dtype, function)
        self.collected, self._filled = np.empty((chains, len(kept), spec.dim), dtype), 0

    def accept(self, block: Array, number: int) -> None:
        after = self._filled + number
        self.collected[:, self._filled : after] = in_precision(block, self.dtype)[:number].transpose(1, 0, 2)
        self._filled = after

    def state(self) -> Values:
        return self.collected[:, : self._filled]

    def restore(self, collected: Values, step: int) -> None:
        self._filled = sum(position <= step for position in self.kept)
        super().restore(collected, step)

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        return KeptIterates(self.spec, self.collected)


class _Averaged(Collector):
    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        super().__init__(spec, kept, chains, dtype, function)
        self._average = instance_of("spec.average", spec.average, Average)
        self._function = instance_of("the averaged function", self.function, LipschitzFunction)
        self.collected, self._exactly = np.zeros((chains, self._function.dim)), None

    def on_lattice(self, lattice: Lattice) -> None:
        self._exactly = WholeSum(lattice, len(self.collected), self._function.dim, len(self.kept))
        self.collected = self._exactly.halves

    def accept(self, block: Array, number: int) -> None:
        if self._exactly is not None:
            self._exactly.add(np.asarray(jax.vmap(jax.vmap(self._function.function))(block))[:number])
            return
        self.collected += np.asarray(_block_total(self._function.function, block, number), np.float64)

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        if self._exactly is not None:
            mean = self._exactly.floored_mean(len(self.kept), self._average.noise.exponent)
            return NoisedAverage(self.spec, noised_average(mean, self._average.noise, randomness))
        law, noise = _AVERAGE_NOISE[self._average.noise.kind]
        mean, scale = self.collected / len(self.kept), self._average.noise.scale
        released = randomness.port.answer(
            NoisedCall(law, mean, scale),
            lambda: mean + scale * noise(randomness.generator(Purpose.AVERAGE), mean.shape),
        )
        return NoisedAverage(self.spec, released)


_COLLECTORS = {View.LAST_ITERATE: _Last, View.ALL_ITERATES: _Kept, View.AVERAGE: _Averaged}


@partial(jax.jit, static_argnums=0)
def _block_total(function: Callable[[Array], Array], block: Array, number: int) -> Array:
    values = jax.vmap(jax.vmap(function))(block)
    filled = jnp.arange(block.shape[0]) < number
    return jnp.sum(jnp.where(filled[:, None, None], values, 0.0), axis=0)


_AVERAGE_NOISE: dict[AverageNoiseKind, tuple[Law, Callable[[np.random.Generator, tuple[int, ...]], Values]]] = {
    AverageNoiseKind.LAPLACE: (Law.LAPLACE, lambda generator, shape: generator.laplace(size=shape)),
    AverageNoiseKind.GAUSSIAN: (Law.GAUSSIAN, lambda generator, shape: generator.standard_normal(shape)),
}


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The blocks of steps of one run: the one place where it makes progress, is written down, and is stopped."""

    feed: Feed
    reader: Reader
    collector: Collector
    program: Callable[[], Program]
    constants: Constants
    randomness: Randomness
    steps: int
    block: int

    def run(self, theta: Array, keeper: Keeper | None, progress: ProgressCallback | None) -> Array:
        """The last iterates; what else is kept goes to the collector."""
        begun = time.monotonic()
        if keeper is not None:
            theta = self._taken_up(theta, keeper)
        with nullcontext() if keeper is None else keeper.stop:
            waiting: list[tuple[Array, int]] = []
            before = self.feed.step
            for block, filled in self.feed:
                theta, kept = self.reader(self.program(), self.constants, theta, block)
                # The host prepares the next block while the device works on this one, never further ahead than that.
                self._collect(waiting)
                waiting = [(kept if self.collector.needs_iterates else theta, filled)]
                if progress is not None:
                    progress(Progress(before, self.steps, time.monotonic() - begun))
                before = self.feed.step
                if keeper is not None and keeper.due and self.feed.step < self.steps:
                    self._collect(waiting)
                    waiting = []
                    keeper.keep(self._moment(theta))
            self._collect(waiting)
        if progress is not None:
            progress(Progress(self.steps, self.steps, time.monotonic() - begun))
        return theta

    def _collect(self, waiting: list[tuple[Array, int]]) -> None:
        for block in waiting:
            self.collector.accept(*block)

    def _taken_up(self, theta: Array, keeper: Keeper) -> Array:
        with validating(keeper.checkpoint.path):
            theta = theta if keeper.found is None else self._restored(keeper.found, theta)
        keeper.begin(self._moment(theta))
        return theta

    def _moment(self, theta: Array) -> Snapshot:
        values = {"block": self.block, "randomness": self.randomness.held()}
        return Snapshot(
            self.feed.step, Record(values, {"theta": np.asarray(theta), "collected": self.collector.state()})
        )

    def _restored(self, moment: Snapshot, first: Array) -> Array:
        """The iterates of a moment, everything else put back; `ValueError` for what does not fit this run."""
        theta = moment.record.arrays["theta"]
        if (theta.shape, theta.dtype) != (first.shape, first.dtype) or not np.isfinite(theta).all():
            raise ValueError(theta.shape)
        self.feed.skip(moment.step)
        self.collector.restore(moment.record.arrays["collected"], moment.step)
        return jnp.asarray(theta)


def run(
    spec: Spec,
    model: Model,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    function: LipschitzFunction | None = None,
    steps_per_block: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
    placement: Placement | None = None,
) -> ChainRelease:
    """Run the chains of a noisy gradient spec and release what its view allows.

    Every row is brought within the length for which the spec's claims hold, every gradient within its certified bound,
    and every label to one of the model's: a row that does not keep what was declared is shortened, not refused, because
    a refusal would tell that it is there. Rows are kept, and iterates released, in single precision, or double where
    JAX has 64-bit numbers enabled; steps are computed in double.

    Args:
        spec: a spec of kind noisy-gradient.
        model: whose loss is learned.
        features: a table of numbers, one row for each record.
        target: one number for each record.
        randomness: `SecureRandomness` for a release, `SeededRandomness` to try things out.
        function: what is averaged, given exactly when the view is average, with the constant that the spec states.
        steps_per_block: changes how much memory the run takes; its result only by rounding.
        checkpoint: the file from which an interrupted run resumes.
        progress: called after every block of steps.
        placement: spreads the work over devices.

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
    algorithm, rows = described_chain(spec, model), Rows(features, target, placement)
    instance_of("randomness", randomness, Randomness)
    with in_doubles() as dtype:
        kept = algorithm.kept_iterates(spec.view)
        collector = _COLLECTORS[spec.view](spec, kept, algorithm.chains, dtype, function)
        check_shape(spec, model, rows.count, rows.width)
        keeper = None
        if checkpoint is not None:
            averaged = None if function is None else function.function
            keeper = Keeper(
                checkpoint, algorithm.steps, lambda salt: identity(spec, model, averaged, rows.identity(salt), dtype)
            )
            randomness = keeper.resumed(randomness)
        earlier = None if keeper is None else keeper.found
        on_processor = jax.default_backend() == "cpu"
        workload = Workload(rows.count, algorithm.chains, spec.dim, rows.width, dtype.itemsize, on_processor)
        generator = randomness.generator(Purpose.BATCHES)
        batches = described_batches(algorithm.batch, spec.n, rows.count, algorithm.steps, generator, algorithm.chains)
        length = steps_per_block or workload.steps_per_block(algorithm.steps, batches)
        if checkpoint is not None and earlier is not None:
            with validating(checkpoint.path):  # another length would be compiled, and rounded, differently
                length = checked_block(earlier, max(length, algorithm.steps))
        slots = KeptSlots(kept, length)
        constants = run_constants(spec, algorithm, model)
        limits = row_limits(spec, algorithm, model, rows.width)
        lattice = chain_lattice(spec, algorithm, model) if randomness.draws_exactly else None
        if algorithm.rounding is not None and lattice is None:
            raise refuse("algorithm.rounding", "to be absent where gradients have no bound", algorithm.rounding)
        theta = first_points(algorithm.start, randomness, (algorithm.chains, spec.dim), dtype).astype(jnp.float64)
        if algorithm.rounding is not None and lattice is not None:
            collector.on_lattice(lattice)
            theta = jnp.clip(theta, -lattice.end, lattice.end)  # as every iterate is: roundings are counted up to there
        if algorithm.projection is not None:
            theta = on_ball(theta, constants.radius)  # the certificates of a projected chain hold inside the ball only

        def program() -> Program:
            places = slots.slots if collector.needs_iterates else 0
            return program_for(spec, algorithm, model, workload.gradient_sum(batches), places, randomness.port)

        blocks = _Blocks(
            Feed(spec, algorithm, batches, slots, randomness, dtype, lattice),
            rows.reader(workload.rows_per_block if batches is None else None, Reading(dtype, limits)),
            collector,
            program,
            constants,
            randomness,
            algorithm.steps,
            length,
        )
        release = collector.release(blocks.run(theta, keeper, progress), randomness)
        if keeper is not None:
            keeper.complete()
        return release
