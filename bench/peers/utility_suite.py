"""Public synthetic tables on which every setting of bench/utility.py is tuned: shaped like surveys, drawn from a seed.

A few hidden traits drive all columns, categories have unequal shares, some numbers are mostly zero with a long tail,
and the target follows a logistic (or linear) rule with a few strong effects. Nothing here was read off a real table.
"""

from dataclasses import dataclass

import numpy as np

from sordino.data import Boolean, Category, Feature, Number, RowNorm, Schema, Target

TRAITS = 3
TEST_ROWS = 8000


@dataclass(frozen=True)
class Shape:
    """Levels of the categories, how many plain and long-tailed numbers, the share of the rarer class, the signal."""

    levels: tuple[int, ...]
    numbers: int
    tails: int
    share: float
    signal: float


SHAPES = {
    "wide": Shape((2, 5, 6, 7, 8, 14, 16, 40), 4, 2, 0.25, 2.5),
    "household": Shape((2, 3, 4, 6, 9, 12), 3, 1, 0.15, 1.8),
    "narrow": Shape((2, 3, 5), 4, 0, 0.4, 1.5),
    "numbers": Shape((), 8, 2, 0.3, 2.0),
    "weak": Shape((2, 4, 7, 20), 3, 1, 0.3, 0.8),
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """Named columns to fit to and to score on, with their public schema."""

    schema: Schema
    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]


def draw(shape: Shape, records: int, seed: int, regression: bool = False) -> Drawn:
    """One table; the rule that makes the target is drawn with the rows, so that no two tables have the same."""
    generator = np.random.default_rng([seed, records, len(shape.levels), shape.numbers])
    rows = records + TEST_ROWS
    traits = generator.standard_normal((rows, TRAITS))
    score = traits @ generator.normal(0, 0.5, TRAITS)
    columns: dict[str, np.ndarray] = {}
    features: list[Feature] = []
    for place, levels in enumerate(shape.levels):
        lean = np.log(generator.dirichlet(np.full(levels, 0.7)) + 1e-3)
        codes = np.argmax(
            lean + 0.7 * traits @ generator.standard_normal((TRAITS, levels)) + generator.gumbel(size=(rows, levels)),
            axis=1,
        )
        score = score + (generator.standard_t(3, levels) * 0.5)[codes]
        words = tuple(f"level {code}" for code in range(levels))
        columns[f"c{place}"] = np.array(words)[codes]
        features.append(Feature(f"c{place}", Category(words)))
    for place in range(shape.numbers + shape.tails):
        drawn = 0.6 * traits @ generator.normal(0, 1, TRAITS) / np.sqrt(TRAITS) + 0.8 * generator.standard_normal(rows)
        if place >= shape.numbers:
            drawn = np.where(drawn > 1.0, 0.3 * np.exp(drawn - 1.0) * generator.gamma(2.0, 1.0, rows), 0.0)
            kind = Number(0.0, 4.0)
        else:
            drawn = drawn + generator.normal(0, 0.5)
            kind = Number(-4.0, 4.0)
        score = score + generator.standard_t(3) * 0.5 * drawn
        columns[f"n{place}"] = drawn
        features.append(Feature(f"n{place}", kind))
    score = (score - score.mean()) / score.std()
    if regression:
        columns["y"] = np.clip(score + generator.normal(0, 1.0, rows), -6, 6)
        target = Number(-6.0, 6.0)
    else:
        logits = shape.signal * score
        columns["y"] = (logits + generator.logistic(size=rows) > _offset(logits, shape.share)).astype(bool)
        target = Boolean()
    schema = Schema(
        records=records,
        features=tuple(features),
        target=Target("y", target),
        intercept=True,
        # One for the intercept and for each category, and numbers that together are rarely longer than 1.
        row_norm=RowNorm(float(np.sqrt(2 + len(shape.levels) + 0.25 * (shape.numbers + shape.tails))), True),
    )
    train = {name: values[:records] for name, values in columns.items()}
    test = {name: values[records:] for name, values in columns.items()}
    return Drawn(schema, train, test)


def _offset(logits: np.ndarray, share: float) -> float:
    """Where about this share of records is positive."""
    low, high = -10.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        if np.mean(1.0 / (1.0 + np.exp(middle - logits))) > share:
            low = middle
        else:
            high = middle
    return low
