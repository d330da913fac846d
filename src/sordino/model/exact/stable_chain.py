"""The exact law of a chain with stable noise on quadratics of one parameter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.errors import InputError
from sordino.core.spec import Spec, StableNoise
from sordino.core.view import View
from sordino.model.exact.chain_run import ChainRun
from sordino.model.exact.line_family import StableFamily
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.quadratic import Quadratics
from sordino.model.exact.stable_law import StableLaw1D


def stable_chain_law(
    spec: Spec, data: Quadratics, batches: Sequence[ArrayLike] | None = None
) -> StableLaw1D | LineMixture:
    """The law of the last iterate: a stable law for a fixed order, a mixture of them for a random one.

    One step maps location to a location + o and scale^alpha to |a|^alpha scale^alpha + tau^alpha.
    """
    run = ChainRun.of(spec, data)
    noise = run.chain.noise
    if not isinstance(noise, StableNoise) or data.dim != 1 or spec.view != View.LAST_ITERATE or run.chain.chains != 1:
        raise InputError("Expected the last iterate of one chain with stable noise and one parameter.")
    if run.start_scale > 0 and noise.alpha < 2:
        raise InputError("Expected a point start: a Gaussian start plus stable noise is not a stable law.")
    weights = np.ones(1)
    # N(0, s^2) is the stable law of index 2 and scale s / sqrt(2).
    location, power = run.start_mean.copy(), np.array([(run.start_scale / np.sqrt(2)) ** noise.alpha])
    step = 0
    for stage in run.stages(spec.n, batches):
        before = len(weights)
        weights = np.outer(weights, stage.weights).reshape(-1)
        location, power = np.repeat(location, len(stage.weights)), np.repeat(power, len(stage.weights))
        for position in range(stage.steps):
            matrix, offset = run.maps(stage, position, step)
            factor = np.tile(matrix[:, 0, 0], before)
            location = factor * location + np.tile(offset[:, 0], before)
            power = np.abs(factor) ** noise.alpha * power + run.noise_scales[step] ** noise.alpha
            step += 1
    scale = power ** (1 / noise.alpha)
    if len(weights) == 1:
        return StableLaw1D(noise.alpha, float(location[0]), float(scale[0]))
    return LineMixture(StableFamily(noise.alpha), weights, location, scale)
