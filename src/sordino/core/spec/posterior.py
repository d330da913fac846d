"""Kinds `posterior-sample`, `propose-test-sample` and `output-perturbation`.

Exact draws are described by what is known about the potential; Propose-Test-Sample is Algorithm 1 of Heller and Fetaya
with the ranges its line 2 states; the minimiser of a strongly convex objective is found to a proven tolerance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core import bound as constants
from sordino.core.bound import Certificate, View
from sordino.core.spec.fields import Nested, Section, Tagged
from sordino.core.spec.problem import RUNS, Algorithm, AverageNoise, Certified, Problem, required
from sordino.core.spec.shapes import Contradiction, Number, Whole, Word
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval

POTENTIALS = Tagged()


def _flat(strong_convexity: Certificate, remedy: str) -> Iterator[Contradiction]:
    if strong_convexity.value == 0.0:
        yield Contradiction("strong_convexity", "to be above 0", 0.0, remedy)


@POTENTIALS.register("strongly-log-concave")
@dataclass(frozen=True)
class StronglyLogConcave(Section):
    """A strongly convex potential; two neighbours' potentials differ by a Lipschitz function."""

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    strong_convexity: Annotated[Certificate, Certified(constants.STRONG_CONVEXITY)]

    def contradictions(self) -> Iterator[Contradiction]:
        """Strongly means strictly positive."""
        return _flat(self.strong_convexity, "use the potential bounded if there is no strong convexity")


@POTENTIALS.register("bounded")
@dataclass(frozen=True)
class BoundedPotential(Section):
    """A convex potential on a bounded set; two neighbours' potentials differ by a Lipschitz function."""

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    diameter: Annotated[Certificate, Certified(constants.DIAMETER)]


@POTENTIALS.register("linear-regression")
@dataclass(frozen=True)
class LinearRegression(Section):
    """Regression through the origin with x_low <= x <= x_high and |y / x - c| <= n^gamma1."""

    alpha: Annotated[float, Number(POSITIVE), "prior precision"]
    beta: Annotated[float, Number(POSITIVE), "noise precision"]
    gamma1: Annotated[float, Number(Interval(0.0, 0.5, high_open=True))]
    x_low: Annotated[float, Number(POSITIVE)]
    x_high: Annotated[float, Number(POSITIVE)]
    c: Annotated[float, Number(NON_NEGATIVE)]

    def contradictions(self) -> Iterator[Contradiction]:
        """The domain of Heller and Fetaya: x_low < x_high and x_high^2 beta > 3."""
        yield from range_misfits(self.x_low, self.x_high)
        if not self.beta * (self.x_high * self.x_high) > 3.0:
            yield Contradiction("beta", "to satisfy x_high^2 beta > 3", self.beta)


Potential = StronglyLogConcave | BoundedPotential | LinearRegression


@RUNS.register("posterior-sample")
@dataclass(frozen=True)
class PosteriorSample(Algorithm):
    """Independent exact draws from the posterior."""

    views: ClassVar[frozenset[View]] = frozenset({View.ONE_SAMPLE})

    potential: Annotated[Potential, POTENTIALS]
    draws: Annotated[int, Whole(), "independent draws released together"] = 1

    @property
    def words(self) -> str:
        return f"{self.draws} exact draw{'' if self.draws == 1 else 's'} from a posterior"

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """The regression domain grows with n, so n must be known."""
        if isinstance(self.potential, LinearRegression):
            yield from required(problem, "n")


def range_misfits(x_low: float, x_high: float) -> Iterator[Contradiction]:
    """A range of covariates has its upper end above its lower end."""
    if not x_low < x_high:
        yield Contradiction("x_high", f"to be above x_low = {x_low!r}", x_high)


_BELOW_HALF = Interval(0.0, 0.5, low_open=True, high_open=True)


class Sampler(StrEnum):
    """How line 25 draws from the posterior; only the exact draw is private."""

    EXACT = "exact"
    SGLD = "sgld"


@RUNS.register("propose-test-sample")
@dataclass(frozen=True)
class ProposeTestSample(Algorithm):
    """Clean the data privately, test that enough is left, then draw one posterior sample of the slope."""

    views: ClassVar[frozenset[View]] = frozenset({View.ONE_SAMPLE})

    epsilon: Annotated[float, Number(POSITIVE), "per stage; the whole costs 4 epsilon under replace-one"]
    delta: Annotated[float, Number(_BELOW_HALF), "per stage; the whole costs 2 delta"]
    x_low: Annotated[float, Number(POSITIVE)]
    x_high: Annotated[float, Number(POSITIVE)]
    alpha: Annotated[float, Number(POSITIVE), "prior precision"]
    beta: Annotated[float, Number(POSITIVE), "noise precision"]
    gamma1: Annotated[float, Number(_BELOW_HALF)]
    rho1: Annotated[float, Number(Interval(1.0, 1.5, low_open=True, high_open=True))]
    rho2: Annotated[float, Number(_BELOW_HALF)]
    sampler: Annotated[Sampler, Word(Sampler)]

    @property
    def words(self) -> str:
        return f"Propose-Test-Sample with a draw by {self.sampler.value} sampling"

    def contradictions(self) -> Iterator[Contradiction]:
        """The ranges that tie two parameters together."""
        yield from range_misfits(self.x_low, self.x_high)
        if not self.beta * (self.x_high * self.x_high) >= 3.0:
            yield Contradiction("beta", "to be at least 3 / x_high^2", self.beta)
        if not self.rho2 < self.gamma1:
            yield Contradiction("gamma1", f"to be above rho2 = {self.rho2!r}", self.gamma1)


@RUNS.register("output-perturbation")
@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(Algorithm):
    """Noise added once, to a minimiser; the constants are those of sums over records, not of means."""

    views: ClassVar[frozenset[View]] = frozenset({View.POSTERIOR_PARAMETERS})

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    strong_convexity: Annotated[Certificate, Certified(constants.STRONG_CONVEXITY)]
    tolerance: Annotated[float, Number(NON_NEGATIVE), "proven distance of the point found from the minimiser"]
    dim: Annotated[int, Whole(), "number of parameters"]
    noise: Annotated[AverageNoise, Nested(AverageNoise)]

    @property
    def words(self) -> str:
        return f"the minimiser of a strongly convex objective with {self.noise.kind.value} noise, once"

    def contradictions(self) -> Iterator[Contradiction]:
        """Strongly means strictly positive."""
        return _flat(self.strong_convexity, "add a quadratic regulariser with a public weight")
