"""How alike the records of a unit are: counted exactly, bounded, read with its noise, and heard by intervals."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino.algorithm.influence import Declaration, plan, posterior, release
from sordino.algorithm.influence.families import family_of
from sordino.algorithm.influence.likeness import EDGES, Likeness, squares_of
from sordino.algorithm.influence.plan import LIKENESS, LIKENESS_BINS
from sordino.algorithm.influence.sums import AXIS_DIGITS, FINE, Contributions, UnitRows
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.core.bound import Relation
from tests.algorithm.influence.tables import FAMILIES, declaration, extreme_rows, planned, rows, targets

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))
try:
    bench, drawn_tables = (importlib.import_module(name) for name in ("coverage_units", "drawn_tables"))
finally:
    del sys.path[0]

TAU, CLIP = 2.0, 0.7


def axes(g, size):
    drawn = g.normal(size=(size, size))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.ldexp(np.trunc(np.ldexp(drawn, AXIS_DIGITS)), -AXIS_DIGITS)


def counted(declared, X, y, unit, weights, directions):
    """The engine's histograms for residuals that are cut at `CLIP`, and the rows."""
    private = UnitRows(declared, X, y, None, unit, weights)
    whole = Contributions(private, np.zeros(7), 0.8 * np.eye(7), TAU)

    def psi(part):
        return np.clip(private.y[part, None], -CLIP, CLIP)

    sums = whole.likeness(psi, CLIP, directions, EDGES)
    return np.ldexp(sums.astype(float), -FINE).reshape(len(directions), -1), whole


@pytest.mark.parametrize("weighted", [False, True])
def test_sizes_are_those_of_the_units_mean_gradients(weighted):
    """Beside plain floating point: every unit in the bin of its mean's size along every axis, with its weight."""
    g, size = np.random.default_rng(3), 60
    X, y, unit = rows(g, size), targets(g, "linear", size), np.repeat(np.arange(20), 3)
    weights = np.repeat(g.uniform(0.1, 1.0, 20), 3) if weighted else None
    directions = axes(g, 8)
    found, whole = counted(declaration("linear", unit=True, most_records=5), X, y, unit, weights, directions)
    z = np.ldexp(whole.directions, -20) * whole.lengths[:, None]
    pulls = z * (whole.weights * np.clip(y, -CLIP, CLIP))[:, None]
    mass = np.ones(20) if weights is None else weights[::3]
    along = np.abs(pulls.reshape(20, 3, 8).mean(axis=1) @ directions.T) * np.sqrt(mass)[:, None] / (TAU * CLIP)
    plain = np.array([np.histogram(one, EDGES, weights=mass)[0] for one in along.T])
    assert found == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_unit_counts_more_than_once_in_a_histogram(family):
    """Search over units of one to nine extreme records and weights: their length is at most sqrt(p), and reaches it."""
    g, declared, kind = np.random.default_rng(4), declaration(family, unit=True, most_records=9), family_of(family)
    outputs, most = kind.outputs(declared), 0.0
    directions = axes(g, 8 * outputs)
    for _ in range(30):
        records = int(g.integers(1, 12))
        X, y = extreme_rows(g, records), g.choice([-1e9, -4.0, 0.0, 1.0, 2.0, 4.0, 60.0], records)
        weights = None if g.random() < 0.5 else g.choice([0.0, 0.3, 1.0], records)
        private = UnitRows(declared, X, kind.target(declared, y), None, np.zeros(records), weights)
        whole = Contributions(private, np.zeros(7), g.normal(size=(7, 7)), TAU)

        def psi(part, private=private):
            return g.normal(0, 9, (len(private.y[part]), outputs))

        sums = np.ldexp(whole.likeness(psi, 0.7, directions, EDGES).astype(float), -FINE)
        each = sums.reshape(len(directions), LIKENESS_BINS)
        assert (each >= 0.0).all()
        assert (each.sum(axis=1) <= 1.0).all()
        most = max(most, float(np.linalg.norm(sums)) / math.sqrt(len(directions)))
    assert 0.999 < most <= 1.0


SHARES = np.array([0.1, 0.1, 0.5, 0.9, 0.9])


def read(noise, units, records=10, seed=5):
    """Shares that are read of gradients with these, for normal ones along the axes."""
    g = np.random.default_rng(seed)
    bound, variance = 4.0, 0.4
    sizes = np.abs(g.normal(size=(units, 5))) * np.sqrt(variance * SHARES) / bound
    counts = np.array([np.histogram(one, EDGES)[0] for one in sizes.T]) + noise * g.normal(size=(5, LIKENESS_BINS))
    likely = squares_of(counts, units, noise)
    return Likeness(likely, np.eye(5), bound, records).shares(np.full(5, variance))


def test_shares_are_read_as_far_as_noise_allows():
    """Seeded: 20,000 units with a noise of 20 are within 6 %; what noise hides is between unlike and alike."""
    assert read(20.0, 20_000) == pytest.approx(SHARES, rel=0.06)
    assert np.abs(np.log(read(40.0, 1000) / SHARES)).max() < 0.8
    hidden = read(1e6, 1000)
    assert np.ptp(hidden) < 1e-3
    assert 0.25 < hidden.mean() < 0.55
    assert read(1e6, 1000, records=1000).mean() < 0.3


def test_the_covariance_of_units_has_the_shares_along_the_axes():
    g = np.random.default_rng(6)
    drawn = g.normal(size=(5, 5))
    model, turned = drawn @ drawn.T + np.eye(5), axes(g, 5)
    likely = squares_of(np.zeros((5, LIKENESS_BINS)), 1000, 1e6)
    found = Likeness(likely, turned, 1.0, 10)
    share = np.diag(turned @ found.of_units(model) @ turned.T) / np.diag(turned @ model @ turned.T)
    assert share == pytest.approx(found.shares(np.diag(turned @ model @ turned.T)))


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_unlike_records_narrow_intervals_of_what_they_tell(family):
    """Ten records a unit with errors that are alike, one column of the unit's and one of the record's; seeded.

    Copies of one record are as wide as that record. Where the second column varies within units its interval is
    narrower, by more than noise and prior could hide, and the other's is not.
    """
    g, units = np.random.default_rng(7), 4000
    whose = np.repeat(np.arange(units), 10)
    own, varying = g.uniform(-1, 1, units)[whose], g.uniform(-1, 1, 10 * units)
    copied, error = varying[::10][whose], g.normal(size=units)[whose]
    target = {"linear": (-4.0, 4.0), "poisson": (0.0, 60.0)}.get(family)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=target, effect_scale=0.5, unit=True, most_records=10)
    made = plan(family, declared, units, Relation.REPLACE_ONE, 8.0, 1e-6)

    def deviation(second):
        score = 0.4 * own - 0.4 * second
        y = {
            "linear": score + 0.3 * error,
            "logistic": (score + 1.7 * error > 0).astype(float),
            "poisson": np.rint(np.exp(score + 0.5 * error)),
        }[family]
        given = release(made, np.column_stack([own, second]), y, SeededRandomness(3), unit=whose)
        return posterior(made, given).deviation

    alike, unlike = deviation(copied), deviation(varying)
    assert unlike[2] < 0.75 * alike[2]
    assert unlike[1] == pytest.approx(alike[1], rel=0.25)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("family", FAMILIES)
def test_plans_with_units_pay_for_it_and_others_are_what_they_were(family, relation):
    for records in (60, 1000, 10**6):
        plain, single, several = (
            planned(family, records, relation, 1.0, **others)
            for others in ({}, {"unit": True}, {"unit": True, "most_records": 10})
        )
        assert plain.mechanisms == planned(family, records, relation, 1.0, most_records=10).mechanisms
        assert [one.multiplier for one in single.mechanisms] == [one.multiplier for one in plain.mechanisms]
        names = [one.name for one in plain.mechanisms]
        assert "likeness" not in names
        assert [one.name for one in several.mechanisms] == [*names, "likeness"]
        assert several.spent <= several.mu
        last = several.mechanisms[-1]
        assert last.numbers == several.coefficients * LIKENESS_BINS
        assert several.sensitivity(last) == pytest.approx(
            math.sqrt(several.coefficients * (2.0 if relation is Relation.REPLACE_ONE else 1.0))
        )
        assert 0.9 * LIKENESS < 1.0 / (several.mu * last.multiplier) ** 2 < 1.1 * LIKENESS


@pytest.mark.parametrize(
    ("family", "correlation", "relation"),
    [("logistic", 0.0, "add-remove"), ("linear", 0.9, "add-remove"), ("logistic", 0.5, "replace-one")],
)
def test_intervals_of_a_sample_of_cells_hold_as_often_as_they_say(family, correlation, relation):
    """Thirty tables of three cells of bench/pages/unit-coverage.md, epsilon 4, seeded.

    Rates of 50, 90 and 95 % intervals over all coefficients have errors of about 4, 2.5 and 1.8 points: within four of
    them, and 2 points below or 4 above, which fails in 2e-4 of cases if rates are right. Intervals that took units for
    single records held 87, 100 and 100 % in the first.
    """
    cell = bench.Cell(family, correlation, 4.0, relation, 10)
    made, held = bench.planned(cell), []
    for number in range(30):
        X, y, whose, truth = bench.table(cell, np.random.default_rng([8, number]))
        law = posterior(made, release(made, X, y, SeededRandomness(number), unit=whose))
        held.append(drawn_tables.held_and_scored(law, truth)["held_each"])
    rates, levels = np.mean(held, axis=(0, 2)), np.array(drawn_tables.LEVELS)
    spread = 4.0 * np.array([0.04, 0.025, 0.018])
    assert np.all(rates > levels - 0.02 - spread), rates
    assert np.all(rates < levels + 0.04 + spread), rates
