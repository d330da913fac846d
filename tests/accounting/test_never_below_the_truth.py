"""Bounds that rounding once took below the truth, against truths computed with many digits; and their neighbours."""

import itertools
import math
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from sordino.accounting.evaluate import Bound, evaluate, explain, for_group, theorem_named
from sordino.accounting.heavy_tail import absolute_moment, shift_total_variation
from sordino.accounting.participation.revealed import _grouped
from sordino.accounting.renyi import poisson_renyi
from sordino.core.bound import Relation
from sordino.core.guarantee import BoundedRange, LossDistribution
from sordino.core.loss.atomic_pairs import PoissonLaplaceAddPair
from sordino.core.loss.mixture_pairs import RandomShiftAddPair, WithReplacementPair
from sordino.core.loss.normal_pairs import exponent_of, log_mixture
from sordino.core.spec import Spec
from sordino.core.spec.document import NegativeBinomialTrials
from sordino.ledger.budget import Budget, LedgerUnit, charged

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
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "posterior-sample",
                "potential": {"kind": "bounded", "lipschitz": 1, "diameter": 37.45927346935494},
                "draws": 4,
            },
            "relation": "replace-one",
            "view": "one-sample",
            "delta": 1.154604759368529e-09,
        }
    )
    delta = 1.154604759368529e-09
    assert _worst_delta(37.45927346935494, 4, 142.9987) > 0.229
    found = explain(spec, delta)
    assert found.tightest is not None
    assert found.tightest.theorem == "posterior.bounded-range"
    assert 149.7548 < found.epsilon < 149.7550
    assert _worst_delta(37.45927346935494, 4, found.epsilon) <= delta


def _check_ranges(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        width, draws = float(10 ** generator.uniform(-8, 4)), int(generator.integers(2, 30))
        shares = (generator.random(), 1 - 10 ** generator.uniform(-9, 0), 10 ** generator.uniform(-9, 0))
        epsilon = float(width * draws * shares[generator.integers(3)])
        found, truth = BoundedRange(width, draws).delta(epsilon), _worst_delta(width, draws, epsilon)
        assert found >= truth, (width, draws, epsilon)
        if truth > 1e-200 and epsilon < 0.999 * width * draws:
            assert found <= truth * (1 + 1e-4) or found <= 1.001 * BoundedRange(width, draws).renyi().delta(epsilon)


def test_random_bounded_ranges() -> None:
    _check_ranges(20260201, 30)


@pytest.mark.slow
def test_many_random_bounded_ranges() -> None:
    _check_ranges(20260202, 4000)


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


def _sums(records: int, size: int, rate: float, cap: int | None, noise: float, rounds: int = 1) -> Spec:
    sampling = {"scheme": "poisson" if cap is None else "truncated-poisson", "size": size, "rate": rate}
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noised-sums",
                "query": "sums",
                "records": records,
                "rounds": rounds,
                "sampling": sampling | ({} if cap is None else {"cap": cap}),
                "contribution": 1,
                "noise_multiplier": noise,
            },
            "relation": "add-remove",
            "view": "all-iterates",
            "delta": 0.001,
        }
    )


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
    composite = Spec.from_dict(
        {
            "algorithm": {"kind": "composite", "parts": [{"algorithm": spec.to_dict()["algorithm"]}]},
            "relation": "add-remove",
            "view": "all-iterates",
            "delta": 0.001,
        }
    )
    for bound in _bounds(composite, 0.001):
        assert _unit_truth(records, unit, cap, rate, noise, charged(bound, composite, budget).epsilon(0.001)) <= 0.001


def _check_units(seed: int, number: int) -> None:
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


def test_random_units_with_truncated_batches() -> None:
    _check_units(20260203, 2)


@pytest.mark.slow
def test_many_random_units_with_truncated_batches() -> None:
    _check_units(20260211, 150)


def test_capped_units_of_a_matrix_mechanism() -> None:
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "matrix-mechanism",
                "steps": 1,
                "strategy": {"kind": "toeplitz", "coefficients": [1.0]},
                "contribution": 1,
                "noise_multiplier": 3.0,
                "participation": {"scheme": "poisson", "rate": 0.9, "cap": 5, "units": 4},
            },
            "relation": "add-remove",
            "view": "all-iterates",
            "delta": 0.001,
        }
    )
    for bound in _bounds(spec, 0.001):
        assert _unit_truth(4, 4, 5, 0.9, 3.0, for_group(bound, spec, 4).epsilon(0.001)) <= 0.001, bound.theorem


def test_groups_ask_about_larger_tables() -> None:
    """Curvature and sums of the larger tables on the way: every add-remove theorem about chains that reads n."""
    chain = {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": 3,
            "step_size": 0.9,
            "noise": {"kind": "gaussian", "scale": 1.0},
            "batch": {"scheme": "poisson", "size": 8, "rate": 0.5},
        },
        "problem": {
            "n": 8,
            "dim": 1,
            "gradient_bound": 0.5,
            "strong_convexity": 0.1,
            "smoothness": 1.8,
            "regulariser": {"strong_convexity": 0.1, "smoothness": 0.1},
        },
        "relation": "add-remove",
        "view": "last-iterate",
        "delta": 1e-5,
    }
    spec = Spec.from_dict(chain)
    named = theorem_named("shifted.revealed-batches")
    bound = evaluate(named, spec)
    assert isinstance(bound, Bound)
    wider = evaluate(named, replace(spec, together=9))
    # Batches of up to 17 records may stretch distances, those of up to 9 do not.
    assert not isinstance(wider, Bound) or wider.guarantee.epsilon(1e-5) > bound.guarantee.epsilon(1e-5)


# Batches that are revealed: patterns that are rarer than the rounding of 1.


def test_revealed_batches_keep_rare_patterns() -> None:
    rate, epsilon = 6.981368212788805e-09, 581.932
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": 24,
                "step_size": 1.0,
                "noise": {"kind": "gaussian", "scale": 1.0},
                "batch": {"scheme": "poisson", "size": 1, "rate": rate},
            },
            "problem": {
                "n": 10**9,
                "dim": 1,
                "gradient_bound": 28.5,
                "strong_convexity": 0.7,
                "smoothness": 0.7,
                "regulariser": {"strong_convexity": 0.7, "smoothness": 0.7},
            },
            "relation": "add-remove",
            "view": "last-iterate",
            "delta": 5e-18,
        }
    )
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
    bound = evaluate(theorem_named("shifted.revealed-batches"), spec)
    assert isinstance(bound, Bound)
    assert bound.guarantee.delta(epsilon) >= truth


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
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noised-sums",
                "query": "sums",
                "records": 10**12,
                "rounds": 1,
                "sampling": {"scheme": "with-replacement", "size": 10**12},
                "contribution": 1,
                "noise_multiplier": 0.25,
            },
            "relation": "replace-one",
            "view": "all-iterates",
        }
    )
    truth = _with_replacement(10**12, 10**12, 8.0, 400.0, 40)
    assert truth > 0.018967
    bound = evaluate(theorem_named("composition.subsampled-with-replacement"), spec)
    assert isinstance(bound, Bound)
    assert truth <= bound.guarantee.delta(400.0) <= 1.01 * truth


def _check_with_replacement(seed: int, number: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(number):
        records = int(10 ** generator.uniform(0.5, 13))
        size = max(1, int(records * 10 ** generator.uniform(-6, 1)))
        mu, epsilon = float(10 ** generator.uniform(-1.5, 1)), float(generator.uniform(0, 4))
        found = LossDistribution(((WithReplacementPair(size, records, mu), 1),)).delta(epsilon)
        listed = min(size, 20 + 3 * math.ceil(10 * size / records))
        assert found >= _with_replacement(size, records, mu, epsilon, listed) * (1 - mp.mpf(10) ** -30)


def test_random_draws_with_replacement() -> None:
    _check_with_replacement(20260205, 4)


@pytest.mark.slow
def test_many_random_draws_with_replacement() -> None:
    _check_with_replacement(20260206, 400)


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
        found = mp.mpf(float(exponent_of(rate, np.array([loss]))[0]))
        back = mp.log1p(q * mp.expm1(found))
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


def _check_renyi(seed: int, number: int) -> None:
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


def test_renyi_divergences_of_sampled_steps() -> None:
    _check_renyi(20260209, 60)


@pytest.mark.slow
def test_many_renyi_divergences_of_sampled_steps() -> None:
    _check_renyi(20260210, 3000)
