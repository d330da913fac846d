"""How often intervals hold the truth: drawn tables with known coefficients, the ranges that the package prints.

    python bench/interval_coverage.py [--tables 60] [--only linear,robust,...] [--write]

A cell is a model with a method, a design, a number of records and an epsilon. In each, tables are drawn, fitted and
asked for intervals at three levels: of coefficients in encoded units, of new targets, or of the probabilities of new
rows. Designs: *uniform*, 5 columns over the whole of their bounds; *real*, 10 columns that use a part of them
(correlated numbers, 0/1 columns, skew; errors with heavy tails whose size depends on a column); *rare*, with 0/1
columns of shares .03 and .08 and a pair correlated .95. Relation replace-one, delta 1e-6. A cell in which a method does
not promise to beat a constant, or which bounded influence refuses by its formula, is no cell of that method. With
`--write`, what is kept is brought to the package, its docstrings and its page, as `interval_ranges.py` says; with
`--only ""` nothing is measured for it, and coefficients of bounded influence follow the random designs.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from interval_ranges import INFLUENCE, of_designs, write
from scipy import special

from sordino import estimators
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.estimators import ArrayBounds, BudgetWarning
from sordino.fitting.methods.base import BEATS_CONSTANT
from sordino.fitting.tasks.base import EXPECTED_ERROR
from sordino.ledger.release.coverage import COEFFICIENTS, LEVELS, NEW_TARGETS, PROBABILITIES, measured_task
from sordino.mechanisms.regression import Declaration, plan, with_bins
from sordino.mechanisms.regression.plan import expected

DELTA = 1e-6
# A cell says something only with so many tables whose intervals are not withheld.
LEAST_TABLES = 10
SIZES, EPSILONS = (500, 2000, 10_000, 50_000), (0.25, 1.0, 4.0)
NEW_ROWS = 200
TARGET = (-4.0, 4.0)
Drawn = dict[str, Any]


def columns(generator: np.random.Generator, design: str, rows: int) -> np.ndarray:
    """Rows of a design; every column is declared to lie in [-1, 1]."""
    g = generator
    if design == "uniform":
        return g.uniform(-1, 1, (rows, 5))
    if design == "real":
        Z = g.normal(size=(rows, 3))
        Z[:, 1] = 0.8 * Z[:, 0] + 0.6 * Z[:, 1]
        numbers, skewed = np.clip(0.25 * Z - 0.5, -1, 1), np.clip(2 * g.beta(2, 8, (rows, 3)) - 1, -1, 1)
        return np.hstack([numbers, g.random((rows, 4)) < [0.1, 0.3, 0.5, 0.05], skewed])
    Z = g.normal(size=(rows, 2))
    Z[:, 1] = 0.95 * Z[:, 0] + np.sqrt(1 - 0.95**2) * Z[:, 1]
    skewed = np.clip(np.c_[2 * g.beta(1.5, 9, rows) - 1, 0.25 * np.exp(0.6 * g.normal(size=rows)) - 1], -1, 1)
    return np.hstack([np.clip(0.3 * Z + 0.3, -1, 1), g.random((rows, 3)) < [0.03, 0.08, 0.4], skewed])


def numbers(generator: np.random.Generator, design: str, records: int) -> Drawn:
    """A table with a number as target, and new rows of the same law; the truth in encoded units."""
    X = columns(generator, design, records + NEW_ROWS)
    truth = generator.normal(0, 0.4, X.shape[1] + 1)
    errors = generator.normal(0, 0.3, len(X))
    if design != "uniform":
        errors = 0.3 * generator.standard_t(4, len(X)) * (1 + 0.5 * X[:, 0])
    y = np.clip(truth[0] + X @ truth[1:] + errors, *TARGET)
    return {"X": X, "y": y, "truth": truth / TARGET[1], "bounds": ArrayBounds(-1, 1, target=TARGET)}


def classes(count: int) -> Callable[[np.random.Generator, str, int], Drawn]:
    """Tables with so many classes; of more than two, coefficients are centred over the classes."""

    def drawn(generator: np.random.Generator, design: str, records: int) -> Drawn:
        X = columns(generator, design, records + NEW_ROWS)
        outputs = 1 if count == 2 else count
        truth = generator.normal(0, 1, (X.shape[1] + 1, outputs))
        scores = truth[0] + X @ truth[1:]
        bounds = ArrayBounds(-1, 1, classes=tuple(range(count)))
        if count == 2:
            y = (scores[:, 0] + generator.logistic(size=len(X)) > 0).astype(int)
            shares = special.expit(np.c_[-scores, scores])
        else:
            y = np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)
            shares, truth = special.softmax(scores, axis=1), truth - truth.mean(axis=1, keepdims=True)
        return {"X": X, "y": y, "truth": truth.ravel(), "shares": shares, "bounds": bounds}

    return drawn


def held(interval: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> float:
    low, high = interval
    return float(np.mean((low <= truth) & (truth <= high)))


def asked(model: Any, table: Drawn, records: int, quantities: tuple[str, ...]) -> Iterator[tuple[str, float, float]]:
    """Quantity, level and how often the intervals of one fit hold."""
    new = table["X"][records:]
    for level in LEVELS:
        if COEFFICIENTS in quantities:
            yield COEFFICIENTS, level, held(model.posterior_.interval(level), _told(model, table))
        if NEW_TARGETS in quantities:
            yield NEW_TARGETS, level, held(model.predict_interval(new, level), table["y"][records:])
        if PROBABILITIES in quantities:
            found = model.predict_event(new, level=level) if hasattr(model, "predict_event") else None
            ends = model.predict_interval(new, level) if found is None else (found.low, found.high)
            yield PROBABILITIES, level, held(ends, table["shares"][records:])


def _told(model: Any, table: Drawn) -> np.ndarray:
    """The truth as the posterior tells it: several classes against the first, or centred."""
    outputs = len(getattr(model.posterior_, "outputs", ()))
    if outputs < 2:
        return table["truth"]
    truth = table["truth"].reshape(-1, outputs + 1)
    return (truth[:, 1:] - truth[:, :1]).ravel()


def hopeless(model: Any) -> bool:
    """Whether "auto" would refuse the fit, or learn a constant if asked to."""
    if model.method_ == INFLUENCE:
        stated, bounds = model.posterior_.plan, model.schema
        width, classes = model.n_features_in_, bounds.classes
        columns = Declaration(
            (-1.0,) * width, (1.0,) * width, target=bounds.target, classes=None if classes is None else len(classes)
        )
        if stated["family"] == "cox":
            columns = with_bins(Declaration((-1.0,) * (width - 1), (1.0,) * (width - 1)), EDGES)
        made = plan(stated["family"], columns, stated["records"], Relation(stated["relation"]), model.epsilon, DELTA)
        return expected(made).refused
    return model.release_.settings[EXPECTED_ERROR] > BEATS_CONSTANT


def counts(generator: np.random.Generator, design: str, records: int) -> Drawn:
    """A table of counts with mean near 2 and a little more than Poisson variance, and new rows of the same law."""
    X = columns(generator, design, records + NEW_ROWS)
    truth = generator.normal(0, 0.5, X.shape[1] + 1)
    truth[0] = 0.7 - X.mean(axis=0) @ truth[1:]
    rates = np.exp(truth[0] + X @ truth[1:]) * generator.gamma(10.0, 0.1, len(X))
    y = np.minimum(generator.poisson(rates), 60)
    return {"X": X, "y": y, "truth": truth, "bounds": ArrayBounds(-1, 1, target=(0.0, 60.0))}


def hazards(generator: np.random.Generator, design: str, records: int) -> Drawn:
    """Times to an event that about half of all subjects have within 4 years, the hazard being constant; time first."""
    X = columns(generator, design, records + NEW_ROWS)
    truth = generator.normal(0, 0.7, X.shape[1] + 1)
    truth[0] = -1.8 - X.mean(axis=0) @ truth[1:]
    rates = np.exp(truth[0] + X @ truth[1:])
    time, seen = generator.exponential(1.0 / rates), np.minimum(generator.exponential(12.0, len(X)), 4.0)
    return {
        "X": np.column_stack([np.minimum(time, seen), X]), "y": time <= seen, "truth": np.append(truth, [0.0, 0.0]),
        "shares": -np.expm1(-4.0 * rates),
        "bounds": ArrayBounds([0.0, *[-1.0] * X.shape[1]], [4.0, *[1.0] * X.shape[1]], target=(0, 1)),
    }  # fmt: skip


EDGES = (0.0, 1.0, 2.0, 4.0)


def designed(
    kind: Any, draw: Any, quantities: tuple[str, ...], method: str, grid: Any = None, **given: Any
) -> Iterator[Any]:
    """The cells of a model: words, and a function from the number of a table to what is measured on it."""
    for design, records, epsilon in grid or [(d, n, e) for d in DESIGNS for n in SIZES for e in EPSILONS]:

        def measured(number: int, cell: Any = (design, records, epsilon)) -> Any:
            design, records, epsilon = cell
            generator = np.random.default_rng([number, records, DESIGNS.index(design)])
            table = draw(generator, design, records)
            model = kind(
                schema=table["bounds"], epsilon=epsilon, delta=DELTA, relation="replace-one", method=method,
                random_state=number, **given,
            ).fit(table["X"][:records], table["y"][:records])  # fmt: skip
            if method in CHOSEN and hopeless(model):
                return None
            task = measured_task(model.release_)
            return task, model.method_, list(asked(model, table, records, quantities))

        yield f"{design}, {records} records, epsilon {epsilon:g}", measured


def mixtures() -> Iterator[Any]:
    """Two components at a distance of 0.8 in every column, matched to the nearest centre."""
    for dim, records, epsilon in [(d, n, e) for d in (2, 5) for n in SIZES[1:] for e in EPSILONS]:

        def measured(number: int, cell: Any = (dim, records, epsilon)) -> Any:
            dim, records, epsilon = cell
            generator = np.random.default_rng([number, records, dim])
            centres = np.array([-0.4, 0.4])[:, None] + generator.uniform(-0.2, 0.2, (2, dim))
            which = generator.random(records) < 0.35
            X = np.clip(centres[which.astype(int)] + 0.15 * generator.normal(size=(records, dim)), -1, 1)
            with warnings.catch_warnings():
                warnings.simplefilter("error", BudgetWarning)
                try:
                    model = estimators.PrivateGaussianMixture(
                        schema=ArrayBounds(-1, 1), epsilon=epsilon, delta=DELTA, relation="replace-one", spread=0.15,
                        random_state=number,
                    ).fit(X)  # fmt: skip
                except BudgetWarning:
                    return None
            order = np.argmin(((model.means_[:, None] - centres[None]) ** 2).sum(axis=-1), axis=1)
            truth = centres[order].ravel()
            found = [(COEFFICIENTS, level, held(model.posterior_.interval(level), truth)) for level in LEVELS]
            return "mixture", model.method_, found

        yield f"{dim} columns, {records} records, epsilon {epsilon:g}", measured


def constants() -> Iterator[Any]:
    """The constant: the mean target or the share of the second class among all possible records, and new targets."""
    for design, records, epsilon in [(d, n, e) for d in DESIGNS for n in (50, *SIZES[:3]) for e in (0.1, 1.0, 8.0)]:

        def measured(number: int, cell: Any = (design, records, epsilon)) -> Any:
            design, records, epsilon = cell
            generator = np.random.default_rng([number, records, DESIGNS.index(design)])
            table = numbers(generator, design, records)
            new = numbers_like(generator, design, table["truth"])
            model = estimators.PrivateLinearRegression(
                schema=table["bounds"], epsilon=epsilon, delta=DELTA, relation="replace-one", method="constant",
                random_state=number,
            ).fit(table["X"][:records], table["y"][:records])  # fmt: skip
            truth = np.array([new.mean() / TARGET[1]])
            found = list(asked(model, table | {"truth": truth}, records, (COEFFICIENTS, NEW_TARGETS)))
            return "regression", "constant", found

        yield f"{design}, {records} records, epsilon {epsilon:g}", measured


def numbers_like(generator: np.random.Generator, design: str, truth: np.ndarray) -> np.ndarray:
    """Very many targets with given coefficients: their mean is that of the law."""
    X = columns(generator, design, 100_000)
    errors = generator.normal(0, 0.3, len(X))
    if design != "uniform":
        errors = 0.3 * generator.standard_t(4, len(X)) * (1 + 0.5 * X[:, 0])
    return np.clip(TARGET[1] * (truth[0] + X @ truth[1:]) + errors, *TARGET)


def class_constants() -> Iterator[Any]:
    """The constant of two and of three classes: the log-odds, or centred logarithms, of the shares of the law."""
    for count in (2, 3):
        for design, records, epsilon in [(d, n, e) for d in DESIGNS for n in (50, *SIZES[:3]) for e in (0.1, 1.0, 8.0)]:

            def measured(number: int, cell: Any = (count, design, records, epsilon)) -> Any:
                count, design, records, epsilon = cell
                generator = np.random.default_rng([number, records, DESIGNS.index(design), count])
                shares = generator.dirichlet(np.full(count, 3.0))
                y = generator.choice(count, records, p=shares)
                model = estimators.PrivateLogisticRegression(
                    schema=ArrayBounds(-1, 1, classes=tuple(range(count))), epsilon=epsilon, delta=DELTA,
                    relation="replace-one", method="constant", random_state=number,
                ).fit(columns(generator, design, records), y)  # fmt: skip
                truth = np.array([special.logit(shares[1])]) if count == 2 else np.log(shares)
                found = [(COEFFICIENTS, level, held(model.posterior_.interval(level), truth)) for level in LEVELS]
                return "classification", "constant", found

            yield f"{count} classes, {records} records, epsilon {epsilon:g}", measured


DESIGNS = ("uniform", "real", "rare")
# Methods that "auto" chooses from by what they promise; others count where those do.
CHOSEN = ("natural", "dp-vi", INFLUENCE)
_FEW = [(d, n, e) for d in ("uniform", "real") for n in (2000, 10_000) for e in (1.0, 4.0)]
_NATURAL = [(d, n, e) for n in (2000, 10_000) for e in (1.0, 4.0) for d in DESIGNS]
_SLOW = [(d, n, e) for d in DESIGNS for n in SIZES[:3] for e in EPSILONS]
LINEAR, LOGISTIC = estimators.PrivateLinearRegression, estimators.PrivateLogisticRegression
ROBUST, POISSON = estimators.PrivateRobustRegression, estimators.PrivatePoissonRegression
AREAS: dict[str, Callable[[], Iterator[Any]]] = {
    "linear-influence": lambda: designed(LINEAR, numbers, (COEFFICIENTS, NEW_TARGETS), INFLUENCE, _SLOW),
    "robust-influence": lambda: designed(ROBUST, numbers, (COEFFICIENTS, NEW_TARGETS), INFLUENCE, _SLOW),
    "logistic-influence": lambda: designed(LOGISTIC, classes(2), (COEFFICIENTS, PROBABILITIES), INFLUENCE, _SLOW),
    "softmax-influence": lambda: designed(LOGISTIC, classes(3), (COEFFICIENTS, PROBABILITIES), INFLUENCE, _SLOW),
    "poisson-influence": lambda: designed(
        POISSON, counts, (COEFFICIENTS, NEW_TARGETS), INFLUENCE, _SLOW, overdispersed=True
    ),
    "cox-influence": lambda: designed(
        estimators.PrivateCoxRegression, hazards, (COEFFICIENTS, PROBABILITIES), INFLUENCE, _SLOW, time=0, bins=EDGES
    ),
    "network-regressor": lambda: designed(
        estimators.PrivateBayesianNetworkRegressor, numbers, (NEW_TARGETS,), "dp-vi", _FEW, hidden=(8,)
    ),
    "network-classifier": lambda: designed(
        estimators.PrivateBayesianNetworkClassifier, classes(2), (PROBABILITIES,), "dp-vi", _FEW, hidden=(8,)
    ),
    "network-regressor-natural": lambda: designed(
        estimators.PrivateBayesianNetworkRegressor, numbers, (NEW_TARGETS,), "natural", _NATURAL
    ),
    "network-classifier-natural": lambda: designed(
        estimators.PrivateBayesianNetworkClassifier, classes(2), (PROBABILITIES,), "natural", _NATURAL
    ),
    "network-softmax-natural": lambda: designed(
        estimators.PrivateBayesianNetworkClassifier,
        classes(3),
        (PROBABILITIES,),
        "natural",
        [cell for cell in _NATURAL if cell[1] == 2000],
    ),
    "mixture": mixtures,
    "constant": constants,
    "class-constant": class_constants,
}


def measure(area: str, tables: int) -> list[dict[str, Any]]:
    """Every cell of an area, as rows of the whole grid."""
    rows = []
    for words, measured in AREAS[area]():
        begin, rates = time.monotonic(), defaultdict(list)
        task = method = ""
        for number in range(tables):
            try:
                found = measured(number)
            except InputError:  # its intervals are withheld
                continue
            if found is None:
                break
            task, method, answers = found
            for quantity, level, rate in answers:
                rates[quantity, level].append(rate)
        for (quantity, level), values in rates.items():
            if len(values) < LEAST_TABLES:
                continue
            rows.append({
                "area": area, "task": task, "method": method, "of": quantity, "level": level, "cell": words,
                "rate": round(float(np.mean(values)), 4), "tables": len(values),
            })  # fmt: skip
        shown = {quantity: np.mean(values).round(3) for (quantity, level), values in rates.items() if level == 0.95}
        print(f"{area:18s} {words:40s} {shown or 'constant'} {time.monotonic() - begin:.0f} s", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--only", default=",".join(AREAS))
    parser.add_argument("--grid", type=Path, default=Path("interval-coverage.json"), help="where cells are kept")
    parser.add_argument(
        "--write", action="store_true", help="write the ranges of all cells kept into the package, beside others there"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(given.grid.read_text()) if given.grid.exists() else []
    for area in [area for area in given.only.split(",") if area]:
        rows = measure(area, given.tables)
        kept = [row for row in kept if row["area"] != area] + rows
        given.grid.write_text(json.dumps(kept) + "\n")
    if given.write:
        # Coefficients of bounded influence are those of random designs.
        rows = of_designs()
        asked_there = {(row["task"], row["method"], row["of"]) for row in rows}
        write([row for row in kept if (row["task"], row["method"], row["of"]) not in asked_there] + rows)


if __name__ == "__main__":
    main()
