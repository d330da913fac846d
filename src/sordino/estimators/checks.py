"""Calibration and residual checks of a release: on private rows for a charge, or on public rows for nothing.

Rows are put into bands by what the release predicts for them. For each band it is told how many there are and by how
much targets are off on average: for classes observed minus predicted shares, for numbers and counts residuals over
their predicted standard deviation, cut at 4. Predictions are functions of a row and the release, and bands have public
edges, so one record moves one band: a noised sum whose sensitivity is derived in `rounds.scored_sums`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.accounting.evaluate import as_json
from sordino.algorithm.noise import sums as exact
from sordino.algorithm.rounds.questions import EXPONENT
from sordino.algorithm.rounds.scored_sums import BAND_LENGTHS, band_sums, record_weights
from sordino.core.arrays import Array
from sordino.core.bound import Relation, exactly_computed, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, Interval, number, one_of, whole_number
from sordino.data import Number
from sordino.estimators.charged import debited
from sordino.estimators.declaration import EncodedRows
from sordino.estimators.inference_table import figure
from sordino.estimators.prediction import Predictor
from sordino.estimators.scoring import (
    charged_sum,
    check_header,
    class_codes,
    means,
    probabilities,
    read_rows,
    scored_predictor,
    targets,
)
from sordino.estimators.shown_table import ShownTable
from sordino.estimators.tasks import CLASSIFYING
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA

CHECK = "check"
_BANDS = Interval(2, 50)
_LEVELS = Interval(0.5, 1.0, high_open=True)
# Residuals are cut at so many predicted standard deviations.
CUT = 4.0


@dataclass(frozen=True)
class Band:
    """What was predicted for some rows, how many there are, and by how much their targets are off on average.

    Attributes:
        low: the lower edge of what is predicted for them.
        high: the upper edge.
        count: how many; noised where the rows are private.
        off: observed minus predicted on average; None where too few are left to tell.
        off_low: the lower end of its interval.
        off_high: the upper end.
    """

    low: float
    high: float
    count: float
    off: float | None
    off_low: float | None
    off_high: float | None


@dataclass(frozen=True)
class Check:
    """A finished check; print it.

    Attributes:
        bands: by what is predicted.
        about: what is predicted, and what being off means.
        level: of the intervals.
        release: what was charged and may leave; None for public rows.
    """

    bands: tuple[Band, ...]
    about: str
    level: float
    release: StoredRelease | None

    @property
    def shown(self) -> ShownTable:
        """As a table that writes itself as text, HTML, LaTeX and CSV."""
        return shown_check([vars(one) for one in self.bands], self.about, self.level, self.release)

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return {"about": self.about, "level": self.level, "bands": [vars(one) for one in self.bands]}

    def __str__(self) -> str:
        return self.shown.text()

    def _repr_html_(self) -> str:
        return self.shown.html()


def shown_check(bands: list[dict[str, Any]], about: str, level: float, release: StoredRelease | None) -> ShownTable:
    """The bands of a check as a table."""
    header = ("predicted", "records", "off by", f"{100.0 * level:g} % interval")
    rows = tuple(
        (
            f"{figure(one['low'])} to {figure(one['high'])}",
            f"{one['count']:.0f}",
            "too few" if one["off"] is None else figure(one["off"]),
            "" if one["off_low"] is None else f"{figure(one['off_low'])} to {figure(one['off_high'])}",
        )
        for one in bands
    )
    if release is None:
        title = "Check on public rows: exact, and not charged."
        meant = "Rows must be public: the answer is a plain function of them. There is no noise and so no interval."
    else:
        seeded = "" if release.private else " NON-PRIVATE: made with a seed."
        title = f"Check on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
        meant = "Intervals are about the table itself; noise is the only error they count."
    columns = {name: [one[name] for one in bands] for name in ("low", "high", "count", "off", "off_low", "off_high")}
    return ShownTable(title, ((header, rows),), columns, (), (), (about, meant))


def check(
    release: StoredRelease,
    data: Any,
    *,
    public: bool = False,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: Any = None,
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
        ledger: for private rows, a `Ledger` or its path; debited before a row is read.
        bands: how many.
        level: of the intervals.
        random_state: None for secure randomness; a whole number for a check that can be repeated and may not leave.

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
    predictor = scored_predictor(release)
    many, inside = whole_number("bands", bands, _BANDS), number("level", level, _LEVELS)
    given = [name for name, value in (("epsilon", epsilon), ("delta", delta), ("ledger", ledger)) if value is not None]
    if public and given:
        raise InputError(f"Expected no {given[0]} for public rows, got one; leave it out.")
    if not public and (epsilon is None or delta is None):
        raise InputError("Expected epsilon and delta for private rows, got none; or say that the rows are public.")
    edges, about = _edges(predictor, many)
    relation = Relation.ADD_REMOVE if public else Relation(one_of("relation", release.spec.relation, tuple(Relation)))
    assert release.schema is not None
    declaration = check_header(release.schema, predictor.task, relation, data)
    if public:
        (rows,) = read_rows([declaration], relation, data, None)
        places, values = _placed(predictor, rows, edges)
        found = band_sums(places, values, record_weights(len(values), rows.units), many)
        sums = np.ldexp(found.sums.astype(np.float64), EXPONENT)
        return Check(_bands(edges, sums, 0.0, inside, _unit_of(predictor)), about, inside, None)
    plan = charged_sum(
        f"a check of a release in {many} bands of its predictions: records, and how far targets are off",
        BAND_LENGTHS,
        release.schema,
        epsilon=epsilon or 0.0,
        delta=delta or 0.0,
        relation=relation,
        ledger=ledger,
        random_state=random_state,
    )
    entry = plan.debit()
    (rows,) = read_rows([declaration], relation, data, entry)
    places, values = _placed(predictor, rows, edges)
    found = band_sums(places, values, record_weights(len(values), rows.units), many)
    noised = plan.noise.released(found, plan.sources.fresh())
    made = _bands(edges, noised, plan.deviation, inside, _unit_of(predictor))
    settings = {"task": CHECK, "level": inside, "about": about, "bands": [vars(one) for one in made]}
    covered = exact.COVERED if release.schema.unit_column is None else exact.COVERED_UNITS
    assert plan.explanation.tightest is not None
    stored = StoredRelease(
        kind=CHECK,
        spec=plan.spec,
        bound=with_floating_point(plan.explanation.tightest, exactly_computed(covered)),
        delta=plan.delta,
        private=plan.sources.private,
        arrays={"sums": noised},
        settings=settings,
        schema=release.schema,
        answers=as_json(plan.explanation),
        ledger=debited(plan.ledger, entry),
        cautions=(),
        preprocessing=BY_SCHEMA,
    )
    return Check(made, about, inside, stored)


def _edges(predictor: Predictor, bands: int) -> tuple[Array, str]:
    """Public edges of the bands, in the units of what is predicted, and what being off means."""
    if predictor.task in CLASSIFYING:
        labels = [str(label) for label in predictor.labels.tolist()]
        of = f"the probability of {labels[1]}" if len(labels) == 2 else "the probability of the likeliest class"
        about = (
            f"Predicted is {of}, at the posterior's mean coefficients. Off is the observed share minus the predicted "
            "one: 0.02 is two points too low."
        )
        return np.linspace(0.0, 1.0, bands + 1), about
    kind = predictor.schema.declared_target().kind
    if not isinstance(kind, Number):
        raise InputError("Expected a target that is a number, got another; predictions have no declared range.")
    about = (
        "Predicted is the mean, at the posterior's mean coefficients. Off is the residual over its predicted standard "
        f"deviation, cut at {CUT:g}, on average: 0 is right, and 0.1 is a tenth of a standard deviation too low."
    )
    return np.linspace(kind.low, kind.high, bands + 1), about


def _unit_of(predictor: Predictor) -> float:
    return 1.0 if predictor.task in CLASSIFYING else CUT


def _placed(predictor: Predictor, rows: EncodedRows, edges: Array) -> tuple[NDArray[np.intp], Array]:
    """The band of each record, and how far it is off, over the largest size that it may have."""
    if predictor.task in CLASSIFYING:
        shares, codes = probabilities(predictor, rows.X), class_codes(predictor, rows.y)
        if shares.shape[1] == 2:
            predicted, off = shares[:, 1], codes - shares[:, 1]
        else:
            best = shares.argmax(axis=1)
            predicted = shares[np.arange(len(best)), best]
            off = (codes == best) - predicted
    else:
        predicted, deviation = means(predictor, rows.X)
        off = (targets(predictor, rows.y) - predicted) / np.maximum(deviation, 1e-12) / CUT
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
                ends = _fieller(total, count, reach)
                low, high = (float(np.clip(end, -1.0, 1.0)) * unit for end in ends)
        found.append(Band(float(edges[place]), float(edges[place + 1]), max(count, 0.0), off, low, high))
    return tuple(found)


def _fieller(total: float, count: float, reach: float) -> tuple[float, float]:
    """All m with |total - m count| <= reach sqrt(1 + m^2), for count above reach: both noises are independent."""
    square = count * count - reach * reach
    root = reach * np.sqrt(max(total * total + square, 0.0))
    return (total * count - root) / square, (total * count + root) / square
