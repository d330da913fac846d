"""Facts of a loss of linear scores, from the size and the slope of its residual.

For scores x @ Theta the per-example gradient is the outer product of x and the residual r, and the Hessian is the
Kronecker product of x x^T and the residual's Jacobian. So |r| <= rho and 0 <= J <= kappa give |gradient| <= rho R, two
gradients at most 2 rho R apart, and 0 <= Hessian <= kappa R^2. A gradient that is not bounded still grows at most
linearly: gradient(theta) = gradient(0) + A theta with 0 <= A <= kappa R^2, and two such A differ by at most kappa R^2.
"""

from dataclasses import dataclass

from sordino.core.citation import Citation
from sordino.model.domain import Domain
from sordino.model.facts import Fact, Growth, LossFacts, product_up


@dataclass(frozen=True)
class Residual:
    """What is known of a residual: sup |r|, the largest eigenvalue of its Jacobian, sup |r| at theta = 0.

    None where there is no bound. `because` proves the numbers; `source` says who did, where somebody did.
    """

    bound: float | None
    slope: float
    at_zero: float | None
    because: str
    source: Citation | None = None

    def __str__(self) -> str:
        return self.because if self.source is None else f"{self.because} ({self.source})"


def linear_score_facts(domain: Domain, residual: Residual) -> LossFacts:
    """Facts about the loss of one record of the domain."""
    R = domain.row_norm.value
    rows = f"|x| <= {R:g}: {domain.row_norm.reason}"
    smoothness = product_up(residual.slope, R, R)
    bound = None if residual.bound is None else Fact(product_up(residual.bound, R), f"{residual}; {rows}")
    return LossFacts(
        convex=f"convex in theta: {residual}",
        gradient_bound=bound,
        gradient_sensitivity=None if bound is None else Fact(2.0 * bound.value, bound.reason),
        smoothness=Fact(smoothness, f"{residual}; {rows}"),
        growth=_growth(residual, R, bound, smoothness),
    )


def _growth(residual: Residual, R: float, bound: Fact | None, smoothness: float) -> Growth | None:
    if residual.at_zero is None:
        return None
    at_zero = product_up(residual.at_zero, R)
    if bound is not None:
        return Growth(2.0 * bound.value, 0.0, at_zero, bound.reason)
    reason = f"{residual}; gradient(theta) = gradient(0) + A theta with 0 <= A <= {smoothness:g}"
    return Growth(2.0 * at_zero, smoothness, at_zero, reason)
