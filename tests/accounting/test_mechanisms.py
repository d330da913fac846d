"""Exact reference values of single mechanisms, how they compose with chains, and what is refused."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.matrix import sensitivity
from sordino.accounting.evaluate import explain
from sordino.accounting.scope import run_of
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.gaussian import epsilon_upper
from sordino.core.spec import MatrixMechanism
from sordino.core.validate import InputError
from tests.accounting.described import described, example, guarantee


def test_a_mechanism_composes_with_a_chain() -> None:
    spec = example("composite-mechanisms")
    alone = [explain(part, 1e-5).epsilon for part in spec.runs()]
    together = explain(spec, 1e-5).epsilon
    assert max(alone) < together < sum(alone)


def matrix_run(strategy: dict[str, Any], steps: int, **participation: Any) -> MatrixMechanism:
    sizes = {"steps": steps, "contribution": 1.0, "noise_multiplier": 1.0}
    return run_of(
        described("matrix-mechanism", strategy=strategy, participation=participation, **sizes), MatrixMechanism
    )


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "toeplitz", "coefficients": [1.0, 0.7, 0.7, 0.1]},
        {"kind": "blt", "weights": [0.3, 0.2], "decays": [0.95, 0.4]},
        {"kind": "bisr", "bands": 4},
    ],
)
def test_falling_columns_are_longest_together_when_they_begin_early(strategy: dict[str, Any]) -> None:
    """The closed form equals the largest over all patterns of three uses that stand two apart."""
    steps = 9
    run = matrix_run(strategy, steps, scheme="min-separation", separation=2, uses=3)
    gram = run.strategy.gram(steps)
    patterns = (p for p in combinations(range(steps), 3) if min(np.diff(p)) >= 2)
    exact = max(float(gram[np.ix_(pattern, pattern)].sum()) for pattern in patterns)
    assert sensitivity(run) == pytest.approx(math.sqrt(exact), rel=1e-9)


REFUSED = [
    ("dense-matrix", {"algorithm.strategy.rows.1": [0.5, 1.0, 0.25]}, "rows.1.2 to be 0, because column 2 is above"),
    ("dense-matrix", {"algorithm.steps": 5}, "to be 5 rows of at most 5 entries, got 4"),
    ("banded-toeplitz", {"algorithm.steps": 3}, "coefficients to be at most the 3 steps, got 4"),
    ("banded-toeplitz", {"algorithm.participation.separation": 401}, "separation to be at most the 400 steps, got 401"),
    ("banded-toeplitz", {"algorithm.participation.uses": 3}, "uses to be absent for epochs"),
    (
        "blt-min-separation",
        {"algorithm.participation.uses": 21},
        "at most 20 = ceil(1000 steps / separation 50), got 21",
    ),
    ("tree-aggregation", {"algorithm.participation.separation": 3}, "to be absent for single participation, got 3"),
    ("blt-min-separation", {"algorithm.participation.separation": None}, "to be given for min-separation"),
    ("tuned-pure", {"algorithm.trials": {"kind": "fixed", "count": 10}}, "negative-binomial"),
    ("tuned-pure", {"algorithm.trials.stop": 0.0}, "algorithm.trials.stop"),
    ("tuned-pure", {"algorithm.trials.shape": -1.0}, "algorithm.trials.shape"),
    ("tuned-sgd", {"problem": {"n": 10}}, "problem to be absent for a selection"),
    ("tuned-sgd", {"algorithm.base.algorithm.batch.size": 10**6}, "algorithm.base.algorithm.batch.size"),
    ("discrete-laplace-answer", {"algorithm.sensitivity": 1.5}, "whole number where answers and noise are, got 1.5"),
    ("sampled-laplace-answer", {"algorithm.rate": 1.0}, "algorithm.rate"),
    ("random-shift", {"algorithm.weights": [0.5, 0.5]}, "to be 3, as many as shifts, got 2"),
    ("random-shift", {"algorithm.weights": [0.5, 0.5, 0.5]}, "to add to 1, got 1.5"),
    ("random-shift", {"algorithm.shifts": [0.0, 0.0, 0.0]}, "one above 0"),
    ("randomised-response", {"algorithm.truth": 1.0}, "algorithm.truth"),
    ("randomised-response", {"algorithm.categories": 1}, "algorithm.categories"),
    ("random-allocation", {"algorithm.batch.uses": 101}, "uses to be at most 100 = ceil(problem.n 10000 / size 100)"),
    ("golden-poisson", {"algorithm.batch.uses": 2}, "uses to be absent for poisson batches"),
    ("golden-poisson", {"algorithm.batch.cap": 200}, "cap to be absent for poisson batches"),
    (
        "truncated-poisson",
        {"algorithm.batch.cap": 99},
        "cap to be at least the 100 records expected in a batch, got 99",
    ),
    ("with-replacement", {"algorithm.batch.rate": 0.5}, "rate to be absent for with-replacement batches"),
]


def test_what_cannot_be_is_refused_in_one_line() -> None:
    for name, values, words in REFUSED:
        with pytest.raises(InputError) as refused:
            example(name, values)
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)


EXACT = ["laplace-answer", "sampled-laplace-answer", "discrete-laplace-answer", "gaussian-answer", "random-shift"]
EXACT += ["discrete-gaussian-answer", "randomised-response", "tree-aggregation", "banded-toeplitz"]
EXACT += ["blt-min-separation", "bisr-min-separation"]


@pytest.mark.parametrize("name", EXACT)
def test_the_exact_lower_end_meets_the_certificate(name: str) -> None:
    spec = example(name)
    lower, upper = audit(spec, "exact", AuditOptions(delta=1e-5)).epsilon, explain(spec, 1e-5).epsilon
    assert 0.995 * upper <= lower <= upper


def test_a_cap_costs_only_when_it_is_met() -> None:
    """At twelve deviations above the mean a truncated run is a Poisson run, at one it is not."""
    poisson = explain(example("golden-poisson"), 1e-5).epsilon
    far, near = (example("truncated-poisson", {"algorithm.batch.cap": cap}) for cap in (220, 110))
    assert explain(far, 1e-5).epsilon == pytest.approx(poisson, rel=2e-3)
    assert explain(near, 1e-5).epsilon > 1.05 * poisson


def test_records_in_every_step_of_a_round_are_in_full_batches() -> None:
    """Two uses in rounds of two steps: ten Gaussian steps, each with kappa = 1/50."""
    spec = example("random-allocation", {"algorithm.batch": {"scheme": "random-allocation", "size": 5000, "uses": 2}})
    spec = spec.with_values({"algorithm.steps": 10})
    exact = epsilon_upper(math.sqrt(10) / 50, 1e-5)
    for name in ("composition.random-allocation", "composition.allocated-uses"):
        assert guarantee(name, spec).epsilon(1e-5) == pytest.approx(exact, rel=2e-3)
