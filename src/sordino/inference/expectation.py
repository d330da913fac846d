"""Before anything is spent: which standard errors, widths and power to expect of a fit, from declared numbers alone.

No row is read. The engine's formula takes columns of typical spread (`influence.plan.expected`): numbers that
vary by about a quarter of half their declared range, 0/1 columns that hold for 15 % of records, correlated as columns
typically are. Real columns differ, and so do their widths; `LIMITS` says by how much.
"""

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import OPEN_UNIT, POSITIVE, number, printable, refuse
from sordino.fitting.methods.bounded_influence import PublicColumns
from sordino.fitting.tasks import OVERDISPERSED
from sordino.inference.contrasts import LEVEL, figure, percent, text_table
from sordino.inference.summary import RATIOS
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
    "Expectations for columns of typical spread, from declared numbers alone: numbers that vary by about 27 % of half "
    "their declared range, 0/1 columns true for 15 % of records. Columns that use all of their range give intervals up "
    "to 3 times narrower; collinear or very narrow columns up to 2 times wider, 3 times with several classes."
)
OF_UNITS = (
    "A unit counts as one record: where its records differ from one another, their mean says more and intervals are "
    "narrower."
)
OF_COUNTS = "Counts are taken to have half again the variance of a Poisson law at mean 1."
OF_EVENTS = "Half of all records are taken to end with the event, in any time bin alike."
# What an effect or a width means that is given without a column.
BARE = "half a number's declared range, or having a 0/1 column"


@dataclass(frozen=True)
class ExpectedLine:
    """What to expect of one coefficient, in the table's units.

    Attributes:
        name: of the coefficient.
        standard_error: with the prior.
        width: of the interval.
        sampling: the standard error that there would be without privacy, and without a prior.
        privacy: the standard deviation of what privacy adds.
        prior: the standard deviation of the declared size of effects.
        shares: of the variance: sampling, privacy and prior.
        unit: how many of the table's units one encoded unit is.
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
        """The smallest effect that is found with this power, by halving."""
        low, high = 0.0, self.standard_error
        while self.power(high, level) < power:
            high *= 2.0
        if self.power(low, level) >= power:
            return 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.power(middle, level) < power else (low, middle)
        return high


@dataclass(frozen=True, eq=False)
class Expectation:
    """What a fit would give, from declared numbers alone; see `sordino.plan`.

    Attributes:
        plan: the engine's plan, the one that a fit has.
        columns: the schema as the engine sees it.
        outputs: for several classes the words of all but the first.
        level: of intervals and tests.
    """

    plan: EnginePlan
    columns: PublicColumns
    outputs: tuple[str, ...]
    level: float = LEVEL

    @cached_property
    def refused(self) -> bool:
        """Whether the budget is too small: coefficients would be known to no better than half their declared size."""
        return expected(self.plan).refused

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the coefficients that say what columns do; the intercept is not planned for."""
        words = self.outputs if self.plan.outputs > 1 else ("",)
        columns = self.plan.declaration.names
        return tuple(f"{column} [{word}]" if word else column for column in columns for word in words)

    @cached_property
    def lines(self) -> tuple[ExpectedLine, ...]:
        """One for each coefficient."""
        found = expected(self.plan)
        per_unit, units = (np.repeat(one, self.plan.outputs) for one in _units(self.columns))
        # The engine has the intercept first.
        sides = [one[self.plan.outputs :] for one in (found.sampling, found.privacy, found.together, found.posterior)]
        half = float(2.0 * special.ndtri(0.5 + 0.5 * self.level))
        made = []
        for name, factor, unit, *rest in zip(self.names, per_unit, units, *sides, strict=True):
            sampling, privacy, together, posterior = rest
            gain = (posterior / together) ** 2
            parts = np.array([gain * sampling, gain * privacy, posterior**2 / found.prior]) ** 2
            error = float(factor * posterior)
            own, noise, prior = (float(factor * one) for one in (sampling, privacy, found.prior))
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
        if name not in self.names:
            raise refuse("a coefficient", f"to be one of {', '.join(self.names[:12])}", name)
        return self.lines[self.names.index(name)]

    @cached_property
    def epsilon_needed(self) -> float | None:
        """The least epsilon at which a fit would not be refused; None where none up to 1,000 is enough."""
        return self._least(lambda one: not one.refused)

    def epsilon_for_width(self, width: float, name: str) -> float | None:
        """The least epsilon at which the interval of a coefficient is expected to be at most so wide, or None."""
        number("width", width, POSITIVE)
        place = self.names.index(self.line(name).name)
        return self._least(lambda one: not one.refused and one.lines[place].width <= width)

    def least_width(self, name: str) -> float:
        """The width that no epsilon goes below: what is left without privacy."""
        return self.at(MOST_EPSILON).line(name).width

    def _least(self, enough: Callable[["Expectation"], bool]) -> float | None:
        """Over a grid first, because shares of the budget change in steps, then by halving between two of its points.

        The answer is rounded up to three digits.
        """
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

    def as_dict(
        self,
        effect: Mapping[str, float] | float | None = None,
        width: Mapping[str, float] | float | None = None,
        power: float = POWER,
    ) -> dict[str, Any]:
        """For a machine; effects and widths as `effects` takes them."""
        number("power", power, OPEN_UNIT)
        made, effects = self.plan, {} if effect is None else self.effects(effect)
        widths = {} if width is None else self.effects(width)
        answer: dict[str, Any] = {
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
            "coefficients": [
                {
                    "name": line.name,
                    "standard_error": line.standard_error,
                    "width": line.width,
                    "sampling": line.sampling,
                    "privacy": line.privacy,
                    "prior": line.prior,
                    "shares": dict(zip(("sampling", "privacy", "prior"), line.shares, strict=True)),
                    "widened_by_privacy": line.widened,
                    "smallest_effect_found": line.detectable(power, self.level),
                    **({"effect": effects[line.name]} if line.name in effects else {}),
                    **({"power": line.power(effects[line.name], self.level)} if line.name in effects else {}),
                }
                for line in self.lines
            ],
            "power": power,
            "curve": [
                {
                    "epsilon": one.plan.epsilon,
                    "refused": one.refused,
                    "widths": {line.name: line.width for line in one.lines},
                }
                for one in self.curve
            ],
            "limits": LIMITS,
        }
        if widths:
            answer["wanted_widths"] = [
                {
                    "name": name,
                    "width": wanted,
                    "epsilon": self.epsilon_for_width(wanted, name),
                    "least_width": self.least_width(name),
                }
                for name, wanted in widths.items()
            ]
        return answer

    def __str__(self) -> str:
        return self.text()

    def text(
        self,
        effect: Mapping[str, float] | float | None = None,
        width: Mapping[str, float] | float | None = None,
        power: float = POWER,
    ) -> str:
        """For a person: a table, what it takes to reach a width, and a curve over epsilon."""
        number("power", power, OPEN_UNIT)
        made, effects = self.plan, {} if effect is None else self.effects(effect)
        unit = f"{made.declaration.counted}s"
        pieces = [
            f"{made.family}, {made.records:,} {unit}, epsilon {made.epsilon:g}, delta {made.delta:g}, "
            f"{made.relation.value}: expected from declared numbers, no row was read",
            *self._too_small,
            *([f"Intervals of such a fit are withheld: {TOO_MANY}."] if self.withheld else []),
            self._table(effects, power),
            *self._wanted({} if width is None else self.effects(width)),
            self._curve(),
            *(textwrap.fill(words, 100) for words in self._remarks),
        ]
        return "\n\n".join(pieces)

    def _table(self, effects: Mapping[str, float], power: float) -> str:
        header = ["", "std. error", f"{100 * self.level:g} % width", "sampling", "privacy", "prior"]
        header += [f"found at {percent(power)}", *(["effect", "power"] if effects else [])]
        rows = []
        for line in self.lines:
            row = [line.name, figure(line.standard_error), figure(line.width), *map(percent, line.shares)]
            row.append(figure(line.detectable(power, self.level)))
            if effects:
                asked = effects.get(line.name)
                row += ["", ""] if asked is None else [figure(asked), percent(line.power(asked, self.level))]
            rows.append(row)
        return text_table(header, rows)

    def _wanted(self, widths: Mapping[str, float]) -> list[str]:
        found = []
        for name, wanted in widths.items():
            epsilon = self.epsilon_for_width(wanted, name)
            answer = (
                f"no epsilon reaches it: without privacy it is {figure(self.least_width(name))}, so more records are "
                "needed"
                if epsilon is None
                else f"epsilon {epsilon:g}"
            )
            found.append(f"{printable(name)}, a width of {figure(wanted)}: {answer}")
        return ["\n".join(found)] if found else []

    def _curve(self) -> str:
        shown = self.names[:_MOST_IN_CURVE]
        header = ["epsilon", "privacy widens by", *(f"width of {name}" for name in shown)]
        rows = []
        for one in self.curve:
            epsilon = f"{one.plan.epsilon:g}"
            if one.refused:
                rows.append([epsilon, "refused", *("" for _ in shown)])
            else:
                middle = float(np.median([line.widened for line in one.lines]))
                rows.append([epsilon, percent(middle), *(figure(line.width) for line in one.lines[: len(shown)])])
        return text_table(header, rows, left=0)

    @property
    def withheld(self) -> bool:
        """Whether a fit would tell estimates and predictions only: its coefficients are too many for intervals."""
        return self.plan.coefficients > MOST_COEFFICIENTS

    @property
    def _too_small(self) -> list[str]:
        if not self.refused:
            return []
        needed = self.epsilon_needed
        enough = "no epsilon up to 1,000 is enough" if needed is None else f"epsilon {needed:g} is needed"
        return [
            "The budget is too small to learn about coefficients, which would hardly be known better than their "
            f"declared size: {enough}."
        ]

    @property
    def _remarks(self) -> list[str]:
        """What stands below the tables."""
        word = RATIOS.get(self.plan.family)
        return [
            *([f"Numbers are logarithms: exp of an effect is its {word}."] if word else []),
            *([OF_COUNTS] if self.plan.family == OVERDISPERSED else []),
            *([OF_UNITS] if self.plan.declaration.counted == "unit" else []),
            *([OF_EVENTS] if self.plan.declaration.time_bins else []),
            LIMITS,
        ]


def _units(columns: PublicColumns) -> tuple[Array, Array]:
    """By column: what turns the engine's coefficient into that of the table, and how many units half its range is."""
    declared, to_table = columns.declaration, columns.to_table[0]
    ranges = np.array(declared.high) - np.array(declared.low)
    half = np.where(np.array(declared.kinds) == "number", ranges / 2.0, ranges)
    return to_table[1:] / half, half * to_table[0] / to_table[1:]
