"""How good a predictive law is on test records: error, log-likelihood and coverage, in the units of the data."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.reproduce.vinaroz_park.folds import Fold

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Test scores; the coverages are of central intervals that should hold 50 and 90 per cent."""

    rmse: float
    log_likelihood: float
    half: float
    ninety: float


def scored(fold: Fold, mean: Array, variance: Array) -> Scores:
    """The scores of Gaussian predictions given in scaled units."""
    gap, deviation = np.abs(fold.test_y - mean), np.sqrt(variance)
    density = -0.5 * (gap / deviation) ** 2 - np.log(deviation * fold.unit) - 0.5 * math.log(2.0 * math.pi)
    inside = [float(np.mean(gap <= special.ndtri(0.5 + level / 2.0) * deviation)) for level in (0.5, 0.9)]
    return Scores(fold.unit * float(np.sqrt(np.mean(gap**2))), float(np.mean(density)), *inside)


def averaged(scores: list[Scores]) -> tuple[Scores, float]:
    """The mean over splits, and the standard deviation of the error over splits."""
    rows = np.array([(s.rmse, s.log_likelihood, s.half, s.ninety) for s in scores])
    return Scores(*(float(value) for value in rows.mean(axis=0))), float(rows[:, 0].std())
