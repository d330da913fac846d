"""The rules on relation, scheme and divisor hold, each shown on a mechanism whose divergence is known exactly.

A rule that only refuses could be dropped without a number changing; so each test first shows what the broken rule would
hide, then that the accountant does not make the claim.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.accounting.evaluate import Explanation, as_json, caller_checks, explain
from sordino.accounting.scope import certificate_for
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError
from tests.accounting.described import composite, example, guarantee, mu, noisy_chain

SHIFTING = (Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT)


def chain(n: int, batch: dict[str, Any], relation: str = "replace-one", **values: Any) -> Spec:
    """A chain with unit steps, unit noise and every iterate seen, but for what is given."""
    problem = {"n": n} | values.get("problem", {"gradient_bound": 1.0, "gradient_sensitivity": 2.0})
    seen = {"relation": relation, "view": "all-iterates", "algorithm": values.get("algorithm", {})}
    return noisy_chain(1, 1.0, 1.0, batch, problem, **seen)


def reasons(explanation: Explanation) -> dict[str, str]:
    return {answer.theorem: answer.reason for answer in explanation.inapplicable}


# The divisor of a batch sum.


def poisson_delta(others: float, divide: Callable[[float, int], float]) -> float:
    """Exact delta at epsilon 1 of one Poisson step on 100 records with one more, rate .1, noise .1, add-remove.

    The step adds the gradients of its batch, divides, and adds noise; all gradients but the last are `others`, the last
    is 1. Given the number of others in the batch both laws are normal, so the laws are mixtures of normals.
    """
    records, rate, scale = 100, 0.1, 0.1
    sizes = range(records + 1)
    weights = stats.binom.pmf(sizes, records, rate)
    without = np.array([divide(size * others, size) for size in sizes])
    with_record = np.array([divide(size * others + 1.0, size + 1) for size in sizes])
    grid, step = np.linspace(-3.0, 3.0, 20_001, retstep=True)

    def density(means: np.ndarray) -> np.ndarray:
        return np.tensordot(weights, stats.norm.pdf(grid, means[:, None], scale), axes=1)

    smaller = density(without)
    larger = (1 - rate) * smaller + rate * density(with_record)
    return float(np.maximum(larger - math.e * smaller, 0.0).sum() * step)


def test_dividing_by_the_realised_size_of_a_poisson_batch_would_break_the_guarantee() -> None:
    # n = 100, rate .1, b = 10, noise multiplier 1.
    noise = {"noise": {"kind": "gaussian", "scale": 0.1}}
    spec = chain(100, {"scheme": "poisson", "size": 10}, "add-remove", algorithm=noise)
    certified = guarantee("composition.subsampled-poisson", spec).delta(1.0)
    public = max(poisson_delta(others, lambda total, _: total / 10) for others in (-1.0, 0.0, 1.0))
    realised = max(poisson_delta(others, lambda total, size: total / max(size, 1)) for others in (-1.0, 0.0, 1.0))
    assert public == pytest.approx(2.1e-4, rel=0.02)
    assert public <= certified <= public * 1.02
    assert realised == pytest.approx(2.0e-2, rel=0.02)
    assert realised > 90 * certified


def test_a_spec_cannot_ask_for_the_realised_size() -> None:
    for batch in (
        {"scheme": "poisson", "rate": 0.1},
        {"scheme": "poisson", "size": None, "rate": 0.1},
        {"scheme": "poisson", "size": "realised"},
        {"scheme": "poisson", "size": 10, "divisor": "realised"},
    ):
        with pytest.raises(InputError, match=r"algorithm\.batch"):
            chain(100, batch, "add-remove")


# Add-remove and batches whose members shift.


def path_mu_squared(first: list[float], second: list[float]) -> float:
    """Exact mu^2 of all iterates of two chains whose drift does not depend on the state (unit step and noise)."""
    return sum((one - other) ** 2 for one, other in zip(first, second, strict=True))


def test_a_cyclic_pass_is_what_the_theorem_says_and_an_inserted_record_loses_far_more() -> None:
    gradients = [(-1.0) ** position for position in range(20)]
    assert path_mu_squared(gradients, [-1.0, *gradients][:20]) == 80.0
    exact = path_mu_squared(gradients, [-gradients[0], *gradients[1:]])
    spec = chain(20, {"scheme": "cyclic", "size": 1}, algorithm={"steps": 20})
    assert exact <= mu("composition.gaussian", spec) ** 2 <= exact * (1 + 1e-12)


@pytest.mark.parametrize("scheme", SHIFTING)
def test_no_theorem_certifies_shifting_batches_or_rounds_under_add_remove(scheme: Scheme) -> None:
    batch = {"scheme": scheme.value, "size": 1}
    explanation = explain(chain(20, batch, "add-remove", algorithm={"steps": 20}), 1e-5)
    assert explanation.bounds == ()
    assert "shifts every later batch" in reasons(explanation)["composition.gaussian"]
    assert explain(chain(20, batch, algorithm={"steps": 20}), 1e-5).bounds
    rounds = {"algorithm.sampling": {"scheme": scheme.value, "size": 10}}
    assert explain(example("message-passing-rounds", rounds | {"relation": "add-remove"}), 1e-5).bounds == ()
    assert explain(example("message-passing-rounds", rounds), 1e-5).bounds


# A gradient bound is not a sensitivity.


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [
        ("full", "add-remove"),
        *product(
            ("poisson", "truncated-poisson", "random-allocation", "min-separation"), ("add-remove", "replace-one")
        ),
    ],
)
def test_a_gradient_bound_is_never_inferred_from_a_sensitivity(scheme: str, relation: str) -> None:
    # All gradients equal 5: the sensitivity is 0, yet a record that appears moves the step by 5.
    batch = {"scheme": scheme} if scheme == "full" else {"scheme": scheme, "size": 1}
    spec = chain(10, batch, relation, problem={"gradient_sensitivity": 0.0})
    assert certificate_for(spec, GRADIENT_BOUND) is None
    explanation = explain(spec, 1e-5)
    assert explanation.bounds == ()
    own = "composition.renyi" if scheme in {"full", "poisson"} else f"composition.{scheme}"
    assert "gradient_bound" in reasons(explanation)[own]


def test_a_sensitivity_follows_from_a_gradient_bound_by_the_triangle_inequality() -> None:
    spec = chain(10, {"scheme": "full"}, problem={"gradient_bound": 3.0})
    certificate = certificate_for(spec, GRADIENT_SENSITIVITY)
    assert certificate is not None
    assert certificate.value == pytest.approx(6.0)
    assert certificate.value >= 6.0


# Schedules: the worst position counts.


def listed(values: list[float]) -> dict[str, Any]:
    return {"kind": "list", "values": values}


def worst_fixed(moves: list[float], batches: int) -> float:
    """The largest sum of squared moves over the steps of one batch, by definition."""
    return max(sum(move**2 for move in moves[start::batches]) for start in range(batches))


def worst_reshuffled(moves: list[float], batches: int) -> float:
    """The largest move of every pass, squared and added, by definition."""
    return sum(max(moves[start : start + batches]) ** 2 for start in range(0, len(moves), batches))


@pytest.mark.parametrize(
    ("theorem", "scheme", "by_definition"),
    [
        ("composition.gaussian", "cyclic", worst_fixed),
        ("composition.gaussian", "shuffle-once", worst_fixed),
        ("composition.parallel-epochs", "reshuffled", worst_reshuffled),
    ],
)
@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.1, 10.0)), min_size=1, max_size=30), st.integers(1, 9))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_varying_schedules_are_maximised_over_positions(
    theorem: str,
    scheme: str,
    by_definition: Callable[[list[float], int], float],
    schedule: list[tuple[float, float]],
    batches: int,
) -> None:
    steps, scales = [step for step, _ in schedule], [scale for _, scale in schedule]
    run = {"steps": len(schedule), "step_size": listed(steps), "noise": {"kind": "gaussian", "scale": listed(scales)}}
    spec = chain(batches, {"scheme": scheme, "size": 1}, algorithm=run)
    exact = by_definition([2.0 * step / scale for step, scale in schedule], batches)
    assert exact * (1 - 1e-14) <= mu(theorem, spec) ** 2 <= exact * (1 + 1e-12)


# Passes are not amplified by sampling.


def test_a_reshuffled_pass_over_two_records_leaks_more_than_independent_sampling_would_allow() -> None:
    # Gradients 1 against -1, the other record's 0, noise 1/3. The sum of the two steps is N(+-1, 2/9).
    scale = 1 / 3
    leaked = 2 * stats.norm.cdf(1 / (math.sqrt(2) * scale)) - 1
    run = {"steps": 2, "noise": {"kind": "gaussian", "scale": scale}}
    sampled = chain(2, {"scheme": "without-replacement", "size": 1}, algorithm=run)
    claimed = guarantee("composition.subsampled-without-replacement", sampled).delta(0.0)
    assert claimed < 0.76
    assert leaked > 0.96
    passes = explain(chain(2, {"scheme": "reshuffled", "size": 1}, algorithm=run), 1e-5)
    named = {found.theorem for found, _ in passes.bounds}
    assert named == {"composition.parallel-epochs", "composition.renyi", "langevin.path"}
    assert all(found.guarantee.delta(0.0) >= leaked for found, _ in passes.bounds)


# A sensitivity is over any two records.


def sampled_pair(n: int, size: int, **constants: float) -> Spec:
    batch = {"scheme": "without-replacement", "size": size}
    return chain(n, batch, algorithm={"noise": {"kind": "gaussian", "scale": 0.25}}, problem=constants)


def test_a_sensitivity_between_a_record_and_its_replacement_alone_is_not_enough_without_replacement():
    """Ten records, one drawn: x and x' are 1 apart, and everybody else is 100 away.

    Whoever sees an iterate near x knows that the record was drawn, so nothing is gained by drawing. A sensitivity of 1,
    true of x against x', would claim the gain: about 3e-9 at epsilon 10, where the truth is above 1e-3.
    """
    epsilon, rate, apart = 10.0, 0.1, 1 / 0.25
    truth = rate * GaussianDP(apart).delta(epsilon) * (1 - 1e-9)
    assert truth > 1e-3
    narrow, wide = (sampled_pair(10, 1, gradient_sensitivity=value) for value in (1.0, 100.0))
    name = "composition.subsampled-without-replacement"
    assert guarantee(name, narrow).delta(epsilon) < 0.9 * truth
    assert guarantee(name, wide).delta(epsilon) >= truth


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        (sampled_pair(10, 1, gradient_sensitivity=1.0), True),
        (sampled_pair(10, 1, gradient_bound=1.0), False),
        (sampled_pair(10, 1, gradient_bound=0.4, gradient_sensitivity=1.0), False),
        (chain(10, {"scheme": "cyclic", "size": 1}, problem={"gradient_sensitivity": 1.0}), False),
    ],
)
def test_the_caller_is_asked_about_any_two_records_where_it_matters(spec, asked):
    """Asked of a declared sensitivity under without-replacement; a bound on every gradient answers it by itself."""
    listed = composite({key: spec.to_dict()[key] for key in ("algorithm", "problem")})
    for described in (spec, listed):
        found = explain(described, 1e-5)
        assert found.tightest is not None
        statements = caller_checks(found.tightest.theorem, described)
        assert any("any two records" in statement for statement in statements) is asked
        (answer,) = [one for one in as_json(found)["bounds"] if one["theorem"] == found.tightest.theorem]
        assert answer["caller_checked"] == list(statements)
    assert caller_checks("no.such-theorem", spec) == ()
