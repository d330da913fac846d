"""The shift theorems: reference values, equality with exact laws, and no bound below one."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.accounting.shifts.closed_forms import cyclic_shift, gaussian_mixture, uses_of
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Spec, read_spec
from sordino.models.exact import GaussianLaw, chain_law, extremal_pair, hockey_stick
from tests.models.exact.searched_divergences import epsilon_at

EXAMPLES = Path(__file__).parents[3] / "examples" / "specs"


def chain(n: int = 1000, steps: int = 1000, size: int | None = 100, scheme: str = "cyclic", **values: Any) -> Spec:
    """The first setting of theory section 3: contraction .98 and ratio .2, but for what is given."""
    algorithm = {
        "kind": "noisy-gradient",
        "steps": steps,
        "step_size": 0.02,
        "noise": {"kind": "gaussian", "scale": 0.004},
        "batch": {"scheme": scheme, "size": size},
    }
    problem = {"n": n, "dim": 1, "gradient_sensitivity": 4.0, "strong_convexity": 1.0, "smoothness": 4.0}
    spec = {"algorithm": algorithm, "problem": problem, "relation": "replace-one", "view": "last-iterate"}
    return Spec.from_dict(spec).with_values(values)


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


@pytest.mark.parametrize("steps", [1, 2, 10, 300])
@pytest.mark.parametrize("convexity", [0.0, 0.5, 4.0])
def test_full_batches_are_exact_on_quadratics(steps: int, convexity: float) -> None:
    spec = full(steps, **{"problem.strong_convexity": convexity})
    assert mu_of("shifted.full", spec) == pytest.approx(exact_mu(spec), rel=1e-9)
    added = spec.with_values({"relation": "add-remove", "problem.gradient_bound": 3.0})
    assert mu_of("shifted.full", added) == pytest.approx(exact_mu(added), rel=1e-9)


def test_full_batches_with_schedules_are_exact_on_quadratics() -> None:
    decaying = {"kind": "polynomial", "initial": 0.2, "offset": 10.0, "power": 0.6}
    spec = full(200, **{"algorithm.step_size": decaying})
    assert mu_of("shifted.full", spec) == pytest.approx(exact_mu(spec), rel=1e-9)


def test_stable_noise_with_index_two_is_gaussian_with_root_two_times_the_scale() -> None:
    gaussian = full(50)
    stable = {"kind": "stable", "alpha": 2.0, "scale": 0.004 / math.sqrt(2)}
    assert mu_of("shifted.full", gaussian.with_values({"algorithm.noise": stable})) == pytest.approx(
        mu_of("shifted.full", gaussian), rel=1e-12
    )


@pytest.mark.parametrize("steps", [10, 50, 1000])
def test_cyclic_batches_are_exact_for_the_first_batch_and_above_for_the_others(steps: int) -> None:
    spec = chain(steps=steps)
    first = cyclic_shift(0.98, 0.2, 10, *uses_of(steps, 10, 0))
    assert first == pytest.approx(exact_mu(spec, 0), rel=1e-9)
    for batch in range(10):
        bound = cyclic_shift(0.98, 0.2, 10, *uses_of(steps, 10, batch))
        assert exact_mu(spec, 100 * batch) <= bound * (1 + 1e-12)
        assert bound <= mu_of("shifted.cyclic", spec) * (1 + 1e-12)


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


def test_shuffling_once_never_costs_more_than_the_worst_order() -> None:
    shuffled, cyclic = chain(scheme="shuffle-once"), chain()
    for delta in (1e-2, 1e-5, 1e-9):
        average = guarantee("shifted.shuffle-once", shuffled).epsilon(delta)
        assert average <= guarantee("shifted.cyclic", cyclic).epsilon(delta) * (1 + 1e-3)


def test_a_record_that_is_never_reached_costs_nothing() -> None:
    """Three of ten batches are used: with probability .7 the record is not among them."""
    bound = guarantee("shifted.shuffle-once", chain(steps=3, scheme="shuffle-once"))
    assert bound.delta(0.0) <= 0.3 * GaussianDP(0.2).delta(0.0) * 1.02


def test_grouping_many_positions_only_rounds_up() -> None:
    mus = 0.5 / np.sqrt(np.arange(1, 3001))
    grouped = gaussian_mixture(mus, np.ones(3000))
    for epsilon in (0.0, 0.2, 1.0):
        exact = float(np.mean([GaussianDP(float(mu)).delta(epsilon) for mu in mus]))
        assert exact * (1 - 1e-9) <= grouped.delta(epsilon) <= exact * 1.1


# Kept iterates.


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


def test_keeping_only_the_last_iterate_costs_what_the_last_iterate_costs() -> None:
    for scheme, size, theorem in (("full", None, "shifted.full"), ("cyclic", 2, "shifted.cyclic")):
        last = chain(20, 45, size, scheme)
        kept = last.with_values({"view": "all-iterates", "algorithm.keep": "last"})
        assert mu_of("composition.kept", kept) == pytest.approx(mu_of(theorem, last), rel=1e-9)


@pytest.mark.parametrize("thin", [1, 3, 4, 10, 25])
def test_kept_segments_of_cyclic_batches_add_up_position_by_position(thin: int) -> None:
    """Against the solver on every segment, with constant steps given as a list so that no closed form is used."""
    constant = chain(20, 200, 2, view="all-iterates", **{"algorithm.keep": {"burn_in": 7, "thin": thin}})
    nearly = np.full(200, 0.02)
    nearly[0] *= 1 + 1e-13
    listed = constant.with_values({"algorithm.step_size": {"kind": "list", "values": nearly.tolist()}})
    assert mu_of("composition.kept", constant) == pytest.approx(mu_of("composition.kept", listed), rel=1e-9)


def test_an_average_of_kept_iterates_is_post_processing() -> None:
    seen = chain(20, 50, 2, view="all-iterates", **{"algorithm.keep": {"burn_in": 9, "thin": 20}})
    average = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": 0.1}}
    averaged = seen.with_values({"view": "average", "average": average})
    assert mu_of("composition.kept", averaged) == mu_of("composition.kept", seen)


# Bounded sets without convexity.


def test_any_bounded_gradient_on_a_bounded_set() -> None:
    spec = read_spec(EXAMPLES / "projected-nonconvex.json")
    # (D + 2 w eta C)^2 / (w tau^2) with D = 2, eta C = .05, tau = .1: least at w = 20.
    assert mu_of("shifted.projected-nonconvex", spec) == pytest.approx(4.0 / (math.sqrt(20) * 0.1), rel=1e-9)
    decayed = spec.with_values({"problem.regulariser": {"strong_convexity": 1.0, "smoothness": 1.0}})
    assert mu_of("shifted.projected-nonconvex", decayed) < mu_of("shifted.projected-nonconvex", spec)
    for scheme in ("cyclic", "shuffle-once", "reshuffled", "without-replacement"):
        batched = spec.with_values({"algorithm.batch": {"scheme": scheme, "size": 10}})
        assert mu_of("shifted.projected-nonconvex", batched) == mu_of("shifted.projected-nonconvex", spec)


def test_projection_with_batches_needs_no_more_than_either_alone() -> None:
    spec = read_spec(EXAMPLES / "projected-cyclic.json")
    projected = mu_of("shifted.projected", spec)
    assert projected <= mu_of("shifted.cyclic", spec)
    huge = spec.with_values({"algorithm.projection.radius": 1e9})
    assert mu_of("shifted.projected", huge) == pytest.approx(mu_of("shifted.cyclic", spec), rel=1e-12)


# Speed.

DECAYING = {"kind": "polynomial", "initial": 0.02, "offset": 1000.0, "power": 0.5}


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


@pytest.mark.parametrize("scheme", ["full", "cyclic"])
def test_a_million_different_steps_take_seconds_at_most(scheme: str) -> None:
    spec = chain(100_000, 1_000_000, None if scheme == "full" else 1000, scheme, **{"algorithm.step_size": DECAYING})
    began = time.perf_counter()
    assert mu_of(f"shifted.{scheme}", spec) > 0
    assert time.perf_counter() - began < 5.0
