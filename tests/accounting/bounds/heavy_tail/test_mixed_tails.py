"""Stable noise with revealed mixing variables: never below exact stable laws, and equal to them where it should be."""

import math
from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.heavy_tail import shift_total_variation
from sordino.accounting.theorems.mixed_tails import inverse_root_law, mixed_mus
from sordino.core.gaussian import delta_range
from sordino.core.guarantee import Guarantee
from tests.accounting.bounds.heavy_tail.stable_truth import SPACING, density, many_steps, one_step
from tests.accounting.described import curved, guarantee, noisy_chain

ALPHAS = (1.02, 1.05, *(round(1.1 + 0.05 * place, 2) for place in range(18)), 1.98, 1.995)
SHIFTS = (2, 5, 10, 15, 20, 30, 40, 50, 70, 100, 130, 160, 200, 250, 300, 400, 500, 650, 800, 1000)
ACCURACY = 3e-5  # of the truth's grid


def certified(theorem: str, alpha: float, distance: float, **changes: Any) -> Guarantee:
    """A bound on steps of size 1 that move by `distance` noises, full batches of one record unless changed."""
    problem = {"n": 1, "gradient_sensitivity": distance, "gradient_bound": distance}
    spec = noisy_chain(1, 1.0, {"kind": "stable", "alpha": alpha, "scale": 1.0}, "full", problem)
    return guarantee(f"heavy-tail.{theorem}", spec.with_values(changes))


def levels(alpha: float, shift: int, steps: int = 1, count: int = 20) -> np.ndarray:
    """Epsilons from 0 to nearly the largest loss of one step, or to a few deviations of many."""
    law = density(alpha)
    loss = np.log(law[: len(law) - shift] / law[shift:])
    largest = float(loss.max())
    return np.linspace(0.0, 0.98, count) * (largest if steps == 1 else min(steps * largest, 6 * largest * steps**0.5))


def ratios(bound: Guarantee, truth: np.ndarray, epsilons: np.ndarray) -> np.ndarray:
    """Bound over truth where the truth is no rounding error; fails where a bound is below."""
    known = truth > 1e-12
    found = bound.deltas(epsilons)[known] / truth[known]
    assert np.all(found >= 1 - ACCURACY), (found.min(), epsilons[known][found.argmin()])
    return found


def compared_composition(alpha: float, shifts: tuple[int, ...], counts: tuple[int, ...]) -> int:
    comparisons = 0
    for shift in shifts:
        for steps in counts:
            epsilons = levels(alpha, shift, steps)
            exact = one_step(alpha, shift, epsilons) if steps == 1 else many_steps(alpha, shift, steps, epsilons)
            changes = {"algorithm.steps": steps, "view": "all-iterates"}
            bound = certified("mixed-composition", alpha, shift * SPACING, **changes)
            comparisons += len(ratios(bound, exact, epsilons))
    return comparisons


@pytest.mark.parametrize("alpha", [1.1, 1.7])
def test_composition_is_never_below_exact_steps(alpha: float) -> None:
    assert compared_composition(alpha, (10, 200), (1, 3)) >= 60


@pytest.mark.slow
def test_ten_thousand_comparisons_with_exact_steps() -> None:
    single = sum(compared_composition(alpha, SHIFTS, (1,)) for alpha in ALPHAS)
    several = sum(compared_composition(alpha, (20, 70, 300), (2, 5, 20)) for alpha in ALPHAS)
    assert single + several >= 10_000


def test_one_step_at_epsilon_zero_is_the_exact_total_variation() -> None:
    for alpha in (1.3, 1.99):
        for distance in (0.02, 1.0):
            exact = shift_total_variation(alpha, distance)
            assert exact <= certified("mixed-composition", alpha, distance).delta(0.0) <= 1.003 * exact


def compared_shifts(alpha: float, decays: tuple[float, ...], lengths: tuple[int, ...]) -> int:
    """Parabolas: c^(T-k) weighs moves and noises alike, so the last iterate is one stable law against its shift."""
    comparisons = 0
    for decay in decays:
        for steps in lengths:
            weights = (1 - decay) ** np.arange(steps)
            shift = max(1, round(0.4 * weights.sum() / (weights**alpha).sum() ** (1 / alpha) / SPACING))
            distance = shift * SPACING * (weights**alpha).sum() ** (1 / alpha) / weights.sum()
            changes = {"problem.strong_convexity": decay, "problem.smoothness": decay, "algorithm.steps": steps}
            epsilons = levels(alpha, shift, count=10)
            exact = one_step(alpha, shift, epsilons)
            bound = certified("mixed-shifted", alpha, distance, **changes, delta=1e-2)
            comparisons += len(ratios(bound, exact, epsilons))
            if steps > 1:
                drift = {"problem.regulariser": curved(decay)}
                halved = certified("mixed-drift-bounded", alpha, distance / 2, **drift, **changes, delta=1e-2)
                comparisons += len(ratios(halved, exact, epsilons))
    return comparisons


def test_shifts_are_never_below_exact_last_iterates() -> None:
    assert compared_shifts(1.5, (0.1,), (1, 8)) >= 20


@pytest.mark.slow
def test_many_shifts_are_never_below_exact_last_iterates() -> None:
    assert sum(compared_shifts(alpha, (0.02, 0.1, 0.5, 1.0), (1, 2, 10, 200)) for alpha in ALPHAS[::3]) >= 1500


def compared_samples(alpha: float, rates: tuple[float, ...], shifts: tuple[int, ...]) -> int:
    """One step on a hidden batch: the record is used with probability q; both directions count."""
    comparisons = 0
    for rate in rates:
        for shift in shifts:
            law = density(alpha) * SPACING
            without, used = law[shift:-shift], law[: -2 * shift]
            replaced = law[2 * shift :]
            first, second = (1 - rate) * without + rate * used, (1 - rate) * without + rate * replaced
            epsilons = np.linspace(0.0, 0.95, 8) * float(np.log(first / without).max())
            changes = {"algorithm.batch": {"scheme": "poisson", "rate": rate, "size": 1}, "problem.n": 100}
            for relation, pairs in {
                "add-remove": ((first, without), (without, first)),
                "replace-one": ((first, second),),
            }.items():
                bound = certified("mixed-sampled", alpha, shift * SPACING, **changes, relation=relation)
                for one, other in pairs:
                    exact = [np.maximum(one - math.exp(epsilon) * other, 0.0).sum() for epsilon in epsilons]
                    comparisons += len(ratios(bound, np.array(exact), epsilons))
    return comparisons


@pytest.mark.slow
def test_many_hidden_batches_are_never_below_exact_steps() -> None:
    assert sum(compared_samples(alpha, (0.01, 0.1, 0.5), (20, 100, 400)) for alpha in ALPHAS[::4]) >= 800


def test_one_push_at_epsilon_zero_is_the_coupling() -> None:
    changes = {"problem.strong_convexity": 0.1, "problem.smoothness": 0.1, "algorithm.steps": 40, "delta": 0.3}
    ours, theirs = (certified(name, 1.5, 0.05, **changes).delta(0.0) for name in ("mixed-shifted", "coupling"))
    # Spread pushes are better than one push here, which is what coupling takes.
    assert ours < theirs
    whole = 0.05 * (1 - 0.9**40) / 0.1
    assert theirs <= certified("mixed-composition", 1.5, whole).delta(0.0) <= 1.003 * theirs


@pytest.mark.parametrize("alpha", [1 + 1e-9, 1.2, 1.7, 1.999])
def test_the_law_of_the_inverse_root_is_above_the_exact_one(alpha: float) -> None:
    """Moments of 1 / A are E A^-s = Gamma(1 + 2 s / alpha) / Gamma(1 + s); at index 1 it is chi-squared, doubled."""
    values, above = inverse_root_law(alpha)
    masses = -np.diff(np.append(1.0, above))
    for s in (0.5, 1.0, 2.0):
        exact = math.gamma(1 + 2 * s / alpha) / math.gamma(1 + s)
        assert exact <= (masses * values ** (2 * s)).sum() <= exact * 1.02
    if alpha < 1.001:
        tails = np.array([math.erfc(value / 2) for value in values])
        seen = values < 10
        assert np.all(above[seen] >= tails[seen] * (1 - 1e-6))
        assert np.all(above[seen] <= tails[seen] * 1.02)


def test_few_components_are_above_many_at_every_epsilon_and_equal_at_zero() -> None:
    values, above = inverse_root_law(1.4)
    masses = -np.diff(np.append(1.0, above))
    for ratio in (1e-6, 0.05, 1.0, 8.0):
        weights, mus, _ = mixed_mus(1.4, ratio)
        for epsilon in (0.0, *np.geomspace(1e-3, 8, 12) * ratio):
            many = float(masses @ delta_range(ratio * values, epsilon)[0])
            few = float(np.array(weights) @ delta_range(np.array(mus), epsilon)[1])
            assert few >= many * (1 - 1e-12)
            assert few <= many * 1.05 + 1e-12
            assert epsilon > 0 or few <= many * (1 + 1e-7)
