"""Kinds `posterior-sample`, `propose-test-sample` (Heller and Fetaya, Algorithm 1) and `output-perturbation`."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core import bound as constants
from sordino.core.bound import Certificate, View
from sordino.core.spec.fields import Contradiction, Nested, Number, Section, TaggedUnion, Whole, Word
from sordino.core.spec.problem import RUNS, Algorithm, AverageNoise, Certified, Problem, required
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval

POTENTIALS = TaggedUnion()
DRAWERS = TaggedUnion()


def _flat(strong_convexity: Certificate, remedy: str) -> Iterator[Contradiction]:
    if strong_convexity.value == 0.0:
        yield Contradiction("strong_convexity", "to be above 0", 0.0, remedy)


@POTENTIALS.register("strongly-log-concave")
class StronglyLogConcave(Section):
    """A strongly convex potential; two neighbours' potentials differ by a Lipschitz function."""

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    strong_convexity: Annotated[Certificate, Certified(constants.STRONG_CONVEXITY)]

    def contradictions(self) -> Iterator[Contradiction]:
        return _flat(self.strong_convexity, "use the potential bounded if there is no strong convexity")


@POTENTIALS.register("bounded")
class BoundedPotential(Section):
    """A potential on a bounded set, convex or not; two neighbours' potentials differ by a Lipschitz function."""

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    diameter: Annotated[Certificate, Certified(constants.DIAMETER)]


@POTENTIALS.register("linear-regression")
class LinearRegression(Section):
    """Regression through the origin with x_low <= x <= x_high and |y / x - c| <= n^gamma1."""

    alpha: Annotated[float, POSITIVE, "prior precision"]
    beta: Annotated[float, POSITIVE, "noise precision"]
    gamma1: Annotated[float, Number(Interval(0.0, 0.5, high_open=True))]
    x_low: Annotated[float, POSITIVE]
    x_high: Annotated[float, POSITIVE]
    c: Annotated[float, NON_NEGATIVE]

    def contradictions(self) -> Iterator[Contradiction]:
        """The domain of Heller and Fetaya: x_low < x_high and x_high^2 beta > 3."""
        yield from range_misfits(self.x_low, self.x_high)
        if not self.beta * (self.x_high * self.x_high) > 3.0:
            yield Contradiction("beta", "to satisfy x_high^2 beta > 3", self.beta)


Potential = StronglyLogConcave | BoundedPotential | LinearRegression


@DRAWERS.register("rejection")
class RejectionDraws(Section):
    """Proposals are accepted or not until one is, at most so often; then the draw is exact, else there is none."""

    trials: Annotated[int, Whole(), "proposals a draw may take"]
    dim: Annotated[int, Whole(), "number of parameters"]
    smoothness: Annotated[
        Certificate | None, Certified(constants.SMOOTHNESS), "of a strongly log-concave potential"
    ] = None
    oscillation: Annotated[Certificate | None, Certified(constants.OSCILLATION), "for bounded potentials"] = None

    words: ClassVar[str] = "by rejection"


@DRAWERS.register("metropolis")
class MetropolisDraws(Section):
    """So many steps of an independence sampler with uniform proposals on a ball, then noise."""

    steps: Annotated[int, Whole(), "steps of the sampler, from a public start"]
    dim: Annotated[int, Whole(), "number of parameters"]
    oscillation: Annotated[Certificate, Certified(constants.OSCILLATION)]
    noise: Annotated[AverageNoise, Nested(AverageNoise)]

    words: ClassVar[str] = "by a Metropolis sampler, with noise"


@DRAWERS.register("perturbed")
class PerturbedDraws(Section):
    """Draws by any sampler that is within a certified distance of the posterior, then noise."""

    distance: Annotated[Certificate, Certified(constants.DISTANCE)]
    dim: Annotated[int, Whole(), "number of parameters"]
    noise: Annotated[AverageNoise, Nested(AverageNoise)]

    words: ClassVar[str] = "by an approximate sampler, with noise"


Drawer = RejectionDraws | MetropolisDraws | PerturbedDraws


@RUNS.register("posterior-sample")
class PosteriorSample(Algorithm):
    """Independent draws from the posterior."""

    views: ClassVar[frozenset[View]] = frozenset({View.ONE_SAMPLE})

    potential: Annotated[Potential, POTENTIALS]
    draws: Annotated[int, Whole(), "independent draws released together"] = 1
    drawn: Annotated[Drawer | None, DRAWERS, "how a draw is made; absent: exactly"] = None

    @property
    def words(self) -> str:
        count = f"{self.draws} {'exact ' if self.drawn is None else ''}draw{'' if self.draws == 1 else 's'}"
        return f"{count} from a posterior{'' if self.drawn is None else ' ' + self.drawn.words}"

    def contradictions(self) -> Iterator[Contradiction]:
        drawn, bounded = self.drawn, isinstance(self.potential, BoundedPotential)
        kind = POTENTIALS.word_of(self.potential)
        if isinstance(drawn, MetropolisDraws) and not bounded:
            yield Contradiction("potential.kind", "to be bounded for draws by metropolis", kind)
        if not isinstance(drawn, RejectionDraws):
            return
        if isinstance(self.potential, LinearRegression):
            asked = "to be bounded or strongly-log-concave for draws by rejection"
            yield Contradiction("potential.kind", asked, kind)
            return
        needed, other = ("oscillation", "smoothness") if bounded else ("smoothness", "oscillation")
        if getattr(drawn, needed) is None:
            yield Contradiction(f"drawn.{needed}", f"to be given for a {kind} potential", None)
        if getattr(drawn, other) is not None:
            yield Contradiction(f"drawn.{other}", f"to be absent for a {kind} potential", getattr(drawn, other).value)
        if isinstance(self.potential, StronglyLogConcave) and drawn.smoothness is not None:
            m, M = self.potential.strong_convexity.value, drawn.smoothness.value
            if m > M:
                yield Contradiction("drawn.smoothness", f"to be at least strong_convexity = {m!r}", M)

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
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
class ProposeTestSample(Algorithm):
    """Clean the data privately, test that enough is left, then draw one posterior sample of the slope."""

    views: ClassVar[frozenset[View]] = frozenset({View.ONE_SAMPLE})

    epsilon: Annotated[float, POSITIVE, "per stage; the whole costs 4 epsilon under replace-one"]
    delta: Annotated[float, _BELOW_HALF, "per stage; the whole costs 2 delta"]
    x_low: Annotated[float, POSITIVE]
    x_high: Annotated[float, POSITIVE]
    alpha: Annotated[float, POSITIVE, "prior precision"]
    beta: Annotated[float, POSITIVE, "noise precision"]
    gamma1: Annotated[float, _BELOW_HALF]
    rho1: Annotated[float, Number(Interval(1.0, 1.5, low_open=True, high_open=True))]
    rho2: Annotated[float, _BELOW_HALF]
    sampler: Annotated[Sampler, Word(Sampler)]

    @property
    def words(self) -> str:
        return f"Propose-Test-Sample with a draw by {self.sampler.value} sampling"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from range_misfits(self.x_low, self.x_high)
        if not self.beta * (self.x_high * self.x_high) >= 3.0:
            yield Contradiction("beta", "to be at least 3 / x_high^2", self.beta)
        if not self.rho2 < self.gamma1:
            yield Contradiction("gamma1", f"to be above rho2 = {self.rho2!r}", self.gamma1)


@RUNS.register("output-perturbation", kw_only=True)
class OutputPerturbation(Algorithm):
    """Noise added once, to a minimiser; the constants are those of sums over records, not of means."""

    views: ClassVar[frozenset[View]] = frozenset({View.POSTERIOR_PARAMETERS})

    lipschitz: Annotated[Certificate, Certified(constants.LIPSCHITZ)]
    strong_convexity: Annotated[Certificate, Certified(constants.STRONG_CONVEXITY)]
    tolerance: Annotated[float, NON_NEGATIVE, "proven distance of the point found from the minimiser"]
    dim: Annotated[int, Whole(), "number of parameters"]
    noise: Annotated[AverageNoise, Nested(AverageNoise)]

    @property
    def words(self) -> str:
        return f"the minimiser of a strongly convex objective with {self.noise.kind.value} noise, once"

    def contradictions(self) -> Iterator[Contradiction]:
        return _flat(self.strong_convexity, "add a quadratic regulariser with a public weight")
