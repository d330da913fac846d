"""Draws by rejection and by Metropolis have the law they are certified for, and end when they should."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sordino import InputError, certify
from sordino.accounting.theorems import posterior_drawn
from sordino.core.guarantee import PureDP
from sordino.core.spec import PosteriorSample, Spec
from sordino.mechanisms.posterior_sample import perturb, posterior_draws
from sordino.noise.randomness import SeededRandomness

CONCAVE = {"kind": "strongly-log-concave", "lipschitz": 1.0, "strong_convexity": 1.0}
NOISE = {"kind": "laplace", "scale": 1.0}
BOUNDED = {"kind": "bounded", "lipschitz": 0.5, "diameter": 2.0}


def spec(potential: dict[str, Any], drawn: dict[str, Any] | None, draws: int = 1, delta: float = 1e-5) -> Spec:
    algorithm = {"kind": "posterior-sample", "potential": potential, "draws": draws, "drawn": drawn}
    return Spec.from_dict({"algorithm": algorithm, "relation": "replace-one", "view": "one-sample", "delta": delta})


def run_of(given: Spec) -> PosteriorSample:
    assert isinstance(given.algorithm, PosteriorSample)
    return given.algorithm


def logistic(rows: np.ndarray) -> np.ndarray:
    """A strongly convex, 3-smooth potential that is not quadratic: |x|^2 / 2 + 8 log(1 + e^x) in each coordinate."""
    return np.sum(rows * rows / 2 + 8 * np.logaddexp(0.0, rows), axis=1)


def logistic_slope(point: np.ndarray) -> np.ndarray:
    return point + 8 / (1 + np.exp(-point))


def cdf_of(function: Any, low: float, high: float) -> Any:
    grid = np.linspace(low, high, 20_001)
    weights = np.exp(-function(grid[:, None]))
    sums = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return lambda x: np.interp(x, grid, sums / sums[-1])


def values_of(asked: Spec, potential: Any, seed: int, **given: Any) -> np.ndarray:
    """The first entry of every draw that there is."""
    drawn = posterior_draws(asked, potential, SeededRandomness(seed), **given).values
    return np.array([value[0] for value in drawn if value is not None])


def test_draws_by_rejection_have_the_law_of_the_posterior() -> None:
    """2,000 draws in one dimension against the exact law by quadrature: false alarms below 1e-6."""
    asked = spec(CONCAVE, {"kind": "rejection", "trials": 400, "dim": 1, "smoothness": 3.0}, draws=2000)
    values = values_of(asked, logistic, 3, gradient=logistic_slope, start=[5.0])
    assert len(values) == 2000
    assert stats.kstest(values, cdf_of(logistic, -12.0, 8.0)).pvalue > 1e-6


def test_the_chance_of_acceptance_is_at_least_what_is_certified() -> None:
    """With one trial a draw, the share of draws that succeed is the chance itself; five standard errors."""
    asked = spec(CONCAVE, {"kind": "rejection", "trials": 1, "dim": 2, "smoothness": 3.0}, draws=3000)
    found = posterior_draws(asked, logistic, SeededRandomness(4), gradient=logistic_slope)
    share = np.mean([value is not None for value in found.values])
    least = posterior_drawn.least_acceptance(run_of(asked))
    assert least == pytest.approx(1 / 6)
    assert share >= least - 5 * np.sqrt(least / 3000)


def hill(rows: np.ndarray) -> np.ndarray:
    """Between 0 and 3 on the interval [-1, 1], and not convex."""
    return 1.5 + 1.5 * np.sin(5 * rows[:, 0])


def test_bounded_draws_have_the_law_of_the_posterior_or_are_uniform() -> None:
    asked = spec(BOUNDED, {"kind": "rejection", "trials": 200, "dim": 1, "oscillation": 3.0}, draws=2000)
    assert stats.kstest(values_of(asked, hill, 5), cdf_of(hill, -1.0, 1.0)).pvalue > 1e-6
    wall = spec(BOUNDED, {"kind": "rejection", "trials": 1, "dim": 1, "oscillation": 40.0}, draws=1000)
    flat = values_of(wall, lambda rows: np.full(len(rows), 40.0), 6)
    assert stats.kstest(flat, stats.uniform(-1, 2).cdf).pvalue > 1e-6


def test_metropolis_draws_come_near_and_are_noised() -> None:
    quiet = {"kind": "laplace", "scale": 1e-6}
    drawn = {"kind": "metropolis", "steps": 120, "dim": 1, "oscillation": 3.0, "noise": quiet}
    asked = spec(BOUNDED, drawn, draws=1500)
    assert stats.kstest(values_of(asked, hill, 7), cdf_of(hill, -1.0, 1.0)).pvalue > 1e-6
    loud = spec(BOUNDED, drawn | {"noise": {"kind": "gaussian", "scale": 100.0}}, draws=400)
    assert 85 < values_of(loud, hill, 8).std() < 115


def test_perturbation_adds_the_stated_noise() -> None:
    noise = {"kind": "gaussian", "scale": 2.0}
    asked = spec(CONCAVE, {"kind": "perturbed", "distance": 0.1, "dim": 2000, "noise": noise})
    assert stats.kstest(perturb(asked, np.zeros(2000), SeededRandomness(9)) / 2.0, stats.norm.cdf).pvalue > 1e-6


def test_the_distance_of_a_metropolis_sampler_is_certified_on_a_grid() -> None:
    """On 60 cells of an interval the sampler's law is exact, and so is its W-infinity distance: by quantiles."""
    cells, height = 60, 2.0
    x = (np.arange(cells) + 0.5) / cells * 2 - 1
    weights = np.exp(-(height / 2) * (1 + np.sin(4 * x)))
    target = weights / weights.sum()
    accept = np.minimum(1.0, weights[None, :] / weights[:, None])
    kernel = accept / cells
    kernel += np.diag(1 - kernel.sum(axis=1))
    law = np.zeros(cells)
    law[cells // 2] = 1.0
    for steps in range(1, 41):
        law = law @ kernel
        if steps % 10:
            continue
        variation = 0.5 * np.abs(law - target).sum()
        drawn = {"kind": "metropolis", "steps": steps, "dim": 1, "oscillation": height}
        run = run_of(spec(BOUNDED, drawn | {"noise": NOISE}))
        assert variation <= posterior_drawn.failure(run)
        # In one dimension W-infinity is the largest difference of quantiles.
        levels = np.linspace(1e-6, 1 - 1e-6, 20_001)
        quantiles = [x[np.searchsorted(np.cumsum(each), levels).clip(0, cells - 1)] for each in (law, target)]
        assert np.max(np.abs(quantiles[0] - quantiles[1])) <= posterior_drawn.distance(run) + 2 / cells


def test_certificates_are_those_of_exact_draws_and_a_little_more() -> None:
    exact = certify(spec(CONCAVE, None)).epsilon
    for drawn in (
        {"kind": "rejection", "trials": 10_000, "dim": 2, "smoothness": 3.0},
        {"kind": "perturbed", "distance": 1e-6, "dim": 2, "noise": {"kind": "gaussian", "scale": 0.1}},
    ):
        assert exact <= certify(spec(CONCAVE, drawn)).epsilon <= exact * 1.001
    coarse = {"kind": "perturbed", "distance": 0.5, "dim": 2, "noise": {"kind": "gaussian", "scale": 1.0}}
    both = spec(CONCAVE | {"lipschitz": 2**0.5}, None)
    assert certify(spec(CONCAVE, coarse)).epsilon == pytest.approx(certify(both).epsilon, rel=1e-6)
    few = spec(BOUNDED, {"kind": "rejection", "trials": 60, "dim": 1, "oscillation": 2.0})
    pure = next(bound for bound, _ in certify(few).bounds if bound.theorem == "posterior.rejection-pure")
    f, height = (1 - np.exp(-2.0)) ** 60, 2.0
    assert isinstance(pure.guarantee, PureDP)
    assert pure.guarantee.value == pytest.approx(1.0 + np.log((1 + f * np.expm1(height)) / (1 - f)), rel=1e-9)


@pytest.mark.parametrize(
    ("potential", "drawn", "words"),
    [
        (CONCAVE, {"kind": "rejection", "trials": 10, "dim": 1}, "drawn.smoothness to be given"),
        (
            CONCAVE,
            {"kind": "rejection", "trials": 10, "dim": 1, "smoothness": 0.5},
            "to be at least strong_convexity = 1.0, got 0.5",
        ),
        (BOUNDED, {"kind": "rejection", "trials": 10, "dim": 1, "smoothness": 2.0}, "drawn.oscillation to be given"),
        (
            CONCAVE,
            {"kind": "metropolis", "steps": 9, "dim": 1, "oscillation": 1.0, "noise": NOISE},
            "to be bounded for draws by metropolis",
        ),
        (CONCAVE, {"kind": "rejection", "trials": 0, "dim": 1, "smoothness": 2.0}, "trials"),
    ],
)
def test_what_contradicts_itself_is_refused(potential: dict[str, Any], drawn: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        spec(potential, drawn)
    assert words in str(refused.value)


def test_a_potential_that_breaks_its_constants_is_refused() -> None:
    """Half the curvature that is stated: the envelope is too narrow, and a proposal shows it."""
    asked = spec(CONCAVE, {"kind": "rejection", "trials": 4000, "dim": 1, "smoothness": 3.0})
    with pytest.raises(InputError, match="below its envelope"):
        posterior_draws(
            asked, lambda rows: rows[:, 0] ** 2 / 4, SeededRandomness(0), gradient=lambda point: point / 2, start=[3.0]
        )
    with pytest.raises(InputError, match="gradient to be given"):
        posterior_draws(asked, logistic, SeededRandomness(0))
    with pytest.raises(InputError, match="one value for each"):
        posterior_draws(asked, lambda rows: rows, SeededRandomness(0), gradient=logistic_slope)
    with pytest.raises(InputError, match="perturb"):
        posterior_draws(spec(CONCAVE, None), logistic, SeededRandomness(0))


def test_too_few_trials_have_no_certificate_and_both_sides_are_named() -> None:
    asked = spec(CONCAVE, {"kind": "rejection", "trials": 3, "dim": 40, "smoothness": 3.0})
    said = certify(asked)
    assert said.tightest is None
    assert any("3 trials" in one.reason and "below 1/2" in one.reason for one in said.inapplicable)
