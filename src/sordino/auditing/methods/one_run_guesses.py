"""`one-run-guesses`: one run, many canaries, and as many guesses of their coins as are right, whatever the noise is.

Without an instance canaries pull along the axes of the extremal quadratic, as hard as the certified constants allow;
with one, some of its records get a wrong target.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import tightest
from sordino.auditing.attack.audit import record_losses
from sordino.auditing.attack.chains import ChainFit, ConstantPull, PathScore, shown_axes
from sordino.auditing.attack.experiment import Claim, Releases, chain_of, need_feasible
from sordino.auditing.exact.extremal_chain import extremal_decay, extremal_gap
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, LowerBound, audit_method
from sordino.auditing.one_run.guesses import (
    MOST_CANARIES,
    Canaries,
    Coins,
    CoinScores,
    GuessPlan,
    audit_in_one_run,
    mislabelled,
    planned_guesses,
)
from sordino.core.bound import Relation, View
from sordino.core.spec import GaussianNoise, PointStart, Spec
from sordino.core.validate import InputError
from sordino.data.neighbours import Dataset, EncodedRecord
from sordino.models.base import Model

RUN = "Run by this code: the described chain, once"


@audit_method("one-run-guesses")
def audit_by_guesses(spec: Spec, options: AuditOptions, reason: str = "") -> LowerBound:
    """Lower bound from a single run by guesses of coins; `reason` says why nothing better holds."""
    spec = shown_axes(spec)
    need_feasible(spec, 1)
    return _extremal(spec, options, reason) if spec.instance is None else _mislabelled(spec, options, reason)


def _plan(spec: Spec, most: int, options: AuditOptions) -> GuessPlan:
    """As many canaries as pay, for the most that the certificate lets one be told."""
    bound = tightest(spec, options.delta)
    advantage = 1.0 if bound is None else min(1.0, bound.guarantee.delta(0.0))
    return planned_guesses(spec.dim, min(most, MOST_CANARIES), advantage, options.delta, options.confidence)


def _extremal(spec: Spec, options: AuditOptions, reason: str) -> LowerBound:
    """The same number of canaries for each axis; those of an axis are guessed together."""
    plan = _plan(spec, spec.n, options)
    canaries = axis_canaries(spec, plan)
    model = ConstantPull(weight_decay=extremal_decay(spec))
    score = _axis_score(spec, model.weight_decay)
    along = np.arange(plan.canaries) % plan.directions
    return _audited(
        spec,
        model,
        canaries,
        lambda release: score(release)[along],
        plan,
        options,
        f"{RUN}, on the worst-case quadratic of the spec's constants, with {plan.each} canaries along each of "
        f"{plan.directions} axes",
        reason,
    )


def axis_canaries(spec: Spec, plan: GuessPlan) -> Canaries:
    """Canaries with gradients as long as the certified constants allow, along one axis after the other."""
    replaced = spec.relation is Relation.REPLACE_ONE
    gap, _ = extremal_gap(spec)
    pulls = (gap / 2 if replaced else gap) * np.eye(plan.directions, spec.dim)
    along = np.arange(plan.canaries) % plan.directions
    base = Dataset(np.zeros((spec.n - plan.canaries, spec.dim)), np.zeros(spec.n - plan.canaries))
    heads = tuple(EncodedRecord(pulls[axis], 0.0) for axis in along)
    return Canaries(base, heads, tuple(EncodedRecord(-pulls[axis], 0.0) for axis in along) if replaced else None)


def _axis_score(spec: Spec, weight_decay: float) -> CoinScores:
    """One number for each axis, larger for heads: of a whole path its likelihood ratio, else the mean of its points."""
    chain = chain_of(spec)
    whole = len(chain.kept_iterates(spec.view)) == chain.steps > 1 and spec.view is View.ALL_ITERATES
    starts_at_once = not isinstance(chain.start, PointStart) or chain.start.values is None
    if not (whole and starts_at_once and isinstance(chain.noise, GaussianNoise)):
        return lambda release: np.asarray(release, float).reshape(-1, spec.dim).mean(axis=0)
    gap, _ = extremal_gap(spec)
    pulls = (-gap / 2, gap / 2) if spec.relation is Relation.REPLACE_ONE else (0.0, gap)
    uses = np.full(chain.steps, chain.rate(spec.n))
    path = PathScore.of(spec, chain.noise, weight_decay, pulls, uses, dim=1)
    ratio = path.learn(np.empty((0, 1)), np.empty((0, 1)))

    def scores(release: Releases) -> NDArray[np.float64]:
        points = np.asarray(release, float).reshape(chain.chains * chain.steps, spec.dim)
        return ratio(np.ascontiguousarray(points.T))

    return scores


def _mislabelled(spec: Spec, options: AuditOptions, reason: str) -> LowerBound:
    """Some of the records, at most half, become canaries with a wrong target."""
    instance = audit_instance(spec)
    data, model = instance.pair.first, instance.model
    if len(data) < 2:
        raise InputError(f"Expected at least two records for canaries in one run, got {len(data)}.")
    plan = _plan(spec, len(data) // 2, options)
    rest = len(data) - plan.canaries
    own = tuple(
        EncodedRecord(np.asarray(data.features[i], float), data.target[i].item()) for i in range(rest, len(data))
    )
    wrong = tuple(mislabelled(record, data.target) for record in own)
    base = Dataset(data.features[:rest], data.target[:rest])
    canaries = Canaries(base, wrong, own if spec.relation is Relation.REPLACE_ONE else None)

    def scores(release: Releases) -> NDArray[np.float64]:
        fits = -record_losses(model, release, *canaries.heads)[0]
        return fits if canaries.otherwise is None else fits + record_losses(model, release, *canaries.otherwise)[0]

    evidence = (
        f"{RUN}, on {instance.description.split(',')[0]}, {plan.canaries} canaries with a wrong target, guessed by "
        "their loss"
    )
    return _audited(spec, model, canaries, scores, plan, options, evidence, reason)


def _audited(
    spec: Spec,
    model: Model,
    canaries: Canaries,
    scores: CoinScores,
    plan: GuessPlan,
    options: AuditOptions,
    evidence: str,
    reason: str,
) -> LowerBound:
    fit = ChainFit(spec, model)

    def run_with(coins: Coins, seed: int) -> Releases:
        return fit(canaries.flipped(coins), np.array([seed], np.uint64))

    evidence += f"; {plan.guesses} coins guessed, as planned"
    if reason:
        evidence += f", because known Gaussian noise cannot be used: {reason}"
    claim = Claim(canaries.relation, spec.view)
    bound = audit_in_one_run(run_with, scores, plan.canaries, plan.guesses, claim, options, evidence, plan.clearer)
    if bound.epsilon > 0.0:
        return bound
    why = f"; a run in the middle would have shown epsilon {plan.expected:.2g} at most."
    if not plan.expected > 0.0:
        why = (
            f", as was to be expected: {plan.directions} directions say too little about coins for a bound at "
            f"{100 * options.confidence:g} %; many models (attack) or a known law (exact) can tell more."
        )
    return replace(bound, evidence=f"{evidence}. Nothing was found{why}")
