"""Symmetric stable laws on the line, and the exact law of a chain with stable noise on quadratics of one parameter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.bound import View
from sordino.core.gaussian import Bracket
from sordino.core.spec import Spec, StableNoise
from sordino.core.validate import POSITIVE, InputError, check_numbers, number
from sordino.models.exact import stable_standard
from sordino.models.exact.chain_law import ChainRun
from sordino.models.exact.line import LineMixture, StableFamily
from sordino.models.exact.quadratic import Quadratics


@dataclass(frozen=True)
class StableLaw1D:
    """The law of location + scale * X with E exp(itX) = exp(-|t|^alpha); at alpha = 2, N(location, 2 scale^2)."""

    alpha: float
    location: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", stable_standard.check_alpha(self.alpha))
        object.__setattr__(self, "location", number("location", self.location))
        check_numbers(self, scale=POSITIVE)

    def line(self) -> LineMixture:
        """The same law as a mixture of one."""
        family = StableFamily(self.alpha)
        return LineMixture(family, np.ones(1), np.array([self.location]), np.array([self.scale]))


def shift_total_variation(alpha: float, shift: float, scale: float) -> Bracket:
    """TV between a stable law and its shift, 2 F_alpha(|shift| / (2 scale)) - 1, exact in any dimension.

    For rotation-invariant stable vectors `shift` is the Euclidean length: the best test is a half-space, and every
    projection is the one-dimensional law.
    """
    scale = number("scale", scale, POSITIVE)
    half = abs(number("shift", shift)) / (2 * scale)
    value = float(stable_standard.central(stable_standard.check_alpha(alpha), half))
    return Bracket(value * (1 - 1e-12), min(1.0, value * (1 + 1e-12)))


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
