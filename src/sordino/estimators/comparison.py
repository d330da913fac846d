"""Released models compared on private rows, for one charge: what each loses, and by how much they differ.

For m models a record adds m losses and m - 1 squares of differences from the first model's loss, all in [0, 1]: one
noised sum of 2 m - 1 numbers. Differences come with two intervals: one about the table itself, where noise is the only
error, and one for records like these, which adds the sampling error of a mean of paired differences. Its variance is
taken at the upper end of what the noised squares leave open, so that interval errs towards being too wide.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sordino.accounting.evaluate import as_json
from sordino.algorithm.noise import sums as exact
from sordino.algorithm.rounds.scored_sums import cube_lengths, record_weights, totals
from sordino.core.arrays import Array
from sordino.core.bound import exactly_computed, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, Interval, number
from sordino.data import Schema
from sordino.data.words import shown_names
from sordino.estimators.charged import debited
from sordino.estimators.inference_table import figure
from sordino.estimators.scoring import charged_sum, check_header, losses, read_rows, scored_predictor
from sordino.estimators.shown_table import ShownTable
from sordino.estimators.tasks import CLASSIFYING
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA

COMPARISON = "comparison"
_LEVELS = Interval(0.5, 1.0, high_open=True)
_MOST_MODELS = 20
ABOUT = (
    "Loss is 0 for a sure and right prediction and 1 for the worst: of classes -ln of the probability of the true one, "
    "over ln 20; of numbers the distance from the mean, over a quarter of the declared range. Predictions are those at "
    "the posterior's mean coefficients. A difference below 0 means that a model loses less than the first one."
)
_OPTIMISM = (
    "Rows that a model was fitted to flatter it a little; differential privacy itself bounds by how much, since no "
    "record moves a fit far."
)


@dataclass(frozen=True)
class Compared:
    """One model: its mean loss, and how that differs from the first model's.

    Attributes:
        name: of the model.
        loss: the mean over records, in [0, 1].
        low: the lower end of its interval, about the table.
        high: the upper end.
        difference: from the first model's mean loss; None for the first.
        table: both ends of its interval about the table itself.
        alike: both ends of its interval for records like these.
    """

    name: str
    loss: float
    low: float
    high: float
    difference: float | None = None
    table: tuple[float, float] | None = None
    alike: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """A finished comparison; print it.

    Attributes:
        models: one for each release, in the order given.
        level: of the intervals.
        release: what was charged and may leave.
    """

    models: tuple[Compared, ...]
    level: float
    release: StoredRelease

    @property
    def shown(self) -> ShownTable:
        """As a table that writes itself as text, HTML, LaTeX and CSV."""
        return shown_comparison([vars(one) for one in self.models], self.level, self.release)

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return {"level": self.level, "models": [vars(one) for one in self.models]}

    def __str__(self) -> str:
        return self.shown.text()

    def _repr_html_(self) -> str:
        return self.shown.html()


def shown_comparison(models: list[dict[str, Any]], level: float, release: StoredRelease) -> ShownTable:
    """Models beside each other."""
    percent = f"{100.0 * level:g} %"
    header = ("model", "mean loss", f"{percent} interval", "difference", f"{percent} in the table", f"{percent} alike")
    rows = tuple(
        (
            one["name"],
            figure(one["loss"]),
            _ends((one["low"], one["high"])),
            figure(one["difference"]),
            _ends(one["table"]),
            _ends(one["alike"]),
        )
        for one in models
    )
    seeded = "" if release.private else " NON-PRIVATE: made with a seed."
    title = f"Models compared on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
    columns = {name: [one[name] for one in models] for name in ("name", "loss", "low", "high", "difference")}
    for key in ("table", "alike"):
        for place, end in enumerate(("low", "high")):
            columns[f"difference_{key}_{end}"] = [None if one[key] is None else one[key][place] for one in models]
    return ShownTable(title, ((header, rows),), columns, (), (), (ABOUT, _OPTIMISM))


def _ends(ends: Any) -> str:
    return "" if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"


def compare(
    releases: Mapping[str, StoredRelease],
    data: Any,
    *,
    epsilon: float,
    delta: float,
    ledger: Any = None,
    level: float = 0.95,
    random_state: int | None = None,
) -> Comparison:
    r"""Compare released models on private rows, for one charge under the relation they were fitted with.

    Args:
        releases: by name, two or more of the same target, relation and unit; the first is what others are compared to.
        data: rows with their targets, as `fit` took them.
        epsilon: the budget of the comparison.
        delta: the chance with which the guarantee may fail.
        ledger: a `Ledger` or its path; debited before a row is read.
        level: of the intervals.
        random_state: None for secure randomness; a whole number for one that can be repeated and may not leave.

    Returns:
        A `Comparison`.

    Raises:
        InputError: for releases that cannot be compared, before anything is spent.

    Examples:
        >>> import numpy as np, sordino
        >>> from sordino.data import declared_lines
        >>> columns = {"a": np.random.default_rng(0).uniform(-1, 1, 4000)}
        >>> columns["y"] = 0.5 * columns["a"]
        >>> schema = declared_lines("records = 4000\na: -1..1\ny: -1..1 [target]")
        >>> budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
        >>> model = sordino.PrivateLinearRegression(schema=schema, relation="replace-one", **budget).fit(columns)
        >>> again = sordino.PrivateLinearRegression(
        ...     schema=schema, relation="replace-one", method="constant", **budget
        ... ).fit(columns)
        >>> made = sordino.explore.compare({"slope": model.release_, "constant": again.release_}, columns, **budget)
        >>> made.models[1].difference > 0.0
        True
    """
    if not 2 <= len(releases) <= _MOST_MODELS:
        raise InputError(f"Expected 2 to {_MOST_MODELS} releases to compare, got {len(releases)}.")
    inside = number("level", level, _LEVELS)
    predictors = [scored_predictor(one) for one in releases.values()]
    schema = _same(dict(releases), [predictor.task in CLASSIFYING for predictor in predictors])
    relation = next(iter(releases.values())).spec.relation
    declarations = [check_header(one.schema, one.task, relation, data) for one in predictors]
    models = len(predictors)
    plan = charged_sum(
        f"losses of {models} released models, and squares of their differences",
        cube_lengths(2 * models - 1),
        schema,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        ledger=ledger,
        random_state=random_state,
    )
    entry = plan.debit()
    rows = read_rows(declarations, relation, data, entry)
    lost = np.stack([losses(one, own.X, own.y) for one, own in zip(predictors, rows, strict=True)], axis=1)
    squares = (lost[:, 1:] - lost[:, :1]) ** 2
    weights = record_weights(len(lost), rows[0].units)
    noised = plan.noise.released(totals(np.concatenate([lost, squares], axis=1), weights), plan.sources.fresh())
    found = _compared(list(releases), noised, plan.deviation, schema.records, inside)
    assert plan.explanation.tightest is not None
    covered = exact.COVERED if schema.unit_column is None else exact.COVERED_UNITS
    stored = StoredRelease(
        kind=COMPARISON,
        spec=plan.spec,
        bound=with_floating_point(plan.explanation.tightest, exactly_computed(covered)),
        delta=plan.delta,
        private=plan.sources.private,
        arrays={"sums": noised},
        settings={"task": COMPARISON, "level": inside, "models": [vars(one) for one in found]},
        schema=schema,
        answers=as_json(plan.explanation),
        ledger=debited(plan.ledger, entry),
        cautions=(),
        preprocessing=BY_SCHEMA,
    )
    return Comparison(found, inside, stored)


def _same(releases: dict[str, StoredRelease], classify: list[bool]) -> Schema:
    """The first schema, where all releases have the same target, relation, unit and number of records."""
    (first, one), *others = releases.items()
    assert one.schema is not None
    for (name, other), classes in zip(others, classify[1:], strict=True):
        assert other.schema is not None
        same = {
            "target": one.schema.target == other.schema.target and classes == classify[0],
            "relation": one.spec.relation == other.spec.relation,
            "unit": one.schema.unit == other.schema.unit,
            "number of records": one.schema.records == other.schema.records,
        }
        different = [word for word, agree in same.items() if not agree]
        if different:
            raise InputError(
                f"Expected releases of one {different[0]}, got {shown_names([first, name])}, which differ; compare "
                "models of the same rows."
            )
    return one.schema


def _compared(names: list[str], sums: Array, deviation: float, records: int, level: float) -> tuple[Compared, ...]:
    """Means and intervals from noised sums; the declared number of records divides."""
    reach, models = float(special.ndtri(0.5 + 0.5 * level)), len(names)
    found = []
    for place, name in enumerate(names):
        loss, half = sums[place] / records, reach * deviation / records
        mean, low, high = (float(np.clip(one, 0.0, 1.0)) for one in (loss, loss - half, loss + half))
        if place == 0:
            found.append(Compared(name, mean, low, high))
            continue
        difference = float((sums[place] - sums[0]) / records)
        noise = math.sqrt(2.0) * deviation / records
        square = max(float(sums[models + place - 1]) + reach * deviation, 0.0)
        sampling = math.sqrt(square) / records
        table = (difference - reach * noise, difference + reach * noise)
        wide = reach * math.hypot(noise, sampling)
        found.append(Compared(name, mean, low, high, difference, table, (difference - wide, difference + wide)))
    return tuple(found)
