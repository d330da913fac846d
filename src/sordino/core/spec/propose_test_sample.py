"""Propose-Test-Sample: Algorithm 1 of Heller and Fetaya, with the ranges its line 2 states."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core.spec.algorithm import RUNS, Algorithm
from sordino.core.spec.posterior import range_misfits
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.shape import Number, Word
from sordino.core.validate import POSITIVE, Interval
from sordino.core.view import View

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

    epsilon: Annotated[float, Number(POSITIVE), "per stage; the whole costs 5 epsilon"]
    delta: Annotated[float, Number(_BELOW_HALF), "per stage; the whole costs 2 delta"]
    x_low: Annotated[float, Number(POSITIVE)]
    x_high: Annotated[float, Number(POSITIVE)]
    alpha: Annotated[float, Number(POSITIVE), "prior precision"]
    beta: Annotated[float, Number(POSITIVE), "noise precision"]
    gamma1: Annotated[float, Number(_BELOW_HALF)]
    rho1: Annotated[float, Number(Interval(1.0, 1.5, low_open=True, high_open=True))]
    rho2: Annotated[float, Number(_BELOW_HALF)]
    sampler: Annotated[Sampler, Word(tuple(Sampler))]

    def contradictions(self) -> Iterator[Contradiction]:
        """The ranges that tie two parameters together."""
        yield from range_misfits(self.x_low, self.x_high)
        if not self.beta * (self.x_high * self.x_high) >= 3.0:
            yield Contradiction("beta", "to be at least 3 / x_high^2", self.beta)
        if not self.rho2 < self.gamma1:
            yield Contradiction("gamma1", f"to be above rho2 = {self.rho2!r}", self.gamma1)
