"""Tests of means, tables and correlations, and survival curves: sampling and privacy noise are both in their p-values.

Means and correlations: a score that is a linear function of the sums, as Fieller's, so that its noise is Gaussian and
known. Its sampling variance comes from noised squares; a test at level a takes an upper bound on it that fails with
probability a / 10 at most, and tests at .9 a: by the union bound its size is a where sums of records are about normal
(Berger & Boos 1994). A p-value is the least level that rejects. Tables: a parametric bootstrap of records and noise
under independence, with the noised margins (Gaboardi, Lim, Rogers & Vadhan 2016).

Survival: Kaplan-Meier curves and the log-rank test from one noised table of time bins, events and groups. Times are
known to their bin: a record censored in a bin counts as under observation for half of it (the actuarial estimate).
Intervals draw the noise and the events again; the test is a parametric bootstrap under one hazard for all groups, each
with its own censoring. Groups whose number of records the noise hides are left out of it.

Records are taken for independent draws from a population, cut to the declared bounds. Where the records and the noise
of a group do not outweigh its largest possible record, sums may be far from normal: that group is left out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.core.arrays import Array
from sordino.mechanisms.statistics.answers import SEED, Grouped, Noised, Row, answer, count_row, to_units
from sordino.mechanisms.statistics.questions import Correlation, Counted

_SPLIT = 0.1  # the share of a level that the upper bound on the variance may fail with
_LEAST = 2.5  # variance of a score, sampling and noise together, over the square of its largest record
_FEWEST = 10.0  # records, noise taken into account
_DRAWS = 2000
_SEEN = 4.0  # noise deviations that the number at risk has to be above for a curve to go on
_STEPS = np.linspace(0.0, 1.0, 101)


def p_row(p: float, kept: Sequence[str] = (), of: Sequence[str] = ()) -> Row:
    """A p-value, which has no interval; it names the groups that it compares where some were left out."""
    return Row("p-value" + (f" ({', '.join(kept)})" if len(kept) < len(of) else ""), p, math.nan, math.nan)


def _p_value(rejects: Callable[[float], bool]) -> float:
    """The least level that rejects, by bisection: a test that rejects at a level does so at every larger one."""
    if not rejects(1.0):
        return 1.0
    low, high = -30.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (low, middle) if rejects(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _least(cost: Callable[[Array], Array], low: float, high: float) -> float:
    """Where a function of one number is least, on grids that grow finer around it."""
    for _ in range(4):
        points = low + (high - low) * _STEPS
        best = int(np.argmin(cost(points)))
        low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, len(points) - 1)])
    return (low + high) / 2.0


def _limit(level: float, degrees: int) -> float:
    """What the scores of a test at a level may be at most together."""
    return float(stats.chi2.isf((1.0 - _SPLIT) * level, degrees))


@dataclass(frozen=True)
class MeansTest(Grouped):
    """Whether the mean of a number is the same in every group: Welch's t-test, and the analysis of variance.

    Sensitivity. That of `Grouped`: every record adds (1, u, u^2) to the block of its group.
    """

    word: ClassVar[str] = "test"


@dataclass(frozen=True)
class _Moments:
    """Noised numbers P of records, sums S and squares Q of each group, on the scale of [-1, 1]."""

    number: Array
    total: Array
    square: Array
    noise: float

    def scores(self, means: Array, level: float) -> Array:
        """(S - m P)^2 over an upper bound on its variance, for means (groups, points).

        The squares about m are Q - 2 m S + m^2 P, with noise of variance s^2 (1 + 4 m^2 + m^4); the score's own noise
        has s^2 (1 + m^2).
        """
        bound = stats.norm.isf(_SPLIT * level / len(self.number)) * np.sqrt(1.0 + 4.0 * means**2 + means**4)
        variance = np.maximum(self._squares(means) + self.noise * bound, 0.0) + self.noise**2 * (1.0 + means**2)
        return (self.total[:, None] - means * self.number[:, None]) ** 2 / variance

    def _squares(self, means: Array) -> Array:
        return self.square[:, None] - 2.0 * means * self.total[:, None] + means**2 * self.number[:, None]

    def informs(self, mean: float) -> NDArray[np.bool_]:
        """The groups that do not hang on a few records at a common mean."""
        at = np.full((len(self.number), 1), mean)
        variance = np.maximum(self._squares(at), 0.0) + self.noise**2 * (1.0 + mean**2)
        return (variance >= _LEAST * (1.0 + abs(mean)) ** 2)[:, 0]

    def at(self, places: NDArray[Any]) -> "_Moments":
        return _Moments(self.number[places], self.total[places], self.square[places], self.noise)

    def excess(self, level: float, mean: float) -> float:
        """How far the score of a single group at a mean is above what a test at a level allows."""
        return float(self.scores(np.array([[mean]]), level)[0, 0]) - _limit(level, 1)

    def common(self, level: float, shift: float = 0.0) -> tuple[float, float]:
        """The first mean at which all scores together are least, the others being less by a shift, and their sum.

        At the true means they are a chi-square of as many degrees as groups; the least takes one away.
        """
        shifts = np.concatenate([[0.0], np.full(len(self.number) - 1, shift)])[:, None]

        def together(points: Array) -> Array:
            return self.scores(points - shifts, level).sum(axis=0)

        best = _least(together, max(-1.0, shift - 1.0), min(1.0, shift + 1.0))
        return best, float(together(np.array([best]))[0])


@answer.register
def _(question: MeansTest, asked: Noised) -> list[Row]:
    """The p-value, the difference of two groups, and the mean of every group, with intervals for the population."""
    every, blocks = zip(*list(question.blocks(asked).items())[:-2], strict=True)
    number, total, square = np.stack(blocks, axis=1)
    given = _Moments(number, total, square, asked.noise)
    informs = given.informs(given.common(0.05)[0])
    if informs.sum() < 2:
        return []
    given, names = given.at(informs), [name for name, one in zip(every, informs, strict=True) if one]
    degrees, level = len(names) - 1, 1.0 - asked.level
    rows = [p_row(_p_value(lambda level: given.common(level)[1] > _limit(level, degrees)), names, every)]
    middle, half = to_units(question, asked, 0.0), to_units(question, asked, 1.0) - to_units(question, asked, 0.0)
    best = np.clip(given.total / np.maximum(given.number, 1e-9), -1.0, 1.0)
    if degrees == 1:
        ends = _ends(lambda shift: given.common(level, shift)[1] - _limit(level, 1), float(best[0] - best[1]), 2.0)
        rows.append(Row(f"difference, {names[0]} - {names[1]}", *(half * end for end in ends)))
    for place, (name, mean) in enumerate(zip(names, best.tolist(), strict=True)):
        ends = _ends(partial(given.at(np.array([place])).excess, level), mean, 1.0)
        rows.append(Row(f"mean, {name}", *(middle + half * end for end in ends)))
    return rows


def _ends(excess: Callable[[float], float], inside: float, far: float) -> tuple[float, float, float]:
    """A value, and the ends of the interval around it in which a function that grows outwards is not above 0."""
    found = []
    for end in (-far, far):
        low, high = inside, end
        for _ in range(40 if excess(end) > 0.0 else 0):
            middle = (low + high) / 2.0
            low, high = (low, middle) if excess(middle) > 0.0 else (middle, high)
        found.append(high)
    return inside, found[0], found[1]


@dataclass(frozen=True)
class CorrelationTest(Correlation):
    """Whether two numbers are independent, by their correlation.

    Sensitivity. That of `Correlation`.
    """

    word: ClassVar[str] = "test"


@answer.register
def _(_question: CorrelationTest, asked: Noised) -> list[Row]:
    """The p-value and the correlation. The score is the sum of (u - a)(v - b), at the noised means a and b."""
    number, first, second, squares, products, others = asked.sums.tolist()
    noise = asked.noise
    if number <= max(_FEWEST, 6.0 * noise):
        return []
    a, b = (float(np.clip(total / number, -1.0, 1.0)) for total in (first, second))
    score = products - b * first - a * second + a * b * number
    # Entries off the diagonal have noise s / sqrt 2.
    own = noise**2 * (0.5 + 0.5 * a**2 + 0.5 * b**2 + (a * b) ** 2)
    spreads = [squares - a * first * 2.0 + a**2 * number, others - 2.0 * b * second + b**2 * number]
    errors = [noise * math.sqrt(1.0 + 2.0 * mean**2 + mean**4) for mean in (a, b)]

    def rejects(level: float) -> bool:
        away = float(stats.norm.isf(_SPLIT * level / 3.0))
        one, other = (max(spread + away * error, 0.0) for spread, error in zip(spreads, errors, strict=True))
        variance = one * other / max(number - away * noise, _FEWEST) + own
        return score**2 > variance * _limit(level, 1)

    one, other = (max(spread, 0.0) for spread in spreads)
    if one * other / number + own < _LEAST * ((1.0 + abs(a)) * (1.0 + abs(b))) ** 2:
        return []
    found = score / math.sqrt(one * other) if one * other > 0.0 else 0.0
    return [p_row(_p_value(rejects)), Row("correlation", float(np.clip(found, -1.0, 1.0)), math.nan, math.nan)]


@dataclass(frozen=True)
class IndependenceTest(Counted):
    """Whether two columns of words are independent: the chi-square test of their table.

    Sensitivity. That of `Counted`.
    """

    word: ClassVar[str] = "test"


@answer.register
def _(question: IndependenceTest, asked: Noised) -> list[Row]:
    """The p-value by parametric bootstrap over declared words, then their counts."""
    table = asked.sums.reshape([len(names) for names in question.names])[:-2, :-2]
    margins = [np.maximum(table.sum(axis=side), 0.0) for side in (1, 0)]
    number = round(float(table.sum()))
    if number <= max(_FEWEST, 6.0 * asked.noise * math.sqrt(table.size)):
        return []
    shares = [margin / margin.sum() for margin in margins]
    expected = np.outer(*shares)
    weights = 1.0 / (number * expected + asked.noise**2)
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(number, expected.ravel(), _DRAWS).reshape(_DRAWS, *table.shape)
    drawn = drawn + asked.noise * rng.standard_normal(drawn.shape)
    reached = _departure(drawn, weights) >= _departure(table[None], weights)
    names = [" x ".join(cell) for cell in product(*(names[:-2] for names in question.names))]
    cells = [count_row(name, value, asked) for name, value in zip(names, table.ravel().tolist(), strict=True)]
    return [p_row((1.0 + float(reached.sum())) / (1.0 + _DRAWS)), *cells]


def _departure(tables: Array, weights: Array) -> Array:
    """Weighted squares of what the cells of tables are away from the product of their margins."""
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    whole = np.maximum(tables.sum(axis=(1, 2)), 1.0)
    away = tables - rows[:, :, None] * columns[:, None] / whole[:, None, None]
    return np.einsum("tij,tij,ij->t", away, away, weights)


@dataclass(frozen=True)
class SurvivalCurve(Counted):
    """The shares that have no event by the end of each time bin, by group where one is named, and whether they differ.

    Sensitivity. That of `Counted`: a record is in one cell of time, event and group.
    """

    word: ClassVar[str] = "survival"


class _LifeTable(NamedTuple):
    """Noised events and censored records by bin, in the last axis; groups, draws or both in front."""

    events: Array
    censored: Array

    @property
    def exposed(self) -> Array:
        """Records under observation in each bin: those that come to it, less half of those censored in it."""
        leaving = self.events + self.censored
        return np.cumsum(leaving[..., ::-1], axis=-1)[..., ::-1] - self.censored / 2.0

    def again(self, noise: float, rng: np.random.Generator) -> "_LifeTable":
        """What the counts may have been, given what was released."""
        return _LifeTable(*(one + noise * rng.standard_normal((_DRAWS, *one.shape)) for one in self))


@answer.register
def _(question: SurvivalCurve, asked: Noised) -> list[Row]:
    """The curve of every group at the ends of the bins, and the log-rank p-value of several groups."""
    shape = [len(names) for names in question.names]
    table = asked.sums.reshape(shape[0], shape[1], -1)[:-1, :2]  # without missing times and events
    groups = question.names[2][:-2] if len(shape) == 3 else ("",)
    life = _LifeTable(table[:, 0, : len(groups)].T, table[:, 1, : len(groups)].T)
    ends = np.asarray(question.edges[0])[1:]
    rng = np.random.default_rng(SEED)
    rows = []
    if len(groups) > 1:
        totals = (life.events + life.censored).sum(axis=1)
        counted = totals > np.maximum(10.0, 6.0 * asked.noise * math.sqrt(2.0 * len(ends)))
        if counted.sum() > 1:
            kept = [group for group, one in zip(groups, counted, strict=True) if one]
            rows.append(p_row(_log_rank(_LifeTable(*(one[counted] for one in life)), asked.noise, rng), kept, groups))
    for place, group in enumerate(groups):
        own = _LifeTable(life.events[place], life.censored[place])
        prefix = f"{group}: " if group else ""
        rows += [row._replace(name=f"{prefix}{row.name}") for row in _curve(own, ends, asked, rng)]
    return rows


def _curve(life: _LifeTable, ends: Array, asked: Noised, rng: np.random.Generator) -> list[Row]:
    """Survival at the end of each bin, as long as noise leaves the number at risk visible."""
    spread = asked.noise * np.sqrt(2.0 * np.arange(len(ends), 0, -1))
    seen = life.exposed > np.maximum(_SEEN * spread, 5.0)
    last = len(ends) if seen.all() else int(np.argmin(seen))
    drawn = life.again(asked.noise, rng)
    exposed = np.maximum(drawn.exposed, 1.0)
    hazards = np.clip(drawn.events / exposed, -1.0, 1.0)
    # The spread of a bin without events is not 0: half an event is added (Agresti & Coull).
    smoothed = np.clip((drawn.events + 0.5) / (exposed + 1.0), 0.5 / (exposed + 1.0), 1.0)
    hazards = hazards + np.sqrt(smoothed * (1.0 - smoothed) / exposed) * rng.standard_normal(hazards.shape)
    curves = np.cumprod(1.0 - np.minimum(hazards, 1.0), axis=1)
    low, high = np.quantile(curves, [0.5 - asked.level / 2.0, 0.5 + asked.level / 2.0], axis=0)
    best = np.cumprod(1.0 - np.clip(life.events / np.maximum(life.exposed, 1.0), -1.0, 1.0))
    # The mean of two curves that fall: the least so far, and the largest still to come.
    falling = (np.minimum.accumulate(best) + np.maximum.accumulate(best[::-1])[::-1]) / 2.0
    rows = []
    for place in range(last):
        bottom, top = (float(np.clip(end, 0.0, 1.0)) for end in (low[place], high[place]))
        rows.append(Row(f"{ends[place]:.6g}", float(np.clip(falling[place], bottom, top)), bottom, top))
    return rows


def _log_rank(life: _LifeTable, noise: float, rng: np.random.Generator) -> float:
    """The p-value of equal hazards."""
    totals = (life.events + life.censored).sum(axis=1)
    observed, expected = _observed_and_expected(life)
    bins = life.events.shape[1]
    weights = 1.0 / (np.maximum(expected, 0.0) + bins * noise**2 + 1.0)
    exposed = np.maximum(life.exposed, 1.0)
    hazard = np.clip(life.events.sum(axis=0) / exposed.sum(axis=0), 0.0, 1.0)
    leaving = np.clip(life.censored / np.maximum(life.exposed + life.censored / 2.0, 1.0), 0.0, 1.0)
    leaving[:, -1] = 1.0  # who comes to the end of the last bin is censored there
    drawn = []
    for group, number in enumerate(np.rint(totals).astype(int).tolist()):
        event = hazard * (1.0 - leaving[group] / 2.0)
        censored = leaving[group] * (1.0 - hazard / 2.0)
        censored[-1] = 1.0 - event[-1]
        stay = np.concatenate([[1.0], np.cumprod(np.maximum(1.0 - event - censored, 0.0))[:-1]])
        chances = np.concatenate([stay * event, stay * censored])
        drawn.append(rng.multinomial(number, chances / chances.sum(), _DRAWS).reshape(_DRAWS, 2, bins))
    tables = np.stack(drawn, axis=1)
    tables = tables + noise * rng.standard_normal(tables.shape)
    found, wanted = _observed_and_expected(_LifeTable(tables[:, :, 0], tables[:, :, 1]))
    reached = np.einsum("dg,g->d", (found - wanted) ** 2, weights)
    return (1.0 + float(np.sum(reached >= np.sum((observed - expected) ** 2 * weights)))) / (1.0 + _DRAWS)


def _observed_and_expected(life: _LifeTable) -> tuple[Array, Array]:
    """Events of each group, and as many as its share of those exposed in each bin would have."""
    exposed = np.maximum(life.exposed, 0.0)
    shares = exposed / np.maximum(exposed.sum(axis=-2, keepdims=True), 1.0)
    expected = (shares * life.events.sum(axis=-2, keepdims=True)).sum(axis=-1)
    return life.events.sum(axis=-1), expected
