"""Facts of a loss, certified from the public schema alone."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import NamedTuple

from sordino.core.bound import ROW_NORM, TARGET_BOUND, TARGET_WIDTH, Certificate, Citation, Constant, Evidence
from sordino.core.gaussian import up
from sordino.core.validate import Interval, number, refuse, whole_number
from sordino.data.schema import Schema

DECLARED = "declared by hand"


@dataclass(frozen=True, init=False)
class Domain:
    """How long a row may be, how many features it has, and what its target may be.

    A plain number is taken as declared: the caller vouches that every record obeys it. `Domain.from_schema` gives
    certificates that hold because encoding clips to them. `classes` is the number of labels of a classification target,
    coded 0, 1, ..., or as signs when `target_width` is 2.
    """

    features: int
    row_norm: Certificate
    target_bound: Certificate | None = None
    target_width: Certificate | None = None
    classes: int | None = None

    def __init__(
        self,
        features: int,
        row_norm: Certificate | float,
        target_bound: Certificate | float | None = None,
        target_width: Certificate | float | None = None,
        classes: int | None = None,
    ) -> None:
        object.__setattr__(self, "features", whole_number("features", features))
        object.__setattr__(self, "row_norm", _stated(ROW_NORM, row_norm))
        for constant, value in ((TARGET_BOUND, target_bound), (TARGET_WIDTH, target_width)):
            object.__setattr__(self, constant.name, None if value is None else _stated(constant, value))
        object.__setattr__(self, "classes", None if classes is None else whole_number("classes", classes, Interval(2)))

    @classmethod
    def from_schema(cls, schema: Schema) -> "Domain":
        """The domain that encoding under a schema enforces; certificates say if its bounds came from private rows."""
        kind, bound, width = schema.target.kind if schema.target is not None else None, None, None
        if kind is not None and kind.bound is not None:
            bound, width = schema.target_certificates()
        classes = None if kind is None else kind.classes
        return cls(len(schema.feature_names), schema.feature_norm_certificate(), bound, width, classes)

    @property
    def reads_private_data(self) -> bool:
        """Whether any of these bounds was computed from private rows; every certificate of a model inherits it."""
        return any(part.reads_private_data for part in self._parts)

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence among the bounds on records."""
        return min(part.evidence for part in self._parts)

    def with_rows_clipped_to(self, cap: float) -> "Domain":
        """The domain after every row is shortened to at most `cap`."""
        number("cap", cap, Interval(0.0, low_open=True))
        if cap >= self.row_norm.value:
            return self
        reason, private = "rows clipped to the declared cap", self.row_norm.reads_private_data
        return replace(self, row_norm=Certificate(ROW_NORM, cap, Evidence.BY_CONSTRUCTION, reason, private))

    @property
    def _parts(self) -> tuple[Certificate, ...]:
        return tuple(part for part in (self.row_norm, self.target_bound, self.target_width) if part is not None)


def _stated(constant: Constant, value: Certificate | float) -> Certificate:
    if not isinstance(value, Certificate):
        return Certificate(constant, value, Evidence.DECLARED, DECLARED)
    if value.constant != constant:
        raise refuse(f"Domain.{constant.name}", f"to be a certificate of {constant.name}", value.constant.name)
    return value


def float_up(value: Fraction) -> float:
    """The smallest float that is at least an exact rational number."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else up(nearest)


def product_up(*factors: float) -> float:
    """The product of non-negative floats, rounded up once."""
    return float_up(prod(map(Fraction, factors), start=Fraction(1)))


def sum_up_exactly(*terms: float) -> float:
    """The sum of floats, rounded up once."""
    return float_up(sum((Fraction(term) for term in terms), Fraction(0)))


class LossFact(NamedTuple):
    """An upper bound and why it holds."""

    value: float
    reason: str


class Growth(NamedTuple):
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
    gradient_bound: LossFact | None = None
    gradient_sensitivity: LossFact | None = None
    smoothness: LossFact | None = None
    growth: Growth | None = None
    evidence: Evidence = Evidence.PROVED

    def inside_ball(self, radius: float) -> "LossFacts":
        """The facts for |theta| <= radius: linear growth then is a bound."""
        if self.growth is None or self.gradient_bound is not None:
            return self
        reason = f"{self.growth.reason}; |theta| <= {radius:g} by projection"
        growing = float_up(Fraction(self.growth.g1) * Fraction(radius))
        ends = (sum_up_exactly(start, growing) for start in (self.growth.at_zero, self.growth.g0))
        bound, apart = (LossFact(end, reason) for end in ends)
        return replace(self, gradient_bound=bound, gradient_sensitivity=apart)


NOTHING_KNOWN = LossFacts()


# For scores x @ Theta the per-example gradient is the outer product of x and the residual r, and the Hessian is the
# Kronecker product of x x^T and the residual's Jacobian. So |r| <= rho and 0 <= J <= kappa give |gradient| <= rho R,
# two gradients at most 2 rho R apart, and 0 <= Hessian <= kappa R^2. A gradient that is not bounded still grows at
# most linearly: gradient(theta) = gradient(0) + A theta with 0 <= A <= kappa R^2, and two such A differ by at most
# kappa R^2.


def linear_score_facts(
    domain: Domain,
    because: str,
    bound: float | None,
    slope: float,
    at_zero: float | None,
    source: Citation | None = None,
) -> LossFacts:
    """Facts about the loss of one record of the domain, whose residual has this `bound` and largest `slope`.

    `at_zero` bounds it at theta = 0; None where there is no bound. `because` proves the numbers, or `source` does.
    """
    R, residual = domain.row_norm.value, because if source is None else f"{because} ({source})"
    reason = f"{residual}; |x| <= {R:g}: {domain.row_norm.reason}"
    smooth, largest, apart, growth = LossFact(product_up(slope, R, R), reason), None, None, None
    if bound is not None:
        largest = LossFact(product_up(bound, R), reason)
        apart = LossFact(2.0 * largest.value, reason)
    start = None if at_zero is None else product_up(at_zero, R)
    if start is not None and largest is not None:
        growth = Growth(2.0 * largest.value, 0.0, start, reason)
    elif start is not None:
        linear = f"{residual}; gradient(theta) = gradient(0) + A theta with 0 <= A <= {smooth.value:g}"
        growth = Growth(2.0 * start, smooth.value, start, linear)
    return LossFacts(f"convex in theta: {residual}", largest, apart, smooth, growth)
