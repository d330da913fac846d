"""The plan of a fit: which statistics are released and how the budget is shared. It reads no row.

Every statistic is a Gaussian mechanism whose noise is `multiplier` times its sensitivity, so mechanism j is
1/multiplier_j-GDP whatever was released before, and all of them together are mu-GDP with mu^2 the sum of the squares
(Dong, Roth and Su 2022, Corollary 3.3): bounds, points and scales of later statistics may depend on earlier answers.

Shares of mu^2 follow from q = n mu / p, the budget for each coefficient, and are scaled to add up to 1 in every plan.
No privacy depends on how they were chosen.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import composed, largest_mu, up
from sordino.core.validate import COUNT, OPEN_UNIT, POSITIVE, instance_of, number, whole_number
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import Family, family_of
from sordino.mechanisms.regression.noised import BINS
from sordino.mechanisms.regression.statistics import Centre
from sordino.noise.port import factor

MOST_IN_MATRIX = 160  # matrices of more coefficients than this take too long to draw from; a limit of time


class Tuned(NamedTuple):
    """Shares of mu^2 before they are scaled to 1, and what goes with them."""

    centre: float
    squares: float
    scatter: float
    again: float  # second moments of whitened rows
    start: float  # the place of the target
    rounds: tuple[tuple[float, float], ...]  # gradients and slopes before the last point
    gradient: float  # at the last point, as the next two
    slopes: float
    meat: float
    histogram: float  # each of them
    spread: float  # least squares' scale by row
    cut_off: float  # means of what is cut
    # How far entries on and off the diagonal of a matrix are taken to lie from their prior mean, in units of its
    # diagonal, where noise hides it.
    near: tuple[float, float]


# All tuned numbers of the engine. Shares are those of a prototype, for which few were tried against each other; `near`
# was widened until intervals held on designs with seeds below 1,000,000 (`bench/designs.py`). Below q = 80 columns cost
# more than rounds gain, and slopes are read at the first point, since every step needs them; least squares of numbers
# needs a round at the last point, which pays from q = 110 on.
RICH = Tuned(
    0.04, 0.015, 0.05, 0.06, 0.02, ((0.02, 0.01), (0.03, 0.01), (0.05, 0.01), (0.08, 0.015), (0.2, 0.02)),
    0.32, 0.11, 0.03, 0.006, 0.0, 0.02, (0.2, 0.1),
)  # fmt: skip
RICH_NUMBERS = RICH._replace(rounds=((0.03, 0.01), (0.05, 0.01), (0.08, 0.015)), gradient=0.5, spread=0.03)
POOR = Tuned(
    0.09, 0.03, 0.12, 0.0, 0.02, ((0.055, 0.12), (0.1, 0.015), (0.17, 0.015)),
    0.42, 0.04, 0.008, 0.009, 0.0, 0.02, (0.25, 0.12),
)  # fmt: skip
POOR_BELOW, CORRECTED_FROM = 80.0, 110.0
# Rows of two classes that count by their certainty have slopes of .8 (`Logistic.typical`: .133 for .166). Noise hides
# them no more than slopes of 1 with this much more of the budget.
_FLATTER = 1.0 / 0.8**2
# Below this q most coefficients stay where the prior has them, and scales are read from a few dozen records' worth of
# counts: such fits are refused before anything is spent.
LEAST_BUDGET = 30.0


class PlannedStatistic(NamedTuple):
    """One Gaussian mechanism of a plan: the noise is `multiplier` times a sensitivity that is known when it is asked.

    The sensitivity follows from the shape and the bound on one unit's contribution, None if an earlier answer gives it.
    """

    name: str
    shape: str
    numbers: int
    share: float  # of mu^2, before shares are scaled to add up to 1
    bound: float | None = None
    multiplier: float = math.nan


@dataclass(frozen=True)
class Plan:
    """A described fit: public numbers only. `records` are units, public under replace-one and a guess otherwise."""

    family: str
    declaration: Declaration
    records: int
    relation: Relation
    epsilon: float
    delta: float

    @cached_property
    def kind(self) -> Family:
        return family_of(self.family, self.declaration)

    @property
    def outputs(self) -> int:
        return self.kind.outputs

    @property
    def coefficients(self) -> int:
        """Columns and intercept, for every score."""
        return (1 + self.declaration.columns) * self.outputs

    @cached_property
    def mu(self) -> float:
        """The privacy parameter that the guarantee allows."""
        return _largest_mu(self.epsilon, self.delta)

    @property
    def budget(self) -> float:
        """q: records times mu for each coefficient; noise under add-remove is up to 2 times less, sqrt 2 on average."""
        worth = 1.0 if self.relation is Relation.REPLACE_ONE else math.sqrt(2.0)
        return self.records * self.mu * worth / self.coefficients

    @property
    def corrected(self) -> bool:
        """Whether least squares cuts residuals far out and adds back what is cut.

        Where budgets are poor it is Huber's estimate with its intercept moved to the mean.
        """
        return self.family == "linear" and self.budget >= CORRECTED_FROM

    @cached_property
    def tuned(self) -> Tuned:
        if self.corrected:
            return RICH_NUMBERS
        found = POOR if self.budget < POOR_BELOW else RICH
        if self.kind.start != "class":
            return found
        rounds = tuple((gradient, _FLATTER * slopes) for gradient, slopes in found.rounds)
        return found._replace(rounds=rounds, slopes=_FLATTER * found.slopes)

    @property
    def rounds(self) -> int:
        return len(self.tuned.rounds) + 1

    @cached_property
    def mechanisms(self) -> tuple[PlannedStatistic, ...]:
        """Everything that is released, in order; shares are scaled to 1, and multipliers are a hair above theirs."""
        tuned, kind, size, columns = self.tuned, self.kind, self.coefficients, self.declaration.columns
        numbers, counts, found = kind.start == "number", kind.start == "counts", list[PlannedStatistic]()

        def add(name: str, shape: str, released: int, share: float, bound: float | None = None) -> None:
            found.append(PlannedStatistic(name, shape, released, share, bound))

        def histogram(name: str, share: float) -> None:
            add(name, "nonnegative", BINS, share, 1.0)

        def matrix(name: str, rows: int, share: float) -> None:
            add(name, "matrix", rows * (rows + 1) // 2, share)

        if numbers or counts:
            histogram("target-sizes", 0.5 * tuned.start)
        if numbers or kind.start == "class":
            add("target-mean", "vector", 1, tuned.start * (0.5 if numbers else 1.0), 1.0)
        elif kind.start == "classes":
            add("class-counts", "nonnegative", self.outputs + 1, tuned.start, 1.0)
        else:
            add("counts-and-exposure", "nonnegative", 2, tuned.start, math.sqrt(2.0))
        add("centre", "centre", columns, tuned.centre, Centre.declared(self.declaration, self.relation).bound)
        histogram("square-sizes", tuned.histogram)
        add("squares", "nonnegative", columns, tuned.squares, 1.0)
        histogram("row-sizes", tuned.histogram)
        matrix("scatter", columns, tuned.scatter)
        if tuned.again:
            histogram("lengths 1", tuned.histogram)
            matrix("again", columns + 1, tuned.again)
        histogram("lengths 2", 2.0 * tuned.histogram)
        for place, (gradient, slopes) in enumerate([*tuned.rounds, (tuned.gradient, tuned.slopes)], 1):
            last = place == self.rounds
            if numbers or self.family == "negative-binomial" or (last and counts):
                histogram(f"residuals {place}", (1.0 if numbers else 2.0) * tuned.histogram)
            if last and self.corrected:
                add("spread", "vector", size, tuned.spread)
                histogram("spread-residuals", 2.0 * tuned.histogram)
            if last and self.family == "linear":
                add("cut-off", "vector", 4, tuned.cut_off, math.sqrt(3.0))
            if last and counts:
                add("cut-counts", "vector", 2, tuned.cut_off, math.sqrt(2.0))
            add(f"gradient {place}", "vector", size, gradient)
            matrix(f"slopes {place}", size, slopes)
        if not kind.per_unit:
            histogram("score-sizes", tuned.histogram)
        matrix("meat", size, tuned.meat)
        total = math.fsum(one.share for one in found)
        multipliers = (up(1.0 / (self.mu * math.sqrt(one.share / total)) * (1.0 + 1e-12)) for one in found)
        return tuple(one._replace(multiplier=each) for one, each in zip(found, multipliers, strict=True))

    @cached_property
    def multipliers(self) -> dict[str, float]:
        return {one.name: one.multiplier for one in self.mechanisms}

    @property
    def numbers(self) -> int:
        return sum(one.numbers for one in self.mechanisms)

    @property
    def spent(self) -> float:
        """mu of everything together, rounded up: at most `mu`."""
        return composed([(up(1.0 / one.multiplier), 1) for one in self.mechanisms])


def plan(family: str, declaration: Declaration, records: int, relation: Relation, epsilon: float, delta: float) -> Plan:
    """A plan from public numbers, whose mechanisms together are (epsilon, delta) private."""
    instance_of("relation", relation, Relation)
    family_of(family, declaration)  # which refuses a declaration that lacks what the family needs
    records, epsilon = whole_number("records", records, COUNT), number("epsilon", epsilon, POSITIVE)
    return Plan(family, declaration, records, relation, epsilon, number("delta", delta, OPEN_UNIT))


_largest_mu = lru_cache(maxsize=256)(largest_mu)


class Expected(NamedTuple):
    """Standard deviations to expect of each encoded coefficient, intercept first, from the plan alone."""

    sampling: Array
    privacy: Array
    prior: float
    whitened: float  # of a coefficient of whitened rows, in units of the target's half range
    refused: bool  # whether the fit is refused before anything is spent

    @property
    def together(self) -> Array:
        return np.hypot(self.sampling, self.privacy)

    @property
    def posterior(self) -> Array:
        """What is left when the prior is taken into account."""
        return 1.0 / np.hypot(1.0 / self.together, 1.0 / self.prior)


# What a column of typical spread is: the standard deviation of a number over half its range, a share of ones, and how
# far correlated columns widen intervals.
TYPICAL_SPREAD, TYPICAL_SHARE, _CORRELATED = 0.27, 0.15, 1.25
_TYPICAL_TAU = 1.15  # lengths up to which rows have weight 1, over the root of the number of coefficients
_OPEN = 10.0  # poor budgets leave slopes open, which widens intervals by about this over q


def expected(made: Plan) -> Expected:
    """Widths from the plan alone, for columns of typical spread; what `sordino plan` shows.

    With n units, slope h and variance v of psi, a whitened coefficient has sampling variance v / (n h^2) and privacy
    standard deviation (1 + 10 / q) D / (n h mu_g), where D is the sensitivity of a gradient and mu_g that of all
    gradients, earlier ones counted half. A column of standard deviation s, correlated with others as columns typically
    are, multiplies both by 1.25 / s.
    """
    declaration, tuned = made.declaration, made.tuned
    spread = np.full(declaration.columns, TYPICAL_SPREAD)
    for places in declaration.sets:
        share = TYPICAL_SHARE if len(places) == 1 else 1.0 / (len(places) + 1.0)
        spread[places] = math.sqrt(share * (1.0 - share))
    slope, variance, bound = made.kind.typical
    if made.kind.start == "classes":
        slope, variance = slope / (made.outputs + 1), variance / (made.outputs + 1)
    gradients = tuned.gradient + (0.0 if made.corrected else 0.5 * sum(one for one, _ in tuned.rounds))
    total = math.fsum(one.share for one in made.mechanisms)
    moved = _TYPICAL_TAU * math.sqrt(1.0 + declaration.columns) * bound * factor("vector", made.relation)
    privacy = moved / (made.records * slope * made.mu * math.sqrt(gradients / total)) * (1.0 + _OPEN / made.budget)
    sampling = math.sqrt(variance / made.records) / slope
    # The intercept is at the middle of the declared ranges, away from where rows are.
    distance = math.sqrt(1.0 + float(np.sum((0.3 * _CORRELATED / spread[declaration.numbers]) ** 2)))
    width = np.concatenate([[distance], _CORRELATED / spread])
    half, prior = made.kind.half, made.kind.half * made.kind.effect_scale
    sides = [half * np.repeat(one * width, made.outputs) for one in (sampling, privacy)]
    found = Expected(sides[0], sides[1], prior, math.hypot(sampling, privacy), made.budget < LEAST_BUDGET)
    # A column that uses all of its range has to be known better than half the prior's standard deviation.
    well_spread = TYPICAL_SPREAD / _CORRELATED * math.sqrt(3.0) * float(np.median(found.together[1:]))
    return found._replace(refused=found.refused or well_spread > 0.5 * prior)


def as_dict(made: Plan) -> dict[str, Any]:
    """The plan for a certificate: every mechanism with its multiplier, and what they add up to."""
    keys = ("name", "shape", "numbers", "multiplier")
    return {
        "family": made.family,
        "records": made.records,
        "relation": made.relation.value,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "mu": made.spent,
        "unit": made.declaration.counted,
        "mechanisms": [{key: getattr(one, key) for key in keys} for one in made.mechanisms],
    }
