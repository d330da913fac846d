"""Drawn tables of the grid of coverage: its cells, designs and truths, and what intervals of one table hold.

Designs. *uniform*: 5 numbers over the whole of their bounds. *concentrated*: correlated numbers that use a part of
their bounds, four 0/1 columns, three skewed numbers. *skewed*: a category with rare levels, a rare 0/1 column, numbers
with long tails. *misspecified*: errors whose spread depends on x and has heavy tails, gross errors (robust), random
effects that change the link (classes), counts that vary more than a Poisson law. There the truth is the coefficients
of the mean, or the best fit of the family to the whole population.
"""

import itertools
import time
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sordino.core.bound import Relation
from sordino.mechanisms.posterior.coefficients import weighted_quantiles
from sordino.mechanisms.regression import Declaration, Plan, Posterior, plan, posterior, release
from sordino.mechanisms.regression.plan import expected
from sordino.noise.gaussian import ExactGaussians
from sordino.noise.randomness import SeededRandomness

FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson")
DESIGNS = ("uniform", "concentrated", "skewed", "misspecified")
SIZES, EPSILONS = (500, 2000, 10_000, 50_000), (0.25, 1.0, 4.0)
DELTA, LEVELS = 1e-6, (0.5, 0.9, 0.95)
RELATIONS = tuple(one.value for one in Relation)
NEW_ROWS = 6  # of every table, whose scores are to be found
TARGET, CLASSES, MOST = (-4.0, 4.0), 3, 200.0
EFFECTS = {"linear": 0.4, "robust": 0.4, "logistic": 1.0, "multinomial": 1.0, "poisson": 0.5}
_POPULATION = 5_000
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


class Cell(NamedTuple):
    """One cell of the grid."""

    family: str
    design: str
    records: int
    epsilon: float
    relation: str

    @classmethod
    def read(cls, text: str) -> "Cell":
        family, design, records, epsilon, relation = text.split(":")
        return cls(family, design, int(records), float(epsilon), relation)

    def __str__(self) -> str:
        return f"{self.family}:{self.design}:{self.records}:{self.epsilon:g}:{self.relation}"


def matching(grid: list[Cell], pattern: str) -> list[Cell]:
    """The cells that match one of the patterns, which commas separate."""
    found = []
    for text in pattern.split(","):
        parts = text.split(":")
        found += [one for one in grid if all(p in ("*", q) for p, q in zip(parts, str(one).split(":"), strict=True))]
    return list(dict.fromkeys(found))


def cells(pattern: str) -> list[Cell]:
    """All cells of the grid that match one of the patterns."""
    return matching([Cell(*one) for one in itertools.product(FAMILIES, DESIGNS, SIZES, EPSILONS, RELATIONS)], pattern)


def rows(g: np.random.Generator, design: str, size: int) -> np.ndarray:
    """Rows of a design, as they stand in a table."""
    if design == "uniform":
        return g.uniform(-1, 1, (size, 5))
    if design == "concentrated":
        numbers = g.normal(size=(size, 3))
        numbers[:, 1] = 0.8 * numbers[:, 0] + 0.6 * numbers[:, 1]
        flags = g.random((size, 4)) < [0.1, 0.3, 0.5, 0.05]
        return np.hstack([np.clip(0.25 * numbers - 0.5, -1, 1), flags, 2 * g.beta(2, 8, (size, 3)) - 1])
    if design == "skewed":
        level = g.choice(4, size, p=[0.55, 0.3, 0.1, 0.05])
        flags = np.column_stack([level[:, None] == [1, 2, 3], g.random(size) < 0.08])
        pair = g.normal(size=(size, 2))
        pair[:, 1] = 0.9 * pair[:, 0] + np.sqrt(1 - 0.81) * pair[:, 1]
        tails = np.column_stack([0.25 * np.exp(0.6 * g.normal(size=size)) - 1, 2 * g.beta(1.5, 9, size) - 1])
        return np.hstack([flags, np.clip(0.3 * pair + 0.3, -1, 1), np.clip(tails, -1, 1)])
    numbers = np.column_stack([g.uniform(-1, 1, (size, 2)), np.clip(0.35 * g.normal(size=(size, 2)) + 0.2, -1, 1)])
    return np.column_stack([numbers, g.random(size) < 0.35, g.random(size) < 0.12])


KINDS = {
    "uniform": ("number",) * 5,
    "concentrated": ("number",) * 3 + ("binary",) * 4 + ("number",) * 3,
    "skewed": ("category",) * 3 + ("binary",) + ("number",) * 4,
    "misspecified": ("number",) * 4 + ("binary",) * 2,
}


def declaration(family: str, design: str) -> Declaration:
    kinds = KINDS[design]
    low = tuple(-1.0 if kind == "number" else 0.0 for kind in kinds)
    groups = tuple(1 if kind == "category" else 0 for kind in kinds)
    target = {"linear": TARGET, "robust": TARGET, "poisson": (0.0, MOST)}.get(family)
    classes = CLASSES if family == "multinomial" else None
    return Declaration(
        low, (1.0,) * len(low), kinds, groups, target=target, classes=classes, effect_scale=EFFECTS[family]
    )


def table(cell: Cell, g: np.random.Generator, effects: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets, and the coefficients to be found, intercept first, classes innermost."""
    X, wrong = rows(g, cell.design, cell.records), cell.design == "misspecified"
    outputs = CLASSES - 1 if cell.family == "multinomial" else 1
    truth = effects * EFFECTS[cell.family] * g.normal(size=(X.shape[1] + 1, outputs))
    scores = truth[0] + X @ truth[1:]
    if cell.family in ("linear", "robust"):
        errors = g.normal(0, 0.3, cell.records) if cell.design == "uniform" else 0.3 * g.standard_t(4, cell.records)
        if cell.design != "uniform":
            errors *= 1 + 0.5 * X[:, 0]
        if cell.family == "robust" and wrong:
            errors = np.where(g.random(cell.records) < 0.05, 5.0 * errors, errors)
        return X, np.clip(scores[:, 0] + errors, *TARGET), truth.ravel()
    if cell.family == "poisson":
        mean = np.exp(scores[:, 0])
        if wrong:
            mean *= np.exp(0.6 * g.normal(size=cell.records) - 0.18)
        return X, np.minimum(g.poisson(np.minimum(mean, 1e6)), MOST), truth.ravel()
    if wrong:
        scores = scores + g.normal(size=scores.shape)
    noise = g.gumbel(size=(cell.records, outputs + 1))
    y = np.argmax(np.column_stack([np.zeros(cell.records), scores]) + noise, axis=1).astype(float)
    return X, y, (_best_fit(cell, g, truth) if wrong else truth).ravel()


def _best_fit(cell: Cell, g: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """The coefficients of the family that fit a whole population with random effects best, by Newton's steps."""
    X = np.column_stack([np.ones(_POPULATION), rows(g, cell.design, _POPULATION)])
    scores, outputs = X @ truth, truth.shape[1]
    wanted = np.zeros((_POPULATION, outputs))
    for one in itertools.product(range(len(_NODES)), repeat=outputs):
        places = list(one)
        weight = np.prod(_WEIGHTS[places] / _WEIGHTS.sum())
        lifted = np.exp(scores + _NODES[places])
        wanted += weight * lifted / (1 + lifted.sum(axis=1, keepdims=True))
    found = 0.85 * truth
    for _ in range(8):
        lifted = np.exp(X @ found)
        p = lifted / (1 + lifted.sum(axis=1, keepdims=True))
        slope = np.zeros((found.size, found.size))
        for a in range(outputs):
            for b in range(outputs):
                weights = p[:, a] * ((a == b) - p[:, b])
                slope[a::outputs, b::outputs] = (X * weights[:, None]).T @ X
        found = found + np.linalg.solve(slope, (X.T @ (wanted - p)).ravel()).reshape(found.shape)
    return found


def drawn_and_fitted(cell: Cell, seed: int, table_number: int, effects: float = 1.0) -> tuple[Posterior, np.ndarray]:
    """The posterior of one drawn table, and the coefficients to be found."""
    found, truth, _ = _drawn(cell, seed, table_number, effects)
    return found, truth


def _drawn(cell: Cell, seed: int, number: int, effects: float) -> tuple[Posterior, np.ndarray, np.random.Generator]:
    g = np.random.default_rng([seed, number, *str(cell).encode()])
    X, y, truth = table(cell, g, effects)
    made = planned(cell)
    return posterior(made, release(made, X, y, SeededRandomness(int(g.integers(2**62))))), truth, g


@cache
def planned(cell: Cell) -> Plan:
    """The plan of a cell."""
    declared = declaration(cell.family, cell.design)
    return plan(cell.family, declared, cell.records, Relation(cell.relation), cell.epsilon, DELTA)


def refused(cell: Cell) -> bool:
    """Whether the plan refuses; such a cell is shown, but its intervals are nobody's."""
    return expected(planned(cell)).refused


def fitted(cell: Cell, seed: int, table_number: int, effects: float = 1.0) -> dict[str, Any]:
    """One table: what its intervals hold, and how wide and wrong they are."""
    found, truth, g = _drawn(cell, seed, table_number, effects)
    new = np.column_stack([np.ones(NEW_ROWS), rows(g, cell.design, NEW_ROWS)])
    scores = np.kron(new, np.eye(found.plan.outputs))
    return held_and_scored(found, truth) | {
        "means": _held(_ends(found.draws @ scores.T), scores @ truth).mean(axis=1).tolist()
    }


def held_and_scored(found: Posterior, truth: np.ndarray) -> dict[str, Any]:
    """What intervals of coefficients hold by level, of each and on average, and how wide and wrong they are."""
    ends = _ends(found.draws)
    low, high = ends[-1].T
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    held = _held(ends, truth)
    return {
        "held_each": held.tolist(),
        "held": held.mean(axis=1).tolist(),
        "square": float(np.mean((found.mean - truth) ** 2)),
        "score": float(np.mean(high - low + 40 * missed)),
        "width": float(np.mean(high - low)),
        "shares": found.shares.mean(axis=1).tolist(),
    }


def fingerprint(cell: Cell) -> list[float]:
    """What the engine makes of one table of a cell: engines with the same numbers have the same rates."""
    found, _ = drawn_and_fitted(cell, 1, 0)
    return [float(np.mean(found.mean)), float(np.mean(found.deviation))]


def _ends(draws: np.ndarray) -> np.ndarray:
    """Both ends of every interval, by level."""
    weights = np.full(len(draws), 1.0 / len(draws))
    sides = [(1.0 + side * level) / 2.0 for level in LEVELS for side in (-1, 1)]
    return weighted_quantiles(draws, weights, sides).reshape(draws.shape[1], -1, 2).swapaxes(0, 1)


def _held(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether each interval holds, (levels, numbers)."""
    return (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])


class PlainGaussians(ExactGaussians):
    """Normal numbers as NumPy draws them, for many tables: the law of the exact ones but for their rounding."""

    def __init__(self, generator: np.random.Generator, size: int) -> None:
        super().__init__(generator, 0)
        self.values = generator.standard_normal(size)

    def rounded(self, part: slice, offsets: np.ndarray, scales: np.ndarray) -> np.ndarray:
        return np.rint(offsets + scales * self.values[part]).astype(np.int64)


def with_plain_noise() -> None:
    """Let a process draw such noise from now on."""
    vars(import_module("sordino.noise.port"))["ExactGaussians"] = PlainGaussians


def part(task: tuple[Cell, int, int, int, float]) -> dict[str, Any]:
    cell, seed, first, count, effects = task
    began = time.process_time()
    made = [fitted(cell, seed, first + k, effects) for k in range(count)]
    held, means = (np.array([one[name] for one in made]) for name in ("held", "means"))
    return {
        "cell": str(cell),
        "seed": seed,
        "first": first,
        "effects": effects,
        "tables": count,
        "held": held.sum(axis=0).tolist(),
        # Coefficients of one table share its noise, so the error of a rate is that of the tables' means.
        "squares": (held**2).sum(axis=0).tolist(),
        "means": means.sum(axis=0).tolist(),
        "means_squares": (means**2).sum(axis=0).tolist(),
        **{name: float(np.sum([one[name] for one in made])) for name in ("square", "score", "width")},
        "shares": np.sum([one["shares"] for one in made], axis=0).tolist(),
        "seconds": time.process_time() - began,
    }
