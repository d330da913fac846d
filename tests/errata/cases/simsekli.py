"""Simsekli et al.: heavy-tailed noise."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from papers.simsekli import setting
from papers.simsekli.figures import RULES
from papers.simsekli.variants import stated_bound
from sordino.accounting.bounds.heavy_tail import Dissipative, corrected_bound, lyapunov
from sordino.core.gaussian import least_true
from tests.errata import erratum as base
from tests.errata.erratum import Numbers, Severity
from tests.models.exact.laws import shift_total_variation

erratum = partial(base.erratum, "simsekli2024differential")
# Section 5, linear regression: d = 10, n = 30,000, lambda = 5, eta = .12 = m / K1^2.
SQUARE = math.sqrt(5 / 0.12) - 5
LINEAR = Dissipative(SQUARE + 5, 2 * math.sqrt(SQUARE), 5.0, 0.0, SQUARE, 2 * math.sqrt(SQUARE))
N, STEP = 30_000, 0.12


@erratum(
    place="Lemma 18",
    severity=Severity.LOOSE,
    printed="TV <= |mu_1 - mu_2| sqrt(2) Gamma(1 + 1/alpha) / (c pi).",
    reason="The best test is a half-space, and every projection is the one-dimensional stable law; the lemma"
    " holds without the factor sqrt(2).",
    instead="TV = 2 F_alpha(|mu_1 - mu_2| / (2c)) - 1 exactly, in any dimension, at most |mu_1 - mu_2| Gamma(1 +"
    " 1/alpha) / (c pi).",
)
def shifted_stable_laws() -> Numbers:
    found: dict[str, Any] = {}
    for alpha in (2.0, 1.8, 1.5):
        exact = shift_total_variation(alpha, 0.5, 1.0)
        printed = 0.5 * math.sqrt(2) * math.gamma(1 + 1 / alpha) / math.pi
        assert exact.high < printed / 1.38
        found[f"alpha = {alpha:g}, shift .5: exact"] = f"{exact.high:.6f}, printed {printed:.6f}"
    return found


@erratum(
    place="Theorems 9 and 10, the last step of the proof",
    severity=Severity.GAP,
    printed="A factor A^{1/log(n/M)}, A = 2C(H+1), is dropped through A^{1/log(n/M)} <= A^{1/log(e/M)}.",
    reason="For M > e the right side is below 1 and the left side, with A >= 1, is not. Whether the stated bound is"
    " ever below the truth is open: its other constants are loose.",
    instead="delta <= (3 kappa M / ((1-rho) n)) log(n/M) (2C(H+1))^{1/log(n/M)}: `heavy-tail.markov`, a certificate"
    " only with certified C and rho.",
)
def dropped_factor() -> Numbers:
    distance, n, base = 5.0, 30_000, 10.0
    kept, compared = base ** (1 / math.log(n / distance)), base ** (1 / math.log(math.e / distance))
    assert kept > 1 > compared
    return {"M, n, A": "5, 30,000, 10", "A^{1/log(n/M)}": kept, "A^{1/log(e/M)}, said to be larger": compared}


@erratum(
    place="Section 4.3, from (0, delta)-DP to Rényi DP",
    severity=Severity.UNSAFE,
    printed="(0, delta)-DP with delta = C log(n)/n implies Rényi DP of order n/(C log n) with epsilon = O(log(n)/n).",
    reason="A bound on total variation bounds no Rényi divergence above order 1: what happens with probability delta"
    " may tell all. The mechanism below tells a bit with probability delta, and flips it one time in 1/s; its"
    " divergence grows as log(1/s). The paper uses the step to compare itself with prior work; none of its theorems"
    " rests on it.",
    instead="Both sides at epsilon = 0, where a Rényi bound does give a delta: `sordino reproduce simsekli-renyi`.",
)
def from_total_variation_to_renyi() -> Numbers:
    n = 100_000
    delta = math.log(n) / n
    order, found = 1 / delta, {}
    for flip in (1e-3, 1e-9):
        first = np.array([delta * (1 - flip), delta * flip, 1 - delta])
        second = first[[1, 0, 2]]
        assert 0.5 * np.abs(first - second).sum() <= delta
        found[flip] = float(logsumexp(order * np.log(first) + (1 - order) * np.log(second)) / (order - 1))
    claimed = math.log(n) / n
    assert found[1e-3] > 6 > 50_000 * claimed
    assert found[1e-9] > found[1e-3] + 13
    return {
        "n = 100,000, C = 1: delta, and log(n)/n, said to be the order of epsilon": claimed,
        "Rényi divergence at order 1/delta, s = 1e-3": found[1e-3],
        "the same, s = 1e-9": found[1e-9],
    }


@erratum(
    place="Section 5, the constants of the experiments",
    severity=Severity.HYPOTHESIS,
    printed="sigma = 0.02 at alpha = 2 and 0.05 at 1.6 for linear regression, with rho = beta; H and C are not given.",
    reason="That H is the one of (17) is a hypothesis: with (16) the formula gives six times the printed sigma, with"
    " (17) about the printed one at alpha = 2. Against it: at 1.6 the same formula gives half of what is printed. (17)"
    " needs Assumption 3, a point that is stable for every record, which ridge regression does not have; and rho = beta"
    " comes with a C that is not given.",
    instead="`heavy-tail.coupling` needs contraction, growth of the gradient and a moment of the noise alone, and"
    " certifies the same delta with far less noise than is printed: GD with the printed noise is private.",
)
def constants_of_the_experiments() -> Numbers:
    def needed(alpha: float, bound: Any, universal_point: bool) -> float:
        def enough(scale: float) -> bool:
            found = lyapunov(LINEAR, alpha, scale, STEP, 10, 0.0, universal_point=universal_point)
            return bool(bound(found) <= 0.1)

        return least_true(enough, 1e-4, 1.0)

    def stated(found: Any) -> float:
        return stated_bound(found, found.rate, N)

    by_17, by_17_heavy, by_16 = needed(2.0, stated, True), needed(1.6, stated, True), needed(2.0, stated, False)
    kept = needed(2.0, lambda found: corrected_bound(found, 1.0, found.rate, N), False)
    certified = RULES[-1].scale(setting.LINEAR, 2.0)
    assert math.isclose(by_17, 0.0214, rel_tol=5e-3)
    assert math.isclose(by_17_heavy, 0.025, rel_tol=5e-3)
    assert by_16 > 5 * by_17
    assert math.isclose(kept, 0.183, rel_tol=5e-3)
    assert certified < 0.02 / 100
    return {
        "sigma for delta = .1 by the formula, H of (17), alpha = 2 (printed 0.02)": by_17,
        "the same, alpha = 1.6 (printed 0.05)": by_17_heavy,
        "the same, H of (16), alpha = 2": by_16,
        "H of (16) and the factor kept, C = 1, rho = beta (not certified)": kept,
        "certified by heavy-tail.coupling, alpha = 2": certified,
    }


@erratum(
    place="Theorem 10, used with passes over the data",
    severity=Severity.SCOPE,
    printed="A record moves a step by eta/n, for mini-batches drawn independently.",
    reason="The theorem says nothing of passes, and should not be used for them: eta/n is the move in expectation over"
    " independent batches. Implementations that go through the data in"
    " passes move the step that uses it by eta/b.",
    instead="`heavy-tail.coupling` charges eta/b at the steps that use the record for cyclic batches.",
)
def cyclic_heavy_tails() -> Numbers:
    # Ten records, batches of one, the record in the last batch of one pass: the law of the last step alone decides.
    n, eta, scale, sensitivity = 10, 0.1, 0.1, 1.0
    exact = shift_total_variation(2.0, eta * sensitivity, scale).low
    claimed = shift_total_variation(2.0, eta * sensitivity / n, scale).high
    assert math.isclose(exact, 0.276, rel_tol=5e-3)
    assert claimed < exact / 5
    return {
        "alpha = 2, n = 10, b = 1, record in the last batch: total variation of the last step": exact,
        "with eta/n": claimed,
    }


@erratum(
    place="Section 5.2, the labels",
    severity=Severity.MISPRINT,
    printed="z = 2 sign(theta' u) - 1 for labels of logistic regression.",
    reason="A sign is 1 or -1, so z is 1 or -3; the loss of Proposition 12 takes labels 1 and -1.",
    instead="z = sign(theta' u), with which `sordino reproduce simsekli-fig2` runs.",
)
def labels_of_logistic_regression() -> Numbers:
    labels = sorted({2 * sign - 1 for sign in (-1, 1)})
    assert labels == [-3, 1]
    return {"the two labels, as printed": ", ".join(map(str, labels))}
