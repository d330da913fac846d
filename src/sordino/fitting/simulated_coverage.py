"""How good the intervals of bounded influence would be, rehearsed from the declaration alone: no row is read.

The public mechanism runs on tables drawn from the declaration, whose coefficients are known (`regression.drawn`:
effects have the declared size, columns the declared kinds). The interval score of a central
interval of level 1 - a is its width, plus 2/a times the distance by which it misses the truth:
on average nothing has a smaller one than the interval of the truth's own law, so neither width nor false precision is
rewarded. It is told in units of the score of the prior alone, which is what nothing learned would have.
The intercept, of which no table makes a finding, is left out.

Answers are kept by the plan's key: one rehearsal for all fits of a plan.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.gaussian import epsilon_upper
from sordino.mechanisms.regression import Plan, posterior, release
from sordino.mechanisms.regression.drawn import drawn_table
from sordino.noise.randomness import SeededRandomness

LEVEL = 0.9
# So many coefficients are rehearsed, in no fewer and no more tables than this.
_COEFFICIENTS, _TABLES = 24, (2, 4)
# Larger tables are rehearsed by so many records with the same budget for each of them.
_MOST_RECORDS, _LARGEST_MU = 4000, 12.0
_SEED = 20_271
# Intervals hold in a rehearsal if they do so this much less often than they say at most, chance allowed for.
_SHORT, _ERRORS = 0.08, 2.0

_FAMILIES = ("linear", "robust", "logistic", "multinomial")
_kept: dict[str, "SimulatedCoverage"] = {}
_MOST_KEPT = 256


@dataclass(frozen=True)
class SimulatedCoverage:
    """What a rehearsal says of 90 % intervals of coefficients.

    Attributes:
        score: the mean interval score, over that of the prior alone; below 1 something is learned.
        held: the share of coefficients that were in their intervals.
        coefficients: how many there were, over all tables.
    """

    score: float
    held: float
    coefficients: int

    @property
    def hold(self) -> bool:
        """Whether intervals held about as often as they say, as far as so few tables can tell."""
        chance = math.sqrt(LEVEL * (1.0 - LEVEL) / self.coefficients)
        return self.held >= LEVEL - _SHORT - _ERRORS * chance

    @property
    def cautions(self) -> tuple[str, ...]:
        """A sentence for the release where they did not."""
        if self.hold:
            return ()
        return (
            f"Intervals of this fit do not hold: rehearsed on tables drawn from the schema, {LEVEL:.0%} intervals of "
            f"coefficients held the truth in {self.held:.0%} of cases, because there are many coefficients for this "
            "budget. What is printed as measured is for fewer. Declare fewer columns, or shorter lists of categories.",
        )


def interval_scores(low: Array, high: Array, truth: Array, level: float = LEVEL) -> Array:
    """The interval score of each interval; smaller is better."""
    missed = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    return np.asarray(high - low + 2.0 / (1.0 - level) * missed)


def simulated_coverage(plan: Plan) -> SimulatedCoverage | None:
    """Of a plan; None for counts and events, whose drawn rates would go far beyond what is declared of the target."""
    if plan.family not in _FAMILIES:
        return None
    if plan.key not in _kept:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[plan.key] = _rehearsed(plan)
    return _kept[plan.key]


def _rehearsed(plan: Plan) -> SimulatedCoverage:
    made = _smaller(plan)
    tables = int(np.clip(math.ceil(_COEFFICIENTS / (made.coefficients - made.outputs)), *_TABLES))
    # Nobody knows how alike the records of a unit are: one record a unit is what a plan may count on.
    units = np.arange(made.records) if made.declaration.unit else None
    half = made.kind.units(made.declaration)[0]
    reach = float(special.ndtri(0.5 + 0.5 * LEVEL)) * half * made.kind.effect_scale(made.declaration)
    own, alone, held = [], [], []
    for number in range(tables):
        X, y, truth = drawn_table(made, np.random.default_rng([_SEED, number]))
        law = posterior(made, release(made, X, y, SeededRandomness(_SEED + number), unit=units))
        low, high, true = (one[made.outputs :] for one in (*law.interval(LEVEL).T, truth))
        own.append(interval_scores(low, high, true))
        alone.append(interval_scores(np.full_like(true, -reach), np.full_like(true, reach), true))
        held.append((low <= true) & (true <= high))
    hits = np.concatenate(held)
    return SimulatedCoverage(float(np.mean(own) / np.mean(alone)), float(hits.mean()), len(hits))


def _smaller(plan: Plan) -> Plan:
    if plan.records <= _MOST_RECORDS:
        return plan
    mu = min(plan.mu * plan.records / _MOST_RECORDS, _LARGEST_MU)
    return replace(plan, records=_MOST_RECORDS, epsilon=epsilon_upper(mu, plan.delta))
