"""Runs made of runs: lists of runs on the same data, also adaptive ones, and the best of a random number of runs."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from sordino.accounting import convert
from sordino.accounting.convert import to_renyi
from sordino.accounting.evaluate import as_stated, bounds_of, for_group, theorem, why_none
from sordino.accounting.scope import Scope, assumption, caller_checked, chosen_delta, found_or_why, promised, run_of
from sordino.accounting.theorems.mechanisms import EITHER
from sordino.core import guarantee as claims
from sordino.core.bound import Bound, Citation, Status, View
from sordino.core.gaussian import up
from sordino.core.spec import RepeatAndSelect, Spec
from sordino.core.spec.document import NegativeBinomialTrials, PoissonTrials

# Compositions that are evaluated while one group of parts after the other tries its other theorems.
_MOST_EXCHANGES = 24

# Guarantees of which the smaller number is the better one, whatever it is composed with.
_SIZES = {claims.GaussianDP: "mu", claims.PureDP: "value", claims.TotalVariation: "value"}
_AT_A_GLANCE = (claims.PureDP, claims.TotalVariation)


@dataclass(frozen=True)
class _Group:
    """Equal parts: one of them, how many they are, the bounds any of which may stand for it, and those with a pair."""

    part: Spec
    count: int
    options: tuple[Bound, ...]
    paired: tuple[Bound, ...]  # a Rényi curve would take all other parts along


Choice = tuple[Bound, ...]


def _group(part: Spec, count: int) -> _Group:
    """What the theorems say of a part, without the bounds that another one of the same kind makes useless."""
    kept: dict[object, Bound] = {}
    for bound in bounds_of(part):
        kind = type(bound.guarantee)
        other = kept.setdefault(kind if kind in _SIZES else bound.theorem, bound)
        if kind in _SIZES and getattr(bound.guarantee, _SIZES[kind]) < getattr(other.guarantee, _SIZES[kind]):
            kept[kind] = bound
    paired = tuple(bound for bound in kept.values() if not isinstance(bound.guarantee, claims.RenyiDP))
    return _Group(part, count, tuple(kept.values()), paired)


def _smallest(options: tuple[Bound, ...], delta: float) -> Bound:
    """The option with the smallest epsilon at a delta; what costs nothing, or everything, is found without a search."""
    epsilons = {bound: bound.guarantee.epsilon(delta) for bound in options if isinstance(bound.guarantee, _AT_A_GLANCE)}
    free = [bound for bound, epsilon in epsilons.items() if epsilon == 0.0]
    left = free[:1] or [bound for bound in options if epsilons.get(bound, 0.0) < math.inf] or options[:1]
    return left[0] if len(left) == 1 else min(left, key=lambda one: (one.guarantee.epsilon(delta), one.theorem))


def _starts(groups: list[_Group], delta: float) -> Iterator[Choice]:
    """Choices to compare: by each part's own epsilon at its share of delta and at the whole, and of a single kind."""
    share = delta / sum(group.count for group in groups)
    for own in (share, delta):
        yield tuple(_smallest(group.paired or group.options, own) for group in groups)
    gaussians = [
        [bound for bound in group.options if isinstance(bound.guarantee, claims.GaussianDP)] for group in groups
    ]
    if all(gaussians):
        yield tuple(options[0] for options in gaussians)
    curves = [[curve for bound in group.options if (curve := _as_curve(bound)) is not None] for group in groups]
    if all(curves) and any(isinstance(bound.guarantee, claims.RenyiDP) for group in groups for bound in group.options):
        yield tuple(min(options, key=lambda bound: to_renyi(bound.guarantee).epsilon(share)) for options in curves)


def _as_curve(bound: Bound) -> Bound | None:
    """The bound with a guarantee whose Rényi curve never fails, so that no delta is too small for it."""
    if isinstance(bound.guarantee, claims.RenyiDP | claims.GaussianDP | claims.PureDP | claims.BoundedRange):
        return bound
    curve = convert.bounded_renyi(bound.guarantee) if isinstance(bound.guarantee, claims.LossDistribution) else None
    return None if curve is None else replace(bound, guarantee=curve)


def _composed(groups: list[_Group], choice: Choice) -> claims.Guarantee:
    return convert.compose([(bound.guarantee, group.count) for bound, group in zip(choice, groups, strict=True)])


@lru_cache(maxsize=16)
def _plan(spec: Spec) -> tuple[Choice, claims.Guarantee] | str:
    """The bounds whose composition has the smallest epsilon found, and that composition; or why there is none."""
    groups = [_group(part, count) for part, count in Counter(spec.runs()).items()]
    delta = chosen_delta(spec)
    for group in groups:
        if not group.options:
            why = why_none(group.part, "no theorem covers such a run")
            return f"needs a bound for every part, and part {spec.runs().index(group.part)} has none: {why}"
    epsilons = {choice: _composed(groups, choice).epsilon(delta) for choice in _starts(groups, delta)}
    best = min(epsilons, key=lambda choice: epsilons[choice])
    # The best of a part alone need not be the best in company: what is free by itself may exceed delta together.
    tries = 0
    for place in sorted(range(len(groups)), key=lambda at: -groups[at].count):
        for option in groups[place].paired:
            other = (*best[:place], option, *best[place + 1 :])
            if other in epsilons or tries == _MOST_EXCHANGES:
                continue
            tries += 1
            epsilons[other] = _composed(groups, other).epsilon(delta)
            best = other if epsilons[other] < epsilons[best] else best
    return best, _composed(groups, best)


def _chosen(spec: Spec) -> Choice:
    return () if isinstance(plan := _plan(spec), str) else plan[0]


@as_stated(
    "composition.adaptive",
    Citation("zhu2022optimal", "Theorem 10"),
    scope=Scope({"composite"}, frozenset(View), EITHER),
    assumptions=(found_or_why("every part", "every part has a bound", _plan),),
    certificates=lambda spec: tuple(dict.fromkeys(used for bound in _chosen(spec) for used in bound.certificates)),
    rests_on=lambda spec: tuple(
        (bound.theorem, part) for bound, part in zip(_chosen(spec), Counter(spec.runs()), strict=False)
    ),
    grouped=lambda spec, size: convert.compose(
        (for_group(bound, part, size), count)
        for bound, (part, count) in zip(_chosen(spec), Counter(spec.runs()).items(), strict=True)
    ),
)
def adaptive(spec: Spec) -> claims.Guarantee:
    """If every run of a list has a dominating pair, their adaptive composition is dominated by the product of the
    pairs; Rényi curves add. The theorem used for each part is chosen by the epsilon of the whole."""
    return promised(_plan(spec))[1]


# The best of a random number of runs.

_base_bounds = lru_cache(maxsize=16)(bounds_of)


def _largest_loss(guarantee: claims.Guarantee) -> float:
    """The epsilon at which a guarantee is pure; infinite where it is not."""
    if isinstance(guarantee, claims.PureDP):
        return guarantee.value
    if not isinstance(guarantee, claims.LossDistribution):
        return math.inf
    factors = guarantee.factors
    ways = (factors, tuple((pair.reversed(), count) for pair, count in factors))
    if any(pair.infinite > 0 for way in ways for pair, _ in way):
        return math.inf
    return up(max(math.fsum(count * pair.largest_loss for pair, count in way) for way in ways), 4)


@lru_cache(maxsize=16)
def _base_curve(base: Spec) -> claims.RenyiDP | None:
    """The smallest Rényi values of one trial; curves that hold but for a failure are no use here."""
    usable: list[claims.Guarantee] = []
    for bound in _base_bounds(base):
        if isinstance(bound.guarantee, claims.GaussianDP | claims.RenyiDP):
            usable.append(bound.guarantee)
        elif (loss := _largest_loss(bound.guarantee)) < math.inf:
            usable.append(claims.PureDP(loss))
    curves = [curve for curve in map(to_renyi, usable) if curve.failure == 0.0]
    common = [order for order in claims.ORDERS if all(order in curve.orders for curve in curves)]
    if not curves or not common:
        return None
    return claims.RenyiDP(tuple(common), tuple(min(curve.at(order) for curve in curves) for order in common))


@assumption("trial", "one trial has a Rényi curve")
def _has_curve(spec: Spec) -> str | None:
    known = _base_curve(spec.base()) is not None
    return None if known else f"needs a Rényi or pure bound on one trial{_why_none(spec)}"


def _why_none(spec: Spec) -> str:
    return f", and there is none: {why_none(spec.base(), 'no theorem gives one')}"


_selects = partial(
    theorem,
    scope=Scope({"repeat-and-select"}, frozenset(View), EITHER),
    certificates=lambda spec: tuple(
        dict.fromkeys(used for bound in _base_bounds(spec.base()) for used in bound.certificates)
    ),
    rests_on=lambda spec: tuple((bound.theorem, spec.base()) for bound in _base_bounds(spec.base())),
)
_SECRET = caller_checked(
    "secret trials", "the number of trials stays secret, and the best one is found from what the trials release"
)


@_selects(
    "selection.repeated",
    Citation("papernot2022hyperparameter", "Theorems 2 and 6, with the chance of no trial at all counted"),
    status=Status.OURS,
    assumptions=(_has_curve, _SECRET),
)
def repeated(spec: Spec) -> claims.Guarantee:
    """The best of K trials, each with Rényi divergence e(order): for K negative binomial of shape h and stop g, e'(a) =
    e(a) + (1 + h)(1 - 1/b) e(b) + (1 + h) ln(1/g) / b + ln(E K) / (a - 1), any b; for K Poisson of mean m, e'(a) =
    ln(e^-m + m e^((a - 1)(e(a) + m d))) / (a - 1), where a trial is (ln(1 + 1/(a - 1)), d)-DP."""
    run, base = run_of(spec, RepeatAndSelect), promised(_base_curve(spec.base()))
    bounds = _base_bounds(spec.base())
    orders, values = np.asarray(base.orders), np.asarray(base.values)
    if isinstance(run.trials, PoissonTrials):
        # The output of no trial at all has the same probability e^-m on both datasets.
        mean = run.trials.mean
        fails = [min(bound.guarantee.delta(math.log1p(1 / (a - 1)) * (1 - 1e-15)) for bound in bounds) for a in orders]
        some = math.log(mean) + (orders - 1) * (values + mean * np.array(fails))
        found = np.logaddexp(-mean, some) / (orders - 1)
        slack = np.abs(some) / (orders - 1)
    else:
        shape, stop = run.trials.shape, run.trials.stop
        others = (1 + shape) * ((1 - 1 / orders) * values - math.log(stop) / orders)
        found = values + float(others.min()) + math.log(run.trials.mean) / (orders - 1)
        slack = abs(math.log(run.trials.mean)) / (orders - 1) + float(others.min())
    return claims.RenyiDP(base.orders, tuple((np.maximum(found, 0.0) + 1e-14 * (1 + values + slack)).tolist()))


def _pure_base(spec: Spec) -> float | None:
    losses = [_largest_loss(bound.guarantee) for bound in _base_bounds(spec.base())]
    return min((loss for loss in losses if loss < math.inf), default=None)


@assumption("trial", "one trial is pure, their number negative binomial")
def _pure_trial(spec: Spec) -> str | None:
    if not isinstance(run_of(spec, RepeatAndSelect).trials, NegativeBinomialTrials):
        return "is about a negative binomial number of trials, and it is Poisson"
    return None if _pure_base(spec) is not None else f"needs a pure bound on one trial{_why_none(spec)}"


@_selects(
    "selection.repeated-pure",
    Citation("papernot2022hyperparameter", "Theorem 2 at infinite orders; Liu & Talwar 2019 for h = 1"),
    status=Status.AS_STATED,
    assumptions=(_pure_trial, _SECRET),
)
def repeated_pure(spec: Spec) -> claims.Guarantee:
    """The best of K epsilon-DP trials, K negative binomial of shape h, is (2 + h) epsilon-DP."""
    # A ratio of probabilities pays once for the best value and 1 + h times for being the best.
    run, epsilon = run_of(spec, RepeatAndSelect), promised(_pure_base(spec))
    shape = run.trials.shape if isinstance(run.trials, NegativeBinomialTrials) else math.inf
    return claims.PureDP(up((2 + shape) * epsilon, 2))
