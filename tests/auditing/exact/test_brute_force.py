"""Exact audits of single mechanisms against outcomes that are listed one by one, or binned finely.

Binning is post-processing, so a binned law never leaks more than the truth: an exact audit above it by more than the
bins explain would be a false alarm, one below it gives something away.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.exact import exact
from sordino.core.spec import Spec
from tests.auditing.chains import chain

DELTA = 1e-3


def epsilon(first, second):
    """The smallest epsilon with hockey-stick divergence DELTA, in the worse direction, of two listed laws."""

    def gap(value):
        ways = (np.maximum(a - math.exp(value) * b, 0.0).sum() for a, b in ((first, second), (second, first)))
        return max(ways) - DELTA

    return 0.0 if gap(0.0) <= 0 else float(brentq(gap, 0.0, 60.0, xtol=1e-10))


def audited(algorithm, relation, view="all-iterates"):
    spec = Spec.from_dict({"algorithm": algorithm, "relation": relation, "view": view, "delta": DELTA})
    return exact(spec, AuditOptions(delta=DELTA)).epsilon


def copies(law, times):
    """The law of independent repetitions, outcome by outcome."""
    return np.array([math.prod(parts) for parts in itertools.product(law, repeat=times)])


def binned(law):
    """Probabilities of 40,000 bins, from the cumulative distribution."""
    return np.diff(law(np.linspace(-60.0, 60.0, 40_001)))


@pytest.mark.parametrize(("categories", "truth", "times"), [(2, 0.7, 1), (4, 0.5, 2), (5, 0.3, 3)])
def test_randomised_response(categories, truth, times):
    laws = [np.full(categories, (1 - truth) / (categories - 1)) for _ in range(2)]
    laws[0][0] = laws[1][1] = truth
    algorithm = {"kind": "randomised-response", "repetitions": times, "categories": categories, "truth": truth}
    brute = epsilon(copies(laws[0], times), copies(laws[1], times))
    assert audited(algorithm, "replace-one") == pytest.approx(brute, rel=2e-3)
    assert audited(algorithm, "replace-one") <= brute * (1 + 1e-6)


def answer(kind, scale):
    return {"kind": "noised-answer", "query": "a number", "sensitivity": 1.0, "noise": {"kind": kind, "scale": scale}}


@pytest.mark.parametrize(("kind", "scale", "law"), [("laplace", 0.8, stats.laplace), ("gaussian", 0.9, stats.norm)])
def test_answers_with_continuous_noise(kind, scale, law):
    brute = epsilon(binned(law(scale=scale).cdf), binned(law(1.0, scale).cdf))
    found = audited(answer(kind, scale), "add-remove")
    assert found == pytest.approx(brute, rel=5e-3)


@pytest.mark.parametrize("kind", ["discrete-laplace", "discrete-gaussian"])
def test_answers_with_whole_noise(kind):
    scale, places = 1.7, np.arange(-200, 201)
    weights = np.exp(-np.abs(places) / scale) if kind == "discrete-laplace" else np.exp(-((places / scale) ** 2) / 2)
    law = weights / weights.sum()
    brute = epsilon(law[:-1], law[1:])
    found = audited(answer(kind, scale), "add-remove")
    assert found <= brute * (1 + 1e-6)
    assert found == pytest.approx(brute, rel=5e-3)


def rounds(sampling, noise, number=1):
    described = {"kind": "noised-sums", "query": "sums", "records": 40, "rounds": number, "sampling": sampling}
    return described | {"contribution": 1.0, "noise_multiplier": noise}


def mixed(rate, shift, noise):
    return lambda x: (1 - rate) * stats.norm.cdf(x / noise) + rate * stats.norm.cdf((x - shift) / noise)


def test_a_round_of_everybody():
    brute = epsilon(binned(mixed(0.0, 0.0, 0.7)), binned(mixed(1.0, 1.0, 0.7)))
    assert audited(rounds({"scheme": "full"}, 0.7), "add-remove") == pytest.approx(brute, rel=5e-3)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_round_of_a_poisson_batch(relation):
    other = mixed(0.0, 0.0, 0.6) if relation == "add-remove" else mixed(0.25, -1.0, 0.6)
    brute = epsilon(binned(mixed(0.25, 1.0, 0.6)), binned(other))
    found = audited(rounds({"scheme": "poisson", "size": 10}, 0.6), relation)
    assert found == pytest.approx(brute, rel=5e-3)


@pytest.mark.parametrize("separation", [1, 2, 4])
def test_a_matrix_mechanism_by_every_pattern_of_steps(separation):
    rows = [[1.0], [0.5, 1.0], [0.2, 0.4, 1.0], [0.1, 0.1, 0.3, 1.0]]
    strategy = np.array([row + [0.0] * (4 - len(row)) for row in rows])
    moved = max(
        np.linalg.norm(strategy[:, pattern] @ np.array(signs))
        for pattern in ([*range(start, 4, separation)] for start in range(separation))
        for signs in itertools.product([-1.0, 1.0], repeat=len(pattern))
    )
    mu = 2 * moved / 3.0
    algorithm = {
        "kind": "matrix-mechanism",
        "steps": 4,
        "strategy": {"kind": "dense", "rows": rows},
        "contribution": 1.0,
        "noise_multiplier": 3.0,
        "participation": {"scheme": "epochs", "separation": separation},
    }
    brute = epsilon(binned(stats.norm.cdf), binned(lambda x: stats.norm.cdf(x - mu)))
    assert audited(algorithm, "replace-one") == pytest.approx(brute, rel=5e-3)


@pytest.mark.parametrize("draws", [1, 2])
def test_draws_from_a_posterior_by_cells(draws):
    """N(L / m, 1 / m) against N(0, 1 / m), every pair of cells of two draws listed."""
    edges = np.concatenate([[-np.inf], np.linspace(-5.0, 6.5, 700), [np.inf]])
    laws = [np.diff(stats.norm.cdf(edges, mean, 1.0)) for mean in (0.0, 0.8)]
    laws = laws if draws == 1 else [np.multiply.outer(law, law).ravel() for law in laws]
    potential = {"kind": "strongly-log-concave", "lipschitz": 0.8, "strong_convexity": 1.0}
    algorithm = {"kind": "posterior-sample", "potential": potential, "draws": draws}
    found = audited(algorithm, "replace-one", "one-sample")
    assert found == pytest.approx(epsilon(*laws), rel=1e-2)
    assert found >= epsilon(*laws) * (1 - 1e-6)  # cells hide a little, never the other way round


def test_allocated_steps_by_every_pattern():
    """Two rounds of three steps, one use in each: nine patterns, and the chain forgets a fifth in every step."""
    step, kept = 0.4 * 1.0 / 2, 1 - 0.4 * 0.5
    weights = step * kept ** (5 - np.arange(6))
    deviation = 0.1 * math.sqrt(sum(kept ** (2 * k) for k in range(6)))
    shifts = [weights[first] + weights[3 + second] for first in range(3) for second in range(3)]
    laws = [
        binned(lambda x, side=side: np.mean([stats.norm.cdf(x, side * s / 2 / deviation) for s in shifts], axis=0))
        for side in (-1, 1)
    ]
    pulls = {"gradient_sensitivity": 1.0, "gradient_bound": 0.5, "strong_convexity": 0.5}
    spec = chain("random-allocation", 2, steps=6, **pulls)
    assert exact(spec, AuditOptions(delta=DELTA)).epsilon == pytest.approx(epsilon(*laws), rel=5e-3)
