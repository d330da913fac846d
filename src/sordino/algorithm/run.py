"""Run a described chain on private rows: the spec that runs is the spec that is certified."""

from typing import Any

import jax
import jax.numpy as jnp

from sordino.algorithm.chain import Chain
from sordino.algorithm.checkpoint.identity import identity
from sordino.algorithm.checkpoint.keeper import Checkpoint, Keeper, believing, checked_block
from sordino.algorithm.claims import check_regulariser, longest_row
from sordino.algorithm.collect import collector_for
from sordino.algorithm.exact_sums import checked_bound, in_doubles
from sordino.algorithm.feed import Feed
from sordino.algorithm.kernel import Constants, Program
from sordino.algorithm.lipschitz import LipschitzFunction
from sordino.algorithm.parts.batches import Batches, Sampling, batches_for
from sordino.algorithm.parts.keep import KeptSlots
from sordino.algorithm.parts.projection import on_ball
from sordino.algorithm.parts.start import first_points
from sordino.algorithm.progress import ProgressCallback
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.records import RowLimits, check_shape
from sordino.algorithm.release import ChainRelease
from sordino.algorithm.rows import ArrayRows, Placement, Reading, Rows
from sordino.algorithm.workload import Workload
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import instance_of
from sordino.model.base import Model
from sordino.model.clip import working_bound

# How short a length in double precision may be computed, for every entry and for some operations more.
_LENGTH_ERROR = 2.0**-51
_SPARE_OPERATIONS = 8


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

    `features` has one row for each record, `target` one number. `function` is what is averaged, given exactly when the
    view is average; its constant has to be the one the spec states. Rows are kept, and iterates released, in single
    precision, or double where JAX has 64-bit numbers enabled; steps are computed in double. `steps_per_block` changes
    how much memory the run takes; its result only by rounding.

    Every row is brought within the length for which the spec's claims hold, every gradient within its certified bound,
    and every label to one of the model's: a row that does not keep what was declared is shortened, not refused, because
    a refusal would tell that it is there.

    With a `checkpoint` the run can be stopped and gone on with; `progress` is called after every block of steps;
    `placement` spreads the work over devices.
    """
    _described(spec, model, randomness)
    return run_rows(
        spec,
        model,
        ArrayRows(features, target, placement),
        randomness,
        function=function,
        steps_per_block=steps_per_block,
        checkpoint=checkpoint,
        progress=progress,
    )


def run_rows(
    spec: Spec,
    model: Model,
    rows: Rows,
    randomness: Randomness,
    *,
    function: LipschitzFunction | None = None,
    steps_per_block: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
) -> ChainRelease:
    """The same on rows wherever they are: `ArrayRows`, `ParquetRows`, `MappedRows`."""
    algorithm = _described(spec, model, randomness)
    with in_doubles() as dtype:
        collector = collector_for(spec, algorithm, dtype, function)
        check_shape(spec, model, rows.count, rows.width)
        keeper = None
        if checkpoint is not None:
            keeper = Keeper(
                checkpoint, algorithm.steps, lambda salt: identity(spec, model, function, rows.identity(salt), dtype)
            )
        found = None if keeper is None else keeper.found
        if checkpoint is not None and found is not None:
            with believing(checkpoint.path):
                randomness = randomness.resumed(found.record.values["randomness"])
        on_processor = jax.default_backend() == "cpu"
        workload = Workload(rows.count, algorithm.chains, spec.dim, rows.width, dtype.itemsize, on_processor)
        batches = _batches(spec, algorithm, rows.count, randomness)
        length = steps_per_block or rows.steps_per_block(workload, algorithm.steps, batches)
        if checkpoint is not None and found is not None:
            with believing(checkpoint.path):  # another length would be compiled, and rounded, differently
                length = checked_block(found, max(length, algorithm.steps))
        slots = KeptSlots(collector.kept, length)
        reach = _reach(spec, algorithm, model)
        constants = _constants(spec, algorithm, reach)
        limits = RowLimits(*longest_row(spec, algorithm, model, rows.width), model.as_labels, reach is not None)
        theta = first_points(algorithm.start, randomness, (algorithm.chains, spec.dim), dtype).astype(jnp.float64)
        if algorithm.projection is not None:
            theta = on_ball(theta, constants.radius)  # the certificates of a projected chain hold inside the ball only

        def program() -> Program:
            return Program(
                model,
                reach is not None,
                _clips_gradients(algorithm, model),
                workload.gradient_sum(batches),
                algorithm.projection is not None,
                slots.slots if collector.needs_iterates else 0,
                randomness.port,
            )

        chain = Chain(
            Feed(algorithm, spec.dim, batches, slots, randomness, dtype, algorithm.divisor(spec.n)),
            rows.reader(workload, batches, Reading(dtype, limits)),
            collector,
            program,
            constants,
            randomness,
            algorithm.steps,
            length,
        )
        release = collector.release(chain.run(theta, keeper, progress), randomness)
        if keeper is not None:
            keeper.complete()
        return release


def _described(spec: Spec, model: Model, randomness: Randomness) -> NoisyGradient:
    instance_of("spec", spec, Spec)
    instance_of("model", model, Model)
    instance_of("randomness", randomness, Randomness)
    check_regulariser(spec, model)
    return instance_of("spec.algorithm", spec.algorithm, NoisyGradient)


def _batches(spec: Spec, algorithm: NoisyGradient, rows: int, randomness: Randomness) -> Batches | None:
    sampling = Sampling(
        rows=rows,
        size=algorithm.divisor(spec.n),
        rate=algorithm.rate(spec.n),
        chains=algorithm.chains,
        steps=algorithm.steps,
        generator=randomness.generator(Purpose.BATCHES),
    )
    return batches_for(algorithm.batch.scheme, sampling)


def _clips_gradients(algorithm: NoisyGradient, model: Model) -> bool:
    return algorithm.clipping is not None and not model.clipping_rule(algorithm.clipping).of_rows


def _reach(spec: Spec, algorithm: NoisyGradient, model: Model) -> float | None:
    """What every record's gradient is shortened to: by a clip, or by the bound that the spec certifies.

    No gradient of an honest row exceeds a certified bound. None where the spec states neither: no theorem reads one
    then, and sums have no grid.
    """
    if algorithm.clipping is not None and _clips_gradients(algorithm, model):
        bound = checked_bound("algorithm.clipping.bound", algorithm.clipping.bound)
        return working_bound(bound, spec.dim)
    certified = None if spec.problem is None else spec.problem.gradient_bound
    if certified is None or certified.value == 0.0:
        return None
    bound = checked_bound("problem.gradient_bound", certified.value)
    return bound * (1.0 - (spec.dim / 2 + _SPARE_OPERATIONS) * _LENGTH_ERROR)


def _constants(spec: Spec, algorithm: NoisyGradient, reach: float | None) -> Constants:
    radius = 0.0 if algorithm.projection is None else working_bound(algorithm.projection.radius, spec.dim)
    return Constants(*(jnp.asarray(value, float) for value in (algorithm.divisor(spec.n), reach or 0.0, radius)))
