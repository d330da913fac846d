"""The attack audit: fit many models on two neighbours, learn to tell them apart, and count errors on fresh ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sordino.audit.attack.experiment import Claim, Parts, drawn_seeds, seed_policy
from sordino.audit.attack.fitting import FitMany, Releases, fit_here
from sordino.audit.attack.scores import Score, ScoreFunction, Scores
from sordino.audit.confidence.attack_bound import cap, trade_off_point
from sordino.audit.confidence.error_counts import ErrorCounts
from sordino.audit.confidence.thresholds import choose_threshold, count_errors
from sordino.audit.lower_bound import Examined, LowerBound
from sordino.audit.method import AuditOptions
from sordino.core.validate import refuse


def audit_by_attack(
    fit_many: FitMany,
    first: Any,
    second: Any,
    scores: Sequence[Score],
    claim: Claim,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon of a mechanism, from models of two neighbouring datasets.

    Of every side's models one part teaches the scores, one part chooses among scores and thresholds, and the last part,
    which nothing has seen, is counted. So the bound holds whatever the scores are, and however they were chosen.
    """
    if not scores:
        raise refuse("scores", "to hold at least one score", scores)
    parts = Parts.of(options.models, learns=any(score.learns for score in scores))
    seeds = drawn_seeds(options, parts.each_side)
    sides = (options.fit_sides or fit_here)(fit_many, (first, second), seeds)
    seen, unseen = [side[: -parts.count] for side in sides], [side[-parts.count :] for side in sides]
    rule, threshold = _chosen(scores, seen[0], seen[1], parts.learn, options)
    false_positives, false_negatives = count_errors(rule(unseen[0]), rule(unseen[1]), threshold)
    counts = ErrorCounts(int(false_positives), parts.count, int(false_negatives), parts.count)
    return bound_from_counts(counts, claim, options, evidence, 2 * parts.each_side)


def bound_from_counts(
    counts: ErrorCounts, claim: Claim, options: AuditOptions, evidence: str, models: int
) -> LowerBound:
    """The lower bound of one rule whose errors were counted on models it had not seen."""
    point = trade_off_point(counts, options.confidence)
    return LowerBound(
        epsilon=point.epsilon(options.delta),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="attack",
        confidence=options.confidence,
        counts=(
            ("models", models),
            ("counted models of the first dataset", counts.first_models),
            ("false positives", counts.false_positives),
            ("counted models of the second dataset", counts.second_models),
            ("false negatives", counts.false_negatives),
        ),
        cap=cap(counts.first_models, counts.second_models, options.delta, options.confidence),
        examined=Examined.RUN,
        seed_policy=seed_policy(options),
        evidence=evidence,
        curve=(point,),
    )


def _chosen(
    scores: Sequence[Score], first: Releases, second: Releases, learn: int, options: AuditOptions
) -> tuple[ScoreFunction, float]:
    """The rule with the largest bound on the models that choose."""
    best: tuple[float, ScoreFunction, float] | None = None
    for score in scores:
        rule = score.learn(first[:learn], second[:learn])
        values = rule(first[learn:]), rule(second[learn:])
        threshold = float(choose_threshold(*values, options.delta, options.confidence))
        quality = _quality(values, threshold)
        if best is None or quality > best[0]:
            best = quality, rule, threshold
    if best is None:
        raise refuse("scores", "to hold at least one score", scores)
    return best[1], best[2]


def _quality(values: tuple[Scores, Scores], threshold: float) -> float:
    """How well a rule did: the log odds of its smoothed error rates, comparable across scores."""
    errors = np.array([float(count) for count in count_errors(*values, threshold)])
    rates = (errors + 0.5) / (np.array([len(side) for side in values]) + 1.0)
    return float(np.max(np.log((1 - rates[::-1]) / rates)))
