"""Tables that a private fit meets seldom and must survive: one value, one class, all of it clipped, nobody in it."""

from typing import Any, NamedTuple

import numpy as np

from sordino.data import Schema, declared_lines

METHODS = {
    "linear": ("bounded-influence", "bounded-influence", "ridge", "constant"),
    "robust": ("bounded-influence", "bounded-influence", "constant"),
    "logistic": ("bounded-influence", "bounded-influence", "ridge", "constant"),
    "poisson": ("bounded-influence",),
    "negative-binomial": ("bounded-influence",),
    "cox": ("bounded-influence",),
    "mixture": ("em",),
    "network-regressor": ("natural", "dp-vi", "constant"),
    "network-classifier": ("natural", "dp-vi", "constant"),
}
# Models that take units and weights, by `bounded-influence`.
WITH_UNITS = ("linear", "robust", "logistic", "poisson", "negative-binomial")
RANGES = ((0.0, 1.0), (0.0, 1e6), (0.0, 1e6), (-1e-9, 1e-9), (-1e5, 1e5), (1e12, 1e12 + 1.0))
COLUMNS = (
    "a: {} [missing=middle]",
    "b: {} [missing=indicator]",
    "kind: p|q|r [unseen=other, missing=p]",
    "flag: yes/no [missing=true]",
    "stage: I < II < III [missing=II]",
)
SPREADS = ("even", "even", "low", "middle", "high", "below", "above", "missing", "tiny", "two", "rare", "huge")


class Fit(NamedTuple):
    """One call of `fit_table`, and what it is drawn from, in words."""

    model: str
    table: dict[str, Any]
    settings: dict[str, Any]
    words: str


def values(kind: str, low: float, high: float, rows: int, g: np.random.Generator) -> np.ndarray:
    """Numbers that use their bounds oddly."""
    middle, width = 0.5 * low + 0.5 * high, 0.5 * (high - low)
    return {
        "even": lambda: g.uniform(low, high, rows),
        "low": lambda: np.full(rows, low),
        "middle": lambda: np.full(rows, middle),
        "high": lambda: np.full(rows, high),
        "below": lambda: np.full(rows, low - 3.0 * width),
        "above": lambda: np.full(rows, high + 3.0 * width),
        "missing": lambda: np.full(rows, np.nan),
        "tiny": lambda: middle + 1e-9 * width * g.standard_normal(rows),
        "two": lambda: np.where(g.random(rows) < 0.5, low, high),
        "rare": lambda: np.where(np.arange(rows) == 0, high, low),
        "huge": lambda: np.where(g.random(rows) < 0.5, -1e300, 1e300),
        "narrow": lambda: low + 0.004 * width * (1.0 + 0.3 * g.standard_normal(rows)),
    }[kind]()


def drawn(seed: int, models: tuple[str, ...] = tuple(METHODS), *, units: bool = False) -> Fit:
    """A fit by its number: a model, a method, declared columns, a weight perhaps, and degenerate rows.

    A model that takes units has them in half of the fits, or in every one with `units`.
    """
    g = np.random.default_rng([20_261, seed])
    model = models[seed % len(models)]
    method, relation = str(g.choice(METHODS[model])), str(g.choice(["replace-one", "add-remove"]))
    unit = model in WITH_UNITS and (g.random() < 0.5 or units)
    weight = model in WITH_UNITS and g.random() < 0.3
    method = "bounded-influence" if unit or weight else method
    declared, most = int(g.choice([40, 400])), int(g.choice([2, 8]))
    units = declared if relation == "replace-one" else int(g.choice([0, 1, declared, 3 * declared]))
    each = g.integers(1, int(g.choice([1, most, 2 * most])) + 1, units) if unit else np.ones(units, int)
    whose = g.permutation(np.repeat(np.arange(units), each))
    rows, lines, table, words = len(whose), [f"records = {declared}"], {}, [model, method, relation]
    for line in sorted(g.choice(COLUMNS, g.integers(1, 4), replace=False)):
        name, spread, (low, high) = line.split(":")[0], str(g.choice(SPREADS)), RANGES[g.integers(len(RANGES))]
        lines.append(line.replace("{}", f"{low!r}..{high!r}").replace("=middle", f"={0.5 * low + 0.5 * high!r}"))
        shares = values(spread, 0.0, 1.0, rows, g)
        if "{}" in line:
            table[name] = values(spread, low, high, rows, g)
        else:
            known = {"kind": "pqrx", "flag": ("yes", "no"), "stage": ("I", "II", "III")}[name]
            places = np.clip(np.nan_to_num(shares) * len(known), 0, len(known) - 1).astype(int)
            table[name] = np.array([known[place] for place in places], object)
        words.append(f"{name} {spread}")
    if g.random() < 0.2 and {"a", "b"} <= set(table):
        table["b"] = table["a"].copy()
    _target(model, rows, lines, table, words, g)
    if unit:
        lines.append(f"who: unit of {most}")
        table["who"] = whose
        words.append(f"unit of {most}")
    if weight:
        lines.append("w: weight 0.2..4 mean 1")
        table["w"] = values(str(g.choice(SPREADS)), 0.2, 4.0, rows, g)
        words.append("weighted")
    settings: dict[str, Any] = {"cox": {"time": "t", "bins": 3}, "mixture": {"components": 2}}.get(model, {})
    schema: Schema = declared_lines("\n".join(lines))
    settings = settings | {
        "epsilon": float(g.choice([0.02, 0.3, 1.0, 8.0, 200.0, 1e5])),
        "delta": 1e-6,
        "relation": relation,
        "method": method,
        "schema": schema,
        "seed": seed,
    }
    return Fit(model, table, settings, f"{seed}: {', '.join(words)}, {rows} rows, epsilon {settings['epsilon']:g}")


def _target(
    model: str, rows: int, lines: list[str], table: dict[str, Any], words: list[str], g: np.random.Generator
) -> None:
    kind = str(g.choice((*SPREADS, "narrow", "narrow")))
    words.append(f"target {kind}")
    if model in ("linear", "robust", "network-regressor"):
        low, high = RANGES[g.integers(len(RANGES))]
        lines.append(f"y: {low!r}..{high!r} [target, missing={low!r}]")
        table["y"] = values(kind, low, high, rows, g)
    elif model in ("logistic", "network-classifier"):
        classes = ("yes", "no", "other")[: int(g.integers(2, 4))]
        lines.append(
            "y: yes/no [target, missing=true]" if len(classes) == 2 else "y: yes|no [target, unseen=other, missing=yes]"
        )
        places = np.clip(np.nan_to_num(values(kind, 0.0, 1.0, rows, g)) * len(classes), 0, len(classes) - 1)
        table["y"] = np.array([classes[place] for place in places.astype(int)], object)
    elif model in ("poisson", "negative-binomial"):
        most = float(g.choice([1, 9, 1e4]))
        lines.append(f"y: 0..{most!r} [target, missing=0]")
        table["y"] = np.rint(values(kind, 0.0, most, rows, g))
    elif model == "cox":
        lines += ["t: 0..9 [missing=1]", "y: 0..1 [target, missing=0]"]
        table["t"] = values(str(g.choice(SPREADS)), 0.0, 9.0, rows, g)
        table["y"] = np.rint(values(kind, 0.0, 1.0, rows, g))
