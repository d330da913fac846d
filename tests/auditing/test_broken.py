"""Mechanisms that claim an epsilon and break it: an audit catches each, and does not accuse its correct version.

Seeds are fixed. A correct version would be accused by at most 1 in 100 seeds: audits hold with confidence 99 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import explain
from sordino.auditing.experiment import ChainFit, Claim, audit_by_attack, linear_score
from sordino.auditing.lower_bound import AuditOptions, LowerBound, VerdictKind, verdict
from sordino.auditing.quadratic import ConstantPull, exposed_position, extremal_decay, extremal_rows, extremal_score
from sordino.core.bound import Bound, Relation, View
from sordino.core.spec import Spec
from sordino.data.neighbours import Dataset, EncodedRecord, neighbours
from sordino.models import Logistic
from tests.auditing.chains import chain as described

NO_CURVATURE = {"problem.strong_convexity": None, "problem.smoothness": None}


@dataclass(frozen=True)
class Case:
    """What is claimed of a mechanism, an audit of the broken one, and the same audit of the correct one."""

    claim: Bound
    broken: Callable[[], LowerBound]
    correct: Callable[[], LowerBound]


def claimed(spec: Spec, delta: float) -> Bound:
    """The tightest certificate of a spec."""
    bound = explain(spec, delta).tightest
    assert bound is not None
    return bound


def options(delta: float, models: int) -> AuditOptions:
    return AuditOptions(delta=delta, confidence=0.99, models=models, seed=1)


def chain(**changes: Any) -> Spec:
    """Ten steps of noisy gradient descent with full batches of 20 records in one dimension, with these changes."""
    pulls = {"gradient_sensitivity": 2.0, "gradient_bound": 1.0, "strong_convexity": 0.5, "smoothness": 0.5}
    return described(step_size=0.1, n=20, **pulls).with_values(changes)


def extremal(spec: Spec, asked: AuditOptions, made=lambda fit: fit) -> LowerBound:
    """Attack the extremal quadratic of what really runs."""
    decay = extremal_decay(spec)
    pair, fit = extremal_rows(spec, exposed_position(spec)), made(ChainFit(spec, ConstantPull(weight_decay=decay)))
    score, claim = extremal_score(spec, pair, decay), Claim(spec.relation, spec.view)
    return audit_by_attack(fit, pair.first, pair.second, (lambda first, second: score,), claim, asked, "quadratic")


def noise_too_small():
    spec, half = (chain(**{"algorithm.noise.scale": scale}) for scale in (0.04, 0.02))
    asked = options(0.05, 4000)
    return Case(claimed(spec, 0.05), lambda: extremal(half, asked), lambda: extremal(spec, asked))


def passes_as_subsampling():
    """Permuted passes use every record once an epoch; independent draws miss it with probability 0.95^20 = 0.36.

    So at delta = 0.7 those claim epsilon = 0.
    """
    changes = {"algorithm.steps": 20, "algorithm.step_size": 1.0, "algorithm.noise.scale": 0.2, "view": "all-iterates"}
    drawn, passes = (
        chain(**changes, **NO_CURVATURE, **{"algorithm.batch": {"scheme": scheme, "size": 1}})
        for scheme in ("without-replacement", "reshuffled")
    )
    asked = options(0.7, 1000)
    return Case(claimed(drawn, 0.7), lambda: extremal(passes, asked), lambda: extremal(drawn, asked))


def no_clipping():
    """Gradients are certified as clipped and are not: one long record moves the chain as far as it likes."""
    clipping = {"algorithm.clipping": {"kind": "residual", "bound": 1.0}}
    spec, asked = (
        chain(**clipping, **NO_CURVATURE, **{"algorithm.noise.scale": 0.04, "problem.dim": 2}),
        options(0.05, 2000),
    )
    # A run keeps to every bound that its own spec states, so the broken one states none.
    unclipped = spec.with_values(
        dict.fromkeys(("algorithm.clipping", "problem.gradient_bound", "problem.gradient_sensitivity"))
    )

    def attack(run):
        rng = np.random.default_rng(0)
        data = Dataset(rng.normal(size=(20, 2)), rng.choice([-1.0, 1.0], 20))
        base = neighbours(data, Relation.REPLACE_ONE, 0, EncodedRecord(np.array([6.0, 6.0]), 1.0)).second
        pair = neighbours(base, Relation.REPLACE_ONE, 0, EncodedRecord(np.array([6.0, 6.0]), -1.0))
        claim, words = Claim(Relation.REPLACE_ONE, View.LAST_ITERATE), "one record of length 8.5 with either label"
        fit = ChainFit(run, Logistic())
        return audit_by_attack(fit, pair.first, pair.second, (linear_score,), claim, asked, words)

    return Case(claimed(spec, 0.05), lambda: attack(unclipped), lambda: attack(spec))


def seed_reused():
    """The seed is written into the program, so that the noise is the same every time and can be subtracted."""
    spec, asked = chain(), options(1e-5, 1000)

    def written_in(fit):
        return lambda data, seeds: np.repeat(fit(data, np.array([7], np.uint64)), len(seeds), axis=0)

    return Case(claimed(spec, 1e-5), lambda: extremal(spec, asked, made=written_in), lambda: extremal(spec, asked))


CASES = (noise_too_small, no_clipping, seed_reused, passes_as_subsampling)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_broken_mechanism_is_caught(case):
    made = case()
    found = verdict(made.claim, made.broken())
    assert found.kind is VerdictKind.VIOLATED, found.evidence
    assert made.claim.theorem in found.evidence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_correct_version_is_not_accused(case):
    made = case()
    found = verdict(made.claim, made.correct())
    assert found.kind in {VerdictKind.CONSISTENT, VerdictKind.INCONCLUSIVE}, found.evidence
