"""Noisy gradient descent: full batch or mini-batch, Gaussian or heavy-tailed noise, and DP-SGD."""

import math
from collections.abc import Callable
from typing import Unpack

from sordino.algorithm.named.options import FULL_BATCH, ChainOptions, chain, records_of
from sordino.algorithm.named.schedules import Step, as_schedule, power_law
from sordino.core import validate
from sordino.core.spec import Batch, Clipping, ClippingKind, GaussianNoise, Problem, Schedule, Spec, StableNoise
from sordino.core.validate import POSITIVE

# How the papers tie the noise of a step to its size eta: what tau / sqrt(eta) is, by the name of their parameter.
_TIED_TO_STEP: dict[str, Callable[[float], float]] = {
    "sigma": lambda sigma: math.sqrt(2.0) * sigma,
    "inverse_temperature": lambda beta: math.sqrt(2.0 / beta),
}


def noisy_gd(
    problem: Problem,
    *,
    step_size: Step,
    noise_scale: float | None = None,
    sigma: float | None = None,
    inverse_temperature: float | None = None,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Spec:
    """Full-batch noisy gradient descent; exactly one of the three noise parameters is given, as in `noisy_sgd`."""
    eta = as_schedule("step_size", step_size)
    noise = _stated_noise(eta, noise_scale=noise_scale, sigma=sigma, inverse_temperature=inverse_temperature)
    return chain(problem, eta, noise, FULL_BATCH, clipping, **options)


def noisy_sgd(
    problem: Problem,
    *,
    step_size: Step,
    batch: Batch,
    noise_scale: float | None = None,
    sigma: float | None = None,
    inverse_temperature: float | None = None,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Spec:
    """Mini-batch noisy gradient descent with step size eta; exactly one noise parameter is given.

    `noise_scale`: the absolute tau. `sigma`: noise N(0, 2 eta sigma^2 I), as in the hidden-state papers.
    `inverse_temperature` beta: noise N(0, (2 eta / beta) I).
    """
    eta = as_schedule("step_size", step_size)
    noise = _stated_noise(eta, noise_scale=noise_scale, sigma=sigma, inverse_temperature=inverse_temperature)
    return chain(problem, eta, noise, batch, clipping, **options)


def heavy_tailed_sgd(
    problem: Problem,
    *,
    step_size: Step,
    batch: Batch,
    alpha: float,
    sigma: float,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Spec:
    """Noisy SGD with noise sigma * xi, xi rotation-invariant stable of index alpha; at 2, xi is N(0, 2I)."""
    noise = StableNoise(alpha, as_schedule("sigma", sigma))
    return chain(problem, as_schedule("step_size", step_size), noise, batch, clipping, **options)


def dp_sgd(
    problem: Problem,
    *,
    step_size: Step,
    batch: Batch,
    noise_multiplier: float,
    clip_norm: float,
    **options: Unpack[ChainOptions],
) -> Spec:
    """DP-SGD (Abadi et al. 2016): gradients clipped to C, noise multiplier m on their sum: tau = eta m C / b."""
    eta = as_schedule("step_size", step_size)
    clipping = Clipping(ClippingKind.NORM, clip_norm)
    multiplier = validate.number("noise_multiplier", noise_multiplier, POSITIVE)
    divisor = records_of(problem) if batch.size is None else batch.size
    noise = GaussianNoise(power_law(eta, multiplier * clipping.bound / divisor, 1.0))
    return chain(problem, eta, noise, batch, clipping, **options)


def _stated_noise(eta: Schedule, **statements: float | None) -> GaussianNoise:
    given = {name: value for name, value in statements.items() if value is not None}
    if len(given) != 1:
        raise validate.refuse("exactly one", "of noise_scale, sigma, inverse_temperature", sorted(given))
    [(name, value)] = given.items()
    stated = validate.number(name, value, POSITIVE)
    if name in _TIED_TO_STEP:
        return GaussianNoise(power_law(eta, _TIED_TO_STEP[name](stated), 0.5))
    return GaussianNoise(as_schedule(name, stated))
