"""What is proved about the unclipped loss of one record: the raw material of certificates."""

from dataclasses import dataclass, replace
from fractions import Fraction

from sordino.core.certificate import Evidence
from sordino.core.rounding import up
from sordino.core.validate import refuse


def float_up(value: Fraction) -> float:
    """The smallest float that is at least an exact rational number."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else up(nearest)


def product_up(*factors: float) -> float:
    """The product of non-negative floats, rounded up once."""
    product = Fraction(1)
    for factor in factors:
        product *= Fraction(factor)
    return float_up(product)


def sum_up_exactly(*terms: float) -> float:
    """The sum of floats, rounded up once."""
    return float_up(sum((Fraction(term) for term in terms), Fraction(0)))


@dataclass(frozen=True)
class Fact:
    """An upper bound and why it holds."""

    value: float
    reason: str


@dataclass(frozen=True)
class Growth:
    """Gradients that may grow with theta.

    |grad f(theta, x) - grad f(theta, x')| <= g0 + g1 |theta| and |grad f(theta, x)| <= at_zero + g1 |theta|.
    """

    g0: float
    g1: float
    at_zero: float
    reason: str


@dataclass(frozen=True)
class LossFacts:
    """Facts about one record's loss, regulariser excluded; what is absent is not claimed.

    `convex` says why the loss is convex in theta; empty if that is not known. `smoothness` bounds the Hessian's norm.
    """

    convex: str = ""
    gradient_bound: Fact | None = None
    gradient_sensitivity: Fact | None = None
    smoothness: Fact | None = None
    growth: Growth | None = None
    evidence: Evidence = Evidence.PROVED

    def inside_ball(self, radius: float) -> "LossFacts":
        """The facts for |theta| <= radius: linear growth then is a bound."""
        if self.growth is None or self.gradient_bound is not None:
            return self
        reason = f"{self.growth.reason}; |theta| <= {radius:g} by projection"
        growing = float_up(Fraction(self.growth.g1) * Fraction(radius))
        return replace(
            self,
            gradient_bound=Fact(sum_up_exactly(self.growth.at_zero, growing), reason),
            gradient_sensitivity=Fact(sum_up_exactly(self.growth.g0, growing), reason),
        )


NOTHING_KNOWN = LossFacts()


def need_declared(facts: LossFacts) -> None:
    """Refuse facts of a user's loss that call themselves better than declared: nothing here could check them."""
    if facts != NOTHING_KNOWN and facts.evidence > Evidence.DECLARED:
        raise refuse(
            "the evidence of declared facts", "to be at most declared", facts.evidence.word, "use Evidence.DECLARED"
        )
