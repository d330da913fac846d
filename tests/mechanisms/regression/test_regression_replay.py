"""No record and no person moves a released sum by more than its plan says: replayed call by call on neighbours."""

import numpy as np
import pytest

from sordino.auditing.replay.port import Recorder
from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, person_bins, plan, posterior, release, with_bins
from tests.mechanisms.regression.tables import FAMILIES, Table, extreme_rows, extreme_targets, planned, table

RECORDS, NEIGHBOURS = 40, 12
# Budgets that are poor and rich for each of the eight coefficients, so that every statistic is asked for.
POOR, RICH = 20.0, 900.0
CASES = [
    (family, relation, unit, epsilon)
    for family in FAMILIES
    for relation in Relation
    for unit, epsilon in ((False, POOR), (True, POOR), (False, RICH))
]


@pytest.mark.parametrize(("family", "relation", "unit", "epsilon"), CASES, ids=str)
def test_no_call_moves_beyond_its_plan(family, relation, unit, epsilon):
    """The search: records at corners, at every distance and outside the bounds, with the most extreme targets."""
    g = np.random.default_rng(5)
    private = table(family, RECORDS + 24 * unit, units=RECORDS if unit else None)
    made = planned(family, RECORDS, relation, epsilon, unit=unit, most_records=30)
    recorder = Recorder()
    first = recorder.record(_run(made, _changed(private, family, g, absent=relation is Relation.ADD_REMOVE)), 3)
    names = [one.name for one in made.mechanisms]
    assert len(first.calls) == len(names)
    most = dict.fromkeys(names, 0.0)
    for _ in range(NEIGHBOURS):
        second = recorder.replay(first, _run(made, _changed(private, family, g, absent=False)))
        assert second.faults == ()
        for mechanism, one, other in zip(made.mechanisms, first.calls, second.calls, strict=True):
            apart = one.call.unit * (one.call.statistic - other.call.statistic)
            moved = float(np.sqrt(np.sum((apart / np.asarray(one.call.scale)) ** 2)))
            assert moved * mechanism.multiplier <= 1.0, mechanism.name
            most[mechanism.name] = max(most[mechanism.name], moved * mechanism.multiplier)
    # A bound that nobody comes near would be noise for nothing; a gradient needs a record of just the right length.
    for name, reached in most.items():
        if name in ("centre", "square-sizes", "row-sizes", "class-counts"):
            assert reached >= 0.5, name
    for word in ("gradient", "squares", "scatter"):
        assert max(reached for name, reached in most.items() if name.startswith(word)) >= 0.05, word


def _run(made, given, *, read=False):
    def run(sources):
        found = release(made, given.X, given.y, sources(), **given.arguments())
        law = posterior(made, found) if read else None
        return found.sums if law is None else {**found.sums, "mean": law.mean, "deviation": law.deviation}

    return run


def _changed(private, family, g, *, absent):
    """One unit replaced by an extreme one, or absent."""
    person = private.unit is not None
    count = int(g.integers(1, 30)) if person else 1
    own = 7
    kept = np.flatnonzero(private.unit != own) if person else np.delete(np.arange(len(private.y)), own)
    left = _taken(private, kept)
    if absent:
        return left
    X, y = extreme_rows(g, count), extreme_targets(g, family, count)
    if g.random() < 0.7:
        X[:], y[:] = X[0], y[0]
    exposure = None if left.exposure is None else np.concatenate([left.exposure, g.choice([0.01, 0.5, 2.0], count)])
    unit = np.concatenate([left.unit, np.full(count, own)]) if person else None
    return Table(np.concatenate([left.X, X]), np.concatenate([left.y, y]), exposure, unit)


def _taken(private, places):
    return Table(*(None if part is None else part[places] for part in private))


def test_the_plan_alone_says_what_is_released_and_nothing_else_leaves():
    private = table("linear", RECORDS)
    made = planned("linear", RECORDS, Relation.REPLACE_ONE)
    recorder = Recorder()
    first = recorder.record(_run(made, private, read=True), 3)
    second = recorder.replay(first, _run(made, table("linear", RECORDS, seed=2), read=True))
    assert second.faults == ()
    for name, value in first.left.items():
        assert np.array_equal(value, second.left[name]), name


@pytest.mark.parametrize("relation", list(Relation))
def test_no_call_of_cox_moves_beyond_its_plan(relation):
    """Also for rows that no person can have: an event in every bin, more time than there is, scores of any size."""
    g = np.random.default_rng(6)
    edges = np.arange(9.0)
    made = plan("cox", with_bins(Declaration((-1.0,) * 2, (1.0,) * 2), edges), 40, relation, 20.0, 1e-6)
    X = g.uniform(-1, 1, (40, 2))
    others = person_bins(X, g.exponential(3.0, 40), g.random(40) < 0.8, edges)

    def person(*, absent):
        left = [part[8:] for part in (others.X, others.y, others.exposure, others.unit)]
        if absent:
            return Table(*left)
        x = np.tile(g.choice([-1.0, 0.3, 1.0], 2), (8, 1))
        y, time = g.choice([0.0, 1.0], 8), g.choice([0.0, 0.3, 1.0, 50.0], 8)
        if g.random() < 0.5:
            y[:], time[:] = 1.0, 0.0
        mine = np.hstack([x, np.eye(8)[:, 1:]]), y, time, np.full(8, 99)
        return Table(*(np.concatenate([a, b]) for a, b in zip(left, mine, strict=True)))

    recorder = Recorder()
    most = 0.0
    for seed in range(3):
        first = recorder.record(_run(made, person(absent=relation is Relation.ADD_REMOVE)), seed)
        for _ in range(25):
            second = recorder.replay(first, _run(made, person(absent=False)))
            assert second.faults == ()
            for mechanism, one, other in zip(made.mechanisms, first.calls, second.calls, strict=True):
                apart = one.call.unit * (one.call.statistic - other.call.statistic)
                moved = float(np.sqrt(np.sum((apart / np.asarray(one.call.scale)) ** 2))) * mechanism.multiplier
                assert moved <= 1.0, mechanism.name
                most = max(most, moved if mechanism.name.startswith("gradient") else 0.0)
    assert most >= 0.3
