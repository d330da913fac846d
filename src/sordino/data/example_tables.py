"""Tables to try things with, each with its public schema: synthetic ones whose truth is known, and RAND Health."""

import math
from collections.abc import Callable, Mapping
from importlib import import_module, resources
from typing import NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import POSITIVE, InputError, Interval, number, one_of, whole_number
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.category import Boolean, Category
from sordino.data.columns.number import Number
from sordino.data.scaling import SHRINK, UNSCALED, RowNorm, clip_rows
from sordino.data.schema import Feature, Schema, Target, schema_from_text
from sordino.data.sources.in_memory import from_arrays
from sordino.data.table import Table

TARGET_NAME = "y"
Rng = np.random.Generator


class Synthetic(NamedTuple):
    """Drawn records as `schema` encodes them, and their truth."""

    features: Array
    target: np.ndarray
    truth: Mapping[str, object]
    schema: Schema


def _design(rng: Rng, records: int, dim: int, cap: float, signal: float, classes: int = 0) -> tuple[Array, Array]:
    """Gaussian rows of typical length cap / 2, clipped to `cap`, and coefficients of a random direction and length."""
    whole_number("records", records)
    whole_number("dim", dim)
    number("cap", cap, POSITIVE)
    number("signal", signal, POSITIVE)
    rows = rng.standard_normal((records, dim)) * (cap / (2.0 * np.sqrt(dim)))
    clip_rows(rows, cap * SHRINK)  # a little below the cap, so that encoding under the same cap changes nothing
    theta = rng.standard_normal((dim, classes) if classes else (dim,))
    return rows, theta * (signal / np.linalg.norm(theta))


def _drawn(rows: Array, target: np.ndarray, kind: ColumnKind, cap: float, **truth: object) -> Synthetic:
    features = tuple(Feature(f"x{index}", Number(-cap, cap, UNSCALED)) for index in range(rows.shape[1]))
    about = "Synthetic: the bounds and the row-norm cap hold by construction."
    norm = RowNorm(cap, includes_intercept=False)
    schema = Schema(len(rows), features, Target(TARGET_NAME, kind), intercept=False, row_norm=norm, description=about)
    return Synthetic(rows, target, truth, schema)


def logistic(rng: Rng, records: int, dim: int, *, cap: float = 1.0, signal: float = 4.0) -> Synthetic:
    """Draw y in {-1, +1} with P(y = 1) = 1 / (1 + exp(-x theta)) and |theta| = `signal`."""
    rows, theta = _design(rng, records, dim, cap, signal)
    target = np.where(rng.random(records) < special.expit(rows @ theta), 1.0, -1.0)
    return _drawn(rows, target, Boolean(), cap, theta=theta)


def softmax(rng: Rng, records: int, dim: int, *, classes: int = 3, cap: float = 1.0, signal: float = 6.0) -> Synthetic:
    """Draw class codes with P(y = k) proportional to exp(x theta_k); theta is dim x classes, |theta|_F = `signal`."""
    whole_number("classes", classes, Interval(2))
    rows, theta = _design(rng, records, dim, cap, signal, classes)
    # The largest of logits plus independent Gumbel noise is a draw from the softmax.
    codes = np.argmax(rows @ theta + rng.gumbel(size=(records, classes)), axis=1)
    return _drawn(rows, codes, Category(tuple(str(code) for code in range(classes))), cap, theta=theta)


def poisson(rng: Rng, records: int, dim: int, *, cap: float = 1.0, signal: float = 1.5) -> Synthetic:
    """Draw y ~ Poisson(exp(x theta)) with |theta| = `signal`; the public bound on y clips with probability < 1e-9."""
    # Chernoff's bound at m + 10 sqrt(m) + 30 is below 1e-9 for every m, so for the largest mean m = exp(cap * signal).
    number("cap * signal", cap * signal, Interval(0.0, 10.0, low_open=True), "choose a smaller cap or signal")
    rows, theta = _design(rng, records, dim, cap, signal)
    largest_mean = math.exp(cap * signal)
    bound = float(math.ceil(largest_mean + 10.0 * math.sqrt(largest_mean) + 30.0))
    counts = np.minimum(rng.poisson(np.exp(rows @ theta)), bound)
    return _drawn(rows, counts, Number(0.0, bound, UNSCALED), cap, theta=theta, count_bound=bound)


# A Gaussian leaves ten standard deviations with probability 1.6e-23: the target bound is public and clips nothing.
_TAIL = 10.0


def linear(rng: Rng, records: int, dim: int, *, cap: float = 1.0, signal: float = 1.0, noise: float = 0.1) -> Synthetic:
    """Draw y = x theta + noise * N(0, 1) with |theta| = `signal` and |x| <= `cap`."""
    number("noise", noise, POSITIVE)
    rows, theta = _design(rng, records, dim, cap, signal)
    bound = cap * signal + _TAIL * noise
    target = np.clip(rows @ theta + noise * rng.standard_normal(records), -bound, bound)
    return _drawn(rows, target, Number(-bound, bound, UNSCALED), cap, theta=theta, noise=noise)


GENERATORS: dict[str, Callable[..., Synthetic]] = {
    "linear": linear, "logistic": logistic, "poisson": poisson, "softmax": softmax
}  # fmt: skip


VISITS = "mdvis"
MOST_VISITS = 104.0  # two visits a week all year round


class ExampleTable(NamedTuple):
    """A table with its public schema."""

    table: Table
    schema: Schema


def rand_health(target: str = "any-visit") -> ExampleTable:
    """Load the 20,190 person-years; `target` is ``any-visit`` (boolean) or ``visits`` (a count).

    Needs statsmodels (extra `demo`). Bounds by definition: coinsurance is a percentage, so ln(coinsurance + 1) is at
    most ln(101), rounded up; indicators are 0 or 1, `physlm` may be an imputed fraction. The bounds of `lpi`, `fmde`,
    `disea` and the visits are round numbers above the published range of this public data set; the owner of a private
    table must take them from knowledge that does not come from its rows.
    """
    visits = one_of("target", target, ("any-visit", "visits")) == "visits"
    try:
        randhie = import_module("statsmodels.datasets.randhie")
    except ImportError:
        raise InputError("The RAND health data come with statsmodels: pip install 'sordino[demo]'.") from None
    frame, schema = randhie.load_pandas().data, rand_health_schema()
    columns = {str(name): np.asarray(frame[name]) for name in frame.columns}
    features = {feature.name: columns[feature.name] for feature in schema.features}
    if visits:
        schema = schema.with_target(Target(VISITS, Number(0.0, MOST_VISITS, UNSCALED)))
    values = columns[VISITS] if visits else columns[VISITS] > 0
    return ExampleTable(from_arrays({**features, schema.declared_target().name: values}), schema)


def rand_health_schema() -> Schema:
    """The declared schema, with the boolean target "any visit to a doctor"."""
    text = resources.files("sordino.data").joinpath("schemas", "rand_health.json").read_text(encoding="utf-8")
    return schema_from_text(text)
