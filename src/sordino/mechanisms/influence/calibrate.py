"""Calibration: the public mechanism on tables drawn from the declaration, and by how much its intervals are too narrow.

It costs no budget and reads no row. Tables have columns of the declared kinds, but not the shapes that the posterior
takes for granted: centres, spreads and shares vary, numbers are flat or skewed or have tails, two of them may be
correlated, errors of numbers are heavier than normal. Coefficients are drawn with the declared scale. The answer only
widens: stand-ins that happen to be easy never make intervals narrower than the posterior says.

Answers are kept by the plan's key, in memory and, if a folder is given, in files there: one for all fits of a plan.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import epsilon_upper
from sordino.core.validate import refuse, whole_number
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.plan import Plan
from sordino.mechanisms.influence.posterior import posterior
from sordino.mechanisms.influence.readings import public_numbers
from sordino.mechanisms.influence.release import release
from sordino.noise.randomness import SeededRandomness

TABLES, WIDEST = 40, 1.5
# Larger tables are simulated by this many records with the same budget for each coefficient.
_MOST_RECORDS = 20_000
# The size of a normal error that 90 % are within: calibration is about intervals, not about the far tail.
_LEVEL, _NORMAL = 0.9, 1.6448536269514722
_kept: dict[tuple[str, int], float] = {}


def widening(plan: Plan, *, tables: int = TABLES, folder: Path | None = None) -> float:
    """The factor, at least 1, by which intervals of a plan are to be widened, from so many simulated tables."""
    whole_number("tables", tables)
    if plan.kind.per_unit:
        raise refuse("the family", "to be one whose rows are drawn one by one", plan.family)
    place = plan.key, tables
    file = None if folder is None else folder / f"widening-{plan.key}-{tables}.json"
    if place not in _kept and file is not None and file.exists():
        _kept[place] = float(json.loads(file.read_text(encoding="utf-8"))["widening"])
    if place not in _kept:
        _kept[place] = _simulated(plan, tables)
        if file is not None:
            file.write_text(
                json.dumps({"plan": plan.key, "tables": tables, "widening": _kept[place]}), encoding="utf-8"
            )
    return _kept[place]


def _simulated(plan: Plan, tables: int) -> float:
    made = _smaller(plan)
    sizes = []
    for number in range(tables):
        generator = public_numbers(4, number)
        X, y, truth = drawn_table(made, generator)
        law = posterior(made, release(made, X, y, SeededRandomness(number), unit=_units(made)))
        sizes.append(np.abs(law.mean - truth)[made.outputs :] / law.deviation[made.outputs :])
    reached = float(np.quantile(np.concatenate(sizes), _LEVEL)) / _NORMAL
    # Coefficients of one table are alike: a factor within the error of so many tables is none.
    error = 1.0 / math.sqrt(2.0 * tables)
    return float(np.clip(reached - 0.5 * error, 1.0, WIDEST))


def _smaller(plan: Plan) -> Plan:
    if plan.records <= _MOST_RECORDS:
        return plan
    growth = plan.records / _MOST_RECORDS
    return replace(plan, records=_MOST_RECORDS, epsilon=epsilon_upper(plan.mu * growth, plan.delta))


def _units(plan: Plan) -> NDArray[np.int64] | None:
    return np.arange(plan.records) if plan.declaration.unit else None


def drawn_table(plan: Plan, generator: np.random.Generator) -> tuple[Array, Array, Array]:
    """Rows in the table's units, targets, and encoded coefficients, intercept first; exposures are 1."""
    declaration, kind = plan.declaration, plan.kind
    rows = _rows(declaration, plan.records, generator)
    half, middle = kind.units(declaration)
    effect = kind.effect_scale(declaration)
    truth = effect * generator.standard_normal((1 + declaration.columns, plan.outputs))
    # Typical records have a score near 0, or near what typical targets say.
    truth[0] += kind.typical_score(declaration) - rows.mean(axis=0) @ truth[1:]
    scores = (truth[0] + rows @ truth[1:]) @ np.linalg.inv(kind.contrasts(declaration)).T
    y = half * kind.drawn(generator, scores, declaration) + middle
    return (
        _in_table_units(declaration, rows),
        y,
        (half * truth).ravel() + middle * (np.arange(truth.size) < plan.outputs),
    )


def _rows(declaration: Declaration, size: int, generator: np.random.Generator) -> Array:
    rows = np.zeros((size, declaration.columns))
    numbers = declaration.numbers
    base = generator.standard_normal((size, len(numbers)))
    if len(numbers) > 1 and generator.random() < 0.5:
        base[:, 1] = 0.7 * base[:, 0] + math.sqrt(0.51) * base[:, 1]
    shapes = (
        lambda one: one,
        lambda one: np.clip(one, -1.5, 1.5) * 1.1,
        lambda one: (np.exp(0.5 * one) - 1.13) / 0.6,
        lambda one: one * np.abs(one) ** 0.3 / 1.2,
    )
    for place, column in zip(numbers, base.T, strict=True):
        shaped = shapes[generator.integers(len(shapes))](column)
        spread, centre = math.exp(generator.normal(math.log(0.27), 0.4)), generator.uniform(-0.5, 0.5)
        rows[:, place] = np.clip(centre + spread * shaped, -1.0, 1.0)
    for places in declaration.sets:
        shares = generator.dirichlet([2.5] + [1.0] * len(places))
        level = generator.choice(len(places) + 1, size, p=shares)
        rows[:, places] = level[:, None] == np.arange(1, len(places) + 1)
    return rows


def _in_table_units(declaration: Declaration, rows: Array) -> Array:
    low, high = np.array(declaration.low), np.array(declaration.high)
    found = low + rows * (high - low)
    numbers = declaration.numbers
    found[:, numbers] = (low + (rows + 1.0) / 2.0 * (high - low))[:, numbers]
    return found
