"""The posterior of a regression: moments of weighted draws, units of the table, and what a file may not say."""

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms.posterior.coefficients import ARRAYS, COEFFICIENTS, CoefficientPosterior, from_stored


def law(family: str = "linear", outputs: tuple[str, ...] = ("",), **changes: object) -> CoefficientPosterior:
    generator = np.random.default_rng(1)
    dim = 3 * len(outputs)
    root = generator.normal(0, 1, (3, dim, dim))
    given = {
        "places": np.array([0, 1, 3]),
        "draws": generator.normal(0.3, 1.0, (400, dim)),
        "weights": generator.dirichlet(np.ones(400)),
        "parts": root @ root.transpose(0, 2, 1),
        # y = 10 + 4 y', x1 = 5 + 2 x1', x2 as it is.
        "to_table": np.array([[4.0, 2.0, 4.0], [0.0, -10.0, 0.0], [10.0, 0.0, 0.0]]),
        "residual_scale": 0.5,
    }
    return CoefficientPosterior(family, ("intercept", "x1", "x2"), outputs, **(given | changes))


def test_moments_and_intervals_are_those_of_the_weighted_draws():
    one = law()
    many = one.sample(np.random.default_rng(2), 200_000)
    np.testing.assert_allclose(many.mean(axis=0), one.mean, atol=1e-4)
    np.testing.assert_allclose(np.cov(many.T), one.covariance, atol=1e-3)
    low, high = one.interval(0.9)
    np.testing.assert_allclose(np.mean((many > low) & (many < high), axis=0), 0.9, atol=0.01)
    np.testing.assert_allclose(one.shares.sum(axis=0), 1.0)


def test_units_of_the_table_say_the_same_of_every_row():
    one, rows = law(), np.random.default_rng(3).normal(0, 1, (5, 4))
    encoded, table = one.predict(rows), one.in_table_units()
    raw = np.column_stack([np.ones(5), 5.0 + 2.0 * rows[:, 1], rows[:, 3]])
    np.testing.assert_allclose(
        raw @ table.mean,
        10.0 + 4.0 * (rows[:, [0, 1, 3]] @ one.mean) + 0.0 * encoded.mean + 4.0 * (1.0 - rows[:, 0]) * one.mean[0],
    )
    assert table.residual_scale == 4.0 * one.residual_scale
    # The intercept in the table's units is a combination, so its shares are those of the combination.
    combined = np.array([4.0, -10.0, 0.0])
    wanted = np.einsum("i,kij,j->k", combined, one.parts, combined)
    np.testing.assert_allclose(table.shares[:, 0], wanted / wanted.sum())
    np.testing.assert_allclose(table.shares[:, 1:], one.shares[:, 1:])
    assert table.in_table_units() is table


def test_several_classes_are_told_against_the_first():
    one = law("multinomial", ("b", "c"))
    assert one.names[:3] == ("intercept [b]", "intercept [c]", "x1 [b]")
    scores = one.scores(one.draws[:2], np.ones((4, 4)))
    assert scores.shape == (2, 4, 3)
    assert (scores[..., 0] == 0.0).all()
    np.testing.assert_allclose(scores[0, 0, 1], one.draws[0, [0, 2, 4]].sum())


def test_counts_have_the_variance_of_their_dispersion():
    flat = law(
        "poisson", weights=np.full(400, 1 / 400), draws=np.tile([np.log(3.0), 0.0, 0.0], (400, 1)), dispersion=0.5
    )
    found = flat.counts(flat.scores(flat.draws, np.ones((1, 4)))[..., 0])
    np.testing.assert_allclose([found.mean[0], found.variance[0]], [3.0, 3.0 + 0.5 * 9.0])
    with pytest.raises(InputError, match="numbers"):
        flat.predict(np.ones((1, 4)))


@pytest.mark.parametrize(("family", "outputs"), [("linear", ("",)), ("logistic", ("",)), ("multinomial", ("b", "c"))])
def test_what_is_stored_is_read_back(family, outputs):
    one = law(family, outputs)
    assert set(one.arrays) == ARRAYS
    again = from_stored(one.arrays, one.settings)
    assert again.names == one.names
    assert again.settings == one.settings
    np.testing.assert_array_equal(again.draws, one.draws)
    np.testing.assert_array_equal(again.in_table_units().shares, one.in_table_units().shares)


def test_settings_and_arrays_that_no_fit_writes_are_refused():
    one = law()
    for changed in (
        {"family": "magic"},
        {"family": ["linear"]},
        {"columns": []},
        {"columns": ["intercept", 3, "x2"]},
        {"outputs": ["", "b"]},
        {"residual_scale": -1.0},
        {"dispersion": None},
        {"plan": "none"},
    ):
        with pytest.raises(InputError):
            from_stored(one.arrays, {COEFFICIENTS: one.settings[COEFFICIENTS] | changed})
    for changed in (
        {"weights": np.full(400, 1.0)},
        {"weights": np.full(399, 1 / 399)},
        {"draws": np.zeros((400, 4))},
        {"parts": np.zeros((3, 3))},
        {"places": np.array([0, -1, 2])},
        {"to_table": np.full((3, 3), np.nan)},
    ):
        with pytest.raises(InputError):
            from_stored(one.arrays | changed, one.settings)
    with pytest.raises(InputError):
        from_stored(one.arrays, {})
