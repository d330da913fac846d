"""Exact draws from a posterior, described by what is known about its potential."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from sordino.core import constants
from sordino.core.certificate import Certificate
from sordino.core.spec.algorithm import RUNS, Algorithm, required
from sordino.core.spec.certified import Certified
from sordino.core.spec.problem import Problem
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Section
from sordino.core.spec.shape import Number, Whole
from sordino.core.spec.tagged import Tagged
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval
from sordino.core.view import View

POTENTIALS = Tagged()


@POTENTIALS.register("strongly-log-concave")
@dataclass(frozen=True)
class StronglyLogConcave(Section):
    """A strongly convex potential; two neighbours' potentials differ by a Lipschitz function."""

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    strong_convexity: Annotated[Certificate, Certified(constants.STRONG_CONVEXITY)]

    def contradictions(self) -> Iterator[Contradiction]:
        """Strongly means strictly positive."""
        if self.strong_convexity.value == 0.0:
            yield Contradiction(
                "strong_convexity", "to be above 0", 0.0, "use the potential bounded if there is no strong convexity"
            )


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

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """The regression domain grows with n, so n must be known."""
        if isinstance(self.potential, LinearRegression):
            yield from required(problem, "n")


def range_misfits(x_low: float, x_high: float) -> Iterator[Contradiction]:
    """A range of covariates has its upper end above its lower end."""
    if not x_low < x_high:
        yield Contradiction("x_high", f"to be above x_low = {x_low!r}", x_high)
