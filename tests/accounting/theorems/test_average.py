"""Released averages: never below the exact Gaussian law, and the move is attained on quadratics."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sordino.accounting.bounds.segments import LONGEST_RUN, LongRun, step_weights
from sordino.accounting.evaluate import explain
from sordino.accounting.scope import largest_position
from sordino.accounting.theorems.averages import random_average, sensitivity_of_average
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Scheme, Spec
from sordino.models.exact import Quadratics, chain_law
from tests.accounting.described import curved, guarantee, noisy_chain
from tests.soundness.cells import CellTruth


def spec(steps: int = 20, scheme: str = "full", kept: object = None, **average: object) -> Spec:
    problem = {"n": 6, "gradient_sensitivity": 2.0, "strong_convexity": 0.5, "smoothness": 0.5}
    released = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": 0.3}} | average
    batch = {"scheme": scheme, "size": None if scheme == "full" else 2}
    seen = {"average": released, "view": "average", "delta": 1e-5, "algorithm": {"keep": kept}}
    return noisy_chain(steps, 0.4, 0.1, batch, problem, **seen)


@pytest.mark.parametrize("kept", [None, {"burn_in": 3, "thin": 4}, "last"])
@pytest.mark.parametrize(("scheme", "position"), [("full", 0), ("cyclic", 0), ("cyclic", 5)])
def test_the_move_is_attained_on_quadratics(scheme, position, kept):
    run = spec(scheme=scheme, kept=kept)
    moved = []
    for place in {position} if scheme == "full" else range(6):
        means = []
        for pull in (1.0, -1.0):
            pulls = np.zeros((6, 1))
            pulls[place] = pull
            law = chain_law(run, Quadratics(np.full((6, 1, 1), 0.5), pulls, np.arange(6)))
            means.append(float(law.mean[0]))
        moved.append(means[0] - means[1])
    assert max(moved) == pytest.approx(sensitivity_of_average(run), rel=1e-10)


def expanding(steps: int) -> Spec:
    """eta M = 2.00001: steps expand by 1.00001, and one iterate is kept after a burn-in of five million."""
    problem = {"n": 100, "gradient_sensitivity": 1e-6, "strong_convexity": 0.5, "smoothness": 2.00001}
    released = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": 1.0}}
    kept = {"keep": {"burn_in": steps - 1, "thin": 1}}
    seen = {"average": released, "view": "average", "delta": 1e-5, "algorithm": kept}
    return noisy_chain(steps, 1.0, 1e-12, "full", problem, **seen)


def true_epsilon(run: Spec) -> float:
    """The quadratic with the largest curvature: iterates change sign, and their last one is Gaussian. 60 digits."""
    steps = run.to_dict()["algorithm"]["steps"]
    with mpmath.workdps(60):
        factor, move = 1 - mpmath.mpf(2.00001), mpmath.mpf(1e-6) / 100
        variance = mpmath.mpf(1e-12) ** 2 * (1 - factor ** (2 * steps)) / (1 - factor**2) + 1
        mu = abs(move * (1 - factor**steps) / (1 - factor)) / mpmath.sqrt(variance)

        def excess(epsilon: mpmath.mpf) -> mpmath.mpf:
            second = mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
            return mpmath.log((mpmath.ncdf(-epsilon / mu + mu / 2) - second) * 10**5)

        return float(mpmath.findroot(excess, (300, 400), solver="anderson"))


@pytest.mark.parametrize("steps", [LONGEST_RUN + 1, LONGEST_RUN])
def test_an_expanding_burn_in_is_not_lost_in_long_runs(steps):
    """Certified as 0.160 once, by both theorems, one step after the longest run that is listed."""
    run = expanding(steps)
    truth = true_epsilon(run)
    assert truth == pytest.approx(344.45, abs=0.01)
    assert explain(run, 1e-5).epsilon >= truth


def test_long_runs_agree_with_weights_in_exact_arithmetic():
    """Every closed form and every bound against sums of fractions, contracting, exact and expanding."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        steps, thin = int(rng.integers(1, 40)), int(rng.integers(1, 6))
        kept = range(int(rng.integers(0, steps)) + 1, steps + 1, thin)
        c = float(rng.choice([0.0, 1e-12, 0.3, 0.9, 1 - 1e-12, 1.0, 1 + 1e-12, 1.05, 2.0]))
        exact = [sum((Fraction(c) ** (t - k) for t in kept if t >= k), Fraction(0)) for k in range(1, steps + 1)]
        long, listed = LongRun.of(c, kept), step_weights(c, kept, steps)
        pairs = [
            *zip(listed.tolist(), exact, strict=True),
            (long.first, exact[0]),
            (long.largest, max(exact)),
            (long.total, sum(exact)),
            (long.squares, sum(weight * weight for weight in exact)),
        ]
        assert all(Fraction(found) >= true or true < 1e-290 for found, true in pairs), (c, kept)
        assert all(found <= float(true) * (1 + 3e-12) + 1e-290 for found, true in pairs), (c, kept)
        for period in range(1, steps + 2):
            at_place = max(sum(exact[place::period]) for place in range(min(period, steps)))
            anywhere = sum(max(exact[first : first + period]) for first in range(0, steps, period))
            assert long.largest_sum(Scheme.FULL, period, steps) >= sum(exact)
            assert long.largest_sum(Scheme.CYCLIC, period, steps) >= at_place, (c, kept, period)
            assert long.largest_sum(Scheme.RESHUFFLED, period, steps) >= anywhere, (c, kept, period)


def test_weights_of_a_chain_that_grows_beyond_floats_between_kept_iterates():
    """c^thin is no float: what comes before the last two kept iterates is infinite, the last weight is 1."""
    weights = step_weights(4.0, range(1000, 5001, 1000), 5000)
    assert weights[[-1, -10]] == pytest.approx([1.0, 4.0**9])
    assert np.isinf(weights[:4000]).all()


def test_sums_over_a_position_do_not_drift():
    """Three million passes of three steps: added one by one, the sum is 6e-11 too small."""
    terms = np.full(9_000_000, 0.1) ** 2
    assert largest_position(terms, 3) == pytest.approx(3_000_000 * float(terms[0]), rel=1e-14)


WIDE = {"algorithm.noise.scale": 1e-6, "problem.gradient_sensitivity": 200.0, "problem.gradient_bound": None}


def fresh(**changes: object) -> Spec:
    """kappa = 0.2 for a use, c = 0.9, rate 0.01, 10,000 steps all kept, noise 1 of the chain and of the release."""
    decay = curved(1.0)
    problem = {"n": 1000, "gradient_sensitivity": 20.0, "gradient_bound": 10.0, **decay, "regulariser": decay}
    released = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": 1.0}}
    seen = {"average": released, "view": "average", "delta": 1e-5}
    batch = {"scheme": "without-replacement", "size": 10}
    return noisy_chain(10_000, 0.1, 1.0, batch, problem, **seen).with_values(changes | WIDE)


def two_tables(n: int) -> list[Quadratics]:
    """One of n records pulls by 200, or none does."""
    numbers = np.array([1] + [0] * (n - 1))
    return [Quadratics(np.zeros((2, 1, 1)), np.array([[0.0], [pull]]), numbers, 1.0) for pull in (200.0, 0.0)]


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_averages_over_random_uses_attain_the_mixture_of_their_own_noise(steps):
    """With a chain that adds next to no noise the release is the mixture over uses, and the bound is near it."""
    run = fresh(**{"algorithm.steps": steps, "problem.n": 30})
    exact = CellTruth.between(*(chain_law(run, one) for one in two_tables(30)))
    found = guarantee(random_average, run)
    for epsilon in (0.0, 0.3, 1.0):
        assert exact.delta(epsilon) <= found.delta(epsilon)
    # Who took part when is revealed by the bound and not by the release: equality at one step only.
    assert found.delta(0.0) <= exact.delta(0.0) * (1.01 if steps == 1 else 1.3)


def test_uses_counted_at_their_mean_fall_below_the_truth():
    """The comparison can fail: the mean number of uses in place of its law."""
    run = fresh(**{"algorithm.steps": 4, "problem.n": 40})
    exact = CellTruth.between(*(chain_law(run, one) for one in two_tables(40))).delta(8.0)
    mean = 0.25 * sensitivity_of_average(run)
    assert GaussianDP(mean).delta(8.0) < exact <= guarantee(random_average, run).delta(8.0)
