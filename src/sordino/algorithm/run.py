"""Run a described chain on private rows: the spec that runs is the spec that is certified."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.algorithm.claims import check_regulariser
from sordino.algorithm.collect import collector_for
from sordino.algorithm.feed import feed
from sordino.algorithm.kernel import Constants, Program, advance
from sordino.algorithm.lipschitz import LipschitzFunction
from sordino.algorithm.parts.batches import Batches, Sampling, batches_for
from sordino.algorithm.parts.keep import KeptSlots
from sordino.algorithm.parts.projection import on_ball
from sordino.algorithm.parts.start import first_points
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.records import checked_rows, load
from sordino.algorithm.release import ChainRelease
from sordino.algorithm.workload import Workload
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import instance_of
from sordino.model.base import Model
from sordino.model.clip import working_bound


def run(
    spec: Spec,
    model: Model,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    function: LipschitzFunction | None = None,
    steps_per_block: int | None = None,
) -> ChainRelease:
    """Run the chains of a noisy gradient spec and release what its view allows.

    `features` has one row for each record, `target` one number. `function` is what is averaged, given exactly when the
    view is average; its constant has to be the one the spec states. Single precision, or double where JAX has 64-bit
    numbers enabled. `steps_per_block` changes how much memory the run takes; its result only by rounding.
    """
    algorithm = _described(spec, model, randomness)
    dtype = np.dtype(jnp.zeros(()).dtype)
    collector = collector_for(spec, algorithm, dtype, function)
    X, y = checked_rows(spec, model, features, target)
    on_processor = jax.default_backend() == "cpu"
    workload = Workload(len(X), algorithm.chains, spec.dim, X.shape[1], dtype.itemsize, on_processor)
    batches = _batches(spec, algorithm, len(X), randomness)
    slots = KeptSlots(collector.kept, steps_per_block or workload.steps_per_block(algorithm.steps, batches))
    records = load(X, y, workload.rows_per_block if batches is None else None, dtype)
    constants = _constants(spec, algorithm, dtype)
    theta = first_points(algorithm.start, randomness, (algorithm.chains, spec.dim), dtype)
    if algorithm.projection is not None:
        theta = on_ball(theta, constants.radius)  # the certificates of a projected chain hold inside the ball only
    earlier: list[tuple[Array, int]] = []
    for fed in feed(algorithm, spec.dim, batches, slots, randomness, dtype):
        program = Program(
            model,
            None if algorithm.clipping is None else algorithm.clipping.kind,
            workload.gradient_sum(batches),
            algorithm.projection is not None,
            slots.slots if collector.needs_iterates else 0,
        )
        theta, kept = advance(program, records, constants, theta, fed.block)
        # The host prepares the next block while the device works on this one, and is never further ahead than that.
        for block in earlier:
            collector.accept(*block)
        earlier = [(kept if collector.needs_iterates else theta, fed.kept)]
    for block in earlier:
        collector.accept(*block)
    return collector.release(theta, randomness)


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


def _constants(spec: Spec, algorithm: NoisyGradient, dtype: Any) -> Constants:
    bound = 0.0 if algorithm.clipping is None else algorithm.clipping.bound
    radius = 0.0 if algorithm.projection is None else working_bound(algorithm.projection.radius, spec.dim)
    return Constants(*(jnp.asarray(value, dtype) for value in (algorithm.divisor(spec.n), bound, radius)))
