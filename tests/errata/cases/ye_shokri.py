"""Ye & Shokri: clipping and contraction, and the slips of the appendix."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from papers.ye_shokri import printed_algorithms
from sordino.accounting.bounds.contraction import clipped_modulus
from tests.errata import erratum as base
from tests.errata.erratum import Numbers, Severity

erratum = partial(base.erratum, "ye2022differentially")


def _clipped_jacobian() -> np.ndarray:
    """d clip(g) / d theta of a softmax loss with |x|^2 = 2 (so that beta = 1), clipped at .98 |g|."""
    p, x = np.array([0.001, 0.836, 0.163]), math.sqrt(2.0)
    gradient = x * (p - np.array([1.0, 0.0, 0.0]))
    along = gradient / np.linalg.norm(gradient)
    hessian = x * x * (np.diag(p) - np.outer(p, p))
    return 0.98 * (np.eye(3) - np.outer(along, along)) @ hessian


@erratum(
    place="Proposition 5.2 (F.2), clipped softmax regression",
    severity=Severity.UNSAFE,
    printed="The gradient of a softmax loss, clipped to a norm, has a Jacobian J with 0 <= J <= beta, so a step"
    " contracts as if nothing had been clipped.",
    reason="J = (C/|g|) P H with P the projection orthogonal to g and H the Hessian. P H is not symmetric; with three"
    " or more classes its symmetric part is indefinite. A step then expands some distances, and every bound that uses"
    " 1 - eta lambda for it is too small.",
    instead="Clip scalar residuals or features, which keeps convexity; or use the modulus c = a / sqrt(1 - t/(4a)) for"
    " t <= 3a, else t - a, with a = 1 - eta lambda and t = eta beta, which holds for every convex beta-smooth loss and"
    " is attained. `certify` refuses the contraction and uses this modulus.",
)
def clipped_softmax() -> Numbers:
    jacobian = _clipped_jacobian()
    stretch = {eta: float(np.linalg.norm(np.eye(3) - eta * jacobian, 2)) for eta in (0.01, 0.1, 0.5, 1.0)}
    lowest = float(np.linalg.eigvalsh((jacobian + jacobian.T) / 2)[0])
    assert lowest < -0.016
    found: dict[str, Any] = {"smallest eigenvalue of the symmetric part of J over beta": lowest}
    for eta, factor in stretch.items():
        assert 1.0 < factor <= clipped_modulus(eta, 0.0, 1.0)
        found[f"a step with eta = {eta:g} stretches by"] = f"{factor:.5f}, at most {clipped_modulus(eta, 0.0, 1.0):.5f}"
    claimed, right = 1 - 0.1 * 0.2, clipped_modulus(0.1, 0.2, 1.0)
    found["eta = .1, lambda = .2, beta = 1: claimed contraction"] = f"{claimed:.6f}, corrected {right:.6f}"
    return found


@erratum(
    place="Proposition F.2, any convex loss",
    severity=Severity.SCOPE,
    printed="Nothing: the proposition is about logistic regression. It may be read as true of every convex loss.",
    reason="It is not: for 0 <= A, B <= I the smallest eigenvalue of AB + BA is -1/4, so the symmetric part of P H can"
    " reach -beta/8.",
    instead="To first order the modulus is 1 - eta (lambda - beta/8): clipping costs an eighth of the smoothness.",
)
def an_eighth_of_the_smoothness() -> Numbers:
    angles = np.linspace(0.0, math.pi, 200_001)
    normal = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # P = normal normal^T and H = diag(1, 0), in the plane.
    product = np.zeros((len(angles), 2, 2))
    product[:, :, 0] = normal * normal[:, :1]
    lowest = float(np.linalg.eigvalsh((product + product.transpose(0, 2, 1)) / 2)[:, 0].min())
    assert abs(lowest + 0.125) < 1e-9
    eta = 1e-4
    slope = (clipped_modulus(eta, 0.0, 1.0) - 1) / eta
    assert abs(slope - 0.125) < 1e-4
    return {"smallest eigenvalue found": lowest, "slope of the modulus at eta = 0": slope}


@erratum(
    place="Theorem 4.2, condition on the step",
    severity=Severity.MISPRINT,
    printed="eta < 2/(lambda + eta).",
    reason="The smoothness is missing: the printed condition admits steps that expand.",
    instead="eta < 2/(lambda + beta), as in Theorem 3.3. `hidden-state.shuffle-once` asks for it.",
)
def step_condition() -> Numbers:
    eta, lam, beta = 0.9, 1.0, 100.0
    assert eta < 2 / (lam + eta)
    factor = max(abs(1 - eta * lam), abs(1 - eta * beta))
    assert factor > 1
    return {
        "eta, lambda, beta": "0.9, 1, 100",
        "2/(lambda + eta)": 2 / (lam + eta),
        "factor by which a step expands": factor,
    }


@erratum(
    place="Equations (130) to (132), after Theorem D.7",
    severity=Severity.MISPRINT,
    printed="sum_{k<K} e^{-eta lambda k/2} = (1 - e^{-lambda eta K}) / (1 - e^{-eta lambda/2}), and with it a right"
    " side (132) that is said to be Theorem D.7's.",
    reason="The geometric sum ends in e^{-lambda eta K/2}, and so does Theorem D.7, which (127) prints right. With K/2"
    " the three lines show what they are for: Theorem D.6 is below Theorem D.7.",
    instead="1 - e^{-lambda eta K/2} in all three; `hidden-state.full-chourasia` is (127).",
)
def geometric_sum() -> Numbers:
    x, terms = 0.02, 100
    exact = math.fsum(math.exp(-x * k / 2) for k in range(terms))
    printed = (1 - math.exp(-x * terms)) / (1 - math.exp(-x / 2))
    right = (1 - math.exp(-x * terms / 2)) / (1 - math.exp(-x / 2))
    assert math.isclose(exact, right, rel_tol=1e-12)
    assert printed > exact
    # Theorems D.6 and D.7, both over alpha S_g^2 / (lambda sigma^2 n^2).
    sharper = x / 2 * math.fsum((1 - x / 2) ** k for k in range(1, terms + 1))
    chourasia = 1 - math.exp(-x * terms / 2)
    assert sharper < chourasia < 1 - math.exp(-x * terms)
    return {
        "eta lambda, K": "0.02, 100",
        "the sum": exact,
        "printed": printed,
        "with K/2": right,
        "Theorem D.6, beside D.7 as (127) has it": f"{sharper:.4g}, {chourasia:.4g}",
        "D.7 as (132) has it": 1 - math.exp(-x * terms),
    }


@erratum(
    place="Equation (157), Theorem 4.3",
    severity=Severity.GAP,
    printed="A step that does not use the record raises the moment exp((alpha-1) R_alpha) to the power (1 - eta"
    " lambda)^2, whatever the two laws are.",
    reason="Lemma 3.2 compares orders: R_alpha / alpha after the step is at most a factor times R_alpha' / alpha'"
    " before it, with alpha' < alpha. For divergences that do not grow linearly with the order that is weaker.",
    instead="Run the recursion on bounds that are linear in the order, for which the step is true: Theorem 4.3's result"
    " stands, and `hidden-state.subsampled` is computed that way.",
)
def power_of_a_moment() -> Numbers:
    # P' = N(0, 1) is stationary for x -> c x + sqrt(1 - c^2) xi; P is P' given x > 3. Order 2: the moment after the
    # step is P(X > 3, Y > 3) / P(X > 3)^2 for standard normals with correlation c^2.
    square, edge = 0.5, 3.0
    tail = float(stats.norm.sf(edge))
    both = float(stats.multivariate_normal(cov=[[1.0, square], [square, 1.0]]).cdf([-edge, -edge]))
    after, claimed = both / tail**2, (1 / tail) ** square
    assert after > 1.5 * claimed
    return {
        "moment of order 2 before the step (N(0,1) given x > 3, against N(0,1))": 1 / tail,
        "after a step with (1 - eta lambda)^2 = 1/2": after,
        "(157) says at most": claimed,
    }


@erratum(
    place="Equations (145) and (146), after Theorem 4.2",
    severity=Severity.GAP,
    printed="By (1-x)^a <= 1 - a x the first term of Theorem 4.2 is at most 1/((n/b) lambda eta) of the cost of a step,"
    " so that the bound is strictly below composition after 1/(lambda eta) + n/b epochs.",
    reason="Bernoulli's inequality goes the other way: (1-x)^a >= 1 - a x for a >= 1. With x = eta lambda and n/b = 2"
    " the first term tends to 1/(2x - x^2) where 1/(2x) is claimed; with n/b = 3 and x near 1 it is three times the"
    " claim. The number of epochs is then not proved; where it was computed (ye-shokri-dynamics) it is enough.",
    instead="Theorem 4.2 itself, which does not use (145); `certify` compares it with composition run by run.",
)
def bernoulli_the_other_way() -> Numbers:
    def first_term(x: float, batches: int) -> float:
        """(143) over alpha eta S_g^2 / (4 sigma^2 b^2), for K without end."""
        half, kept = batches // 2, 1 - x
        share = kept ** (2 * (half - 1)) * (1 - kept**2) / (1 - kept ** (2 * half))
        return share / (1 - kept ** (2 * (batches - half)))

    x = 0.5
    assert (1 - x) ** 4 > 1 - 4 * x
    two, three = first_term(x, 2), first_term(0.999, 3)
    assert math.isclose(two, 1 / (2 * x - x**2), rel_tol=1e-12)
    assert two > 1 / (2 * x)
    assert math.isclose(three / (1 / (3 * 0.999)), 3.0, rel_tol=0.01)
    return {
        "eta lambda = .5, n/b = 2: the first term over the cost of a step": two,
        "(146)": 1 / (2 * x),
        "eta lambda = .999, n/b = 3: the first term": three,
        "(146) there": 1 / (3 * 0.999),
    }


@erratum(
    place="Algorithm 2 (F.1), the clipped gradient",
    severity=Severity.UNSAFE,
    printed="In the copy at hand the gradient of the regularised loss is divided by the length of the other one.",
    reason="Taken literally the weight decay counts twice, and what is clipped is not what is bounded: the sensitivity"
    " grows with |theta|, while the noise is that of S_g. Proposition F.2 clips the unregularised gradient.",
    instead="Clip the unregularised gradient and add the decay afterwards, as `noisy_sgd` does.",
)
def clipping_the_other_gradient() -> Numbers:
    reached = printed_algorithms.printed_sensitivity(100.0, 0.5)
    assert reached > 2 * printed_algorithms.SENSITIVITY
    return {
        "S_g, to which the noise is fitted": printed_algorithms.SENSITIVITY,
        "sensitivity as printed at |theta| = 100": reached,
    }
