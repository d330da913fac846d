"""The attack audit: fit many models on two neighbours, learn to tell them apart, and count errors on fresh ones.

Where the score is known beforehand nothing is learnt, so every model is counted. Scores of models that were not made
for the audit look at their behaviour on the record in question, and at their parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.auditing.attack.experiment import (
    Claim,
    FitMany,
    LinearScore,
    Parts,
    Releases,
    Score,
    ScoreFunction,
    Scores,
    drawn_seeds,
    fit_here,
    seed_policy,
)
from sordino.auditing.confidence import (
    BandTest,
    ErrorCounts,
    band_cap,
    band_tests,
    choose_threshold,
    count_errors,
    trade_off_point,
)
from sordino.auditing.instance import AuditInstance
from sordino.auditing.joint_test import joint_cap, joint_epsilon
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound
from sordino.core.bound import Relation, View
from sordino.core.validate import refuse
from sordino.data.neighbours import NeighbourPair, Record
from sordino.models.base import Model


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
    """The lower bound of one rule whose errors were counted on models it had not seen, in one exact test."""
    most = joint_cap(counts.first_models, counts.second_models, options.delta, options.confidence)
    test = BandTest(counts, trade_off_point(counts, options.confidence))
    bound = _bound(test, (test,), models, (), most, claim, options, evidence)
    return replace(bound, epsilon=joint_epsilon(counts, options.delta, options.confidence))


def _bound(
    best: BandTest,
    tests: Sequence[BandTest],
    models: int,
    covered: tuple[tuple[str, int], ...],
    most: float,
    claim: Claim,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """What the best of some tests proves."""
    return LowerBound(
        epsilon=best.point.epsilon(options.delta),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="attack",
        confidence=options.confidence,
        counts=(
            ("models", models),
            ("counted models of the first dataset", best.counts.first_models),
            ("false positives", best.counts.false_positives),
            ("counted models of the second dataset", best.counts.second_models),
            ("false negatives", best.counts.false_negatives),
            *covered,
        ),
        cap=most,
        examined=Examined.RUN,
        seed_policy=seed_policy(options),
        evidence=evidence,
        curve=tuple(test.point for test in tests),
    )


def _chosen(
    scores: Sequence[Score], first: Releases, second: Releases, learn: int, options: AuditOptions
) -> tuple[ScoreFunction, float]:
    """The rule with the largest bound on the models that choose."""
    tried: list[tuple[float, ScoreFunction, float]] = []
    for score in scores:
        rule = score.learn(first[:learn], second[:learn])
        values = rule(first[learn:]), rule(second[learn:])
        threshold = float(choose_threshold(*values, options.delta, options.confidence))
        # How well a rule did: the log odds of its smoothed error rates, comparable across scores.
        errors = np.array([float(count) for count in count_errors(*values, threshold)])
        rates = (errors + 0.5) / (np.array([len(side) for side in values]) + 1.0)
        tried.append((float(np.max(np.log((1 - rates[::-1]) / rates))), rule, threshold))
    return max(tried, key=lambda each: each[0])[1:]


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
    most = band_cap(each_side, each_side, options.delta, options.confidence)
    covered = (("thresholds covered", 2 * each_side + 1),)
    return _bound(best, tests, 2 * each_side, covered, most, claim, options, evidence)


def audit_instance_by_attack(
    fit_many: FitMany, instance: AuditInstance, view: View, options: AuditOptions, run: str
) -> LowerBound:
    """Lower bound from models of an instance's first pair of neighbours; `run` says what is run on it."""
    pair = instance.pair
    evidence = (
        f"Run by this code: the described chain{run}, on {instance.description}; the better of the record's loss and a "
        "linear score of the parameters"
    )
    scores, claim = model_scores(instance.model, pair), Claim(pair.relation, view)
    return audit_by_attack(fit_many, pair.first, pair.second, scores, claim, options, evidence)


def model_scores(model: Model, pair: NeighbourPair) -> tuple[Score, ...]:
    """What to look at in models of two neighbours: the loss of the record in question, and the parameters."""
    replaced = pair.relation is Relation.REPLACE_ONE
    holding = (pair.second, pair.first) if replaced else (max(pair.first, pair.second, key=len),)
    records = [
        Record(np.asarray(data.features[pair.position], float), float(data.target[pair.position])) for data in holding
    ]
    return CanaryLoss(model, *records), LinearScore()


@dataclass(frozen=True, eq=False)
class CanaryLoss(Score):
    """How well a model fits one record: minus its loss there, or minus another record's loss on top.

    A release of several points (kept iterates, chains) is scored by its mean. Which side is smaller is learnt.
    """

    model: Model
    record: Record
    instead_of: Record | None = None

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        sign = -1.0 if np.median(self.fit(second)) < np.median(self.fit(first)) else 1.0
        return lambda releases: sign * self.fit(releases)

    def fit(self, releases: Releases) -> Scores:
        """Minus the loss of the record, relative to the other record's where there is one."""
        if self.instead_of is None:
            return -record_losses(self.model, releases, self.record)[:, 0]
        own, other = record_losses(self.model, releases, self.record, self.instead_of).T
        return other - own


def record_losses(model: Model, releases: Releases, *records: Record) -> Scores:
    """The loss of each record under every release, the mean over the points of a release; shape (releases, records)."""
    dtype = jnp.zeros(()).dtype
    rows = jnp.asarray(np.stack([record.features for record in records]), dtype)
    targets = jnp.asarray([record.target for record in records], dtype)
    points = np.asarray(releases).reshape(len(releases), -1, model.dim(rows.shape[1]))
    return np.asarray(_losses(model, jnp.asarray(points, dtype), rows, targets), float)


@partial(jax.jit, static_argnums=0)
def _losses(model: Model, points: Array, rows: Array, targets: Array) -> Array:
    def of_release(each: Array) -> Array:
        return jax.vmap(lambda x, y: jax.vmap(lambda theta: model.loss(theta, x, y))(each).mean())(rows, targets)

    return jax.vmap(of_release)(points)
