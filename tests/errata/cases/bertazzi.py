"""Bertazzi et al.: Langevin chains."""

import math
from functools import partial

import numpy as np

from sordino.core.gaussian import epsilon_upper
from tests.errata import erratum as base
from tests.errata.erratum import Numbers, Severity

erratum = partial(base.erratum, "bertazzi2025differential")


@erratum(
    place="Theorems 5.2 and 5.6, the constant",
    severity=Severity.GAP,
    printed="C = beta v^2 (2(L+1)/(a - gamma L^2/2) + 1)^2.",
    reason="Condition (8) holds with 2v where the proof uses v, which would give +2 in place of +1; the theorems"
    " hold all the same, because the shift bound is smaller still.",
    instead="`shifted.drift-bounded`: C = 4 beta v^2 gamma (1+r)/(1-r) (1-r^T)/(1+r^T), r = sqrt(1 - 2 gamma a +"
    " gamma^2 L^2), attained on linear drifts.",
)
def last_iterate_constant() -> Numbers:
    # a = L = beta = v = 1, gamma = .02, T = 1e5; the drift is constant, V = +-x, so the chain is Gaussian.
    a, gamma, steps = 1.0, 0.02, 100_000
    ratio = 1 - gamma * a
    stated, repaired = ((2 * 2 / (a - gamma / 2)) + more for more in (1, 2))
    ours = 4 * gamma * (1 + ratio) / (1 - ratio) * (1 - ratio**steps) / (1 + ratio**steps)
    powers = ratio ** np.arange(steps, dtype=np.float64)
    gap, variance = 2 * gamma * powers.sum(), 2 * gamma * (powers * powers).sum()
    exact = 2 * gap * gap / variance
    assert math.isclose(exact, ours, rel_tol=1e-9)
    assert ours < stated**2 < repaired**2
    return {
        "exact C (a = L = beta = v = 1, gamma = .02, T = 1e5)": exact,
        "shifted.drift-bounded": ours,
        "as printed": stated**2,
        "what the proof gives": repaired**2,
    }


@erratum(
    place="C_4, after Theorem 5.2",
    severity=Severity.MISPRINT,
    printed="C_4 = c (2(L+1)/a + 1).",
    reason="It is the limit of C_3 = c^2 (2(L+1)/(a - gamma L^2/2) + 1)^2 as gamma goes to 0: the squares are missing.",
    instead="C_4 = c^2 (2(L+1)/a + 1)^2; and the posterior itself is 2v sqrt(beta/a)-Gaussian DP, C = 8 beta v^2/a.",
)
def missing_square() -> Numbers:
    c, a, smooth = 1.0, 1.0, 1.0
    limit = (c * (2 * (smooth + 1) / (a - 1e-9 * smooth**2 / 2) + 1)) ** 2
    printed = c * (2 * (smooth + 1) / a + 1)
    posterior = 8 * c * c / a
    # Exact: pi proportional to exp(-x^2/2 -+ x) are N(-+1, 1), a distance 2 apart, C = 2 mu^2.
    exact = 2 * 2.0**2
    assert math.isclose(posterior, exact)
    assert printed < exact < limit
    return {
        "exact C of the posteriors N(-1, 1) and N(1, 1)": exact,
        "printed C_4, below the truth": printed,
        "with the squares": limit,
    }


@erratum(
    place="Theorems 5.7 and 5.8, epsilon",
    severity=Severity.LOOSE,
    printed="epsilon = C + sqrt(C log(1/delta)).",
    reason="The proof gives C/4 + sqrt(C log(1/delta)), and that is a tail bound for a Gaussian loss whose law is"
    " known.",
    instead="mu = sqrt(C/2), converted exactly.",
)
def printed_epsilon() -> Numbers:
    constant, delta = 2.0, 1e-5
    printed = constant + math.sqrt(constant * math.log(1 / delta))
    proved = constant / 4 + math.sqrt(constant * math.log(1 / delta))
    exact = epsilon_upper(math.sqrt(constant / 2), delta)
    assert exact < proved < printed
    return {"C = 2, delta = 1e-5: printed": printed, "proved": proved, "exact conversion": exact}


@erratum(
    place="Section 3, variance of the Laplace noise",
    severity=Severity.ACCURACY,
    printed="Var = eta/epsilon for noise of scale eta/epsilon.",
    reason="A Laplace variable of scale s has variance 2 s^2.",
    instead="2 (eta/epsilon)^2.",
)
def laplace_variance() -> Numbers:
    scale = 0.1
    x = np.linspace(0.0, 6.0, 600_001)
    variance = float(np.trapezoid(x * x * np.exp(-x / scale) / scale, x))
    assert math.isclose(variance, 2 * scale**2, rel_tol=1e-6)
    return {"scale": scale, "variance by quadrature": variance, "printed": scale}


@erratum(
    place="Appendices B and C, displays",
    severity=Severity.MISPRINT,
    printed="W + sqrt(beta/2) int u in the proof of Lemma B.1; e - gamma grad K(x) - gamma grad K(x') in C.1; 1 - 2a +"
    " L^2 gamma^2 in (27); 2c/(s (gamma L^2/2 - ...)) at the end of C.3.",
    reason="Under the measure (22) W has the drift sqrt(beta/2) u, so that it is subtracted; the two gradients are"
    " subtracted from each other; the 2a has a gamma; the denominator of (25) is a - gamma L^2/2. The steps that follow"
    " have the right forms.",
    instead="The right forms; `langevin.last-iterate` and `langevin.path` use them.",
)
def displays_of_appendices_b_and_c() -> Numbers:
    # Lemma B.1 with beta = 2, u = 1, T = 1: dQ/dP = exp(W - 1/2), by quadrature over W = N(0, 1).
    w = np.linspace(-12.0, 14.0, 260_001)
    tilted = np.exp(w - 0.5 - w * w / 2) / math.sqrt(2 * math.pi)
    plus, minus = (float(np.trapezoid((w + sign) * tilted, w)) for sign in (1.0, -1.0))
    assert abs(minus) < 1e-9 < plus
    # C.1 and (27) with K = x^2 / 2, so a = L = 1: x = 1, x' = -1.
    gamma, x, other = 0.1, 1.0, -1.0
    allowed = (1 - 2 * gamma + gamma**2) * (x - other) ** 2
    printed = (x - other - gamma * x - gamma * other) ** 2
    right = (x - other - gamma * x + gamma * other) ** 2
    assert math.isclose(right, allowed)
    assert printed > allowed
    factor = 1 - 2 + gamma**2
    assert factor < 0
    return {
        "mean of W + sqrt(beta/2) int u under (22), which is to be a Brownian motion": plus,
        "of W - sqrt(beta/2) int u": round(minus, 9),
        "a = L = 1, gamma = .1: the square of C.1 as printed": printed,
        "with the gradients subtracted": right,
        "its bound": allowed,
        "the factor of a square in (27), as printed": factor,
    }
