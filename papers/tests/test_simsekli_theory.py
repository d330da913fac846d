"""The lemmas, assumptions and comparisons of Simsekli et al.: constants as printed, and the truth beside them."""

import math

import numpy as np
import pytest

from papers.framework.item import NotValid, Options, VerdictKind, item_named
from papers.simsekli import assumption3 as universal_point
from papers.simsekli import constants as lemmas
from papers.simsekli.data_bound import BoundedRecords, chain_delta
from papers.simsekli.renyi import least_delta
from papers.simsekli.setting import DIM, LINEAR, LOGISTIC
from papers.simsekli.variants import readings, tried
from papers.tests.rows_of import columns, table

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.fixture(scope="module")
def constants():
    return item_named("simsekli-constants").run(QUICK)


@pytest.fixture(scope="module")
def renyi():
    return item_named("simsekli-renyi").run(QUICK)


def test_the_constants_of_linear_regression(constants):
    """By hand: eta m = 0.6, R^2 = sqrt(5 / 0.12) - 5 = 1.455, so B / m = 0.291, K2 D = 5.82 and beta = 0.7."""
    found = {row[0]: row[1] for row in table(constants, "constants").rows}
    noise = 0.02 * 2 * math.gamma(5.5) / math.gamma(5.0)
    assert found["beta (15)"] == pytest.approx(0.7)
    assert found["H (17), with Assumption 3"] == pytest.approx(0.3 + noise)
    assert found["H (16)"] == pytest.approx(0.3 + noise + 1.7 * 2 * 1.45497 / 5, rel=1e-4)
    assert found["C_1 of Lemma 13"] == pytest.approx(2 * 5.81989 * 1.29099, rel=1e-4)
    assert found["least batch of Lemmas 13 and 14"] == math.ceil((1 - 5 / (8 * 5.81989)) * 30_000)
    # M sigma = 2 e sigma^*: the printed end is half of where M = e.
    assert found["sigma^*"] == pytest.approx(found["M of Theorem 9"] * 0.02 / (2 * math.e))
    assert found["factor dropped by Theorem 9"] > 1


def test_the_total_variation_of_shifted_stable_laws(constants):
    found = columns(constants, "shifts")
    assert found["exact"] == pytest.approx([0.140316, 0.140708, 0.142581], abs=1e-6)
    assert all(exact < linear for exact, linear in zip(*(list(found.values())[1:3]), strict=True))


def test_the_lemmas_hold_on_what_they_bound(constants):
    found = columns(constants, "truth")
    for name, cells in found.items():
        if name != "quantity":
            stated, exact, charged, right = cells
            assert exact < stated
            assert right < charged / 1000
    radii = np.geomspace(1e-3, 1e2, 40)
    offset = lemmas.constants(LINEAR, 2.0, 0.02).universal.offset
    assert lemmas.drift_excess(LINEAR, 0.02, radii).max() <= offset * (1 + 1e-9)


def test_the_mean_length_of_a_shifted_gaussian():
    """Against 200,000 draws; five standard errors fail with probability below 1e-6."""
    draws = np.random.default_rng(3).standard_normal((200_000, DIM)) * math.sqrt(2) * 0.3
    draws[:, 0] += 0.7
    lengths = np.linalg.norm(draws, axis=1)
    exact = float(lemmas.mean_length(np.array([0.7]), 0.3)[0])
    assert abs(lengths.mean() - exact) < 5 * lengths.std() / math.sqrt(len(lengths))


@pytest.mark.parametrize("setting", [LINEAR, LOGISTIC])
def test_no_random_pair_of_records_is_further_apart(setting):
    rng = np.random.default_rng(5)
    length = 1.3
    farthest = lemmas.farthest_gradients(setting, np.array([length]))[0]
    rows = rng.standard_normal((400, DIM))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = length * rows[:, 0]
    if setting is LINEAR:
        factor = scores - rng.uniform(-1, 1, 400)
    else:
        labels = rng.choice([-1.0, 1.0], 400)
        factor = -labels / (1 + np.exp(labels * scores))
    gradients = factor[:, None] * rows
    gaps = np.linalg.norm(gradients[:, None] - gradients[None, :], axis=2)
    assert gaps.max() <= farthest * (1 + 1e-4)


def test_a_record_bound_that_fails_for_one_in_a_thousand_holds_for_no_table_of_thirty_thousand():
    records = BoundedRecords(1e-3)
    assert records.failure > 1 - 1e-12
    assert records.stated_failure == pytest.approx(0.002)
    assert chain_delta(2.0, 1e-3) < chain_delta(2.0, 1e-4)


def test_the_data_bound_marks_what_is_stated_and_never_beats_it():
    outcome = item_named("simsekli-data-bound").run(QUICK)
    for row in table(outcome, "failure").rows:
        assert isinstance(row[2], NotValid)
        assert row[3].value >= row[2].value or row[3].value == 1.0
        if row[5] is not None:
            assert row[5].value >= row[4].value
    assert outcome.verdict.kind is VerdictKind.CORRECTED


def test_total_variation_says_nothing_about_renyi_divergence(renyi):
    """The mechanism that publishes with probability delta: (0, delta)-DP, and no epsilon at half that delta."""
    assert columns(renyi, "renyi")["mechanism above"] == ["infinite"] * 4
    assert renyi.beside[1].ours == math.inf


def test_valid_bounds_fall_like_one_over_n_and_shifts_are_the_smallest(renyi):
    found = columns(renyi, "delta")
    for name in ("coupling", "Ye & Shokri D.6, Pinsker", "shifts"):
        assert found[name][0] / found[name][-1] == pytest.approx(1000, rel=0.01)
    for row in zip(*(found[name] for name in ("shifts", "coupling", "Ye & Shokri D.6, Pinsker")), strict=True):
        assert row[0] == min(row)
    assert found["Theorem 9, stated"][0] / found["Theorem 9, stated"][-1] < 600


def test_proposition_three_on_mechanisms_with_finitely_many_answers(renyi):
    for row in table(renyi, "total-variation").rows:
        assert row[1] == pytest.approx(row[2], abs=1e-15)
    # The definition is about sets; a single answer would not do.
    first, second = (0.4, 0.3, 0.2, 0.1, 0.0), (0.1, 0.2, 0.3, 0.1, 0.3)
    assert least_delta(first, second) > max(abs(one - other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("setting", "printed", "nearest"), [(LINEAR, (0.02, 0.05), (1.4, 1.6)), (LOGISTIC, (0.009, 0.012), (1.2, 1.3))]
)
def test_no_reading_of_section_five_gives_the_printed_noise(setting, printed, nearest):
    found = tried(setting, printed)
    assert nearest[0] < found[0].off < nearest[1]
    as_used = next(one for one in found if one.reading == readings(setting)[0])
    assert as_used.scales[1] < printed[1] / 1.9


def test_section_five_has_no_universal_stable_point():
    """Ridge, lambda = 5: 5/11 at theta_true / 11. Logistic: 1/2 at the origin."""
    assert universal_point.smallest_worst_gradient(5.0, logistic=False) == pytest.approx((5 / 11, 1 / 11), abs=1e-4)
    assert universal_point.smallest_worst_gradient(1.0, logistic=True)[0] == pytest.approx(0.5, abs=1e-6)
    assert universal_point.smallest_worst_gradient(0.0, logistic=False)[0] == pytest.approx(0.0, abs=1e-9)


def test_a_theta_off_the_line_is_no_better():
    """Ridge gradients at random theta and random rows: some record is always as far from stable."""
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((4000, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for theta in rng.uniform(-0.5, 1.0, (50, 2)):
        pull = rows @ (theta - np.array([1.0, 0.0]))
        worst = np.linalg.norm(pull[:, None] * rows + 5 * theta, axis=1).max()
        assert worst >= 5 / 11 * (1 - 1e-3)


def test_the_network_of_example_one_is_stable_at_the_origin_and_not_dissipative():
    network = universal_point.Network(0.0)
    assert network.largest_gradient_at_origin(0) == 0.0
    assert network.dissipation(100.0) == 0.0
    assert universal_point.Network(0.1).dissipation(100.0) == pytest.approx(0.1)
    assert network.steepness(100.0) == pytest.approx(1e4, rel=1e-3)
    assert item_named("simsekli-assumption3").run(QUICK).verdict.kind is VerdictKind.SAME
