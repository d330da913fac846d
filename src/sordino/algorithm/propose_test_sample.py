"""Propose-Test-Sample (Heller & Fetaya, Algorithm 1): one exact posterior draw of a slope, or null."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.algorithm.noise.randomness import Purpose, Randomness
from sordino.core.arrays import Array
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import instance_of, refuse
from sordino.model.exact.regression import ConjugateRegression

_UP = 1 + 1e-12


def least_records(run: ProposeTestSample, centre: float, cleaned: float) -> float:
    """n_min, rounded up, for the noisy slope `centre` and the noisy count `cleaned` (n_2 > 1) of lines 12 and 18."""
    # The last entry is n_2^(rho_2 / gamma_1): the proof of Claim C.14 needs n^gamma_1 >= n_2^rho_2, where the text of
    # (33) prints n_1. A negative centre counts as 0: slopes are never negative, so every kept one is as near to 0.
    order = 2 * math.log(1 / run.delta) / run.epsilon + 1
    high, low = run.x_high * run.x_high, run.x_low * run.x_low
    ratio, pull = high / low, run.alpha + high * run.beta
    slope = max(centre, 0.0)
    first = order / run.epsilon * high * high * pull / (0.9 * low * low)
    second = order / run.epsilon * high * high * pull * pull / (0.9 * low * low * low * run.beta)
    entries = (
        1 + 8 * ratio / run.epsilon,
        1 + order * ratio * (1 + 8 * (order - 1) / run.epsilon),
        _power(16 * order * run.beta * high * high / (0.9 * run.epsilon * low), 1 / (1 - 2 * run.gamma1)),
        _power(32 * first * slope, 1 / (2 - run.gamma1)),
        _power(32 * first, 1 / (2 - 2 * run.gamma1)),
        _power(4 * second, 1 / 3) * _power(2 * slope, 2 / 3),
        _power(16 * second, 1 / (3 - 2 * run.gamma1)),
        1 + 10 * order * ratio / run.beta,
        1 + order * ratio,
        _power(cleaned, run.rho2 / run.gamma1),
    )
    return max(entries) * _UP


def _power(base: float, exponent: float) -> float:
    """base^exponent; infinite where it overflows, which no dataset reaches."""
    if base == 0.0:
        return 0.0
    logarithm = exponent * math.log(base)
    return math.inf if logarithm > 700 else math.exp(logarithm)


@dataclass(frozen=True, eq=False)
class Cleaned:
    """The records of W; private, never part of a release."""

    x: Array
    y: Array


def stage_of(spec: Spec) -> ProposeTestSample:
    """The algorithm of a spec of this kind."""
    return instance_of("spec.algorithm", spec.algorithm, ProposeTestSample)


def margin(run: ProposeTestSample) -> float:
    """(1/epsilon) log(1/(2 delta)), by which every noisy count is lowered."""
    return math.log(1 / (2 * run.delta)) / run.epsilon


def slope_scale(run: ProposeTestSample, cap: float, cleaned: float) -> float:
    """Scale of the Laplace noise of line 17 for slopes of at most `cap` and the noisy count `cleaned` > 1."""
    high, low = run.x_high * run.x_high, run.x_low * run.x_low
    return cap * (2 * (cleaned - 1) * high * low + high * high) / (cleaned * (cleaned - 1) * low * low) / run.epsilon


def clean(run: ProposeTestSample, x: ArrayLike, y: ArrayLike, generator: np.random.Generator) -> Cleaned | None:
    """Clip, drop outliers around a noisy slope, and test that at least n_min records are left."""
    # Where the paper leaves a case open, the answer is null: no noisy count above 0 (line 10 has no range), nothing
    # within the range (line 16 divides by 0), and nothing left in the end (line 25 has no data).
    rows, targets = _rows(run, x, y)
    slopes = targets / rows
    count = len(rows) - margin(run) + generator.laplace(0.0, 1 / run.epsilon)
    cap = count**run.rho1 if count > 0 else -math.inf
    inside = slopes <= cap
    cleaned = int(inside.sum()) - margin(run) + generator.laplace(0.0, 1 / run.epsilon)
    if cleaned <= 1 or not inside.any():
        return None
    slope = float(np.sum(rows[inside] * targets[inside]) / np.sum(rows[inside] ** 2))
    centre = slope + generator.laplace(0.0, slope_scale(run, cap, cleaned))
    near = np.abs(slopes - centre) <= cleaned**run.rho2
    kept = int(near.sum()) - margin(run) + generator.laplace(0.0, 1 / run.epsilon)
    if kept < least_records(run, centre, cleaned) or not near.any():
        return None
    return Cleaned(rows[near], targets[near])


def _rows(run: ProposeTestSample, x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Lines 3 to 7: covariates within the public range, targets at least 0."""
    rows, targets = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if rows.ndim != 1 or rows.shape != targets.shape or len(rows) == 0:
        raise refuse("x and y", "to be two equally long lists of numbers", f"shapes {rows.shape} and {targets.shape}")
    if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
        raise refuse("x and y", "to be finite", "NaN or infinity")
    return np.clip(rows, run.x_low, run.x_high), np.maximum(targets, 0.0)


@dataclass(frozen=True)
class ProposedSample:
    """What leaves the run: the drawn slope, or None when the tests found too few clean records."""

    spec: Spec
    slope: float | None


def propose_test_sample(spec: Spec, x: ArrayLike, y: ArrayLike, randomness: Randomness) -> ProposedSample:
    """Algorithm 1 on records (x, y).

    Formal guarantees: (4 epsilon, 2 delta)-differential privacy under replace-one, by the theorem
    `posterior.propose-test-sample`, which `certify` evaluates on the same spec. The noise is drawn in floating point.
    """
    run = stage_of(spec)
    instance_of("randomness", randomness, Randomness)
    if run.sampler is not Sampler.EXACT:
        raise refuse(
            "algorithm.sampler",
            "to be exact",
            run.sampler.value,
            "a draw by SGLD is not private; papers/heller_fetaya/propose_test_sgld.py runs it for study",
        )
    generator = randomness.generator(Purpose.NOISE)
    left = clean(run, x, y, generator)
    if left is None:
        return ProposedSample(spec, None)
    posterior = ConjugateRegression(run.alpha, run.beta).posterior(left.x[:, None], left.y)
    return ProposedSample(spec, float(posterior.sample(generator, 1)[0, 0]))
