"""Sums are exact, see one record at a time, and are no longer than their bounds."""

import itertools
import math

import numpy as np
import pytest

from sordino.algorithm.influence import Declaration
from sordino.algorithm.influence.families import At, family_of
from sordino.algorithm.influence.sums import FINE, Contributions, UnitRows, centre_bounds, cut_share, factor
from sordino.core.bound import Relation
from tests.algorithm.influence.tables import FAMILIES, declaration, extreme_rows, rows, table, targets


def contributions(family, X, y, tau=2.0, unit=None):
    declared = declaration(family, unit=unit is not None, most_records=10)
    exposure = np.random.default_rng(3).uniform(0.5, 2.0, len(y))
    private = UnitRows(declared, X, family_of(family).target(declared, y), exposure, unit)
    g = np.random.default_rng(4)
    whitening = np.diag(g.uniform(0.5, 3.0, X.shape[1])) + 0.1 * g.normal(size=(X.shape[1],) * 2)
    return Contributions(private, np.full(X.shape[1], 0.2), whitening, tau), private


AT = At(scale=0.2, clip=1.2, cap=2.0, middle=0.5, dispersion=0.3)
AT_COUNTS = AT._replace(scale=2.0)


def at_of(family):
    return AT_COUNTS if family in ("poisson", "negative-binomial") else AT


def sums_of(family, whole, private, theta):
    kind, at, declared = family_of(family), at_of(family), private.declaration
    shaped = theta.reshape(-1, kind.outputs(declared))

    def psi(part):
        return kind.psi(private.y[part], whole.scores(shaped, part), private.exposure[part, None], at)

    def roots(part):
        return kind.roots(private.y[part], whole.scores(shaped, part), private.exposure[part, None], at)

    bound, slope = kind.bound(declared, at), kind.slope_bound(declared, at)
    return {
        "gradients": (*whole.gradient(psi, bound), whole.tau * bound),
        "curvature": (*whole.curvature(roots, slope), whole.tau**2 * slope),
        "meat": (*whole.meat(psi, bound), (whole.tau * bound) ** 2),
    }


def length(name, sums, exponent):
    """In the norm of the mechanism: off-diagonal entries of a matrix count twice."""
    found = np.ldexp(sums.astype(np.float64), exponent)
    if name == "gradients":
        return float(np.linalg.norm(found))
    size = round((math.sqrt(8 * len(found) + 1) - 1) / 2)
    upper = np.triu_indices(size)
    return float(np.sqrt(np.sum(found**2 * np.where(upper[0] == upper[1], 1.0, 2.0))))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_record_is_no_longer_than_its_bound_and_some_come_near(family):
    """Search over records of every length and target, by random restarts and steps towards what was longest."""
    g, declared = np.random.default_rng(11), declaration(family)
    size = 8 * family_of(family).outputs(declared)
    most = dict.fromkeys(("gradients", "curvature", "meat"), 0.0)
    for _ in range(150):
        X = extreme_rows(g, 1)
        y = g.choice([-1e9, -4.0, 0.0, 1.0, 2.0, 4.0, 60.0], 1)
        whole, private = contributions(family, X, y, tau=float(g.uniform(1.5, 6.0)))
        for name, (sums, exponent, bound) in sums_of(family, whole, private, g.normal(0, 0.6, size)).items():
            share = length(name, sums, exponent) / bound
            assert share <= 1.0
            most[name] = max(most[name], share)
    assert most["gradients"] >= 0.6
    assert most["curvature"] >= 0.3


@pytest.mark.parametrize("family", FAMILIES)
def test_two_records_are_no_further_apart_than_the_factor_says(family):
    g, declared = np.random.default_rng(12), declaration(family)
    size = 8 * family_of(family).outputs(declared)
    shapes = {"gradients": "vector", "curvature": "psd", "meat": "psd"}
    theta = g.normal(0, 0.5, size)
    for _ in range(40):
        found = []
        for _ in range(2):
            whole, private = contributions(
                family, extreme_rows(g, 1), g.choice([-4.0, 0.0, 1.0, 2.0, 60.0], 1), tau=4.0
            )
            found.append(sums_of(family, whole, private, theta))
        for name, (sums, exponent, bound) in found[0].items():
            apart = length(name, sums - found[1][name][0], exponent)
            assert apart <= bound * factor(shapes[name], Relation.REPLACE_ONE)


def test_factors_are_reached_by_orthogonal_matrices_and_opposite_vectors():
    one, other = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    assert np.linalg.norm(one - other) == pytest.approx(factor("psd", Relation.REPLACE_ONE))
    assert factor("vector", Relation.REPLACE_ONE) == 2.0
    assert {factor(shape, Relation.ADD_REMOVE) for shape in ("vector", "psd", "histogram", "centre")} == {1.0}
    assert factor("histogram", Relation.REPLACE_ONE) == pytest.approx(math.sqrt(2.0))


@pytest.mark.parametrize("relation", list(Relation))
def test_the_centre_moves_as_far_as_the_worst_pair_of_corners(relation):
    """All pairs of corners of small boxes: none beyond the bound, and the worst within 1 % of it."""
    for kinds, groups in [
        (("number", "binary"), (0, 0)),
        (("binary", "category", "category"), (0, 1, 1)),
        (("category",) * 4, (1,) * 4),
        (("number",) * 3, (0,) * 3),
        (("number", "category", "category"), (0, 1, 1)),
        (("binary", *("category",) * 3), (0, 1, 1, 1)),
        (("number", "number", *("category",) * 4), (0, 0, 1, 1, 2, 2)),
        (("number", *("category",) * 5), (0, *(1,) * 5)),
    ]:
        low = tuple(-1.0 if kind == "number" else 0.0 for kind in kinds)
        declared = Declaration(low, (1.0,) * len(kinds), kinds, groups)
        corners = np.array(list(itertools.product(*zip(low, (1.0,) * len(kinds), strict=True))))
        found = [UnitRows(declared, one[None], np.zeros(1)).centre().astype(float) * 2.0**-FINE for one in corners]
        if relation is Relation.ADD_REMOVE:
            worst = max(np.linalg.norm(one) for one in found)
        else:
            worst = max(np.linalg.norm(one - other) for one in found for other in found)
        bound = centre_bounds(declared, relation)
        assert 0.99 * bound <= worst <= bound


@pytest.mark.parametrize("unit", [None, np.zeros(2, int)], ids=["record", "unit"])
def test_a_scatter_and_its_diagonal_are_no_longer_than_the_square_of_rho(unit):
    """Rows anywhere, far outside among them; the length of a matrix counts what is off its diagonal twice."""
    rho, g, longest = 1.5, np.random.default_rng(8), {}
    declared = declaration("linear", unit=unit is not None, most_records=10)
    for _ in range(60):
        X = np.repeat(extreme_rows(g, 1), 1 if unit is None else 2, axis=0)
        private = UnitRows(declared, X, np.zeros(len(X)), unit=unit)
        for name in ("scatter", "squares"):
            sums = getattr(private, name)(np.full(7, 0.1), np.full(7, 0.05), rho)
            found = np.ldexp(sums.astype(float), 2 * (1 - 20))
            size = float(np.linalg.norm(found)) if name == "squares" else length(name, sums, 2 * (1 - 20))
            longest[name] = max(longest.get(name, 0.0), size)
    assert 0.9 * rho**2 < longest["scatter"] <= rho**2
    assert 0.5 * rho**2 < longest["squares"] <= rho**2


@pytest.mark.parametrize("family", FAMILIES)
def test_sums_do_not_depend_on_where_records_stand(family):
    """Bit for bit: any order, and what one record adds is the same beside any others."""
    g = np.random.default_rng(13)
    X, y = rows(g, 300), targets(g, family, 300)
    theta = g.normal(0, 0.4, 8 * family_of(family).outputs(declaration(family)))
    order = g.permutation(300)

    def found(places):
        declared = declaration(family)
        exposure = np.linspace(0.5, 2.0, 300)[places]
        private = UnitRows(declared, X[places], family_of(family).target(declared, y[places]), exposure)
        whole = Contributions(private, np.full(7, 0.1), np.eye(7) + 0.05, 3.0)
        return {name: sums for name, (sums, _, _) in sums_of(family, whole, private, theta).items()}

    together = found(np.arange(300))
    for name, sums in found(order).items():
        assert np.array_equal(sums, together[name])
    rest, alone = found(np.arange(1, 300)), found(np.arange(1))
    for name, sums in together.items():
        assert np.array_equal(sums, rest[name] + alone[name])


def test_sums_are_those_of_plain_arithmetic():
    private = table("linear", 500)
    declared = declaration("linear")
    kept = UnitRows(declared, private.X, family_of("linear").target(declared, private.y), np.ones(500))
    whole = Contributions(kept, np.full(7, 0.1), np.eye(7), 2.0)
    z = np.column_stack([np.ones(500), kept.x - 0.1])
    w = np.minimum(1.0, 4.0 / np.sum(z**2, axis=1))
    theta = np.linspace(-0.2, 0.3, 8)
    residual = np.clip(kept.y - z @ theta, -0.24, 0.24)
    found = sums_of("linear", whole, kept, theta)
    sums, exponent, _ = found["gradients"]
    assert np.ldexp(sums.astype(float), exponent) == pytest.approx((z * (w * residual)[:, None]).sum(axis=0), abs=1e-3)
    inside = np.abs(kept.y - z @ theta) < 0.24
    sums, exponent, _ = found["curvature"]
    wanted = ((z * (w * inside)[:, None]).T @ z)[np.triu_indices(8)]
    assert np.ldexp(sums.astype(float), exponent) == pytest.approx(wanted, abs=3e-3)


@pytest.mark.parametrize("family", ["linear", "multinomial"])
def test_a_person_counts_as_the_mean_of_the_rows(family):
    """Rows of one person given twice change nothing; meat is of the person's mean, not of rows."""
    g = np.random.default_rng(14)
    X, y, unit = rows(g, 60), targets(g, family, 60), np.repeat(np.arange(20), 3)
    theta = g.normal(0, 0.3, 8 * family_of(family).outputs(declaration(family)))
    declared, kind = declaration(family, unit=True, most_records=10), family_of(family)

    def found(places):
        private = UnitRows(declared, X[places], kind.target(declared, y[places]), np.ones(len(places)), unit[places])
        whole = Contributions(private, np.full(7, 0.1), np.eye(7), 3.0)
        answers = sums_of(family, whole, private, theta)
        return {name: np.ldexp(sums.astype(float), exponent) for name, (sums, exponent, _) in answers.items()}

    once, twice = found(np.arange(60)), found(np.repeat(np.arange(60), 2))
    for name, sums in once.items():
        assert twice[name] == pytest.approx(sums, abs=2e-3)
    u = np.array([found(np.flatnonzero(unit == one))["gradients"] for one in range(20)])
    size = len(theta)
    assert once["meat"] == pytest.approx((u.T @ u)[np.triu_indices(size)], abs=2e-3)


def test_only_the_first_rows_of_a_person_are_used():
    g = np.random.default_rng(15)
    X, unit = rows(g, 40), np.repeat(np.arange(4), 10)
    declared = declaration("linear", unit=True, most_records=3)
    first = np.flatnonzero(np.arange(40) % 10 < 3)
    whole, some = (
        UnitRows(declared, X, np.zeros(40), None, unit),
        UnitRows(declared, X[first], np.zeros(12), None, unit[first]),
    )
    assert np.array_equal(whole.centre(), some.centre())
    assert whole.units == some.units == 4


@pytest.mark.parametrize(("classes", "columns", "most"), [(3, 5, 1), (3, 22, 4096), (81, 1, 1), (20, 7, 512)])
def test_the_share_that_cutting_adds_grows_with_classes_columns_and_rows_of_a_unit(classes, columns, most):
    """2 sqrt(k C P) tau 2^(e - 20) of tau^2 / 2, with 2^e at most sqrt 2 tau, is never more than what is added."""
    declared = Declaration(
        (-1.0,) * columns, (1.0,) * columns, classes=classes, unit=most > 1, most_records=most, effect_scale=1.0
    )
    moved = 4.0 * math.sqrt(2.0) * math.sqrt(most * classes * (columns + 1) * (classes - 1)) * 2.0**-20
    assert cut_share(declared) >= max(moved, 2.0**-9)
    assert family_of("multinomial").slope_bound(declared, At()) == 0.5 * (1.0 + cut_share(declared))
