"""Tables drawn from a declaration, whose coefficients are known: public stand-ins for a rehearsal of the whole fit."""

import math

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.plan import TYPICAL_SPREAD, Plan


def drawn_table(plan: Plan, generator: np.random.Generator) -> tuple[Array, Array, Array]:
    """Rows in the table's units, targets, and encoded coefficients, intercept first; exposures are 1."""
    declaration, kind = plan.declaration, plan.kind
    rows = _rows(declaration, plan.records, generator)
    half, middle = kind.units(declaration)
    effect = kind.effect_scale(declaration)
    truth = effect * generator.standard_normal((1 + declaration.columns, plan.outputs))
    # Typical records have a score near 0.
    truth[0] -= rows.mean(axis=0) @ truth[1:]
    scores = (truth[0] + rows @ truth[1:]) @ np.linalg.inv(kind.contrasts(declaration)).T
    y = half * kind.drawn(generator, scores) + middle
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
        spread, centre = math.exp(generator.normal(math.log(TYPICAL_SPREAD), 0.4)), generator.uniform(-0.5, 0.5)
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
