"""Checks and comparisons of releases on rows: calibration and residuals of one, losses of several.

Predictions are functions of a row and the release, and their bands have public edges, so one record moves one band: a
noised sum whose sensitivity is derived in `scoring`. For m models compared, a record adds m
losses and m - 1 squares of differences from the first model's loss, all in [0, 1]: one noised sum of 2 m - 1 numbers.
The variance of differences is taken at the upper end of what these squares leave open: intervals err towards too wide.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.results import Result, ResultTable
from sordino.core.validate import InputError, Interval, number, one_of, shown_names, whole_number
from sordino.data import Number, Schema
from sordino.explore import scoring
from sordino.explore.scoring import BAND_LENGTHS, ScoredSums, band_sums, cube_lengths, totals
from sordino.fitting.charge import RowAccess
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import EncodedRows, class_codes, declared
from sordino.inference.summary import CHECK, COMPARISON, check_table, comparison_table
from sordino.ledger.release import StoredRelease
from sordino.mechanisms.statistics.questions import EXPONENT

_BANDS = Interval(2, 50)
_LEVELS = Interval(0.5, 1.0, high_open=True)
_MOST_MODELS = 20
CUT = 4.0  # residuals are cut at so many predicted standard deviations


@dataclass(frozen=True)
class Band:
    """What was predicted for some rows, how many there are, and, where enough are left, observed minus predicted."""

    low: float
    high: float
    count: float
    off: float | None
    off_low: float | None
    off_high: float | None


@dataclass(frozen=True)
class Check(Result):
    """A finished check; print it.

    Attributes:
        bands: by what is predicted.
        about: what is predicted, and what being off means.
        level: of the intervals.
        release: what was charged and may be published; None for public rows.
    """

    bands: tuple[Band, ...]
    about: str
    level: float
    release: StoredRelease | None

    @property
    def shown(self) -> ResultTable:
        return check_table([vars(one) for one in self.bands], self.about, self.level, self.release)

    def as_dict(self) -> dict[str, object]:
        return {"about": self.about, "level": self.level, "bands": [vars(one) for one in self.bands]}


def check(
    release: StoredRelease,
    data: object,
    *,
    public: bool = False,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: object = None,
    bands: int = 8,
    level: float = 0.95,
    random_state: int | None = None,
) -> Check:
    r"""Whether what a release predicts agrees with rows, band by band.

    Args:
        release: of linear, robust, logistic or poisson regression.
        data: rows with their targets, as `fit` took them.
        public: whether these rows are public; then the answer is exact, and nothing is charged.
        epsilon: for private rows, the budget of the check.
        delta: for private rows, the chance with which the guarantee may fail.
        ledger: for private rows, a `Ledger` or its path; debited before anything is computed from the rows' values.
        bands: how many.
        level: of the intervals.
        random_state: None for secure randomness; a whole number for a check that can be repeated and not be published.

    Returns:
        A `Check`.

    Raises:
        InputError: where private rows come without a budget, or public ones with one, and for releases without scores.

    Examples:
        >>> import numpy as np, sordino
        >>> from sordino.data import declared_lines
        >>> columns = {"a": np.random.default_rng(0).uniform(-1, 1, 4000)}
        >>> columns["y"] = 0.5 * columns["a"]
        >>> schema = declared_lines("records = 4000\na: -1..1\ny: -1..1 [target]")
        >>> budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
        >>> model = sordino.PrivateLinearRegression(schema=schema, relation="replace-one", **budget).fit(columns)
        >>> made = sordino.explore.check(model.release_, columns, public=True)
        >>> round(sum(band.count for band in made.bands))
        4000
    """
    predictor = scoring.scored_predictor(release)
    many, inside = whole_number("bands", bands, _BANDS), number("level", level, _LEVELS)
    for name, value in {"epsilon": epsilon, "delta": delta, "ledger": ledger}.items():
        if public and value is not None:
            raise InputError(f"{name} is for private rows. Omit it.")
    if not public and (epsilon is None or delta is None):
        raise InputError("Private rows need epsilon and delta. Give them, or say that the rows are public.")
    edges, about = _edges(predictor, many)
    relation = Relation.ADD_REMOVE if public else Relation(one_of("relation", release.spec.relation, tuple(Relation)))
    declaration = declared(predictor.schema, predictor.task, relation, data, None)
    unit = 1.0 if predictor.task.classifies else CUT

    def sums(tables: Sequence[EncodedRows]) -> ScoredSums:
        (rows,) = tables
        places, values = _placed(predictor, rows, edges)
        return band_sums(places, values, rows.units, many)

    if public:
        found = sums(scoring.read_rows([declaration], relation, data, RowAccess(None, None)))
        exact = np.ldexp(found.sums.astype(np.float64), EXPONENT)
        return Check(_bands(edges, exact, 0.0, inside, unit), about, inside, None)
    query = f"a check of a release in {many} bands of its predictions: records, and how far targets are off"
    spent = {"epsilon": epsilon or 0.0, "delta": delta or 0.0}
    plan = scoring.sum_plan(query, BAND_LENGTHS, predictor.schema, **spent, relation=relation)

    def answer(noised: Array) -> tuple[tuple[Band, ...], dict[str, Any]]:
        made = _bands(edges, noised, plan.noise.deviation, inside, unit)
        return made, {"level": inside, "about": about, "bands": [vars(one) for one in made]}

    stored, made = plan.charged(CHECK, [declaration], data, sums, answer, ledger=ledger, random_state=random_state)
    return Check(made, about, inside, stored)


def _edges(predictor: Predictor, bands: int) -> tuple[Array, str]:
    """Public edges of the bands, in the units of what is predicted, and what being off means."""
    if predictor.task.classifies:
        labels = [str(label) for label in predictor.labels.tolist()]
        of = f"the probability of {labels[1]}" if len(labels) == 2 else "the probability of the likeliest class"
        off = "Off is the observed share minus the predicted one: 0.02 is two points too low."
        about = f"Predicted is {of}, at the posterior's mean coefficients. {off}"
        return np.linspace(0.0, 1.0, bands + 1), about
    kind = predictor.schema.declared_target().kind
    if not isinstance(kind, Number):
        raise InputError("The target must be a number: otherwise predictions have no declared range.")
    off = f"Off is the mean residual over its predicted standard deviation, cut at {CUT:g} in each row"
    off += ": 0 is right, 0.1 a tenth of a standard deviation too low."
    about = f"Predicted is the mean, at the posterior's mean coefficients. {off}"
    return np.linspace(kind.low, kind.high, bands + 1), about


def _placed(predictor: Predictor, rows: EncodedRows, edges: Array) -> tuple[NDArray[np.intp], Array]:
    """The band of each record, and how far it is off, over the largest size that it may have."""
    if predictor.task.classifies:
        shares, codes = scoring.probabilities(predictor, rows.X), class_codes(rows.y, len(predictor.labels))
        if shares.shape[1] == 2:
            predicted, off = shares[:, 1], codes - shares[:, 1]
        else:
            predicted = shares.max(axis=1)
            off = (codes == shares.argmax(axis=1)) - predicted
    else:
        predicted, deviation = scoring.means(predictor, rows.X)
        off = (predictor.task.decoded(predictor, rows.y) - predicted) / np.maximum(deviation, 1e-12) / CUT
    places = np.searchsorted(edges, np.nan_to_num(predicted), side="right") - 1
    return np.clip(places, 0, len(edges) - 2).astype(np.intp), off


def _bands(edges: Array, sums: Array, deviation: float, level: float, unit: float) -> tuple[Band, ...]:
    """Means by band: Fieller's interval of two noised sums, cut to what is possible; none where few are left."""
    many = len(edges) - 1
    reach = float(special.ndtri(0.5 + 0.5 * level)) * deviation
    found = []
    for place in range(many):
        count, total = float(sums[place]), float(sums[many + place])
        off = low = high = None
        if count > max(2.0 * reach, 0.5):
            off = float(np.clip(total / count, -1.0, 1.0)) * unit
            if deviation > 0.0:
                # All m with |total - m count| <= reach sqrt(1 + m^2): both noises are independent.
                square = count * count - reach * reach
                root = reach * np.sqrt(max(total * total + square, 0.0))
                ends = ((total * count - root) / square, (total * count + root) / square)
                low, high = (float(np.clip(end, -1.0, 1.0)) * unit for end in ends)
        found.append(Band(float(edges[place]), float(edges[place + 1]), max(count, 0.0), off, low, high))
    return tuple(found)


@dataclass(frozen=True)
class Compared:
    """One model: its mean loss, and how that differs from the first, about the table itself and for records alike."""

    name: str
    loss: float
    low: float
    high: float
    difference: float | None = None
    table: tuple[float, float] | None = None
    alike: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison(Result):
    """A finished comparison; print it.

    Attributes:
        models: one for each release, in the order given.
        level: of the intervals.
        release: what was charged and may be published.
    """

    models: tuple[Compared, ...]
    level: float
    release: StoredRelease

    @property
    def shown(self) -> ResultTable:
        return comparison_table([vars(one) for one in self.models], self.level, self.release)

    def as_dict(self) -> dict[str, object]:
        return {"level": self.level, "models": [vars(one) for one in self.models]}


def compare(
    releases: Mapping[str, StoredRelease],
    data: object,
    *,
    epsilon: float,
    delta: float,
    ledger: object = None,
    level: float = 0.95,
    random_state: int | None = None,
) -> Comparison:
    r"""Compare released models on private rows, for one charge under the relation they were fitted with.

    Args:
        releases: by name, two or more of the same target, relation and unit; the first is what others are compared to.
        data: rows with their targets, as `fit` took them.
        epsilon: the budget of the comparison.
        delta: the chance with which the guarantee may fail.
        ledger: a `Ledger` or its path; debited before anything is computed from the rows' values.
        level: of the intervals.
        random_state: None for secure randomness; a whole number for one that can be repeated and may not be published.

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
    predictors = [scoring.scored_predictor(one) for one in releases.values()]
    schema = _same(dict(zip(releases, predictors, strict=True)))
    relation = next(iter(releases.values())).spec.relation
    declarations = [declared(one.schema, one.task, relation, data, None) for one in predictors]
    query = f"losses of {len(predictors)} released models, and squares of their differences"
    lengths = cube_lengths(2 * len(predictors) - 1)
    plan = scoring.sum_plan(query, lengths, schema, epsilon=epsilon, delta=delta, relation=relation)

    def sums(tables: Sequence[EncodedRows]) -> ScoredSums:
        fits = zip(predictors, tables, strict=True)
        lost = np.stack([scoring.losses(one, own.X, own.y) for one, own in fits], axis=1)
        squares = (lost[:, 1:] - lost[:, :1]) ** 2
        return totals(np.concatenate([lost, squares], axis=1), tables[0].units)

    def answer(noised: Array) -> tuple[tuple[Compared, ...], dict[str, Any]]:
        made = _compared(list(releases), noised, plan.noise.deviation, schema.records, inside)
        return made, {"level": inside, "models": [vars(one) for one in made]}

    stored, made = plan.charged(COMPARISON, declarations, data, sums, answer, ledger=ledger, random_state=random_state)
    return Comparison(made, inside, stored)


def _same(predictors: dict[str, Predictor]) -> Schema:
    """The first schema, where all releases have the same target, relation, unit and number of records."""
    (first, one), *others = predictors.items()
    for name, other in others:
        same = {
            "target": one.schema.target == other.schema.target and one.task.classifies == other.task.classifies,
            "relation": one.release.spec.relation == other.release.spec.relation,
            "unit": one.schema.unit == other.schema.unit,
            "number of records": one.schema.records == other.schema.records,
        }
        different = [word for word, agree in same.items() if not agree]
        if different:
            wanted = f"Expected releases of one {different[0]}, got {shown_names([first, name])}, which differ"
            raise InputError(f"{wanted}; compare models of the same rows.")
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
