"""What two neighbouring releases really differ by: the hockey-stick and Rényi divergences, the larger direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from sordino.models.exact import GaussianLaw, GaussianLoss, GaussianMixtureLaw
from tests.models.exact.laws import mixture_of
from tests.soundness.cells import CellTruth

# Outcomes whose losses differ by less than this are looked at as one, and so are all that are rarer than the second.
_SAME_LOSS, _RARE = 0.01, 1e-15


class Truth(Protocol):
    """Exact divergences, or rigorous lower ends of them; never more than the truth beyond rounding."""

    def delta(self, epsilon: float) -> float:
        """The larger of the two hockey-stick divergences."""
        ...

    def renyi(self, order: float) -> float:
        """The larger of the two Rényi divergences."""
        ...


class GaussianTruth:
    """Two Gaussian laws of any dimension, in closed form or by contour integrals, relative error about 1e-13."""

    def __init__(self, first: GaussianLaw, second: GaussianLaw) -> None:
        self._losses = (GaussianLoss.between(first, second), GaussianLoss.between(second, first))

    @property
    def shift(self) -> float:
        """The distance of the means in standard deviations, where both laws have one covariance."""
        return self._losses[0].shift

    def delta(self, epsilon: float) -> float:
        return max(loss.delta(epsilon).low for loss in self._losses)

    def renyi(self, order: float) -> float:
        return max(loss.renyi(order) for loss in self._losses)


def joint_cells(coordinates: Sequence[CellTruth]) -> CellTruth:
    """Independent outcomes side by side, those of nearly one loss grouped: seeing groups only is seeing less."""
    first, second = np.ones(1), np.ones(1)
    for one in coordinates:
        p, q = _grouped_by_loss(one.first, one.second)
        first, second = _grouped_by_loss(np.outer(first, p).reshape(-1), np.outer(second, q).reshape(-1))
    return CellTruth(first, second)


def _grouped_by_loss(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    common = np.maximum(p, q) > _RARE
    losses = np.log(np.maximum(p[common], 1e-300)) - np.log(np.maximum(q[common], 1e-300))
    groups = np.floor(losses / _SAME_LOSS).astype(np.int64)
    groups -= groups.min()
    grouped = [np.bincount(groups, weights=part[common]) for part in (p, q)]
    seen = np.maximum(*grouped) > 0
    first, second = (
        np.append(part[seen], float(whole[~common].sum())) for part, whole in zip(grouped, (p, q), strict=True)
    )
    return first, second


@dataclass(frozen=True, eq=False)
class ShiftBesideCells:
    """A normal shifted by mu, beside independent outcomes in cells: delta averages that of the shift over the cells."""

    mu: float
    cells: CellTruth

    def delta(self, epsilon: float) -> float:
        ways = ((self.cells.first, self.cells.second), (self.cells.second, self.cells.first))
        return max(0.0, *(self._one_way(p, q, epsilon) for p, q in ways))

    def _one_way(self, p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
        """sum over cells of P(cell) delta_mu(epsilon - ln(P(cell) / Q(cell)))."""
        seen = (p > 0) & (q > 0)
        left = epsilon - np.log(p[seen]) + np.log(q[seen])
        return float((p[seen] * _shifted(self.mu, left)).sum()) + float(p[q == 0].sum()) - 1e-13

    def renyi(self, order: float) -> float:
        return order * self.mu**2 / 2 + self.cells.renyi(order)


def _shifted(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """delta of N(mu, 1) against N(0, 1) at any epsilon, also below 0; the textbook's difference is exact enough."""
    if mu == 0.0:
        return np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
    second = np.exp(np.minimum(epsilon + special.log_ndtr(-epsilon / mu - mu / 2), 0.0))
    return np.maximum(special.ndtr(-epsilon / mu + mu / 2) - second, 0.0)


def truth_between(first: GaussianLaw | GaussianMixtureLaw, second: GaussianLaw | GaussianMixtureLaw) -> Truth:
    """The truth about two laws: closed forms for Gaussians, cells for mixtures."""
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianTruth(first, second)
    mixtures = [mixture_of(law) if isinstance(law, GaussianLaw) else law for law in (first, second)]
    return CellTruth.between(mixtures[0], mixtures[1])
