"""The contraction of a run is an upper bound on how far its steps stretch a distance, from certified constants only."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.contraction import Contraction, clipped_modulus, contraction_of
from sordino.accounting.evaluate import explain
from sordino.core.spec import Spec
from tests.accounting.described import noisy_chain

DECAY = {"strong_convexity": 0.2, "smoothness": 0.2}


def chain(n: int = 10, batch: dict[str, Any] | None = None, step: Any = 0.1, **values: Any) -> Spec:
    problem = {"n": n, "dim": 2, "gradient_sensitivity": 2.0, "gradient_bound": 1.0} | values.get("problem", {})
    return noisy_chain(20, step, 0.05, batch or "full", problem, algorithm=values.get("algorithm", {}))


def clipped(classes: int | None = 3, **problem: Any) -> Spec:
    clipping = {"kind": "norm", "bound": 1.0, "classes": classes}
    return chain(algorithm={"clipping": clipping}, problem=problem)


def found(spec: Spec) -> Contraction:
    contraction = contraction_of(spec)
    assert isinstance(contraction, Contraction), contraction
    return contraction


def refused(spec: Spec) -> str:
    reason = contraction_of(spec)
    assert isinstance(reason, str)
    return reason


def names(contraction: Contraction) -> set[str]:
    return {certificate.constant.name for certificate in contraction.certificates}


@pytest.mark.parametrize("step", [1e-9, 0.1, 0.5, 1.9, 2.5])
def test_curvature_between_m_and_M(step: float) -> None:
    contraction = found(chain(problem={"strong_convexity": 0.3, "smoothness": 1.1}))
    exact = max(abs(1 - Fraction(step) * Fraction(0.3)), abs(1 - Fraction(step) * Fraction(1.1)))
    one, many = contraction.at(step), contraction.at_each(np.array([step, 0.7]))[0]
    assert exact <= Fraction(one) <= exact * (1 + Fraction(1, 2**50))
    assert exact <= Fraction(float(many)) <= exact + Fraction(1, 2**48)
    assert names(contraction) == {"strong_convexity", "smoothness"}


# Batches that are smaller than their divisor.


def test_a_partial_batch_keeps_only_its_share_of_the_curvature() -> None:
    """n = 10, b = 4: the last batch holds 2 of 4, so curvature is half the data's plus all of the regulariser's."""
    passes = {"scheme": "cyclic", "size": 4}
    constants = {"strong_convexity": 0.5, "smoothness": 1.0}
    assert "the last batch of a pass has 2 of 4 records" in refused(chain(batch=passes, problem=constants))
    declared = constants | {"regulariser": DECAY}
    contraction = found(chain(batch=passes, problem=declared))
    # Half of [.5, 1] and half of .2: curvature .35 at least.
    assert contraction.at(0.1) == pytest.approx(1 - 0.1 * 0.35, rel=1e-12)
    regulariser = {"regulariser.strong_convexity", "regulariser.smoothness"}
    assert names(contraction) == {"strong_convexity", "smoothness"} | regulariser
    for whole in ({"scheme": "cyclic", "size": 5}, {"scheme": "without-replacement", "size": 4}, {"scheme": "full"}):
        assert found(chain(batch=whole, problem=declared)).at(0.1) == pytest.approx(0.95, rel=1e-12)


def test_no_batch_of_quadratics_stretches_more_than_that() -> None:
    generator = np.random.default_rng(31)
    decay, size, steps = 0.2, 4, np.array([0.1, 0.8, 1.7])
    problem = {"strong_convexity": 0.5, "smoothness": 1.5, "regulariser": DECAY}
    bounds = found(chain(batch={"scheme": "cyclic", "size": size}, problem=problem)).at_each(steps)
    for _ in range(200):
        rotations = [np.linalg.qr(generator.standard_normal((2, 2)))[0] for _ in range(size)]
        # Each record's Hessian, regulariser included, lies between .5 and 1.5.
        hessians = [q @ np.diag(generator.uniform(0.3, 1.3, 2)) @ q.T for q in rotations]
        for held in (2, 4):
            curvature = np.sum(hessians[:held], axis=0) / size + decay * np.eye(2)
            for step, bound in zip(steps, bounds, strict=True):
                assert np.linalg.norm(np.eye(2) - step * curvature, 2) <= bound


# Norm clipping.


@pytest.mark.parametrize(("classes", "named"), [(3, "there are 3"), (10, "there are 10"), (None, "is not given")])
def test_declared_curvature_of_a_norm_clipped_loss_is_refused(classes: int | None, named: str) -> None:
    """Ye & Shokri 2022, Proposition F.2, would allow it; nobody said that the residual is a scalar."""
    reason = refused(clipped(classes, strong_convexity=0.2, smoothness=0.7))
    assert "Proposition F.2" in reason
    assert named in reason
    assert "unclipped_smoothness is not given" in reason


def test_the_corrected_modulus_is_used_instead() -> None:
    spec = clipped(3, strong_convexity=0.2, smoothness=1.2, unclipped_smoothness=1.0, regulariser=DECAY)
    contraction = found(spec)
    assert contraction.at(0.1) == pytest.approx(0.992744, abs=5e-7)
    assert contraction.at(0.1) > 0.98
    assert names(contraction) == {"unclipped_smoothness", "regulariser.strong_convexity", "regulariser.smoothness"}


@pytest.mark.parametrize(
    ("kind", "classes"), [("norm", 2), ("residual", None), ("residual", 2), ("feature", None), ("feature", 3)]
)
def test_clipping_that_keeps_curvature_leaves_the_declared_constants_in_force(kind: str, classes: int | None) -> None:
    clipping = {"clipping": {"kind": kind, "bound": 1.0, "classes": classes}}
    declared = {"strong_convexity": 0.2, "smoothness": 0.7, "unclipped_smoothness": 0.5, "regulariser": DECAY}
    contraction = found(chain(algorithm=clipping, problem=declared))
    assert names(contraction) == {"strong_convexity", "smoothness"}
    assert not contraction.corrected
    assert contraction.at(0.1) <= 0.981


def test_the_corrected_modulus_needs_quadratic_weight_decay_and_a_small_step() -> None:
    uneven = {"strong_convexity": 0.1, "smoothness": 0.3}
    assert "quadratic weight decay" in refused(clipped(3, unclipped_smoothness=1.0, regulariser=uneven))
    assert "regulariser.strong_convexity is not given" in refused(clipped(3, unclipped_smoothness=1.0))
    large = {"strong_convexity": 10.0, "smoothness": 10.0}
    assert "eta * lambda < 1" in refused(clipped(3, unclipped_smoothness=1.0, regulariser=large))


def test_many_steps_at_once_have_the_modulus_of_each() -> None:
    spec = clipped(3, unclipped_smoothness=1.0, regulariser=DECAY)
    steps = np.geomspace(1e-6, 4.9, 200)
    bounds = found(spec).at_each(steps)
    exact = np.array([clipped_modulus(float(step), 0.2, 1.0) for step in steps])
    assert np.all(bounds >= exact * (1 - 1e-15))
    assert bounds == pytest.approx(exact, rel=1e-12, abs=1e-12)


# What certify answers.


@pytest.mark.parametrize("classes", [None, 3])
def test_every_theorem_about_contraction_refuses_the_same_clipping(classes: int | None) -> None:
    """Bounds that do not rest on curvature are left, composition among them, and no shifted or hidden-state one."""
    claimed = {"strong_convexity": 0.2, "smoothness": 0.7}
    left, trusted = (
        {bound.theorem.split(".")[0] for bound, _ in explain(clipped(number, **claimed), 1e-5).bounds}
        for number in (classes, 2)
    )
    assert "composition" in left
    assert {"shifted", "hidden-state"} & left == set()
    assert {"shifted", "hidden-state"} <= trusted
