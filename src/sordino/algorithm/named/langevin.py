"""Langevin chains on a posterior: SGLD in four variants, and ULA."""

import math
from typing import Unpack

from sordino.algorithm.named.options import FULL_BATCH, ChainOptions, chain, records_of
from sordino.algorithm.named.schedules import Step, as_schedule, power_law
from sordino.core.spec import Batch, Clipping, GaussianNoise, Problem, Scheme, Spec


def sgld(
    problem: Problem, *, step: Step, batch: Batch, clipping: Clipping | None = None, **options: Unpack[ChainOptions]
) -> Spec:
    """Stochastic gradient Langevin dynamics with the step e of Welling and Teh (2011).

    theta <- theta + (e / 2) (grad log prior + (n / b) sum of grad log-likelihoods) + sqrt(e) N(0, I).
    The mean loss is the potential over n, so eta = n e / 2 and tau = sqrt(e).
    """
    steps = as_schedule("step", step)
    noise = GaussianNoise(power_law(steps, 1.0, 0.5))
    return chain(problem, power_law(steps, 0.5 * records_of(problem), 1.0), noise, batch, clipping, **options)


def clipped_sgld(
    problem: Problem, *, step: Step, batch: Batch, clipping: Clipping, **options: Unpack[ChainOptions]
) -> Spec:
    """SGLD whose per-example gradients are clipped, so that its sensitivity is certified by construction."""
    return sgld(problem, step=step, batch=batch, clipping=clipping, **options)


def cyclic_sgld(
    problem: Problem,
    *,
    step: Step,
    batch_size: int,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Spec:
    """SGLD that goes through the records in file order, as Heller and Fetaya analyse it."""
    return sgld(problem, step=step, batch=Batch(Scheme.CYCLIC, batch_size), clipping=clipping, **options)


def ula(problem: Problem, *, step: Step, **options: Unpack[ChainOptions]) -> Spec:
    """The unadjusted Langevin algorithm with step g on the potential U: x - g grad U + sqrt(2 g) N(0, I).

    The mean loss is U / n, so eta = n g and tau = sqrt(2 g).
    """
    steps = as_schedule("step", step)
    noise = GaussianNoise(power_law(steps, math.sqrt(2.0), 0.5))
    return chain(problem, power_law(steps, records_of(problem), 1.0), noise, FULL_BATCH, **options)
