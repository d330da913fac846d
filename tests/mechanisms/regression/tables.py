"""Small tables of every family, and records that pull as hard as they can."""

from typing import Any, NamedTuple

import numpy as np

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Plan, plan

KINDS = ("number", "number", "binary", "category", "category", "category", "category")
GROUPS = (0, 0, 0, 1, 1, 1, 1)
EFFECTS = {"linear": 0.4, "robust": 0.4, "logistic": 1.0, "multinomial": 1.0, "poisson": 0.5, "negative-binomial": 0.5}
FAMILIES = tuple(EFFECTS)
# Not the same for every column, so that nothing rests on bounds of -1 and 1.
LOW, HIGH = (10.0, -3.0) + (0.0,) * 5, (30.0, 5.0) + (1.0,) * 5


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | None = None
    unit: np.ndarray | None = None

    def arguments(self) -> dict[str, Any]:
        return {"exposure": self.exposure, "unit": self.unit}


def declaration(family: str, **others: Any) -> Declaration:
    count = family in ("poisson", "negative-binomial")
    return Declaration(
        LOW,
        HIGH,
        KINDS,
        GROUPS,
        target=(0.0, 60.0) if count else (-4.0, 4.0) if family in ("linear", "robust") else None,
        classes=3 if family == "multinomial" else None,
        exposure=(0.5, 2.0) if count else None,
        effect_scale=EFFECTS[family],
        **others,
    )


def planned(family: str, records: int, relation: Relation, epsilon: float = 20.0, **others: Any) -> Plan:
    return plan(family, declaration(family, **others), records, relation, epsilon, 1e-6)


def rows(g: np.random.Generator, size: int) -> np.ndarray:
    level = g.choice(5, size, p=[0.4, 0.2, 0.2, 0.1, 0.1])
    numbers = np.column_stack([20 + 4 * np.clip(g.normal(size=size), -2.4, 2.4), g.uniform(-3, 5, size)])
    return np.column_stack([numbers, g.random(size) < 0.3, level[:, None] == [1, 2, 3, 4]]).astype(float)


def targets(g: np.random.Generator, family: str, size: int) -> np.ndarray:
    if family in ("linear", "robust"):
        return np.clip(g.normal(0.3, 0.6, size), -4, 4)
    if family == "logistic":
        return (g.random(size) < 0.4).astype(float)
    return g.integers(0, 3, size).astype(float) if family == "multinomial" else g.poisson(2.0, size).astype(float)


def table(family: str, size: int, seed: int = 1, *, units: int | None = None) -> Table:
    g = np.random.default_rng(seed)
    unit = None if units is None else np.sort(np.concatenate([np.arange(units), g.integers(0, units, size - units)]))
    exposure = g.uniform(0.5, 2.0, size) if family in ("poisson", "negative-binomial") else None
    return Table(rows(g, size), targets(g, family, size), exposure, unit)


def extreme_rows(g: np.random.Generator, size: int) -> np.ndarray:
    """Corners of the box, points on the way to them, and rows outside all that was declared."""
    flags = np.zeros((size, 5))
    flags[:, 0] = g.random(size) < 0.5
    level = g.integers(0, 5, size)
    flags[np.flatnonzero(level), level[level > 0]] = 1.0
    half, middle = (np.array(HIGH) - LOW)[:2] / 2, (np.array(HIGH) + LOW)[:2] / 2
    numbers = middle + half * g.choice([-1.0, 1.0], (size, 2)) * g.choice([0.0, 0.2, 0.5, 0.8, 1.0, 50.0], (size, 2))
    return np.column_stack([numbers, flags])


def extreme_targets(g: np.random.Generator, family: str, size: int) -> np.ndarray:
    if family in ("linear", "robust"):
        return g.choice([-4.0, 4.0, 1e9, -1e9], size)
    if family == "logistic":
        return g.choice([0.0, 1.0], size)
    return g.choice([0.0, 1.0, 2.0] if family == "multinomial" else [0.0, 60.0, 1e9], size)
