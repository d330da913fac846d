"""What two neighbouring releases really differ by: the hockey-stick and Rényi divergences, the larger direction."""

from typing import Protocol

from sordino.model.exact import GaussianLaw, GaussianLoss, GaussianMixtureLaw
from tests.soundness.cells import CellTruth


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

    def delta(self, epsilon: float) -> float:
        return max(loss.delta(epsilon).low for loss in self._losses)

    def renyi(self, order: float) -> float:
        return max(loss.renyi(order) for loss in self._losses)


def truth_between(first: GaussianLaw | GaussianMixtureLaw, second: GaussianLaw | GaussianMixtureLaw) -> Truth:
    """The truth about two laws: closed forms for Gaussians, cells for mixtures."""
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianTruth(first, second)
    mixtures = [GaussianMixtureLaw.of(law) if isinstance(law, GaussianLaw) else law for law in (first, second)]
    return CellTruth.between(mixtures[0], mixtures[1])
