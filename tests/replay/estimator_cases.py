"""Every method of every estimator, on tables and neighbours as bad as a declaration allows."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sordino.auditing.replay.plan import Replayed, compare
from sordino.auditing.replay.port import Recorder, Recording
from sordino.core.bound import Relation
from sordino.data import Category, Feature, Number, Schema, Target
from sordino.estimators import ESTIMATORS, ArrayBounds, PrivateEstimator
from sordino.fitting.problem import Sources
from sordino.ledger.release import StoredRelease

RECORDS = 60
DELTA = 1e-6
_LEVELS = ("a", "b", "c")


# The largest target of models whose targets are counts, or events.
_COUNTED = {"poisson": 8.0, "cox": 1.0}


@dataclass(frozen=True)
class Case:
    """An estimator with a method; `classes` is 0 where targets are numbers.

    Attributes:
        width: columns of the array, all between -1 and 1; a named table has one number and one category instead.
        reached: for each part of the spec the share of its plan that some neighbour reaches, under replace-one and
            add-remove; where less than all, the plan bounds what cannot happen (the notes beside the cases say why).
        tables: which of the tables are tried; one where sums do not depend on what was answered before.
    """

    model: str
    method: str
    reached: tuple[tuple[float, ...], tuple[float, ...]]
    classes: int = 0
    width: int = 3
    epsilon: float = 1.0
    named: bool = False
    tables: tuple[str, ...] = ("spread", "zeros", "corners")
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        words = [self.model, self.method, *([str(self.classes)] if self.classes else [])]
        return "-".join(words + ["named"] * self.named)

    @property
    def extremes(self) -> tuple[Any, Any]:
        if self.model in _COUNTED:
            return 0.0, _COUNTED[self.model]
        return (0, self.classes - 1) if self.classes else (-1.0, 1.0)

    def floors(self, relation: Relation) -> tuple[float, ...]:
        return self.reached[relation is Relation.ADD_REMOVE]

    def estimator(self, relation: Relation, seed: int | None = None) -> PrivateEstimator:
        return ESTIMATORS[self.model](
            epsilon=self.epsilon,
            delta=DELTA,
            relation=relation.value,
            schema=self._schema(),
            method=self.method,
            random_state=seed,
            **self.settings,
        )

    def _schema(self) -> Schema | ArrayBounds:
        if self.named:
            kind = Category(("0", "1")) if self.classes else Number(-1.0, 1.0)
            features = (Feature("number", Number(-1.0, 1.0)), Feature("level", Category(_LEVELS)))
            return Schema(records=RECORDS, features=features, target=Target("target", kind), intercept=True)
        target = None if self.classes or self.model == "mixture" else self.extremes
        classes = tuple(range(self.classes)) if self.classes else None
        return ArrayBounds(-1, 1, target=target, classes=classes, records=RECORDS)


@dataclass(frozen=True, eq=False)
class Rows:
    """Records as arrays: `X` may lie outside the declared bounds, which clip it."""

    X: np.ndarray
    y: np.ndarray

    def with_record(self, place: int, row: np.ndarray, target: Any) -> "Rows":
        """One more record, before the one at a place."""
        return Rows(np.insert(self.X, place, row, axis=0), np.insert(self.y, place, target))

    def given(self, case: Case) -> tuple[Any, ...]:
        """As the estimator takes it."""
        if case.named:
            levels = np.array(_LEVELS)[np.clip(np.rint(self.X[:, 1]), -1, 1).astype(int) + 1]
            target = self.y.astype(int).astype(str) if case.classes else self.y
            return ({"number": self.X[:, 0], "level": levels, "target": target},)
        return (self.X,) if case.model == "mixture" else (self.X, self.y)


def tables(case: Case) -> dict[str, Rows]:
    """One record less than declared: spread rows; nothing but zeros; the same corner again and again."""
    generator = np.random.default_rng(20)
    count, (low, high) = RECORDS - 1, case.extremes
    spread = generator.uniform(-1, 1, (count, case.width))
    if case.classes:  # as many of the one as of the other, so that scores stay near 0 and either label is a surprise
        related = np.where(np.arange(count) % 2 == 0, low, high)
    elif case.model in _COUNTED:
        related = np.minimum(generator.poisson(0.25 * high, count).astype(float), high)
    else:
        related = np.clip(spread[:, 0] + generator.normal(0, 0.2, count), -1, 1)
    known = {
        "spread": Rows(spread, related),
        "zeros": Rows(np.zeros((count, case.width)), np.full(count, low, related.dtype)),
        "corners": Rows(np.ones((count, case.width)), np.full(count, low, related.dtype)),
    }
    return {name: known[name] for name in case.tables}


def records(case: Case) -> dict[str, tuple[np.ndarray, Any]]:
    """Corners of the declared box, with the extremes of the target."""
    low, high = case.extremes
    ones = np.ones(case.width)
    # Orthogonal to the first corner, intercept included, where the width is odd.
    half = np.where(np.arange(case.width) < case.width // 2, 1.0, -1.0)
    return {
        "corner": (ones, high),
        "label flipped": (ones, low),
        "opposite corner": (-ones, high),
        "orthogonal corner": (half, low),
        "all of it": (-ones, low),
        "far outside": (1e300 * ones, high),
    }


PLACES = {"spread": 0, "zeros": (RECORDS - 1) // 2, "corners": RECORDS - 1}
REPLACEMENTS = ("label flipped", "opposite corner", "orthogonal corner", "all of it")
ADDED = ("opposite corner", "far outside")


class Bench:
    """Records and replays whole fits of a case."""

    def __init__(self, case: Case, relation: Relation, recorder: Recorder) -> None:
        self.case, self.relation = case, relation
        self._recorder, self._recorded = recorder, 0
        self.release: StoredRelease | None = None

    def record(self, rows: Rows) -> Recording:
        self._recorded += 1
        return self._recorder.record(self._fit(rows), self._recorded)

    def replay(self, recording: Recording, rows: Rows) -> Replayed:
        return compare(self.spec, recording, self._recorder.replay(recording, self._fit(rows)))

    @property
    def spec(self) -> Any:
        assert self.release is not None
        return self.release.spec

    def _fit(self, rows: Rows) -> Callable[[Any], dict[str, Any]]:
        def run(fresh: Any) -> dict[str, Any]:
            model = self.case.estimator(self.relation)
            model._sources = lambda: Sources(None, fresh)  # the one thing that is not as in any fit
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "delta", category=UserWarning)
                model.fit(*rows.given(self.case))
            self.release = release = model.release_
            assert not release.private
            words = {name: repr(getattr(release, name)) for name in ("settings", "model", "bound", "answers")}
            return {**release.arrays, **words, "spec": release.spec.to_json()}

        return run

    def pairs(self) -> Iterator[tuple[str, Recording, Replayed]]:
        """Every neighbour of the case: which it is, the recording, and the comparison."""
        known = records(self.case)
        for name, rows in tables(self.case).items():
            place = PLACES[name]
            if self.relation is Relation.REPLACE_ONE:
                first = self.record(rows.with_record(place, *known["corner"]))
                for other in REPLACEMENTS:
                    found = self.replay(first, rows.with_record(place, *known[other]))
                    yield f"{name}: corner, {other}", first, found
            else:
                without = self.record(rows)
                for other in ADDED:
                    yield (
                        f"{name}: {other} added",
                        without,
                        self.replay(without, rows.with_record(place, *known[other])),
                    )
                with_it = self.record(rows.with_record(place, *known["corner"]))
                yield f"{name}: corner removed", with_it, self.replay(with_it, rows)


_NETWORK = {"hidden": (4,)}
_ONE = ("spread",)
_ALL = 0.95
# Residuals of three even classes are 120 degrees apart, not opposite.
_THREE = 0.86
# Targets and their squares share one plan of twice their length, but squares have one sign: 1 / sqrt 2. So have counts.
_ONE_SIGN = 0.70
# Steepness and curvature of a score are bounded apart, and no record reaches both.
_TEMPERATURE = 0.1


# Bounded influence, in the order of its plan, a hair below what these neighbours reach: the target, columns, lengths,
# then residuals, gradient and slopes of each point, sizes of scores and their squares. Weighted rows are opposite only
# in part of their numbers, the intercept has one sign, and two records far from the rest have residuals in one bin.
def _floors(replaced: str, added: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """One for each part, under either relation."""
    first, second = (tuple(map(float, words.split())) for words in (replaced, added))
    return first, second


_LINEAR = _floors(
    "0 .95 .95 .95 .57 .95 .95 .95 .95 .58 0 .95 .58 0 .95 .58 0 0 .54 .58 0 .95 .95",
    ".95 .95 .95 .95 .95 .95 .95 .95 .95 .91 .13 .95 .91 .02 .95 .91 .06 .95 .78 .91 0 .95 .95",
)
_LEVELLED = _floors(
    "0 .95 .84 .95 .47 .95 .87 .95 .95 .69 0 .95 .69 0 .95 .69 0 0 .54 .69 0 .95 .9",
    ".95 .95 .95 .95 .95 .95 .95 .95 .95 .87 .13 .95 .87 .01 .95 .87 .06 .95 .78 .87 0 .95 .95",
)
_ROBUST = _floors(
    "0 .95 .95 .95 .67 .95 .95 .95 .95 .51 0 0 .51 0 0 .51 0 .95 .51 0 .95 .95",
    ".95 .95 .95 .95 .95 .95 .95 .95 .95 .71 .36 .95 .71 0 .95 .71 .04 .95 .71 0 .95 .95",
)
_TWO = _floors(
    ".95 .95 .95 .37 .95 .95 .95 .67 .07 .66 .07 .66 .14 .66 .09 .95 .9",
    ".95 .95 .95 .95 .95 .95 .95 .94 .67 .94 .42 .94 .5 .94 .32 .95 .95",
)
_SEVERAL = _floors(
    ".95 .95 .95 .47 .95 .93 .95 .45 .58 .48 .56 .46 .56 .46 .24 .95 .95",
    ".95 .95 .95 .95 .95 .95 .95 .95 .88 .95 .79 .95 .83 .87 .81 .95 .95",
)
# A count far above a small mean is weighed down, and few of both signs are opposite.
_COUNTS = _floors(
    ".95 .47 .95 .95 .61 .95 .95 .95 .51 .38 .18 .62 .36 .9 .95 .34 .35 .76 .95 .72",
    ".95 .95 .95 .95 .95 .95 .95 .95 .68 .92 .8 .95 .77 .9 .95 .71 .84 .76 .95 .95",
)
# The rows of a subject are alike in all but the bin, and at most one of them has an event.
_HAZARDS = _floors(
    ".52 .87 .95 .55 .95 .4 .95 .3 .21 .3 .21 .3 .2 .23 .18 .05",
    ".76 .87 .95 .95 .95 .95 .95 .39 .3 .41 .35 .28 .31 .28 .33 .06",
)
# Natural gradients: products twice, then counts of residuals and steps three times, and counts in the end.
# Residuals of later stages are shortened as they are, and few of both signs are opposite.
_NATURAL = ((0.9, 0.9, _ALL, _ALL, _ALL, 0.65, _ALL, 0.65, _ALL), (0.94, *(_ALL,) * 8))
_ADDED = (_ALL, _ALL, _ALL, _ALL)
CASES = (
    Case("linear", "bounded-influence", _LINEAR),
    Case("linear", "bounded-influence", _LEVELLED, width=2, named=True),
    Case("robust", "bounded-influence", _ROBUST),
    Case("poisson", "bounded-influence", _COUNTS),
    Case("cox", "bounded-influence", _HAZARDS, settings={"time": 0, "bins": (-1.0, 0.0, 1.0)}),
    Case("logistic", "bounded-influence", _TWO, 2),
    Case("logistic", "bounded-influence", _SEVERAL, 3),
    # The square of a target has one sign.
    Case("linear", "ridge", ((0.88, _ALL, _ALL), (_ALL, _ALL, _ALL)), tables=_ONE),
    Case("linear", "constant", ((_ONE_SIGN,), (_ALL,))),
    Case("robust", "constant", ((_ONE_SIGN,), (_ALL,))),
    # With so large a budget there is a sketch, of products of rows with themselves, which have one sign.
    Case("logistic", "ridge", ((_ALL, _ALL, 0.68, _ALL), (_ALL,) * 4), 2, epsilon=60.0),
    Case("logistic", "ridge", ((0.94, _ALL, _ALL), (_ALL, _ALL, _ALL)), 2, width=2, named=True),
    Case("logistic", "ridge", ((_ALL, _ALL, _THREE), (_ALL, _ALL, _ALL)), 3),
    Case("logistic", "constant", ((_ALL,), (_ALL,)), 2),
    Case("logistic", "constant", ((_ONE_SIGN,), (_ALL,)), 3),
    Case("network-regressor", "natural", _NATURAL, epsilon=20.0, tables=_ONE, settings={"hidden": (1,)}),
    Case("network-regressor", "natural", _NATURAL, width=2, epsilon=20.0, named=True, tables=_ONE),
    Case("network-classifier", "natural", ((0.9, 0.9, _ALL, _ALL), _ADDED), 2, tables=_ONE, settings={"hidden": (1,)}),
    Case("network-classifier", "natural", ((0.9, 0.9, _ALL, _THREE), _ADDED), 3, tables=_ONE, settings=_NETWORK),
    Case("network-regressor", "dp-vi", ((_ALL, _ALL), (_ALL, _ALL)), settings=_NETWORK),
    Case("network-regressor", "constant", ((_ONE_SIGN,), (_ALL,)), settings=_NETWORK),
    Case("network-classifier", "dp-vi", ((_ALL, _TEMPERATURE), (_ALL, _TEMPERATURE)), 2, settings=_NETWORK),
    Case(
        "network-classifier",
        "dp-vi",
        ((_THREE, _TEMPERATURE), (_ALL, _TEMPERATURE)),
        3,
        tables=("spread", "corners"),
        settings=_NETWORK,
    ),
    Case("network-classifier", "constant", ((_ALL,), (_ALL,)), 2, settings=_NETWORK),
    Case("network-classifier", "constant", ((_ONE_SIGN,), (_ALL,)), 3, settings=_NETWORK),
    Case("mixture", "em", ((_ALL,), (_ALL,)), width=11),
    Case("linear", "dp-vi", ((_ALL, _ALL), (_ALL, _ALL))),
    Case("logistic", "dp-vi", ((0.85,), (_ALL,)), 2),
    Case("logistic", "dp-vi", ((0.88,), (_ALL,)), 3),
    Case("mixture", "dp-vi", ((_ALL,), (_ALL,)), width=11),
    # A message's precision has one sign, and its square of a residual too.
    Case("linear", "dp-sep", ((_ALL, 0.86), (_ALL, _ALL))),
    Case("logistic", "dp-sep", ((0.83,), (_ALL,)), 2),
    Case("mixture", "dp-sep", ((0.85,), (_ALL,)), width=11),
    Case("network-regressor", "dp-sep", ((_ALL, _ALL), (_ALL, _ALL)), settings=_NETWORK),
)
