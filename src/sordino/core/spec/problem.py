"""The problem a chain runs on: its public size and the certified constants of its loss."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sordino.core import constants
from sordino.core.certificate import Certificate
from sordino.core.spec.certified import Certified
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Nested, Section
from sordino.core.spec.shape import Whole


@dataclass(frozen=True)
class Regulariser(Section):
    """The data-free part of the drift: weight decay, or minus log prior over n."""

    strong_convexity: Annotated[Certificate, Certified(constants.REGULARISER_STRONG_CONVEXITY)]
    smoothness: Annotated[Certificate, Certified(constants.REGULARISER_SMOOTHNESS)]

    def contradictions(self) -> Iterator[Contradiction]:
        """A function is never more convex than smooth."""
        return _curvature(self.strong_convexity, self.smoothness)


@dataclass(frozen=True)
class GradientGrowth(Section):
    """Linear growth of the difference of two examples' gradients: at most g0 + g1 |theta|."""

    g0: Annotated[Certificate, Certified(constants.GROWTH_G0)]
    g1: Annotated[Certificate, Certified(constants.GROWTH_G1)]
    at_zero: Annotated[Certificate, Certified(constants.GROWTH_AT_ZERO)]


@dataclass(frozen=True)
class Dissipativity(Section):
    """Pseudo-Lipschitz and dissipativity constants of a loss (heavy tails as stated)."""

    K1: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K1"])]
    K2: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K2"])]
    m: Annotated[Certificate, Certified(constants.DISSIPATIVITY["m"])]
    K: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K"])]
    B: Annotated[Certificate, Certified(constants.DISSIPATIVITY["B"])]
    D: Annotated[Certificate, Certified(constants.DISSIPATIVITY["D"])]


@dataclass(frozen=True)
class Ergodicity(Section):
    """Constants of V-uniform ergodicity (heavy tails as stated)."""

    C: Annotated[Certificate, Certified(constants.ERGODICITY_C)]
    rho: Annotated[Certificate, Certified(constants.ERGODICITY_RHO)]


@dataclass(frozen=True)
class Convergence(Section):
    """Total variation to the posterior after N steps: at most zeta * rate^N + bias."""

    zeta: Annotated[Certificate, Certified(constants.CONVERGENCE_ZETA)]
    rate: Annotated[Certificate, Certified(constants.CONVERGENCE_RATE)]
    bias: Annotated[Certificate, Certified(constants.CONVERGENCE_BIAS)]


@dataclass(frozen=True)
class Problem(Section):
    """Public sizes and certified constants; a constant that is absent is not claimed."""

    n: Annotated[int | None, Whole(), "number of records, a public constant"] = None
    dim: Annotated[int | None, Whole(), "number of parameters"] = None
    gradient_sensitivity: Annotated[Certificate | None, Certified(constants.GRADIENT_SENSITIVITY)] = None
    gradient_bound: Annotated[Certificate | None, Certified(constants.GRADIENT_BOUND)] = None
    strong_convexity: Annotated[Certificate | None, Certified(constants.STRONG_CONVEXITY)] = None
    smoothness: Annotated[Certificate | None, Certified(constants.SMOOTHNESS)] = None
    unclipped_smoothness: Annotated[Certificate | None, Certified(constants.UNCLIPPED_SMOOTHNESS)] = None
    regulariser: Annotated[Regulariser | None, Nested(Regulariser)] = None
    drift_bound: Annotated[Certificate | None, Certified(constants.DRIFT_BOUND)] = None
    gradient_growth: Annotated[GradientGrowth | None, Nested(GradientGrowth)] = None
    dissipativity: Annotated[Dissipativity | None, Nested(Dissipativity)] = None
    ergodicity: Annotated[Ergodicity | None, Nested(Ergodicity)] = None
    convergence: Annotated[Convergence | None, Nested(Convergence)] = None

    def contradictions(self) -> Iterator[Contradiction]:
        """A function is never more convex than smooth."""
        if self.strong_convexity is not None and self.smoothness is not None:
            yield from _curvature(self.strong_convexity, self.smoothness)


def _curvature(strong_convexity: Certificate, smoothness: Certificate) -> Iterator[Contradiction]:
    if strong_convexity.value > smoothness.value:
        yield Contradiction(
            "strong_convexity", f"to be at most the smoothness {smoothness.value!r}", strong_convexity.value
        )
