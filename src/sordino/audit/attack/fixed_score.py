"""The attack with a score that is known beforehand: nothing is learnt, so every model is counted."""

from typing import Any

from sordino.audit.attack.experiment import Claim, drawn_seeds, seed_policy
from sordino.audit.attack.fitting import FitMany, fit_here
from sordino.audit.attack.scores import ScoreFunction
from sordino.audit.confidence.band import band_cap, band_tests
from sordino.audit.lower_bound import Examined, LowerBound
from sordino.audit.method import AuditOptions


def audit_by_fixed_score(
    fit_many: FitMany,
    first: Any,
    second: Any,
    score: ScoreFunction,
    claim: Claim,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon from a score fixed before any model was seen, larger for the second dataset.

    All thresholds are tried on all models, with limits that hold for all of them at once; the whole trade-off curve
    found holds with the stated confidence. Better than holding models back where epsilon is near the cap.
    """
    each_side = options.models // 2
    seeds = drawn_seeds(options, each_side)
    scores = [score(side) for side in (options.fit_sides or fit_here)(fit_many, (first, second), seeds)]
    tests = band_tests(scores[0], scores[1], options.confidence)
    best = max(tests, key=lambda test: test.point.epsilon(options.delta))
    return LowerBound(
        epsilon=best.point.epsilon(options.delta),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="attack",
        confidence=options.confidence,
        counts=(
            ("models", 2 * each_side),
            ("counted models of the first dataset", each_side),
            ("false positives", best.counts.false_positives),
            ("counted models of the second dataset", each_side),
            ("false negatives", best.counts.false_negatives),
            ("thresholds covered", 2 * each_side + 1),
        ),
        cap=band_cap(each_side, each_side, options.delta, options.confidence),
        examined=Examined.RUN,
        seed_policy=seed_policy(options),
        evidence=evidence,
        curve=tuple(test.point for test in tests),
    )
