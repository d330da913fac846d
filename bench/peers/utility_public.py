"""The public tables of bench/utility.py: drawn ones, and real ones that come with scikit-learn and statsmodels.

Everything is fixed here, before anything is fitted: bounds are round numbers from what a column means, rows are capped
by one rule, splits and drawn tables by the seed. Seeds of drawn tables are none that `bench/tune_utility.py` uses.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets
from utility_suite import SHAPES, draw

from sordino.data import SYMMETRIC, UNIT, Boolean, Feature, Number, RowNorm, Schema, Table, Target, from_arrays

RECORDS, FIRST_SEED, HELD = 2000, 901, 0.3
Bounds = Mapping[str, tuple[float, float]]


class Sample(NamedTuple):
    """Records to fit to and to score on, with their public schema."""

    schema: Schema
    train: Table
    test: Table


class Source(NamedTuple):
    """A real table: its columns, the bounds declared of them, the target, and its bounds if it is a number."""

    columns: Callable[[], Mapping[str, np.ndarray]]
    bounds: Bounds
    target: str
    ends: tuple[float, float] | None = None


def _breast_cancer() -> Mapping[str, np.ndarray]:
    found: Any = datasets.load_breast_cancer()
    columns = {name.replace(" ", "_"): found.data[:, place] for place, name in enumerate(found.feature_names)}
    return columns | {"benign": found.target == 1}


def _digits() -> Mapping[str, np.ndarray]:
    found: Any = datasets.load_digits()
    return {f"pixel{place}": found.data[:, place] for place in range(64)} | {"large": found.target >= 5}


def _diabetes() -> Mapping[str, np.ndarray]:
    found: Any = datasets.load_diabetes(scaled=False)
    columns = {name: found.data[:, place] for place, name in enumerate(found.feature_names)}
    return columns | {"progression": found.target}


def _of_statsmodels(name: str, target: str, above: float) -> Mapping[str, np.ndarray]:
    """Columns of a table of statsmodels; whether one of them is above a number is the target."""
    frame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    columns = {str(column): frame[column].to_numpy(float) for column in frame.columns}
    return columns | {target: columns[target] > above}


_CELLS = {
    "radius": (40, 4, 50),
    "texture": (50, 6, 60),
    "perimeter": (300, 30, 350),
    "area": (3000, 600, 5000),
    "smoothness": (0.3, 0.05, 0.3),
    "compactness": (0.5, 0.2, 1.5),
    "concavity": (0.6, 0.5, 1.5),
    "concave_points": (0.3, 0.08, 0.4),
    "symmetry": (0.5, 0.1, 0.8),
    "fractal_dimension": (0.15, 0.04, 0.25),
}
_BREAST_CANCER = {
    name: (0.0, float(most))
    for cell, (mean, error, worst) in _CELLS.items()
    for name, most in ((f"mean_{cell}", mean), (f"{cell}_error", error), (f"worst_{cell}", worst))
}
CLASSES = {
    "breast-cancer": Source(_breast_cancer, _BREAST_CANCER, "benign"),
    "digits": Source(_digits, {f"pixel{place}": (0.0, 16.0) for place in range(64)}, "large"),
    "fair": Source(
        partial(_of_statsmodels, "fair", "affairs", 0.0),
        {"rate_marriage": (1, 5), "age": (17, 45), "yrs_married": (0, 25), "children": (0, 6), "religious": (1, 4),
         "educ": (9, 20), "occupation": (1, 6), "occupation_husb": (1, 6)},
        "affairs",
    ),
    "election": Source(
        partial(_of_statsmodels, "anes96", "vote", 0.5),
        {"popul": (0, 8000), "TVnews": (0, 7), "selfLR": (1, 7), "ClinLR": (1, 7), "DoleLR": (1, 7), "PID": (0, 6),
         "age": (18, 95), "educ": (1, 7), "income": (1, 24)},
        "vote",
    ),
    "rand-health": Source(
        partial(_of_statsmodels, "randhie", "mdvis", 0.0),
        {"lncoins": (0, 4.62), "idp": (0, 1), "lpi": (0, 7.2), "fmde": (0, 8.3), "physlm": (0, 1), "disea": (0, 60),
         "hlthg": (0, 1), "hlthf": (0, 1), "hlthp": (0, 1)},
        "mdvis",
    ),
}  # fmt: skip
NUMBERS = {
    "diabetes": Source(
        _diabetes,
        {"age": (18, 80), "sex": (1, 2), "bmi": (15, 45), "bp": (50, 140), "s1": (90, 310), "s2": (40, 250),
         "s3": (20, 100), "s4": (1, 10), "s5": (3, 6.5), "s6": (50, 130)},
        "progression",
        (0.0, 350.0),
    ),
}  # fmt: skip
DRAWN_CLASSES = tuple(f"drawn-{shape}" for shape in SHAPES)
DRAWN_NUMBERS = tuple(f"drawn-{shape}-number" for shape in ("household", "narrow", "numbers"))


def public_classes() -> tuple[str, ...]:
    """Names of the tables with two classes."""
    return (*DRAWN_CLASSES, *CLASSES)


def public_numbers() -> tuple[str, ...]:
    """Names of the tables whose target is a number."""
    return (*DRAWN_NUMBERS, *NUMBERS)


@cache
def public_sample(name: str, seed: int) -> Sample:
    """One draw of a table, or one split of it."""
    if name.startswith("drawn-"):
        drawn = draw(SHAPES[name.split("-")[1]], RECORDS, FIRST_SEED + seed, regression=name.endswith("-number"))
        return Sample(drawn.schema, from_arrays(drawn.train), from_arrays(drawn.test))
    return _split((CLASSES | NUMBERS)[name], seed)


def _split(source: Source, seed: int) -> Sample:
    given = source.columns()
    table = from_arrays({name: given[name] for name in (*source.bounds, source.target)})
    order = np.random.default_rng(seed).permutation(table.rows)
    held = round(HELD * table.rows)
    target = Boolean() if source.ends is None else Number(*source.ends)
    schema = Schema(
        records=table.rows - held,
        # What begins at 0, as a count or a pixel does, is mostly near it.
        features=tuple(
            Feature(name, Number(*ends, UNIT if ends[0] == 0 else SYMMETRIC)) for name, ends in source.bounds.items()
        ),
        target=Target(source.target, target),
        intercept=True,
        # The rule of the drawn tables: numbers that together are rarely longer than that.
        row_norm=RowNorm(math.sqrt(2 + 0.25 * len(source.bounds)), includes_intercept=True),
    )
    return Sample(schema, table.take(order[held:]), table.take(order[:held]))
