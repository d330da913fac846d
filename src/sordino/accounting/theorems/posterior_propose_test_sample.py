"""Propose-Test-Sample: clean the data privately, test that enough is left, draw one posterior sample."""

import math

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.errors import InputError
from sordino.core.guarantee import ApproxDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.view import View

_LARGEST_EPSILON = 1e9


def _approximate(spec: Spec) -> str | None:
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample) or run.sampler is Sampler.EXACT:
        return None
    return (
        f"needs an exact draw from the posterior, and the sampler is {run.sampler}: with SGLD in its place the "
        "algorithm is not private, for any epsilon and any delta < 1/6 (Heller & Fetaya 2023, Claim IV.9)"
    )


def _too_loose(spec: Spec) -> str | None:
    """Above this epsilon n_min no longer implies the condition that Claim D.22 misses a factor beta for."""
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample):
        return None
    limit = _LARGEST_EPSILON if run.beta <= 1 else 4 / 3 * math.sqrt(-math.log(run.delta)) * (1 - 1e-12)
    if run.epsilon <= limit:
        return None
    return f"needs epsilon <= {limit:.6g} (4/3 sqrt(log(1/delta)) where beta > 1), and epsilon = {run.epsilon:.6g}"


@theorem(
    id="posterior.propose-test-sample",
    statement=(
        "Propose-Test-Sample with stage parameters epsilon and delta and an exact draw is (5 epsilon, 2 delta)-DP; "
        "n_min ends with n_2^{rho_2 / gamma_1}, where the text prints n_1."
    ),
    citation=Citation("heller2023can", "Claim IV.8, with the n_min that the proof of Claim C.14 uses"),
    status=Status.CORRECTED,
    scope=Scope(frozenset({"propose-test-sample"}), frozenset({View.ONE_SAMPLE}), {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        Assumption(
            "exact draw",
            "line 25 draws exactly from the posterior",
            _approximate,
            lambda spec: spec.with_values({"algorithm.sampler": Sampler.SGLD.value}),
        ),
        Assumption(
            "stage epsilon",
            "epsilon is at most 4/3 sqrt(log(1/delta)) where beta > 1",
            _too_loose,
            lambda spec: spec.with_values({"algorithm.epsilon": 2 * _LARGEST_EPSILON}),
        ),
        caller_checked("n_min", "the run tests against n_min of (33) with n_2^{rho_2 / gamma_1} as its last entry"),
    ),
    monotone=(("algorithm.epsilon", Monotone.RISES),),
)
def propose_test_sample(spec: Spec) -> Guarantee:
    """Three Laplace answers with failure delta, then a tested sample with 2 epsilon and delta."""
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample):
        raise InputError("Expected a propose-test-sample run, got another kind; use evaluate.")
    return ApproxDP(up(5 * run.epsilon), min(1.0, 2 * run.delta))
