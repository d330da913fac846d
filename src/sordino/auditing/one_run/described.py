"""The audit in one run: many canaries, a fair coin for each, one model, and as many guesses as are right."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import tightest
from sordino.auditing.attack.audit import record_losses
from sordino.auditing.attack.chains import ChainFit, ConstantPull, PathScore
from sordino.auditing.attack.experiment import Claim, Releases, chain_of, need_feasible
from sordino.auditing.exact.extremal_chain import extremal_decay, extremal_gap
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound
from sordino.auditing.one_run.guesses import (
    Canaries,
    Coins,
    GuessPlan,
    cap,
    epsilon_from_guesses,
    fair_coins,
    mislabelled,
    planned_guesses,
    right_guesses,
)
from sordino.auditing.one_run.known_laws import (
    MOST_CANARIES,
    GroupedCanaries,
    KnownGaussian,
    bound_from_scores,
    shown_axes,
    why_not_linear,
)
from sordino.core.bound import Relation, View
from sordino.core.spec import GaussianNoise, PointStart, Spec
from sordino.core.validate import InputError
from sordino.data.neighbours import Dataset, Record
from sordino.model.base import Model

RunWithCoins = Callable[[Coins, int], Any]
CoinScores = Callable[[Any], NDArray[np.floating]]


def audit_in_one_run(
    run_with: RunWithCoins,
    scores: CoinScores,
    coins: int,
    guesses: int,
    claim: Claim,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon from one run in which `coins` records were each decided by a fair coin.

    `run_with(coins, seed)` runs the mechanism once: under add-remove a coin says whether its record is there, under
    replace-one which of two records it is. That is the relation the bound speaks about. `scores(release)` gives one
    number for each coin, larger for heads, without knowing the coins. `guesses` is fixed before the run.
    """
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    flipped = fair_coins(coins, generator)
    release = run_with(flipped.copy(), int(generator.integers(0, 2**63)))
    found = np.asarray(scores(release), float)
    if found.shape != (coins,):
        raise InputError(f"Expected one score for each of {coins} coins, got shape {found.shape}.")
    right = right_guesses(found, flipped, guesses)
    return bound_from_guesses(coins, guesses, right, claim, options, evidence)


def bound_from_guesses(
    coins: int, guesses: int, right: int, claim: Claim, options: AuditOptions, evidence: str
) -> LowerBound:
    """The lower bound of one run in which `right` of `guesses` guesses about `coins` coins were right."""
    fresh = "drawn afresh from the operating system" if options.seed is None else f"drawn from the seed {options.seed}"
    return LowerBound(
        epsilon=epsilon_from_guesses(coins, guesses, right, options.delta, options.confidence),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="one-run",
        confidence=options.confidence,
        counts=(("models", 1), ("coins", coins), ("guesses", guesses), ("right guesses", right)),
        cap=cap(coins, guesses, options.delta, options.confidence),
        examined=Examined.RUN,
        seed_policy=f"Coins and run are {fresh} of the audit.",
        evidence=evidence,
    )


# The one-run audit of a SPEC.json: what is planted, which score is looked at, and which of the two methods holds.
#
# Known Gaussian noise (`known_gaussian`) where what is released is linear in the records, guesses of coins (`theorem`)
# everywhere else. Both run the described chain once, on the extremal quadratic of its constants or on its instance.

_RUN = "Run by this code: the described chain, once"


def audit_described_run_once(spec: Spec, options: AuditOptions) -> LowerBound:
    """Audit a noisy gradient spec with one run: by known Gaussian noise where that holds, else by guesses."""
    chain_of(spec)
    reason = why_not_linear(spec)
    return audit_by_guesses(spec, options, reason) if reason else audit_by_known_noise(spec, options)


def audit_by_known_noise(spec: Spec, options: AuditOptions) -> LowerBound:
    """Audit a chain whose release is linear in its records; refused where it is not."""
    chain_of(spec)
    reason = why_not_linear(spec)
    if reason:
        raise InputError(f"Expected a chain with known Gaussian noise, got one where {reason}; use guesses.")
    planted = GroupedCanaries.of(spec)
    need_feasible(planted.spec, 1)
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    heads = np.zeros(planted.groups, bool)
    heads[generator.permutation(planted.groups)[: (planted.groups + 1) // 2]] = True
    release = planted.fit(planted.flipped(heads), generator.integers(0, 2**63, 1).astype(np.uint64))
    known = KnownGaussian(
        "the extremal quadratic is linear in its records, their order is fixed, and nothing else differs between axes",
        group=planted.size,
        baseline=0.0,
        mirrored=spec.relation is Relation.REPLACE_ONE,
    )
    scores = planted.scores(release)
    evidence = (
        f"{_RUN}, on the extremal quadratic of the spec's constants, with {planted.groups} group"
        f"{'' if planted.groups == 1 else 's'} of {planted.size} canaries that pull along an axis each, forward or "
        f"{'backward' if known.mirrored else 'not at all'} by a coin"
    )
    found = bound_from_scores(
        scores[: planted.groups],
        heads,
        known,
        Claim(spec.relation, spec.view),
        options,
        evidence,
        scores[planted.groups :],
    )
    if found.epsilon > 0.0:
        return found
    why = (
        f". Nothing was found: one canary is described to shift the release by {planted.shift:.2g} standard "
        f"deviations, too little for so few of them at {100 * options.confidence:g} %; many models (attack) or the "
        "known law (exact) can tell more."
    )
    return replace(found, evidence=found.evidence + why)


def audit_by_guesses(spec: Spec, options: AuditOptions, reason: str = "") -> LowerBound:
    """Audit any noisy gradient chain by guessing the coins of its canaries; `reason` says why nothing better holds."""
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
        f"{_RUN}, on the extremal quadratic of the spec's constants, with {plan.each} canaries along each of "
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
    heads = tuple(Record(pulls[axis], 0.0) for axis in along)
    return Canaries(base, heads, tuple(Record(-pulls[axis], 0.0) for axis in along) if replaced else None)


def _axis_score(spec: Spec, weight_decay: float) -> CoinScores:
    """One number for each axis, larger for heads: of a whole path its likelihood ratio, else the mean of its points."""
    chain = chain_of(spec)
    whole = len(chain.kept_iterates(spec.view)) == chain.steps > 1 and spec.view is View.ALL_ITERATES
    starts_at_once = not isinstance(chain.start, PointStart) or chain.start.values is None
    if not (whole and starts_at_once and isinstance(chain.noise, GaussianNoise)):
        return lambda release: np.asarray(release, float).reshape(-1, spec.dim).mean(axis=0)
    eta, scale = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)
    gap, _ = extremal_gap(spec)
    pulls = (-gap / 2, gap / 2) if spec.relation is Relation.REPLACE_ONE else (0.0, gap)
    path = PathScore(
        chains=chain.chains,
        dim=1,
        start=0.0,
        decay=1.0 - eta * weight_decay,
        pulls=np.outer(pulls, eta / chain.divisor(spec.n)),
        scale=scale,
        uses=np.full(chain.steps, chain.rate(spec.n)),
    )
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
    own, base = _cut(data, plan.canaries)
    wrong = tuple(mislabelled(record, data.target) for record in own)
    canaries = Canaries(base, wrong, own if spec.relation is Relation.REPLACE_ONE else None)

    def scores(release: Releases) -> NDArray[np.float64]:
        fits = -record_losses(model, release, *canaries.heads)[0]
        return fits if canaries.otherwise is None else fits + record_losses(model, release, *canaries.otherwise)[0]

    evidence = (
        f"{_RUN}, on {instance.description.split(',')[0]}, {plan.canaries} canaries with a wrong target, guessed by "
        "their loss"
    )
    return _audited(spec, model, canaries, scores, plan, options, evidence, reason)


def _cut(data: Dataset, number: int) -> tuple[tuple[Record, ...], Dataset]:
    rest = len(data) - number
    own = tuple(Record(np.asarray(data.features[i], float), data.target[i].item()) for i in range(rest, len(data)))
    return own, Dataset(data.features[:rest], data.target[:rest])


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

    told = f"{evidence}; {plan.guesses} coins guessed, as planned"
    if reason:
        told += f", because known Gaussian noise cannot be used: {reason}"
    claim = Claim(canaries.relation, spec.view)
    found = audit_in_one_run(run_with, scores, plan.canaries, plan.guesses, claim, options, told)
    return found if found.epsilon > 0.0 else replace(found, evidence=f"{told}. {_nothing(plan, options)}")


def _nothing(plan: GuessPlan, options: AuditOptions) -> str:
    """Why guesses found nothing."""
    if plan.expected > 0.0:
        return f"Nothing was found; a run in the middle would have shown epsilon {plan.expected:.2g} at most."
    return (
        f"Nothing was found, as was to be expected: {plan.directions} directions say too little about coins for a "
        f"bound at {100 * options.confidence:g} %; many models (attack) or a known law (exact) can tell more."
    )
