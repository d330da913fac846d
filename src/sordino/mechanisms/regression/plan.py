"""The plan of a fit: which statistics are released and how the budget is shared. It reads no row.

Every statistic is a Gaussian mechanism whose noise is `multiplier` times its sensitivity, so mechanism j is
1/multiplier_j-GDP whatever was released before, and all of them together are mu-GDP with mu^2 the sum of the squares
(Dong, Roth and Su 2022, Corollary 3.3): bounds, points and scales of later statistics may depend on earlier answers.

Shares of mu^2 follow from q = n mu / p, the budget for each coefficient, and are scaled to add up to 1 in every plan.
No privacy depends on how they were chosen.
"""

import hashlib
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
from sordino.mechanisms.regression.statistics import Centre
from sordino.mechanisms.regression.tails import BINS
from sordino.noise.port import factor

# Matrices of more coefficients than this take too long to draw from; a limit of time.
MOST_IN_MATRIX = 160


class Tuned(NamedTuple):
    """Shares of mu^2 before they are scaled to 1, and what goes with them.

    Attributes:
        centre, squares, scatter, again, start: of the columns and of the place of the target.
        rounds: of gradients and slopes before the last point.
        gradient, slopes, meat: at the last point.
        histogram: of each histogram.
        spread, cut_off: least squares' scale by row, and means of what is cut.
        near: how far entries on and off the diagonal of a matrix are taken to lie from their prior mean, in units of
            its diagonal, where noise hides it.
    """

    centre: float
    squares: float
    scatter: float
    again: float
    start: float
    rounds: tuple[tuple[float, float], ...]
    gradient: float
    slopes: float
    meat: float
    histogram: float
    spread: float
    cut_off: float
    near: tuple[float, float]


# All tuned numbers of the engine. Shares are those of a prototype, for which few were tried against each other; `near`
# was widened until intervals held on designs with seeds below 1,000,000 (`bench/designs.py`). Below q = 80 columns cost
# more than rounds gain; least squares of numbers needs a round at the last point, which pays from q = 110 on.
RICH = Tuned(
    0.04, 0.015, 0.05, 0.06, 0.02, ((0.02, 0.01), (0.03, 0.01), (0.05, 0.01), (0.08, 0.015), (0.2, 0.02)),
    0.32, 0.11, 0.03, 0.006, 0.0, 0.02, (0.2, 0.1),
)  # fmt: skip
RICH_NUMBERS = RICH._replace(rounds=((0.03, 0.01), (0.05, 0.01), (0.08, 0.015)), gradient=0.5, spread=0.03)
POOR = Tuned(
    0.09, 0.03, 0.12, 0.0, 0.02, ((0.055, 0.015), (0.1, 0.015), (0.17, 0.02)),
    0.42, 0.12, 0.008, 0.009, 0.0, 0.02, (0.25, 0.12),
)  # fmt: skip
POOR_BELOW, PLAIN_BELOW = 80.0, 110.0
# Below this q most coefficients stay where the prior has them, and scales are read from a few dozen records' worth of
# counts: such fits are refused before anything is spent.
LEAST_BUDGET = 30.0


@dataclass(frozen=True)
class Mechanism:
    """One Gaussian mechanism of a plan: the noise is `multiplier` times a sensitivity that is known when it is asked.

    The sensitivity follows from the shape and the bound on one unit's contribution, None if an earlier answer gives it.
    """

    name: str
    shape: str
    numbers: int
    multiplier: float
    bound: float | None


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
        """The family itself."""
        return family_of(self.family)

    @property
    def outputs(self) -> int:
        """Scores of a row."""
        return self.kind.outputs(self.declaration)

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
    def plain(self) -> bool:
        """Whether least squares is Huber's estimate with its intercept moved to the mean: where budgets are poor."""
        return self.budget < PLAIN_BELOW

    @property
    def corrected(self) -> bool:
        """Whether residuals of numbers are cut far out, and what is cut is added back."""
        return self.family == "linear" and not self.plain

    @cached_property
    def tuned(self) -> Tuned:
        """Shares before they are scaled."""
        if self.budget < POOR_BELOW:
            return POOR
        return RICH_NUMBERS if self.corrected else RICH

    @property
    def rounds(self) -> int:
        """How many points there are."""
        return len(self.tuned.rounds) + 1

    @cached_property
    def shares(self) -> tuple[tuple[str, str, int, float, float | None], ...]:
        """Name, shape, numbers, share of mu^2 (not yet scaled) and public bound of every statistic, in order."""
        tuned, kind, size = self.tuned, self.kind, self.coefficients
        columns, matrix = self.declaration.columns, size * (size + 1) // 2
        found: list[tuple[str, str, int, float, float | None]] = []

        def histogram(name: str, times: float = 1.0) -> None:
            found.append((name, "nonnegative", BINS, times * tuned.histogram, 1.0))

        if kind.start in ("number", "counts"):
            found.append(("target-sizes", "nonnegative", BINS, 0.5 * tuned.start, 1.0))
        if kind.start in ("number", "class"):
            share = tuned.start * (0.5 if kind.start == "number" else 1.0)
            found.append(("target-mean", "vector", 1, share, 1.0))
        elif kind.start == "classes":
            found.append(("class-counts", "nonnegative", self.declaration.classes or 2, tuned.start, 1.0))
        else:
            found.append(("counts-and-exposure", "nonnegative", 2, tuned.start, math.sqrt(2.0)))
        centre = Centre.declared(self.declaration, self.relation).bound
        found.append(("centre", "centre", columns, tuned.centre, centre))
        histogram("square-sizes")
        found.append(("squares", "nonnegative", columns, tuned.squares, 1.0))
        histogram("row-sizes")
        found.append(("scatter", "matrix", columns * (columns + 1) // 2, tuned.scatter, None))
        if tuned.again:
            histogram("lengths 1")
            found.append(("again", "matrix", (columns + 1) * (columns + 2) // 2, tuned.again, None))
        histogram("lengths 2", 2.0)
        shares = [*tuned.rounds, (tuned.gradient, tuned.slopes)]
        for place, (gradient, slopes) in enumerate(shares, 1):
            last = place == len(shares)
            if kind.start == "number" or self.family == "negative-binomial" or (last and self.family == "poisson"):
                histogram(f"residuals {place}", 1.0 if kind.start == "number" else 2.0)
            if last and self.corrected:
                found.append(("spread", "vector", size, tuned.spread, None))
                histogram("spread-residuals", 2.0)
            if last and self.family == "linear":
                found.append(("cut-off", "vector", 4, tuned.cut_off, math.sqrt(3.0)))
            if last and kind.start == "counts":
                found.append(("cut-counts", "vector", 2, tuned.cut_off, math.sqrt(2.0)))
            found.append((f"gradient {place}", "vector", size, gradient, None))
            found.append((f"slopes {place}", "matrix", matrix, slopes, None))
        if not kind.per_unit:
            histogram("score-sizes")
        found.append(("meat", "matrix", matrix, tuned.meat, None))
        return tuple(found)

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Everything that is released, in order; shares add up to 1."""
        total = math.fsum(share for _, _, _, share, _ in self.shares)
        return tuple(
            Mechanism(name, shape, numbers, self._multiplier(share / total), bound)
            for name, shape, numbers, share, bound in self.shares
        )

    def _multiplier(self, share: float) -> float:
        """The noise multiplier of a mechanism with this share of mu^2, a hair above what it has to be."""
        return up(1.0 / (self.mu * math.sqrt(share)) * (1.0 + 1e-12))

    @cached_property
    def multipliers(self) -> dict[str, float]:
        """By name."""
        return {one.name: one.multiplier for one in self.mechanisms}

    @property
    def numbers(self) -> int:
        """How many numbers are released in all."""
        return sum(one.numbers for one in self.mechanisms)

    @property
    def spent(self) -> float:
        """mu of everything together, rounded up: at most `mu`."""
        return composed([(up(1.0 / one.multiplier), 1) for one in self.mechanisms])

    def sensitivity(self, mechanism: Mechanism, bound: float) -> float:
        """How far one unit moves a statistic whose contributions are bounded."""
        return bound * factor(mechanism.shape, self.relation)

    @property
    def key(self) -> str:
        """A name of everything that the mechanism depends on: plans with one key are alike."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:24]


def plan(family: str, declaration: Declaration, records: int, relation: Relation, epsilon: float, delta: float) -> Plan:
    """A plan from public numbers, whose mechanisms together are (epsilon, delta) private."""
    instance_of("declaration", declaration, Declaration)
    instance_of("relation", relation, Relation)
    family_of(family).check(declaration)
    return Plan(
        family,
        declaration,
        whole_number("records", records, COUNT),
        relation,
        number("epsilon", epsilon, POSITIVE),
        number("delta", delta, OPEN_UNIT),
    )


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    return largest_mu(epsilon, delta)


class Expected(NamedTuple):
    """Standard deviations to expect of each encoded coefficient, intercept first, from the plan alone.

    `whitened` is that of a coefficient of whitened rows, in units of the target's half range.
    """

    sampling: Array
    privacy: Array
    prior: float
    budget: float
    whitened: float

    @property
    def together(self) -> Array:
        """Sampling and privacy."""
        return np.sqrt(self.sampling**2 + self.privacy**2)

    @property
    def posterior(self) -> Array:
        """What is left when the prior is taken into account."""
        return 1.0 / np.sqrt(1.0 / self.together**2 + 1.0 / self.prior**2)

    @property
    def refused(self) -> bool:
        """Whether the fit is refused before anything is spent.

        That is where the budget for each coefficient is below `LEAST_BUDGET`, or where a column that uses all of its
        range would be known to no better than half the prior's standard deviation.
        """
        well_spread = TYPICAL_SPREAD / _CORRELATED * math.sqrt(3.0)
        return bool(self.budget < LEAST_BUDGET or well_spread * np.median(self.together[1:]) > 0.5 * self.prior)


# What a column of typical spread is: the standard deviation of a number over half its range, a share of ones, how far
# correlated columns widen intervals, and the standard deviation of errors over half the target's range.
TYPICAL_SPREAD, TYPICAL_SHARE, TYPICAL_RESIDUAL = 0.27, 0.15, 0.1
_CORRELATED = 1.25
# Lengths up to which rows have weight 1, over the root of the number of coefficients.
_TYPICAL_TAU = 1.15
# Poor budgets leave slopes open, which widens intervals by about this over q.
_OPEN = 10.0


def _typical(made: Plan) -> tuple[float, float, float]:
    """Slope, variance and bound of a typical row's psi.

    Numbers: normal errors cut at Huber's threshold. Two classes: scores of standard deviation 1.5; several: the same,
    with as many rows of every class. Counts: of mean 1, overdispersed ones with half again the variance, cut at 1.5
    standard deviations. Events: half of all people have theirs.
    """
    start = made.kind.start
    if start == "number":
        scale = TYPICAL_RESIDUAL
        return 0.82, 0.71 * scale**2, 1.345 * scale
    if start == "class":
        return 0.166, 0.166, 1.0
    if start == "classes":
        slope = 0.66 / (made.declaration.classes or 2)
        return slope, slope, math.sqrt(2.0)
    if start == "events":
        return 0.5, 0.5, 3.5
    information = 1.0 if made.family == "poisson" else 2.0 / 3.0
    return 0.85 * information, 0.8 * information, 1.65 * math.sqrt(information)


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
    slope, variance, bound = _typical(made)
    gradients = tuned.gradient + (0.0 if made.corrected else 0.5 * sum(one for one, _ in tuned.rounds))
    total = math.fsum(share for _, _, _, share, _ in made.shares)
    tau = _TYPICAL_TAU * math.sqrt(1.0 + declaration.columns)
    moved = tau * bound * factor("vector", made.relation)
    privacy = moved / (made.records * slope * made.mu * math.sqrt(gradients / total)) * (1.0 + _OPEN / made.budget)
    sampling = math.sqrt(variance / made.records) / slope
    # The intercept is at the middle of the declared ranges, away from where rows are.
    distance = math.sqrt(1.0 + float(np.sum((0.3 * _CORRELATED / spread[declaration.numbers]) ** 2)))
    width = np.concatenate([[distance], _CORRELATED / spread])
    half, scale = made.kind.units(declaration)[0], made.kind.effect_scale(declaration)
    sides = [half * np.repeat(one * width, made.outputs) for one in (sampling, privacy)]
    return Expected(sides[0], sides[1], half * scale, made.budget, math.hypot(sampling, privacy))


def as_dict(made: Plan) -> dict[str, Any]:
    """The plan for a certificate: every mechanism with its multiplier, and what they add up to."""
    return {
        "family": made.family,
        "records": made.records,
        "relation": made.relation.value,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "mu": made.spent,
        "unit": made.declaration.counted,
        "mechanisms": [
            {"name": one.name, "shape": one.shape, "numbers": one.numbers, "multiplier": one.multiplier}
            for one in made.mechanisms
        ],
    }
