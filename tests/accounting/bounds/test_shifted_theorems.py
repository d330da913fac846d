"""The shift theorems: reference values, equality with exact laws, and no bound below one."""

import math
from typing import Any

import numpy as np
import pytest

from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, chain_law, extremal_pair
from tests.accounting.described import mu, noisy_chain


def chain(n: int = 1000, steps: int = 1000, size: int | None = 100, scheme: str = "cyclic", **values: Any) -> Spec:
    """Contraction .98 and ratio .2, but for what is given."""
    problem = {"n": n, "gradient_sensitivity": 4.0, "strong_convexity": 1.0, "smoothness": 4.0}
    return noisy_chain(steps, 0.02, 0.004, {"scheme": scheme, "size": size}, problem).with_values(values)


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


# Exact laws.


@pytest.mark.every(3)
@pytest.mark.parametrize("steps", [1, 2, 10, 300])
@pytest.mark.parametrize("convexity", [0.0, 0.5, 4.0])
def test_full_batches_are_exact_on_quadratics(steps: int, convexity: float) -> None:
    spec = full(steps, **{"problem.strong_convexity": convexity})
    assert mu("shifted.full", spec) == pytest.approx(exact_mu(spec), rel=1e-9)
    added = spec.with_values({"relation": "add-remove", "problem.gradient_bound": 3.0})
    assert mu("shifted.full", added) == pytest.approx(exact_mu(added), rel=1e-9)


def test_a_partial_batch_is_covered() -> None:
    """n = 22, b = 4: the last batch holds 2. All curvature is the regulariser's, and none is lost."""
    regulariser = {"strong_convexity": 1.0, "smoothness": 1.0}
    spec = chain(22, 60, 4, **{"problem.regulariser": regulariser})
    assert max(exact_mu(spec, position) for position in range(22)) <= mu("shifted.cyclic", spec)


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
    bound = mu("composition.kept", spec)
    assert largest <= bound * (1 + 1e-9)
    assert bound <= mu("composition.gaussian", spec) * (1 + 1e-9)
    if scheme == "full":
        # A Markov chain whose segments are exact is exact.
        assert bound == pytest.approx(largest, rel=1e-9)
