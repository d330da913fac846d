"""Bounds that rounding once took below the truth, against truths computed with many digits; and their neighbours."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from sordino.accounting.bounds.heavy_tail import absolute_moment, shift_total_variation
from sordino.accounting.bounds.matrix import sensitivity
from sordino.accounting.bounds.renyi import poisson_renyi
from sordino.accounting.bounds.revealed import _grouped
from sordino.accounting.chain_assumptions import required_steps
from sordino.accounting.evaluate import Bound, evaluate, explain, for_group, theorem_named
from sordino.accounting.theorems.posterior import regression_divergence
from sordino.accounting.theorems.posterior_drawn import least_acceptance
from sordino.accounting.theorems.sampled import _stepwise
from sordino.core.bound import Relation
from sordino.core.guarantee import BoundedRange, GaussianDP, LossDistribution
from sordino.core.loss.atomic_pairs import PoissonLaplaceAddPair
from sordino.core.loss.mixture_pairs import RandomShiftAddPair, WithReplacementPair
from sordino.core.loss.normal_pairs import GaussianPair, exponent_of, log_mixture
from sordino.core.spec import (
    LinearRegression,
    MatrixMechanism,
    PosteriorSample,
    RejectionDraws,
    Spec,
    StronglyLogConcave,
)
from sordino.core.spec.document import NegativeBinomialTrials
from sordino.ledger.budget import Budget, LedgerUnit, charged
from tests.accounting.described import composite, curved, described, few_and_many, guarantee, noised_sums, noisy_chain

mp.mp.dps = 60


def _above(x: mp.mpf) -> mp.mpf:
    """The chance that a standard normal exceeds x."""
    return mp.erfc(x / mp.sqrt(2)) / 2


# Several draws within a bounded range: the worst two-point law.


def _worst_delta(width: float, draws: int, epsilon: float) -> mp.mpf:
    r, e, best = mp.mpf(width), mp.mpf(epsilon), mp.mpf(0)
    for lows in range(draws):
        t = min(max((e + (lows + 1) * r) / (draws + 1), mp.mpf(0)), r)
        high = (1 - mp.exp(t - r)) / (1 - mp.exp(-r))
        chances = [
            mp.fsum(mp.binomial(draws, j) * (1 - p) ** j * p ** (draws - j) for j in range(lows + 1))
            for p in (high, mp.exp(-t) * high)
        ]
        best = max(best, chances[0] - mp.exp(e) * chances[1])
    return min(best, mp.mpf(1))


def test_draws_of_a_bounded_range() -> None:
    delta, potential = 1.154604759368529e-09, {"kind": "bounded", "lipschitz": 1, "diameter": 37.45927346935494}
    spec = described("posterior-sample", "replace-one", "one-sample", potential=potential, draws=4, delta=delta)
    assert _worst_delta(37.45927346935494, 4, 142.9987) > 0.229
    found = explain(spec, delta)
    assert found.tightest is not None
    assert found.tightest.theorem == "posterior.bounded-range"
    assert 149.7548 < found.epsilon < 149.7550
    assert _worst_delta(37.45927346935494, 4, found.epsilon) <= delta


@few_and_many((20260201, 30), (20260202, 4000))
def test_random_bounded_ranges(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        width, draws = float(10 ** generator.uniform(-8, 4)), int(generator.integers(2, 30))
        shares = (generator.random(), 1 - 10 ** generator.uniform(-9, 0), 10 ** generator.uniform(-9, 0))
        epsilon = float(width * draws * shares[generator.integers(3)])
        found, truth = BoundedRange(width, draws).delta(epsilon), _worst_delta(width, draws, epsilon)
        assert found >= truth, (width, draws, epsilon)
        if truth > 1e-200 and epsilon < 0.999 * width * draws:
            assert found <= truth * (1 + 1e-4) or found <= 1.001 * BoundedRange(width, draws).renyi().delta(epsilon)


# Units of several records with truncated Poisson batches.


def _unit_truth(records: int, size: int, cap: int, rate: float, noise: float, epsilon: float) -> float:
    """A delta that is reached: the unit comes first in the table and adds 1 each, all others add -1."""
    q, e, with_unit, without = mp.mpf(rate), mp.mpf(epsilon), {}, {}
    for others in range(records + 1):
        drawn = mp.binomial(records, others) * q**others * (1 - q) ** (records - others)
        without[-min(others, cap)] = without.get(-min(others, cap), 0) + drawn
        for own in range(size + 1):
            both = drawn * mp.binomial(size, own) * q**own * (1 - q) ** (size - own)
            total = min(own, cap) - min(others, cap - min(own, cap))
            with_unit[total] = with_unit.get(total, 0) + both

    def beyond(law: dict[int, mp.mpf], threshold: mp.mpf) -> Any:
        return mp.fsum(chance * _above((threshold - at) / noise) for at, chance in law.items())

    # The ratio of densities rises with what is seen; any threshold gives a delta that is reached.
    low, high = mp.mpf(-3 * records), mp.mpf(60)
    for _ in range(60):
        middle = (low + high) / 2
        densities = [
            mp.fsum(chance * mp.npdf(middle, at, noise) for at, chance in law.items()) for law in (with_unit, without)
        ]
        low, high = (low, middle) if densities[0] > mp.exp(e) * densities[1] else (middle, high)
    return float(beyond(with_unit, high) - mp.exp(e) * beyond(without, high))


def _sums(records: int, size: int, rate: float, cap: int, noise: float) -> Spec:
    sampling = {"scheme": "truncated-poisson", "size": size, "rate": rate, "cap": cap}
    return noised_sums(records, 1, noise, sampling, delta=0.001)


def _bounds(spec: Spec, delta: float) -> list[Bound]:
    return [bound for bound, _ in explain(spec, delta).bounds]


@pytest.mark.parametrize(
    ("records", "unit", "cap", "rate", "noise", "truth"), [(4, 4, 5, 0.9, 3.0, 7.251), (2, 3, 3, 0.8, 2.0, 6.817)]
)
def test_units_with_truncated_batches(
    records: int, unit: int, cap: int, rate: float, noise: float, truth: float
) -> None:
    assert _unit_truth(records, unit, cap, rate, noise, truth) > 0.001
    spec = _sums(records, min(records, 3), rate, cap, noise)
    budget = Budget("table", Relation.ADD_REMOVE, 10.0, 0.001, unit=LedgerUnit("person", unit))
    for bound in _bounds(spec, 0.001):
        epsilon = charged(bound, spec, budget).epsilon(0.001)
        assert _unit_truth(records, unit, cap, rate, noise, epsilon) <= 0.001, bound.theorem
    assert charged(_bounds(spec, 0.001)[0], spec, budget).epsilon(0.001) < 1.3 * truth
    listed = composite({"algorithm": spec.to_dict()["algorithm"]}, relation="add-remove", delta=0.001)
    for bound in _bounds(listed, 0.001):
        assert _unit_truth(records, unit, cap, rate, noise, charged(bound, listed, budget).epsilon(0.001)) <= 0.001


@few_and_many((20260203, 2), (20260211, 150))
def test_random_units_with_truncated_batches(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        records, unit = int(generator.integers(1, 9)), int(generator.integers(2, 6))
        rate = float(generator.uniform(0.05, 0.95))
        cap = int(generator.integers(max(1, math.ceil(rate * records)), records + unit + 2))
        noise, delta = float(generator.uniform(1.0, 6.0)), float(10 ** generator.uniform(-6, -2))
        spec = _sums(records, 1, rate, cap, noise)
        for bound in _bounds(spec, delta):
            epsilon = for_group(bound, spec, unit).epsilon(delta)
            truth = _unit_truth(records, unit, cap, rate, noise, epsilon) if epsilon < 200 else 0
            assert truth <= delta, (bound.theorem, records, unit, cap, rate, noise)


@pytest.mark.parametrize(("delta", "most"), [(1e-15, 128), (9e-16, 16)])
def test_at_a_tiny_delta_fewer_laws_stand_for_many(delta: float, most: int) -> None:
    """Steps of 300 noises whose batches hold everybody are Gaussian: both bounds are above that, by little."""
    falling: Any = {"kind": "polynomial", "initial": 9.0, "offset": 50.0, "power": 0.5}
    spec = noised_sums(10, 300, falling, {"scheme": "truncated-poisson", "size": 10, "cap": 10}, delta=delta)
    found, mu = _stepwise(spec, GaussianPair), float(np.linalg.norm(required_steps(spec).ratios()))
    assert most / 2 < len(found.factors if isinstance(found, LossDistribution) else ()) <= most
    assert 1 <= found.epsilon(delta) / GaussianDP(mu).epsilon(delta) <= 1.05


def test_capped_units_of_a_matrix_mechanism() -> None:
    run = {"steps": 1, "strategy": {"kind": "toeplitz", "coefficients": [1.0]}, "contribution": 1, "delta": 0.001}
    use = {"scheme": "poisson", "rate": 0.9, "cap": 5, "units": 4}
    spec = described("matrix-mechanism", participation=use, noise_multiplier=3.0, **run)
    for bound in _bounds(spec, 0.001):
        assert _unit_truth(4, 4, 5, 0.9, 3.0, for_group(bound, spec, 4).epsilon(0.001)) <= 0.001, bound.theorem


def test_groups_ask_about_larger_tables() -> None:
    """Curvature and sums of the larger tables on the way: every add-remove theorem about chains that reads n."""
    problem = {"n": 8, "gradient_bound": 0.5, "strong_convexity": 0.1, "smoothness": 1.8, "regulariser": curved(0.1)}
    batch = {"scheme": "poisson", "size": 8, "rate": 0.5}
    spec = noisy_chain(3, 0.9, 1.0, batch, problem, relation="add-remove", delta=1e-5)
    named = theorem_named("shifted.revealed-batches")
    wider = evaluate(named, replace(spec, together=9))
    # Batches of up to 17 records may stretch distances, those of up to 9 do not.
    assert not isinstance(wider, Bound) or wider.guarantee.epsilon(1e-5) > guarantee(named, spec).epsilon(1e-5)


# Batches that are revealed: patterns that are rarer than the rounding of 1.


def test_revealed_batches_keep_rare_patterns() -> None:
    rate, epsilon = 6.981368212788805e-09, 581.932
    problem = {"n": 10**9, "gradient_bound": 28.5, **curved(0.7), "regulariser": curved(0.7)}
    batch = {"scheme": "poisson", "size": 1, "rate": rate}
    spec = noisy_chain(24, 1.0, 1.0, batch, problem, relation="add-remove", delta=5e-18)
    q, c, threshold = mp.mpf(rate), mp.mpf("0.3"), mp.mpf("35.2")
    deviation = mp.sqrt(mp.fsum(c ** (2 * lag) for lag in range(24)))
    reached = mp.fsum(
        q ** len(lags)
        * (1 - q) ** (24 - len(lags))
        * _above(threshold - 28.5 * sum(c**lag for lag in lags) / deviation)
        for uses in (1, 2, 3)
        for lags in itertools.combinations(range(8), uses)
    )
    truth = reached - mp.exp(epsilon) * _above(threshold)
    assert truth > 2.4e-17
    assert guarantee("shifted.revealed-batches", spec).delta(epsilon) >= truth


def test_groups_of_rare_values_keep_their_weight() -> None:
    generator = np.random.default_rng(20260204)
    weights = 10.0 ** generator.uniform(-60, 0, 5000)
    values = generator.permutation(np.arange(5000.0))
    totals, ends = _grouped(weights, values, 40)
    order = np.argsort(values)
    for end in ends:
        truth = math.fsum(weights[order][values[order] > end])
        assert math.fsum(totals[ends > end]) >= truth * (1 - 1e-12)
    assert math.isclose(math.fsum(totals), math.fsum(weights), rel_tol=1e-12)


# Draws with replacement: differences of large logarithms.


def _with_replacement(size: int, records: int, mu: float, epsilon: float, listed: int) -> mp.mpf:
    n, rate = mp.mpf(size), mp.mpf(1) / records
    some = 1 - (1 - rate) ** n
    base = mp.log(1 + mp.expm1(mp.mpf(epsilon)) / some)

    def gaussian(m: mp.mpf) -> mp.mpf:
        return _above(base / m - m / 2) - mp.exp(base) * _above(base / m + m / 2)

    chance, total = (1 - rate) ** n, mp.mpf(0)
    for uses in range(1, listed + 1):
        chance *= (n - uses + 1) / uses * rate / (1 - rate)
        total += chance * gaussian(mp.mpf(mu) * uses)
    return total


def test_with_replacement_from_very_many() -> None:
    sampling = {"scheme": "with-replacement", "size": 10**12}
    spec = noised_sums(10**12, 1, 0.25, sampling, relation="replace-one")
    truth = _with_replacement(10**12, 10**12, 8.0, 400.0, 40)
    assert truth > 0.018967
    assert truth <= guarantee("composition.subsampled-with-replacement", spec).delta(400.0) <= 1.01 * truth


@few_and_many((20260205, 4), (20260206, 400))
def test_random_draws_with_replacement(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        records = int(10 ** generator.uniform(0.5, 13))
        size = max(1, int(records * 10 ** generator.uniform(-6, 1)))
        mu, epsilon = float(10 ** generator.uniform(-1.5, 1)), float(generator.uniform(0, 4))
        found = LossDistribution(((WithReplacementPair(size, records, mu), 1),)).delta(epsilon)
        listed = min(size, 20 + 3 * math.ceil(10 * size / records))
        assert found >= _with_replacement(size, records, mu, epsilon, listed) * (1 - mp.mpf(10) ** -30)


# The same kinds of rounding elsewhere.


def test_mixtures_of_rates_near_0_and_1() -> None:
    generator = np.random.default_rng(20260207)
    for _ in range(300):
        tiny = 10 ** generator.uniform(-16, 0)
        rate = float(
            min(max((1 - tiny, tiny, 10 ** generator.uniform(-300, 0))[generator.integers(3)], 1e-300), 1 - 2.0**-53)
        )
        exponent = float(generator.uniform(-80, 80))
        q, x = mp.mpf(rate), mp.mpf(exponent)
        truth = mp.log1p(q * mp.expm1(x)) if q < 0.5 else mp.log((1 - q) + q * mp.exp(x))
        loss = float(log_mixture(rate, np.array([exponent]))[0])
        room = mp.mpf(10) ** -15 * (abs(truth) + (abs(mp.log(q)) + 80 if exponent > 30 else 0))
        assert abs(loss - truth) <= room, (rate, exponent)
        # The inverse is as good as a loss that is off by a few units of rounding.
        back = mp.log1p(q * mp.expm1(mp.mpf(float(exponent_of(rate, np.array([loss]))[0]))))
        assert abs(back - loss) <= mp.mpf(2e-15) * (1 + abs(loss) + abs(mp.log(q))), (rate, exponent)


def test_largest_losses_of_sampled_answers() -> None:
    for lacking in (1e-12, 1e-14, 3e-16):
        rate = 1 - lacking
        truth = -mp.log((1 - mp.mpf(rate)) + mp.mpf(rate) * mp.exp(-60))
        found = PoissonLaplaceAddPair(rate, 60.0).largest_loss
        assert truth <= found <= truth * (1 + mp.mpf(10) ** -13)
    for weight in (1e-3, 1e-10, 1e-16):
        truth = -mp.log1p(-mp.mpf(weight))
        found = RandomShiftAddPair((1 - weight, weight), (0.0, 3.0)).largest_loss
        assert truth <= found <= truth * (1 + mp.mpf(10) ** -14)


@pytest.mark.parametrize("excess", [1e-3, 1e-8, 1e-11, 1e-14])
def test_moments_of_heavy_tails_near_alpha_1(excess: float) -> None:
    alpha = 1 + excess
    for share in (0, 7, 23):
        power = 1 + (alpha - 1) * share / 24
        a, p = mp.mpf(alpha), mp.mpf(power)
        truth = 2**p * mp.gamma(1 - p / a) * mp.gamma((3 + p) / 2) / mp.gamma(1 - p / 2) / mp.gamma(mp.mpf(3) / 2)
        assert truth <= absolute_moment(alpha, power, 3) <= truth * (1 + mp.mpf(10) ** -9)


def test_shifts_of_heavy_tails() -> None:
    """2 F(x) - 1 of the stable law by its series, wherever that converges fast enough to know it."""
    generator = np.random.default_rng(20260208)
    for _ in range(8):
        alpha, ratio = float(1 + 10 ** generator.uniform(-3, 0)), float(10 ** generator.uniform(-6, 0.3))
        a, x = mp.mpf(alpha), mp.mpf(ratio) / 2
        with mp.workdps(120):
            terms = [
                (-1) ** k * mp.gamma((2 * k + 1) / a) / mp.factorial(2 * k + 1) * x ** (2 * k + 1) for k in range(300)
            ]
            if abs(terms[-1]) < mp.mpf(10) ** -40:
                assert shift_total_variation(alpha, ratio) >= min(1, 2 / (mp.pi * a) * mp.fsum(terms))


def test_expected_numbers_of_trials() -> None:
    for shape, stop in itertools.product(
        (0.0, 1e-320, 1e-12, 9e-10, 1e-5, -0.5, 2.0), (1 - 1e-15, 1 - 1e-9, 0.5, 1e-250)
    ):
        g, h = mp.mpf(stop), mp.mpf(shape)
        with mp.workdps(400):
            truth = (1 / g - 1) / -mp.log(g) if shape == 0 else h * (1 - g) / (g * (1 - g**h))
        assert abs(NegativeBinomialTrials(shape, stop).mean / truth - 1) < 1e-13, (shape, stop)


@few_and_many((20260209, 60), (20260210, 3000))
def test_renyi_divergences_of_sampled_steps(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        order, mu = int(generator.integers(2, 100)), float(10 ** generator.uniform(-6, 1.2))
        tiny = 10 ** generator.uniform(-12, 0)
        rate = float(min((tiny, 1 - tiny, 10 ** generator.uniform(-290, 0))[generator.integers(3)], 1 - 2.0**-53))
        q, m = mp.mpf(rate), mp.mpf(mu)
        excess = mp.fsum(
            mp.binomial(order, j) * q**j * (1 - q) ** (order - j) * mp.expm1(j * (j - 1) * m * m / 2)
            for j in range(2, order + 1)
        )
        found, truth = poisson_renyi(float(order), rate, mu, Relation.ADD_REMOVE), mp.log1p(excess) / (order - 1)
        assert truth <= found, (order, rate, mu)
        assert found <= truth * (1 + mp.mpf(10) ** -2) + mp.mpf(10) ** -15, (order, rate, mu)


# Logarithms and sums that lose their digits where two numbers are near each other, or where there are many.


def test_acceptance_of_proposals_under_an_envelope_next_to_the_potential() -> None:
    rng = np.random.default_rng(11)
    for _ in range(400):
        m = 10.0 ** rng.uniform(-200, 200)
        smooth = m * (1 + 10.0 ** rng.uniform(-16, 6))
        drawn = RejectionDraws(trials=10, dim=int(10 ** rng.uniform(0, 12)), smoothness=smooth)
        truth = (mp.mpf(m) / mp.mpf(smooth)) ** (mp.mpf(drawn.dim) / 2) / 2
        assert least_acceptance(PosteriorSample(StronglyLogConcave(1.0, m), drawn=drawn)) <= truth


@pytest.mark.parametrize("participation", [{"scheme": "single"}, {"scheme": "epochs", "separation": 1}])
def test_matrices_of_millions_of_steps(participation: dict[str, Any]) -> None:
    """Running sums of equal numbers drift: 1e-10 of the whole after 3 million of them."""
    steps, weight = 3_000_000, Fraction(0.1)
    strategy = {"kind": "blt", "weights": [0.1], "decays": [1.0]}
    sizes = {"steps": steps, "contribution": 1.0, "noise_multiplier": 1.0}
    found = described("matrix-mechanism", strategy=strategy, participation=participation, **sizes).algorithm
    assert isinstance(found, MatrixMechanism)
    # Row a of the second has a + 1 uses: 1 of the last, the weight of each before.
    before = (steps * (steps - 1) // 2, (steps - 1) * steps * (2 * steps - 1) // 6)
    several = steps + 2 * weight * before[0] + weight**2 * before[1]
    truth = 1 + (steps - 1) * weight**2 if participation["scheme"] == "single" else several
    assert Fraction(sensitivity(found)) ** 2 >= truth


def test_regressions_with_hardly_enough_records() -> None:
    rng = np.random.default_rng(12)
    for _ in range(200):
        order, n = float(rng.choice([2.0, 2.5, 7.3, 12.0])), int(rng.integers(30, 400))
        wanted = math.sqrt((n - 1) / order * (1 - 10.0 ** rng.uniform(-12.5, -1)))
        model = LinearRegression(alpha=1.0, beta=50.0, gamma1=0.1, x_low=1.0, x_high=wanted, c=0.0)
        margin = (n - 1) - mp.mpf(order) * mp.mpf(wanted) ** 2
        if margin > 0:
            term = mp.mpf(order - 1) * order * mp.mpf(wanted) ** 2 / (2 * margin)
            assert regression_divergence(model, n, order) >= term


def test_randomised_response_next_to_a_fair_coin() -> None:
    for categories, excess in itertools.product((2, 3, 10), (1e-3, 1e-9, 1e-13)):
        truth = (1 + excess) / categories
        spec = described("randomised-response", "replace-one", categories=categories, truth=truth)
        exact = mp.log(mp.mpf(truth) * (categories - 1) / (1 - mp.mpf(truth)))
        found = guarantee("mechanism.randomised-response", spec).factors[0][0].largest_loss
        assert exact <= found <= exact * (1 + mp.mpf(10) ** -14)
