"""The minimiser of a strongly convex objective, found to a proven tolerance and released with noise."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from sordino.core import constants
from sordino.core.certificate import Certificate
from sordino.core.spec.algorithm import RUNS, Algorithm
from sordino.core.spec.average import AverageNoise
from sordino.core.spec.certified import Certified
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Nested
from sordino.core.spec.shape import Number, Whole
from sordino.core.validate import NON_NEGATIVE
from sordino.core.view import View


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

    def contradictions(self) -> Iterator[Contradiction]:
        """Strongly means strictly positive."""
        if self.strong_convexity.value == 0.0:
            yield Contradiction(
                "strong_convexity", "to be above 0", 0.0, "add a quadratic regulariser with a public weight"
            )
