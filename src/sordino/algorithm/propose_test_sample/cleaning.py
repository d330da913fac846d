"""Lines 3 to 24 of Algorithm 1: what is left of the data, or nothing when a private test says there is too little."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.algorithm.propose_test_sample.least_records import least_records
from sordino.core.spec import ProposeTestSample, Spec
from sordino.core.validate import instance_of, refuse

Array = NDArray[np.float64]


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
    """Clip, drop outliers around a noisy slope, and test that at least n_min records are left.

    Where the paper leaves a case open, the answer is null: no noisy count above 0 (line 10 has no range), nothing
    within the range (line 16 divides by 0), and nothing left in the end (line 25 has no data).
    """
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
