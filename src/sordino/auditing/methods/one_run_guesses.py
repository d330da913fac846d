"""`one-run-guesses`: one run, many canaries with a coin each; the number of right guesses gives the bound.

How many fair coins can be guessed from one release of an (epsilon, delta)-private mechanism: exactly.

m fair coins decide, independently, which of two neighbouring choices each of m records takes; an attacker who sees the
release guesses r of the coins (Steinke, Nasr & Jagielski 2023). With q = e^epsilon / (1 + e^epsilon) and W ~ Bin(r,
q) [ours]:

    P[at least v right] <= P[W >= v] (1 + P[W < v] m delta / (v P[W = v])), or 1 if that is less,

and some mechanism attains it. Proof. Guesses are post-processing, and averaging a mechanism over relabelled coins
keeps it private, so M(guesses | coins) depends on the number k of right ones alone; let it have the law w, b be the
law of W, and x = w / b. A coin is among those guessed with probability r / m, and k b_k = e^epsilon (r - k + 1)
b_{k-1}, so privacy in that coin says sum_k (k b_k / m) d_k <= delta with d_k = (x_k - x_{k-1})+. Since sum b x =
sum b = 1,

    P[at least v] - P[W >= v] = sum_{k >= v > j} b_k b_j (x_k - x_j) <= sum_l d_l P[W >= max(l, v)] P[W < min(l, v)],

which is at most delta times the largest of P[W >= max(l, v)] P[W < min(l, v)] m / (l b_l). Binomial laws are
log-concave, so the largest is at l = v. Equality: x takes one value below v and another from v on.

The published form adds 2 m delta max_i P[v > W >= v - i] / i to P[W >= v], which is too small for few right guesses
(m = r = 2, v = 1, epsilon = 2, delta = 0.01: 0.9864, and a mechanism attains 0.9871).

From scores to guesses: the highest are guessed in, the lowest out, and both numbers are fixed before the run. Several
canaries may share a direction: each then shows a little less clearly, but there are more coins to guess. Without an
instance canaries pull along the axes of the worst-case quadratic; with one, some of its records get a wrong target.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.accounting.evaluate import tightest
from sordino.auditing.experiment import About, ChainFit, Releases, chain_of, need_feasible, record_losses
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.quadratic import ConstantPull, extremal_decay, extremal_gap, path_score, shown_axes
from sordino.core.bound import Relation, View
from sordino.core.gaussian import narrow, up
from sordino.core.spec import GaussianNoise, PointStart, Spec
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, PROBABILITY, InputError, Interval, number, whole_number
from sordino.data.neighbours import Dataset
from sordino.models.base import Model

Coins = NDArray[np.bool_]
RunWithCoins = Callable[[Coins, int], Any]
CoinScores = Callable[[Any], NDArray[np.floating]]

MOST_CANARIES = 10_000  # more canaries than this make the answer no better in any digit that is shown
_LARGEST_EPSILON = 700.0
_RELATIVE = 1e-9  # far more than the errors of the incomplete beta function and of the logarithms of factorials


def p_value(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The largest probability with which an (epsilon, delta)-private release lets so many of the `guesses` be right."""
    coins = whole_number("coins", coins)
    guesses = whole_number("guesses", guesses, Interval(0, coins))
    right = whole_number("right", right, Interval(0, guesses))
    epsilon, delta = number("epsilon", epsilon, NON_NEGATIVE), number("delta", delta, PROBABILITY)
    if right == 0:
        return 1.0
    wrong = 1.0 / (1.0 + math.exp(min(epsilon, _LARGEST_EPSILON)))
    # P[W >= v] = P[Bin(r, wrong) <= r - v].
    tail = float(special.betaincc(guesses - right + 1.0, float(right), wrong))
    # P[W >= v] / P[W = v]; beyond the mode it is at most r - v + 1, which serves where the atom underflows.
    log_ways = special.gammaln(guesses + 1.0) - special.gammaln(right + 1.0) - special.gammaln(guesses - right + 1.0)
    log_atom = log_ways + right * math.log1p(-wrong) + (guesses - right) * math.log(wrong)
    ratio = math.inf if tail > 0.5 else guesses - right + 1.0
    if log_atom > -600.0:
        ratio = tail * float(np.exp(-log_atom))
    return min(1.0, up((tail + (1.0 - tail) * ratio * coins * delta / right) * (1 + _RELATIVE)))


def epsilon_from_guesses(coins: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The epsilon that so many right guesses refute with this confidence, rounded down; 0 when they refute none."""
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)

    def allowed(epsilon: float) -> bool:
        return p_value(coins, guesses, right, epsilon, delta) >= failure

    if allowed(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _LARGEST_EPSILON and not allowed(high):
        low, high = high, 2 * high
    # Whatever lies at the lower end was refuted, and with it everything below: (epsilon, delta) implies larger epsilon.
    return narrow(allowed, low, high, near=0.0, halvings=36)[0]


_EACH = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
# Numbers of guesses that are considered, a few per cent apart: one error more or less decides what few guesses prove.
_SIZES = 400
# Coins do not fall half and half, and as many are guessed on either side: errors are more by about this over the root
# of the number of coins. Plans are for an outcome that is reached three times out of five: one error
# more decides over a lot.
_UNEVEN, _OFTEN = 2.0, 0.6
_CLEAREST = 12.0  # a release that reveals a coin with certainty is planned for as if it revealed it this clearly


class GuessPlan(NamedTuple):
    """How many canaries are in each direction, how many coins are guessed, and what the median outcome proves."""

    directions: int
    each: int
    guesses: int
    expected: float

    @property
    def canaries(self) -> int:
        return self.directions * self.each


@lru_cache(maxsize=64)
def planned_guesses(directions: int, most: int, total_variation: float, delta: float, confidence: float) -> GuessPlan:
    """The plan whose median outcome proves most of a Gaussian release; `total_variation` bounds a coin's clarity."""
    directions = min(whole_number("directions", directions), whole_number("most", most))
    advantage = number("total_variation", total_variation, PROBABILITY)
    clarity = min(_CLEAREST, 2 * float(special.ndtri(0.5 + 0.5 * min(advantage, 1 - 1e-12))))

    def proving(each: int) -> tuple[float, float, GuessPlan]:
        """What so many canaries in each direction prove, and by how much right guesses are more than half."""
        guesses, right = _median_outcome(clarity, directions, each)
        # Without delta, in one sweep; delta costs next to nothing where it is small.
        sure = special.betaincinv(np.maximum(right, 1), guesses - right + 1.0, 1.0 - confidence)
        place = int(np.argmax(np.where(right > 0, sure, 0.0)))
        proved = epsilon_from_guesses(directions * each, int(guesses[place]), int(right[place]), delta, confidence)
        surplus = (right - guesses / 2) / np.sqrt(guesses)
        if not proved > 0.0:
            place = int(np.argmax(surplus))
        return proved, float(surplus[place]), GuessPlan(directions, each, int(guesses[place]), proved)

    tried = (proving(each) for each in _EACH if each == 1 or directions * each <= most)
    return max(tried, key=lambda one: one[:2])[2]


def _median_outcome(clarity: float, directions: int, each: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of guesses to plan, and how many are right in the median run; a coin shifts a score by `clarity`."""
    coins = directions * each
    guesses = np.unique(np.round(np.geomspace(1, coins, _SIZES)).astype(np.int64))
    shift = clarity / 2 / math.sqrt(1.0 + (each - 1) * clarity**2 / 4)
    thresholds = np.linspace(shift + 7.0, 0.0, 2001)
    wrong = special.ndtr(-thresholds - shift)
    share = special.ndtr(shift - thresholds) + wrong
    errors = coins * np.interp(guesses / coins, share, wrong) + [_forced(coins, int(guessed)) for guessed in guesses]
    middle = np.ceil(errors)  # coins that share a direction are right or wrong together
    if each == 1:  # few errors are nearly a Poisson number
        mean = np.maximum((1.0 + _UNEVEN / math.sqrt(coins)) * errors, 1e-9)
        middle = np.ceil(np.nan_to_num(special.pdtrik(_OFTEN, mean)))
    middle = middle.astype(np.int64)
    return guesses, guesses - np.clip(middle, 0, guesses)


def _forced(coins: int, guesses: int) -> float:
    """How many guesses are expected to be of the wrong side because coins do not fall half and half, but guesses do."""
    deviation = math.sqrt(coins) / 2
    room = (coins - guesses) / 2 / deviation
    return 2 * deviation * (math.exp(-room * room / 2) / math.sqrt(2 * math.pi) - room * float(special.ndtr(-room)))


def fair_coins(number: int, generator: np.random.Generator) -> Coins:
    """Independent fair coins."""
    return generator.integers(0, 2, whole_number("coins", number)).astype(bool)


def right_guesses(scores: NDArray[np.floating], coins: Coins, guesses: int) -> int:
    """How many of `guesses` guesses are right: the upper half by score says heads, the lower half tails."""
    scores, coins = np.asarray(scores, float), np.asarray(coins, bool)
    if scores.shape != coins.shape or scores.ndim != 1 or np.isnan(scores).any():
        raise InputError(f"Expected one score, not NaN, for each of {coins.shape} coins, got shape {scores.shape}.")
    ordered = coins[np.argsort(-scores, kind="stable")]
    upper = (whole_number("guesses", guesses, Interval(0, len(coins))) + 1) // 2
    return int(ordered[:upper].sum() + (~ordered[len(ordered) - (guesses - upper) :]).sum())


def audit_in_one_run(
    run_with: RunWithCoins,
    scores: CoinScores,
    coins: int,
    guesses: int,
    claim: About,
    options: AuditOptions,
    evidence: str,
) -> LowerBound:
    """Lower bound on epsilon from one run in which `coins` records were each decided by a fair coin.

    `run_with(coins, seed)` runs the mechanism once. `scores(release)` gives a number for each coin, larger for heads,
    without knowing the coins. `guesses` is fixed before the run.
    """
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    flipped = fair_coins(coins, generator)
    values = np.asarray(scores(run_with(flipped.copy(), int(generator.integers(0, 2**63)))), float)
    if values.shape != (coins,):
        raise InputError(f"Expected one score for each of {coins} coins, got shape {values.shape}.")
    right = right_guesses(values, flipped, guesses)
    counts = (("models", 1), ("coins", coins), ("guesses", guesses), ("right guesses", right))
    proved, most = (
        epsilon_from_guesses(coins, guesses, count, options.delta, options.confidence) for count in (right, guesses)
    )
    return options.bound(claim, "one-run", proved, evidence, counts=counts, cap=most)


RUN = "Run by this code: the described chain, once"


@dataclass(frozen=True, eq=False)
class _Canaries:
    """One canary for each coin, behind the base records, absent by tails, or `otherwise`; and what guesses them."""

    model: Model
    plan: GuessPlan
    scores: CoinScores
    evidence: str
    base: Dataset
    heads: Dataset
    otherwise: Dataset | None

    def flipped(self, coins: Coins) -> Dataset:
        if self.otherwise is None:
            rows, targets = self.heads.features[coins], self.heads.target[coins]
        else:
            rows = np.where(coins[:, None], self.heads.features, self.otherwise.features)
            targets = np.where(coins, self.heads.target, self.otherwise.target)
        targets = np.concatenate([self.base.target, targets.astype(self.base.target.dtype)])
        return Dataset(np.concatenate([self.base.features, rows]), targets)


def one_run_guesses(spec: Spec, options: AuditOptions, reason: str = "") -> LowerBound:
    """Lower bound from a single run by guesses of coins; `reason` says why nothing better holds."""
    spec = shown_axes(spec)
    need_feasible(spec, 1)
    canaries = _extremal(spec, options) if spec.instance is None else _mislabelled(spec, options)
    fit, plan = ChainFit(spec, canaries.model), canaries.plan

    def run_with(coins: Coins, seed: int) -> Releases:
        return fit(canaries.flipped(coins), np.array([seed], np.uint64))

    evidence = f"{RUN}, on {canaries.evidence}; {plan.guesses} coins guessed, as planned"
    if reason:
        evidence += f", because known Gaussian noise cannot be used: {reason}"
    bound = audit_in_one_run(run_with, canaries.scores, plan.canaries, plan.guesses, spec, options, evidence)
    if bound.epsilon > 0.0:
        return bound
    why = f"; a run in the middle would have shown epsilon {plan.expected:.2g} at most."
    if not plan.expected > 0.0:
        why = (
            f", as was to be expected: {plan.directions} directions say too little about coins for a bound at "
            f"{100 * options.confidence:g} %; many models (attack) or a known law (exact) can find more."
        )
    return replace(bound, evidence=f"{evidence}. Nothing was found{why}")


def plan_for(spec: Spec, directions: int, most: int, options: AuditOptions) -> GuessPlan:
    """The best number of canaries, given the most that the certificate lets an attacker learn about one."""
    bound = tightest(spec, options.delta)
    advantage = 1.0 if bound is None else min(1.0, bound.guarantee.delta(0.0))
    return planned_guesses(directions, most, advantage, options.delta, options.confidence)


def _extremal(spec: Spec, options: AuditOptions) -> _Canaries:
    """The same number of canaries for each axis; those of an axis are guessed together."""
    plan = plan_for(spec, spec.dim, min(spec.n, MOST_CANARIES), options)
    along = np.arange(plan.canaries) % plan.directions
    gap, replaced = extremal_gap(spec)[0], spec.relation is Relation.REPLACE_ONE
    pulls, zeros = (gap / 2 if replaced else gap) * np.eye(plan.directions, spec.dim)[along], np.zeros(spec.n)
    base = Dataset(np.zeros((spec.n - plan.canaries, spec.dim)), zeros[plan.canaries :])
    forward, backward = (Dataset(rows, zeros[: plan.canaries]) for rows in (pulls, -pulls))
    model = ConstantPull(weight_decay=extremal_decay(spec))
    score = _axis_score(spec, model.weight_decay)
    evidence = (
        f"the worst-case quadratic of the spec's constants, with {plan.each} canaries along each of {plan.directions} "
        "axes"
    )
    otherwise = backward if replaced else None
    return _Canaries(model, plan, lambda release: score(release)[along], evidence, base, forward, otherwise)


def _axis_score(spec: Spec, weight_decay: float) -> CoinScores:
    """One number for each axis, larger for heads: of a whole path its likelihood ratio, else the mean of its points."""
    chain = chain_of(spec)
    whole = len(chain.kept_iterates(spec.view)) == chain.steps > 1 and spec.view is View.ALL_ITERATES
    starts_at_once = not isinstance(chain.start, PointStart) or chain.start.values is None
    if not (whole and starts_at_once and isinstance(chain.noise, GaussianNoise)):
        return lambda release: np.asarray(release, float).reshape(-1, spec.dim).mean(axis=0)
    gap, _ = extremal_gap(spec)
    pulls = (-gap / 2, gap / 2) if spec.relation is Relation.REPLACE_ONE else (0.0, gap)
    ratio = path_score(spec, chain.noise, weight_decay, pulls, np.full(chain.steps, chain.rate(spec.n)), dim=1)

    def scores(release: Releases) -> NDArray[np.float64]:
        points = np.asarray(release, float).reshape(chain.chains * chain.steps, spec.dim)
        return ratio(np.ascontiguousarray(points.T))

    return scores


def _mislabelled(spec: Spec, options: AuditOptions) -> _Canaries:
    """Some of the records, at most half, become canaries with a wrong target."""
    instance = audit_instance(spec)
    data, model = instance.pair.first, instance.model
    if len(data) < 2:
        raise InputError(f"Expected at least two records for canaries in one run, got {len(data)}.")
    plan = plan_for(spec, spec.dim, min(len(data) // 2, MOST_CANARIES), options)
    rest = len(data) - plan.canaries
    own, values = Dataset(data.features[rest:], data.target[rest:]), np.unique(np.asarray(data.target, float))
    wrong = Dataset(own.features, values[np.abs(values - own.target[:, None]).argmax(axis=1)])
    if len(values) == 1:
        known = f"{values.tolist()!r:.60}"
        raise InputError(f"Expected a target other than {own.target[0].item()!r} to mislabel with, got {known}.")
    base = Dataset(data.features[:rest], data.target[:rest])
    otherwise = own if spec.relation is Relation.REPLACE_ONE else None

    def scores(release: Releases) -> NDArray[np.float64]:
        fits = -record_losses(model, release, wrong)[0]
        return fits if otherwise is None else fits + record_losses(model, release, otherwise)[0]

    described = instance.description.split(",")[0]
    evidence = f"{described}, {plan.canaries} canaries with a wrong target, guessed by their loss"
    return _Canaries(model, plan, scores, evidence, base, wrong, otherwise)
