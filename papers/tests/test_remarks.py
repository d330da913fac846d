"""What the papers say between their numbered results, each remark computed on a case where the answer is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from papers.bertazzi.langevin import langevin_spec
from papers.bertazzi.sgd import ConstantPulls, exact_conversion
from papers.framework.bounds import renyi_of
from papers.heller_fetaya.construction import fewest_records, leak_with
from papers.heller_fetaya.statements import Neighbours
from papers.simsekli.setting import DIM, LINEAR, LOGISTIC, draw_rows
from papers.vinaroz_park import printed, published
from sordino.accounting.bounds.heavy_tail import absolute_moment, corrected_bound, lyapunov
from sordino.core.gaussian import delta_range
from sordino.models.exact import GaussianLaw
from tests.accounting.bounds.heavy_tail.stable_truth import SPACING, density
from tests.models.exact.laws import total_variation

# Ye & Shokri.


def test_a_divergence_is_an_average_over_the_second_law():
    """Equation (134) weights with mu: N(1, 1) and N(0, 1) at order 2 have e^R = e, and e^3 with that weight."""
    mu, nu = stats.norm(1.0, 1.0).pdf, stats.norm(0.0, 1.0).pdf
    right, as_printed = (
        integrate.quad(lambda x, weight=weight: (mu(x) / nu(x)) ** 2 * weight(x), -30, 30)[0] for weight in (nu, mu)
    )
    assert right == pytest.approx(math.e, rel=1e-9)
    assert as_printed == pytest.approx(math.e**3, rel=1e-6)


def test_the_hessian_of_softmax_has_products_off_its_diagonal():
    """Equation (177) leaves the second factor out: the matrix is then not symmetric, and its rows do not sum to 0."""
    p = np.array([0.2, 0.3, 0.5])
    right = np.diag(p) - np.outer(p, p)
    as_printed = np.where(np.eye(3) == 1, right, -p[:, None])
    scores, step = np.log(p), 1e-6
    moved = [np.exp(scores + step * row) / np.exp(scores + step * row).sum() for row in np.eye(3)]
    np.testing.assert_allclose(right, (np.array(moved) - p) / step, atol=1e-6)
    assert not np.allclose(as_printed, as_printed.T)


# Bertazzi et al.


def test_laplace_noise_meets_assumption_3_5():
    """Scale eta / epsilon, centres at most eta apart: no point is e^epsilon times as likely."""
    x = np.linspace(-30.0, 30.0, 4001)
    for epsilon, eta in ((0.5, 1.0), (2.0, 0.3)):
        first, second = (stats.laplace(centre, eta / epsilon).logpdf(x) for centre in (0.0, eta))
        assert np.max(np.abs(first - second)) == pytest.approx(epsilon, rel=1e-9)


def test_the_last_state_does_not_cost_more_with_time_and_the_path_does():
    """Section 5.3 names Theorems 5.2 and 5.6 for the growth with n: it is that of 5.4 and 5.8."""
    last, path = (
        [renyi_of(name, langevin_spec(1, 1.0, 1.0, 0.02, steps), 2.0) for steps in (10**5, 2 * 10**5)]
        for name in ("langevin.last-iterate", "langevin.path")
    )
    assert last[0] == pytest.approx(last[1], rel=1e-9)
    assert path[1] == pytest.approx(2 * path[0], rel=1e-9)


def test_the_path_costs_the_order_of_the_introduction():
    """epsilon = O(n + sqrt(n log(1 / delta))) at every delta: C/4 + sqrt(C log(1/delta)) with C = n gamma c^2."""
    for steps in (1, 100, 10**6):
        for delta in (1e-2, 1e-12):
            constant, order = 0.02 * steps, steps + math.sqrt(steps * math.log(1 / delta))
            assert constant / 4 + math.sqrt(constant * math.log(1 / delta)) <= math.sqrt(0.02) * order


def test_records_do_not_help_the_last_state_and_batches_help_the_path():
    """After Theorem 5.6: its constant has neither m nor s; that of 5.8 falls as 1 / s^2."""
    few, many = (ConstantPulls(records, 5, 0.5, 0.1, 1.0) for records in (50, 5000))
    assert few.without_batches(1000) == pytest.approx(many.without_batches(1000), rel=1e-9)
    assert few.path_constant(1000) == pytest.approx(4 * replace(few, size=10).path_constant(1000))


def test_the_randomness_of_batches_gives_better_bounds():
    """After Theorem 5.8, a conjecture: random participation is below 5.8 converted exactly, ten steps."""
    pulls = ConstantPulls(50, 5, 0.5, 0.1, 1.0)
    assert pulls.epsilon("shifted.random-participation", 10) < exact_conversion(pulls.path_constant(10))


# Simsekli et al.


def test_moments_of_stable_noise_end_at_the_tail_index():
    """Section 2.3: the tail falls as x^-alpha, so moments of lower orders are finite and that of order alpha is not."""
    for alpha in (1.3, 1.7):
        law, middle = density(alpha), len(density(alpha)) // 2
        near, far = (law[middle + round(x / SPACING) :].sum() for x in (200.0, 400.0))
        assert math.log2(near / far) == pytest.approx(alpha, abs=0.3)
        assert absolute_moment(alpha, alpha - 1e-9, 1) > 1e6 > absolute_moment(alpha, 1.0, 1)


@pytest.mark.parametrize("alpha", [1.2, 1.6, 2.0])
def test_the_mean_length_of_stable_noise(alpha):
    """Before (16): in one dimension E|X| = (2/pi) times the integral of (1 - e^(-t^alpha)) / t^2."""
    parts = [integrate.quad(lambda t: -math.expm1(-(t**alpha)) / t**2, *ends)[0] for ends in ((0, 1), (1, math.inf))]
    assert absolute_moment(alpha, 1.0, 1) == pytest.approx(2 / math.pi * sum(parts), rel=1e-6)


def test_the_offset_grows_with_the_root_of_the_dimension():
    for dim in (100, 10_000):
        quotient = absolute_moment(1.7, 1.0, dim) / absolute_moment(1.7, 1.0, 1) * math.gamma(1) / math.gamma(0.5)
        assert quotient / math.sqrt(dim) == pytest.approx(1 / math.sqrt(2), rel=3e-3)


def test_the_tail_index_hardly_changes_the_bound_of_theorem_nine_away_from_one():
    """After Theorem 9, "almost identical for all alpha in (1, 2]": to 1.4 from 1.5 on, and unbounded towards 1."""
    for setting in (LINEAR, LOGISTIC):
        heavy, middle, light = (
            corrected_bound(constants, 1.0, constants.rate, 10**12)
            for alpha in (1.001, 1.5, 2.0)
            for constants in [lyapunov(setting.constants, alpha, 0.5, setting.step, DIM, 0.0)]
        )
        assert light < middle < 1.4 * light
        assert heavy > 100 * light


def test_with_a_universal_stable_point_batches_cost_nothing():
    """After Theorem 10: the constants of SGD are then those of GD."""
    whole, batches = (
        lyapunov(LINEAR.constants, 1.7, 0.05, 0.12, DIM, 0.0, left_out=left, universal_point=True)
        for left in (0.0, 0.999)
    )
    assert whole == batches
    assert lyapunov(LINEAR.constants, 1.7, 0.05, 0.12, DIM, 0.0, left_out=0.999).offset > 5 * whole.offset


def test_the_step_of_section_five_is_larger_than_its_rows_permit():
    """Section 5.1: m / K1^2, K1 = R^2 + lambda, is .12 for R^2 = 1.455; rows (a, b) have up to 2, which gives .102."""
    (rows, targets), _ = draw_rows(LINEAR, 20_000, 0)
    squares = (rows**2).sum(axis=1) + targets**2
    radius = math.sqrt(LINEAR.constants.m / LINEAR.step) - LINEAR.constants.m
    assert radius == pytest.approx(1.455, abs=1e-3)
    assert 0.005 < np.mean(squares > radius) < 0.03
    assert squares.max() <= 2 + 1e-9
    assert LINEAR.constants.m / (2 + LINEAR.constants.m) ** 2 == pytest.approx(0.102, abs=1e-3)


def test_the_rate_of_theorem_nine_holds_for_every_noise():
    """After Theorem 9: no range of sigma is needed, and hundred times the records make delta about hundredth."""
    for noise in (1e-3, 0.05, 1.0, 30.0):
        constants = lyapunov(LINEAR.constants, 1.7, noise, LINEAR.step, DIM, 0.0)
        few, many = (corrected_bound(constants, 1.0, constants.rate, n) for n in (10**12, 10**14))
        assert 0.01 < many / few < 0.013


def test_a_rate_of_drift_is_no_rate_of_convergence():
    """Section 5.1, rho = beta: V drifts at 1/2 on two states that are hardly ever left; parabolas do shrink by beta."""
    kernel, weight = np.array([[0.999, 0.001], [0.001, 0.999]]), np.array([1.0, 2.0])
    assert np.all(kernel @ weight <= 0.5 * weight + 1.01)
    apart = [np.abs(np.diff(np.linalg.matrix_power(kernel, k), axis=0)).sum() for k in (1, 101)]
    assert apart[1] > 0.8 * apart[0]
    for setting in (LINEAR, LOGISTIC):
        curvature, smoothness = setting.constants.m, math.sqrt(setting.constants.m / setting.step)
        farthest = max(abs(1 - setting.step * slope) for slope in (curvature, smoothness))
        assert farthest <= 1 - setting.step * curvature / 2


@pytest.mark.parametrize("seed", range(3))
def test_perturbed_chains_stay_within_rudolf_and_schweizer(seed):
    """Lemma 5 on five states: C and rho are the least that hold at 400 steps, V and both kernels are drawn."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.ones(5), 5)
    other = 0.97 * kernel + 0.03 * rng.dirichlet(np.ones(5), 5)
    weight = 1 + rng.exponential(2.0, 5)
    drift = max(0.5, 1e-9)
    offset = float(max((other @ weight - drift * weight).max(), (kernel @ weight - weight).max(), 1e-9))
    values, vectors = np.linalg.eig(kernel.T)
    stationary = np.real(vectors[:, np.argmax(values.real)])
    stationary /= stationary.sum()
    rate = 0.5 * (1 + sorted(np.abs(values))[-2])
    powers = [np.linalg.matrix_power(kernel, k) for k in range(400)]
    factor = max((np.abs(one - stationary) @ weight / weight).max() / rate**k for k, one in enumerate(powers))
    step = float((0.5 * np.abs(kernel - other).sum(axis=1) / weight).max())
    assert step < 1 / math.e
    start = rng.dirichlet(np.ones(5))
    size = max(float(start @ weight), offset / (1 - drift))
    bound = size * math.e / (1 - rate) * (2 * factor * (offset + 1)) ** (1 / math.log(1 / step))
    bound *= step * math.log(1 / step)
    for k, one in enumerate(powers):
        assert 0.5 * np.abs(start @ one - start @ np.linalg.matrix_power(other, k)).sum() <= bound


# Heller & Fetaya.


def test_laws_can_be_near_in_wasserstein_and_disjoint():
    """Section II: N(0, s^2) and N(1e-3, s^2) are 1e-3 apart in the 2-Wasserstein distance, whatever s is."""
    narrow = (GaussianLaw(np.array([mean]), np.array([[1e-10]])) for mean in (0.0, 1e-3))
    assert total_variation(*narrow).low > 0.999999


def test_the_deltas_of_posterior_and_chain_may_differ():
    """Section IV: the leak is built for any delta' below one half, so also where it is not the posterior's delta."""
    for delta in (1e-3, 0.2, 0.24):
        assert fewest_records(0.5, 10.0, delta).exact > 10.0


def test_the_chain_leaks_records_times_what_the_posterior_does():
    """Section IV: with c of the order of n^(3/2) sqrt(epsilon) the leak is of the order of n epsilon."""
    near, far = (leak_with(records, 0.5, 1e-3) for records in (10**11, 10**13))
    slope = math.log(far.stated / near.stated) / math.log(100)
    assert 0.6 < slope <= 1.05


def test_every_term_of_the_posteriors_divergence_is_c_squared_over_n_cubed():
    """After (7), for c well above n^(1 + gamma_1): the three terms of Lemma A.1 over c^2 / n^3 stay bounded."""
    shares = []
    for n in (10**3, 10**4, 10**5):
        c = 10 * n**1.2
        case = Neighbours(n, 1.0, 4.0, c, 0.1, 2.0, 1.0, 2.0, (1.0, 0.0, 1.0, 0.0, 2.0, 0.0))
        assert case.applies
        shares.append(max(case.terms) / (c**2 / n**3))
    assert shares[0] >= shares[1] >= shares[2]


def test_the_posteriors_precision_has_squares():
    """Equation (19) prints x_n for its square: on rows of length 2 the precision is 1 + (4 + 4), not 1 + (4 + 2)."""
    rows, grid = np.array([2.0, 2.0]), np.linspace(-8, 8, 40_001)
    density = np.exp(-0.5 * grid**2 - 0.5 * ((1.0 - np.outer(rows, grid)) ** 2).sum(axis=0))
    density /= density.sum()
    mean = density @ grid
    assert 1 / (density @ (grid - mean) ** 2) == pytest.approx(1 + (rows**2).sum(), rel=1e-6)


def test_epsilon_three_tells_datasets_apart_with_95_per_cent():
    """Section V-B: errors of .05 on both sides show log(.95 / .05) = 2.94; Gaussian laws with them have 3.0 or more."""
    assert math.log((1 - 1e-5 - 0.05) / 0.05) == pytest.approx(3, abs=0.06)
    separation = 2 * stats.norm.ppf(0.95)
    assert delta_range(separation, 3.0)[0] > 1e-5


# Vinaroz & Park.


def test_the_cavity_is_a_share_of_posterior_and_prior():
    """(3) and (4): with theta = N theta_f + theta_0 the cavity is (1 - 1/N) theta + theta_0 / N."""
    factor, prior, records = np.array([0.3, -1.0]), np.array([0.1, 2.0]), 50
    theta = records * factor + prior
    np.testing.assert_allclose(theta - factor, (1 - 1 / records) * theta + prior / records)


def test_the_noise_over_what_a_record_adds_does_not_fall_with_the_records():
    """Section 3.3 compares 1 / N with DP-SGD's 1 / B: both noises are sigma times the most that a record moves."""
    for records in (100, 10_000):
        one = printed.Setting(printed.DP_PRINTED, 1.0 / records, clip=2.0, noise=0.9)
        most = one.gain * 2 * one.clip
        assert one.deviation == pytest.approx(0.9 * most)


def test_the_concentration_of_the_noise_matrix_is_a_lower_bound():
    """Section 4 prints P(largest eigenvalue <= M) <= 1 - d e^(-M^2 / 2 v); at d = 1 it is >=, as Tropp has it."""
    for level in (0.5, 1.0, 2.0):
        assert stats.norm.cdf(level) > 1 - math.exp(-(level**2) / 2)


def test_the_evidence_bound_of_appendix_d():
    """(117), the divergence of factorised Gaussians, and (120), the expected square, against quadrature."""
    mean, variance, decay, feature, target = 0.7, 0.3, 2.0, 1.5, 0.4
    law, prior = stats.norm(mean, math.sqrt(variance)), stats.norm(0.0, math.sqrt(1 / decay))
    divergence = integrate.quad(lambda w: law.pdf(w) * (law.logpdf(w) - prior.logpdf(w)), -12, 12)[0]
    stated = 0.5 * (decay * variance + decay * mean**2 - 1 - math.log(decay) - math.log(variance))
    assert divergence == pytest.approx(stated, rel=1e-8)
    square = integrate.quad(lambda w: law.pdf(w) * (target - w * feature) ** 2, -12, 12)[0]
    stated = target**2 - 2 * target * mean * feature + feature**2 * variance + (mean * feature) ** 2
    assert square == pytest.approx(stated, rel=1e-8)


def test_one_row_of_year_is_printed_under_two_names():
    """Tables 8 and 9 print for DP-SEP at C = 1 what Tables 3 and 4 print for DP-VI."""
    places = [published.METHODS.index(name) for name in ("DP-VI", "DP-SEP")]
    for first, second in ((published.YEAR_3, published.YEAR_8), (published.YEAR_4, published.YEAR_9)):
        assert first[places[0]] == second[0] != first[places[1]]
