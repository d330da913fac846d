"""`sordino.plan`: which standard errors, widths and power to expect of a fit, from declared numbers alone.

The engine's formula takes columns of typical spread; `LIMITS` says how far widths of real columns are from it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sordino.core.bound import Relation, RelationWord
from sordino.core.gaussian import least_true
from sordino.core.results import Result, ResultTable, by_name, figure, figure_axes, percent
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, refuse, whole_number
from sordino.data import Schema, read_schema
from sordino.fitting.methods.base import METHODS
from sordino.fitting.methods.bounded_influence import PublicColumns, influence_plan, public_columns
from sordino.fitting.problem import FitProblem, declared_columns
from sordino.fitting.tasks.base import MODELS
from sordino.inference.contrasts import LEVEL, SHARES, place_of
from sordino.ledger.release.coverage import MOST_COEFFICIENTS, TOO_MANY
from sordino.mechanisms.regression import Plan as EnginePlan
from sordino.mechanisms.regression import plan as engine_plan
from sordino.mechanisms.regression.plan import expected

# Epsilons that are looked at: for the curve that is shown, and for the search.
CURVE = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LEAST_EPSILON, MOST_EPSILON = 1e-3, 1e3
_STEPS, _MOST_IN_CURVE = 96, 3
POWER = 0.8

LIMITS = (
    "The plan knows declared numbers only. It assumes that the standard deviation of a number is about 13.5 % of "
    "its declared range, that a yes/no column is true for 15 % of records, and that the values of a category are "
    "equally frequent. If columns use all of their range, intervals are up to 3 times narrower. If columns are "
    "collinear or hardly vary, intervals are up to 2 times wider, or 3 times with several classes."
)
OF_UNITS = (
    "A unit counts as one record. If its records differ, their mean is more informative and intervals are narrower."
)
OF_COUNTS = "Counts are assumed to have mean 1 and 1.5 times the Poisson variance."
OF_EVENTS = "Half of all records are assumed to end with the event, equally often in every time bin."
_LINE = ("name", "standard_error", "width", *SHARES)
# What an effect or a width means that is given without a column.
BARE = "half a number's declared range, or having a 0/1 column"
# The models that bounded influence can learn, by their words.
REGRESSIONS = tuple(word for word, (task, _) in MODELS.items() if task.linear)


class ExpectedLine(NamedTuple):
    """What to expect of one coefficient, in the table's units.

    `sampling` is the standard error without privacy and prior, `privacy` and `prior` are standard deviations, `unit` is
    how many of the table's units one encoded unit is.
    """

    name: str
    standard_error: float
    width: float
    sampling: float
    privacy: float
    prior: float
    shares: tuple[float, float, float]
    unit: float

    @property
    def widened(self) -> float:
        """By what share privacy widens the interval."""
        return math.sqrt(1.0 + (self.privacy / self.sampling) ** 2) - 1.0

    def power(self, effect: float, level: float) -> float:
        """The chance that an effect of this size is found: that the interval's test of 0 rejects.

        With b ~ N(effect, t^2) the estimate without the prior, the posterior's z is b V / t^2 / sqrt(V).
        """
        t, v = math.hypot(self.sampling, self.privacy), self.standard_error**2
        centre, spread = effect * math.sqrt(v) / t**2, math.sqrt(v) / t
        limit = float(special.ndtri(0.5 + 0.5 * level))
        return float(special.ndtr((centre - limit) / spread) + special.ndtr((-centre - limit) / spread))

    def detectable(self, power: float, level: float) -> float:
        """The smallest effect that is found with this power."""
        return least_true(lambda effect: self.power(effect, level) >= power, 0.0, self.standard_error)


@dataclass(frozen=True, eq=False)
class Expectation(Result):
    """What a fit would give, from declared numbers alone; see `sordino.plan` for level, effect, width and power.

    `plan` is the engine's, which a fit has too, `columns` the schema as the engine sees it, `outputs` for several
    classes the words of all but the first, and `ratio` what exp of an effect is called.
    """

    plan: EnginePlan
    columns: PublicColumns
    outputs: tuple[str, ...]
    level: float = LEVEL
    effect: Mapping[str, float] | float | None = None
    width: Mapping[str, float] | float | None = None
    power: float = POWER
    ratio: str = ""

    @cached_property
    def refused(self) -> bool:
        """Whether the budget is too small: coefficients would be known to no better than half their declared size."""
        return expected(self.plan).refused

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns' coefficients; the intercept is not planned for."""
        words = self.outputs if self.plan.outputs > 1 else ("",)
        columns = self.plan.declaration.names
        return tuple(f"{column} [{word}]" if word else column for column in columns for word in words)

    @cached_property
    def lines(self) -> tuple[ExpectedLine, ...]:
        """One for each coefficient."""
        found = expected(self.plan)
        declared, to_table = self.columns.declaration, self.columns.to_table[0]
        ranges = np.array(declared.high) - np.array(declared.low)
        half_range = np.where(np.array(declared.kinds) == "number", ranges / 2.0, ranges)
        # What turns the engine's coefficient into that of the table, and how many units half its range is.
        both = (to_table[1:] / half_range, half_range * to_table[0] / to_table[1:])
        per_unit, units = (np.repeat(one, self.plan.outputs) for one in both)
        # The engine has the intercept first.
        sides = [one[self.plan.outputs :] for one in (found.sampling, found.privacy, found.together, found.posterior)]
        half = float(2.0 * special.ndtri(0.5 + 0.5 * self.level))
        made = []
        for name, factor, unit, *rest in zip(self.names, per_unit, units, *sides, strict=True):
            sampling, privacy, together, posterior = rest
            gain = (posterior / together) ** 2
            parts = np.array([gain * sampling, gain * privacy, posterior**2 / found.prior]) ** 2
            error, own, noise, prior = (float(factor * one) for one in (posterior, sampling, privacy, found.prior))
            shares = tuple((parts / parts.sum()).tolist())
            made.append(ExpectedLine(name, error, half * error, own, noise, prior, shares, float(unit)))
        return tuple(made)

    def at(self, epsilon: float) -> "Expectation":
        """The same at another epsilon."""
        old = self.plan
        made = engine_plan(old.family, old.declaration, old.records, old.relation, epsilon, old.delta)
        return replace(self, plan=made)

    def line(self, name: str) -> ExpectedLine:
        """The line of one coefficient."""
        return self.lines[place_of(name, self.names)]

    @cached_property
    def epsilon_needed(self) -> float | None:
        """The least epsilon at which a fit would not be refused; None where none up to 1,000 is enough."""
        return self._least(lambda one: not one.refused)

    def epsilon_for_width(self, width: float, name: str) -> float | None:
        """The least epsilon at which the interval of a coefficient is expected to be at most so wide, or None."""
        number("width", width, POSITIVE)
        place = place_of(name, self.names)
        return self._least(lambda one: not one.refused and one.lines[place].width <= width)

    def least_width(self, name: str) -> float:
        """The width that no epsilon goes below: what is left without privacy."""
        return self.at(MOST_EPSILON).line(name).width

    def _least(self, enough: Callable[["Expectation"], bool]) -> float | None:
        """By a grid, because shares of the budget change in steps, then by halving; rounded up to three digits."""
        grid = np.geomspace(LEAST_EPSILON, MOST_EPSILON, _STEPS + 1).tolist()
        found = next((place for place, epsilon in enumerate(grid) if enough(self.at(epsilon))), None)
        if found is None:
            return None
        low, high = grid[max(found - 1, 0)], grid[found]
        for _ in range(8):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(self.at(middle)) else (middle, high)
        power = 10.0 ** (math.floor(math.log10(high)) - 2)
        return float(f"{math.ceil(high / power - 1e-9) * power:.3g}")

    @cached_property
    def curve(self) -> tuple["Expectation", ...]:
        """The same at a few epsilons, the one asked about among them."""
        return tuple(self.at(epsilon) for epsilon in sorted({*CURVE, self.plan.epsilon}))

    def effects(self, effect: Mapping[str, float] | float) -> dict[str, float]:
        """Effects by coefficient in the table's units; a bare number is that of `BARE`, for every slope."""
        if isinstance(effect, Mapping):
            return {self.line(name).name: number(f"the effect of {name!r}", value) for name, value in effect.items()}
        value = number("effect", effect)
        return {line.name: value / line.unit for line in self.lines}

    def as_dict(self) -> dict[str, object]:
        made, effects = self.plan, {} if self.effect is None else self.effects(self.effect)
        answer: dict[str, object] = {
            "family": made.family,
            "records": made.records,
            "unit": made.declaration.counted,
            "relation": made.relation.value,
            "epsilon": made.epsilon,
            "delta": made.delta,
            "level": self.level,
            "refused": self.refused,
            "epsilon_needed": self.epsilon_needed if self.refused else None,
            "intervals_withheld": self.withheld,
            "coefficients": [self._line_as_dict(line, effects.get(line.name)) for line in self.lines],
            "power": self.power,
            "curve": [
                {"epsilon": one.plan.epsilon, "refused": one.refused, "widths": {ln.name: ln.width for ln in one.lines}}
                for one in self.curve
            ],
            "limits": LIMITS,
        }
        if self.width is not None:
            keys = ("name", "width", "epsilon", "least_width")
            answer["wanted_widths"] = [dict(zip(keys, one, strict=True)) for one in self._wanted]
        return answer

    def _line_as_dict(self, line: ExpectedLine, effect: float | None) -> dict[str, object]:
        asked = {} if effect is None else {"effect": effect, "power": line.power(effect, self.level)}
        return {
            **{name: getattr(line, name) for name in _LINE},
            "shares": dict(zip(SHARES, line.shares, strict=True)),
            "widened_by_privacy": line.widened,
            "smallest_effect_found": line.detectable(self.power, self.level),
            **asked,
        }

    @property
    def shown(self) -> ResultTable:
        made, effects = self.plan, {} if self.effect is None else self.effects(self.effect)
        title = f"{made.family}, {made.records:,} {made.declaration.counted}s, epsilon {made.epsilon:g}, delta "
        title += f"{made.delta:g}, {made.relation.value}: expected from declared numbers, no row was read"
        columns = by_name(self.lines, _LINE)
        columns["detectable"] = [line.detectable(self.power, self.level) for line in self.lines]
        cells = {"": columns["name"], "std. error": map(figure, columns["standard_error"])}
        cells |= {f"{100 * self.level:g} % width": map(figure, columns["width"])}
        cells |= {word: [percent(line.shares[place]) for line in self.lines] for place, word in enumerate(SHARES)}
        cells |= {f"detectable ({percent(self.power)} power)": map(figure, columns["detectable"])}
        if effects:
            asked = [effects.get(line.name) for line in self.lines]
            known = zip(self.lines, asked, strict=True)
            power = [None if one is None else line.power(one, self.level) for line, one in known]
            columns |= {"effect": asked, "power": power}
            cells |= {"effect": map(figure, asked), "power": map(percent, power)}
        tables = [(tuple(cells), tuple(zip(*cells.values(), strict=True)))]
        if self.width is not None:
            wanted = []
            for name, width, epsilon, least in self._wanted:
                needed = f"none: {figure(least)} even without privacy" if epsilon is None else f"{epsilon:g}"
                wanted.append((name, figure(width), needed))
            tables.append((("wanted", "width", "epsilon needed"), tuple(wanted)))
        tables.append(self._curve)
        needed, cautions = self.epsilon_needed if self.refused else None, []
        if self.refused:
            enough = "no epsilon up to 1,000 is enough" if needed is None else f"you need epsilon {needed:g} or more"
            cautions.append(f"At this budget the answer would be mostly prior, so a fit is refused: {enough}.")
        if self.withheld:
            cautions.append(f"Intervals of such a fit are withheld: {TOO_MANY}.")
        remarks = (
            f"Effects and widths are on the log scale: exp of an effect is its {self.ratio}." if self.ratio else "",
            OF_COUNTS if made.family == "negative-binomial" else "",
            OF_UNITS if made.declaration.counted == "unit" else "",
            OF_EVENTS if made.declaration.time_bins else "",
            LIMITS,
        )
        return ResultTable(title, tuple(tables), columns, (), tuple(cautions), tuple(filter(None, remarks)))

    @property
    def _wanted(self) -> list[tuple[str, float, float | None, float]]:
        """Names, widths, the epsilon that reaches each, and the width that no epsilon goes below."""
        asked = [] if self.width is None else self.effects(self.width).items()
        return [(name, width, self.epsilon_for_width(width, name), self.least_width(name)) for name, width in asked]

    @property
    def _curve(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        shown = self.names[:_MOST_IN_CURVE]
        rows = []
        for one in self.curve:
            middle = "refused" if one.refused else percent(float(np.median([line.widened for line in one.lines])))
            widths = ["" if one.refused else figure(line.width) for line in one.lines[: len(shown)]]
            rows.append((f"{one.plan.epsilon:g}", middle, *widths))
        return ("epsilon", "widened by privacy", *(f"width of {name}" for name in shown)), tuple(rows)

    def plot(self, ax: object = None) -> Any:
        """Expected widths against epsilon on matplotlib axes, where a fit is not refused."""
        axes, kept = figure_axes(ax), [one for one in self.curve if not one.refused]
        for name in self.names[:_MOST_IN_CURVE]:
            axes.loglog([one.plan.epsilon for one in kept], [one.line(name).width for one in kept], "o-", label=name)
        axes.set(xlabel="epsilon", ylabel=f"width of {100 * self.level:g} % intervals")
        axes.legend()
        return axes

    @property
    def withheld(self) -> bool:
        """Whether a fit would report estimates and predictions only: its coefficients are too many for intervals."""
        return self.plan.coefficients > MOST_COEFFICIENTS


def plan(
    model: str,
    schema: Schema | str | Path,
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    records: int | None = None,
    level: float = LEVEL,
    effect: Mapping[str, float] | float | None = None,
    width: Mapping[str, float] | float | None = None,
    power: float = POWER,
    **settings: Any,
) -> Expectation:
    """What a private regression by bounded influence would give, before anything is spent: no row is read.

    Args:
        model: "linear", "robust", "logistic" (with two classes or more), "poisson", "negative-binomial" (counts that
            vary more than a Poisson law), or "cox" (times to an event).
        schema: the public schema, or the path of one.
        epsilon: of the fit.
        delta: of the fit.
        relation: "replace-one" or "add-remove"; there is no default.
        records: how many records or units there are; None takes the schema's number.
        level: of intervals and tests.
        effect: effects by coefficient in the table's units, to show the power to find them; a bare number is that of
            half a number's declared range, or of having a 0/1 column, for every coefficient.
        width: widths of intervals in the same form, to show the epsilon that reaches them.
        power: of the smallest detectable effect that is shown.
        settings: of the model, as for a fit: effect_scale, exposure, overdispersed, time and bins.

    Returns:
        An `Expectation`: print it for a table of standard errors and widths; `lines`, `at(epsilon)`, `curve`,
        `epsilon_for_width`, `refused` and `epsilon_needed` for more.

    Raises:
        InputError: for a family that does not fit the schema's target, or numbers out of range.

    Examples:
        >>> import sordino
        >>> schema = sordino.ArrayBounds(-1, 1, target=(-1, 1)).schema(3, 5000, None)
        >>> made = sordino.plan("linear", schema, epsilon=1.0, delta=1e-6, relation="replace-one")
        >>> made.refused, [line.name for line in made.lines][:2]
        (False, ['x0', 'x1'])
        >>> bool(made.lines[0].width > made.at(4.0).lines[0].width)
        True
    """
    task, fixed = MODELS[one_of("model", model, REGRESSIONS)]
    chance, inside = number("power", power, OPEN_UNIT), number("level", level, OPEN_UNIT)
    read = read_schema(schema) if isinstance(schema, str | Path) else schema
    if not isinstance(read, Schema):
        raise refuse("schema", "to be a Schema or the path of one", schema)
    if records is not None:
        read = replace(read, records=whole_number("records", records))
    declared = declared_columns(read, task)
    budget = (epsilon, delta, Relation(one_of("relation", relation, tuple(Relation))))
    problem = FitProblem(task, declared.schema, *budget, settings | dict(fixed), declared.labels)
    reason = METHODS["bounded-influence"].refusal(problem)
    if reason is not None:
        raise InputError(f"Bounded influence cannot fit this schema: it {reason}.")
    columns = public_columns(problem)
    words = tuple(str(label) for label in (declared.labels or ())[1:])
    return Expectation(influence_plan(problem, columns), columns, words, inside, effect, width, chance, task.ratio)
