"""The shift theorems: reference values, equality with exact laws, and no bound below one."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.closed_forms import cyclic_shift, uses_of
from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Spec, read_spec
from sordino.models.exact import GaussianLaw, chain_law, extremal_pair, hockey_stick
from tests.accounting.described import noisy_chain
from tests.models.exact.searched_divergences import epsilon_at

EXAMPLES = Path(__file__).parents[3] / "examples" / "specs"


def chain(n: int = 1000, steps: int = 1000, size: int | None = 100, scheme: str = "cyclic", **values: Any) -> Spec:
    """Contraction .98 and ratio .2, but for what is given."""
    problem = {"n": n, "gradient_sensitivity": 4.0, "strong_convexity": 1.0, "smoothness": 4.0}
    return noisy_chain(steps, 0.02, 0.004, {"scheme": scheme, "size": size}, problem).with_values(values)


def guarantee(theorem: str, spec: Spec) -> Guarantee:
    answer = evaluate(next(found for found in theorems() if found.id == theorem), spec)
    assert isinstance(answer, Bound), answer
    return answer.guarantee


def mu_of(theorem: str, spec: Spec) -> float:
    found = guarantee(theorem, spec)
    assert isinstance(found, GaussianDP)
    return found.mu


def full(steps: int, **values: Any) -> Spec:
    """The same ratio with full batches: n = 100 records, each step divided by 100."""
    return chain(100, steps, None, "full", **values)


def exact_mu(spec: Spec, position: int = 0) -> float:
    """The mu of two Gaussian laws with a common covariance."""
    pair = extremal_pair(spec, position)
    first, second = chain_law(spec, pair.first), chain_law(spec, pair.second)
    assert isinstance(first, GaussianLaw)
    assert isinstance(second, GaussianLaw)
    assert first.covariance == pytest.approx(second.covariance, rel=1e-12)
    apart = first.mean - second.mean
    return math.sqrt(float(apart @ np.linalg.solve(first.covariance, apart)))


# Reference values: mu^2 / 2, the epsilon of order 1.


@pytest.mark.parametrize(("epochs", "value"), [(1, 0.02), (10, 0.03186), (100, 0.03645)])
def test_reference_values_of_the_last_batch(epochs: int, value: float) -> None:
    assert mu_of("shifted.cyclic", chain(steps=10 * epochs)) ** 2 / 2 == pytest.approx(value, abs=5e-6)


@pytest.mark.parametrize(("epochs", "value"), [(1, 0.00166), (10, 0.01260), (100, 0.01645)])
def test_reference_values_of_the_first_batch(epochs: int, value: float) -> None:
    assert cyclic_shift(0.98, 0.2, 10, *uses_of(10 * epochs, 10, 0)) ** 2 / 2 == pytest.approx(value, abs=5e-6)


@pytest.mark.parametrize(("steps", "value"), [(10, 0.19933), (100, 1.51632)])
def test_reference_values_of_full_batches(steps: int, value: float) -> None:
    assert mu_of("shifted.full", full(steps)) ** 2 / 2 == pytest.approx(value, abs=5e-6)


def test_reference_values_of_the_second_setting() -> None:
    """eta = .1, sigma = .05: contraction .9, ratio .1789."""
    values = {"algorithm.step_size": 0.1, "algorithm.noise.scale": math.sqrt(0.2) * 0.05}
    assert mu_of("shifted.cyclic", chain(steps=100, **values)) ** 2 / 2 == pytest.approx(0.01708, abs=5e-6)
    assert mu_of("shifted.full", full(100, **values)) ** 2 / 2 == pytest.approx(0.30398, abs=5e-6)


def test_reference_values_of_projection() -> None:
    spec = read_spec(EXAMPLES / "projected-convex.json")
    assert mu_of("shifted.projected", spec) == pytest.approx(0.25, rel=1e-9)
    assert mu_of("composition.gaussian", spec) == pytest.approx(0.3162, abs=5e-5)
    found = {bound.theorem: epsilon for bound, epsilon in explain(spec, 1e-5).bounds}
    assert found["hidden-state.projected-clipped"] < found["shifted.projected"] < found["composition.gaussian"]


def test_reference_value_of_shuffling_at_order_ten() -> None:
    """(1/9) log of the average of exp(90 mu_j^2 / 2): .2351; the average of deltas is at most what it converts to."""
    mus = np.array([cyclic_shift(0.98, 0.2, 10, *uses_of(1000, 10, j)) for j in range(10)])
    assert math.log(np.mean(np.exp(90 * mus**2 / 2))) / 9 == pytest.approx(0.2351, abs=5e-5)


# Exact laws.


@pytest.mark.every(3)
@pytest.mark.parametrize("steps", [1, 2, 10, 300])
@pytest.mark.parametrize("convexity", [0.0, 0.5, 4.0])
def test_full_batches_are_exact_on_quadratics(steps: int, convexity: float) -> None:
    spec = full(steps, **{"problem.strong_convexity": convexity})
    assert mu_of("shifted.full", spec) == pytest.approx(exact_mu(spec), rel=1e-9)
    added = spec.with_values({"relation": "add-remove", "problem.gradient_bound": 3.0})
    assert mu_of("shifted.full", added) == pytest.approx(exact_mu(added), rel=1e-9)


def test_stable_noise_with_index_two_is_gaussian_with_root_two_times_the_scale() -> None:
    gaussian = full(50)
    stable = {"kind": "stable", "alpha": 2.0, "scale": 0.004 / math.sqrt(2)}
    assert mu_of("shifted.full", gaussian.with_values({"algorithm.noise": stable})) == pytest.approx(
        mu_of("shifted.full", gaussian), rel=1e-12
    )


def test_a_partial_last_epoch_and_a_schedule_are_covered_at_every_position() -> None:
    decaying = {"kind": "polynomial", "initial": 0.2, "offset": 3.0, "power": 0.8}
    for values in ({}, {"algorithm.step_size": decaying}):
        spec = chain(20, 34, 2, **values)
        largest = max(exact_mu(spec, 2 * batch) for batch in range(10))
        assert largest <= mu_of("shifted.cyclic", spec) * (1 + 1e-12)


def test_a_partial_batch_is_covered() -> None:
    """n = 22, b = 4: the last batch holds 2. All curvature is the regulariser's, and none is lost."""
    regulariser = {"strong_convexity": 1.0, "smoothness": 1.0}
    spec = chain(22, 60, 4, **{"problem.regulariser": regulariser})
    assert max(exact_mu(spec, position) for position in range(22)) <= mu_of("shifted.cyclic", spec)


def test_shuffling_once_is_never_below_the_exact_mixture() -> None:
    for values in ({}, {"algorithm.noise.scale": 0.02}):
        spec = chain(6, 13, 2, "shuffle-once", **{"problem.gradient_sensitivity": 0.4} | values)
        pair = extremal_pair(spec, 0)
        laws = chain_law(spec, pair.first), chain_law(spec, pair.second)
        bound = guarantee("shifted.shuffle-once", spec)
        for epsilon in (0.0, 0.3, 1.0):
            assert hockey_stick(*laws, epsilon).low <= bound.delta(epsilon)
        assert epsilon_at(*laws, 1e-3).low <= bound.epsilon(1e-3)


# Kept iterates.


@pytest.mark.every(3)
@pytest.mark.parametrize("keep", ["all", "last", {"burn_in": 4, "thin": 3}, {"burn_in": 0, "thin": 7}])
@pytest.mark.parametrize(("scheme", "size"), [("full", None), ("cyclic", 4)])
@pytest.mark.parametrize("schedule", [False, True])
def test_kept_iterates_are_never_below_the_exact_joint_law(keep: Any, scheme: str, size: int, schedule: bool) -> None:
    values: dict[str, Any] = {"view": "all-iterates", "algorithm.keep": keep}
    if schedule:
        values["algorithm.step_size"] = {"kind": "polynomial", "initial": 0.2, "offset": 3.0, "power": 0.5}
    spec = chain(20, 23, size, scheme, **values)
    largest = max(exact_mu(spec, position) for position in (0, 4, 8, 12, 16))
    bound = mu_of("composition.kept", spec)
    assert largest <= bound * (1 + 1e-9)
    assert bound <= mu_of("composition.gaussian", spec) * (1 + 1e-9)
    if scheme == "full":
        # A Markov chain whose segments are exact is exact.
        assert bound == pytest.approx(largest, rel=1e-9)


# Bounded sets without convexity.


# Speed.


@pytest.mark.parametrize("scheme", ["full", "cyclic", "shuffle-once"])
def test_a_million_identical_steps_take_less_than_a_fifth_of_a_second(scheme: str) -> None:
    size = None if scheme == "full" else 1000
    projected = {"algorithm.projection": {"kind": "ball", "radius": 1.0}, "problem.gradient_bound": 2.0}
    spec = chain(100_000, 1_000_000, size, scheme, **projected)
    explain(spec.with_values({"algorithm.steps": 999_000}), 1e-5)
    began = time.perf_counter()
    for name in ("full", "cyclic", "shuffle-once", "projected", "projected-nonconvex"):
        answer = evaluate(next(found for found in theorems() if found.id == f"shifted.{name}"), spec)
        if isinstance(answer, Bound):
            answer.guarantee.epsilon(1e-5)
    assert time.perf_counter() - began < 0.4, "0.2 s on a free machine; twice that where tests share one"
