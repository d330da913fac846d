"""Lists of runs on the same data, and kept iterates of one chain.

Guarantees of a list compose, also when later runs depend on earlier releases. Between two kept iterates the state of a
chain is hidden, so a segment costs what a last iterate costs.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import convert
from sordino.accounting.assumptions import Assumption, changed
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import to_renyi
from sordino.accounting.evaluate import evaluate, for_group, theorem, theorems
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.closed_forms import kept_shifts
from sordino.core.bound import Bound, Citation, Relation, Status, View
from sordino.core.guarantee import (
    BoundedRange,
    GaussianDP,
    Guarantee,
    LossDistribution,
    PureDP,
    RenyiDP,
    TotalVariation,
)
from sordino.core.spec import Scheme, Spec

_REFERENCE_DELTA = 1e-6  # at which compositions are compared when the spec states none; public either way
# Compositions that are evaluated while one group of parts after the other tries its other theorems.
_MOST_EXCHANGES = 24

# Guarantees of which the smaller number is the better one, whatever it is composed with.
_SIZES: dict[type[Guarantee], Callable[..., float]] = {
    GaussianDP: lambda found: found.mu,
    PureDP: lambda found: found.value,
    TotalVariation: lambda found: found.value,
}
_AT_A_GLANCE = (PureDP, TotalVariation)


@dataclass(frozen=True)
class _Group:
    """Equal parts: one of them, how many they are, and the bounds any of which may stand for it."""

    part: Spec
    count: int
    options: tuple[Bound, ...]

    @property
    def paired(self) -> tuple[Bound, ...]:
        """The options with a dominating pair; a Rényi curve would take all other parts along."""
        return tuple(bound for bound in self.options if not isinstance(bound.guarantee, RenyiDP))


Choice = tuple[Bound, ...]


def _options(part: Spec) -> tuple[Bound, ...]:
    """What the theorems say of a part, without the bounds that another one of the same kind makes useless."""
    kept: dict[object, Bound] = {}
    for place, answer in enumerate(evaluate(asked, part) for asked in theorems()):
        if isinstance(answer, Bound):
            kind = type(answer.guarantee)
            size = _SIZES.get(kind, lambda _: 0.0)
            key = kind if kind in _SIZES else place
            if key not in kept or size(answer.guarantee) < size(kept[key].guarantee):
                kept[key] = answer
    return tuple(kept.values())


def _smallest(options: tuple[Bound, ...], delta: float) -> Bound:
    """The option with the smallest epsilon at a delta; what costs nothing, or everything, is found without a search."""
    epsilons = {bound: bound.guarantee.epsilon(delta) for bound in options if isinstance(bound.guarantee, _AT_A_GLANCE)}
    free = [bound for bound, epsilon in epsilons.items() if epsilon == 0.0]
    left = free[:1] or [bound for bound in options if epsilons.get(bound, 0.0) < math.inf] or options[:1]
    if len(left) == 1:
        return left[0]
    return min(left, key=lambda bound: (bound.guarantee.epsilon(delta), bound.theorem))


def _starts(groups: list[_Group], delta: float) -> Iterator[Choice]:
    """Choices to compare: by each part's own epsilon at its share of delta and at the whole, and of a single kind."""
    share = delta / sum(group.count for group in groups)
    for own in (share, delta):
        yield tuple(_smallest(group.paired or group.options, own) for group in groups)
    gaussians = [[bound for bound in group.options if isinstance(bound.guarantee, GaussianDP)] for group in groups]
    if all(gaussians):
        yield tuple(options[0] for options in gaussians)
    curves = [[curve for bound in group.options if (curve := _as_curve(bound)) is not None] for group in groups]
    if all(curves) and any(isinstance(bound.guarantee, RenyiDP) for group in groups for bound in group.options):
        yield tuple(min(options, key=lambda bound: to_renyi(bound.guarantee).epsilon(share)) for options in curves)


def _as_curve(bound: Bound) -> Bound | None:
    """The bound with a guarantee whose Rényi curve never fails, so that no delta is too small for it."""
    if isinstance(bound.guarantee, RenyiDP | GaussianDP | PureDP | BoundedRange):
        return bound
    curve = convert.bounded_renyi(bound.guarantee) if isinstance(bound.guarantee, LossDistribution) else None
    return None if curve is None else replace(bound, guarantee=curve)


def _composed(groups: list[_Group], choice: Choice) -> Guarantee:
    return convert.compose([(bound.guarantee, group.count) for bound, group in zip(choice, groups, strict=True)])


@lru_cache(maxsize=16)
def _plan(spec: Spec) -> tuple[Choice, Guarantee] | str:
    """The bounds whose composition has the smallest epsilon found, and that composition; or why there is none.

    A bound that is the best of its part alone need not be the best in company: a total variation below delta costs
    nothing by itself, and a few of them exceed delta together.
    """
    groups = [_Group(part, count, _options(part)) for part, count in Counter(spec.runs()).items()]
    delta = spec.delta or _REFERENCE_DELTA
    for group in groups:
        if not group.options:
            return _why_none(group.part, spec.runs().index(group.part))
    epsilons = {choice: _composed(groups, choice).epsilon(delta) for choice in _starts(groups, delta)}
    best = min(epsilons, key=lambda choice: epsilons[choice])
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


def _why_none(part: Spec, position: int) -> str:
    reasons = {asked.failure(part) for asked in theorems() if asked.scope.failure(part) is None}
    why = "; ".join(sorted(filter(None, reasons))) or "no theorem covers such a run"
    return f"needs a bound for every part, and part {position} has none: {why}"


def _unplanned(spec: Spec) -> str | None:
    return plan if isinstance(plan := _plan(spec), str) else None


def _chosen(spec: Spec) -> Choice:
    return () if isinstance(plan := _plan(spec), str) else plan[0]


# Makes the first part one that no theorem covers: a chain without any certified sensitivity.
_GONE = ("problem.gradient_sensitivity", "problem.gradient_bound", "algorithm.clipping")
_UNSCOPED = dict.fromkeys(f"algorithm.parts.0.{key}" for key in _GONE)


@theorem(
    id="composition.adaptive",
    statement=(
        "If every run of a list has a dominating pair, their adaptive composition is dominated by the product of the "
        "pairs; Rényi curves add. The theorem used for each part is chosen by the epsilon of the whole."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10"),
    status=Status.AS_STATED,
    scope=Scope({"composite"}, frozenset(View), dict.fromkeys(Relation, frozenset())),
    assumptions=(Assumption("every part", "every part has a bound", _unplanned, changed(_UNSCOPED)),),
    certificates=lambda spec: tuple(dict.fromkeys(used for bound in _chosen(spec) for used in bound.certificates)),
    rests_on=lambda spec: tuple(
        (bound.theorem, part) for bound, part in zip(_chosen(spec), Counter(spec.runs()), strict=False)
    ),
    grouped=lambda spec, size: convert.compose(
        (for_group(bound, part, size), count)
        for bound, (part, count) in zip(_chosen(spec), Counter(spec.runs()).items(), strict=True)
    ),
)
def adaptive(spec: Spec) -> Guarantee:
    """The composition with the smallest epsilon among those tried; every one of them holds."""
    return convert.NOTHING if isinstance(plan := _plan(spec), str) else plan[1]


_MOST_POSITIONS = 100_000
_MOST_WORK = 20_000_000


def _too_many_positions(spec: Spec) -> str | None:
    chain = chain_of(spec)
    positions = min(chain.batches_per_epoch(spec.n), chain.steps)
    constant = chain.step_size.is_constant and chain.noise.scale.is_constant
    most = _MOST_POSITIONS if constant else _MOST_WORK // chain.steps
    if positions <= max(most, 1):
        return None
    return f"evaluates at most {most} positions of the record in a run of this length, and there are {positions}"


_LARGE = {
    "algorithm.batch": {"scheme": "cyclic", "size": 1},
    "algorithm.steps": 200_000,
    "algorithm.step_size": {"kind": "polynomial", "initial": 0.001, "offset": 100.0, "power": 0.1},
    "algorithm.noise": {"kind": "gaussian", "scale": 0.01},
    "relation": "replace-one",
}


@theorem(
    id="composition.kept",
    statement=(
        "If the iterates t_1 < ... < t_m of a chain are kept, they are together mu-Gaussian DP with mu^2 the sum over "
        "the segments between them of the least cost of shifts from distance 0 to distance 0, for the worst position "
        "of the record; with records shuffled once delta is the average over positions. Averages of kept iterates are "
        "post-processing."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, over segments bounded by Bok et al. 2024, Section 4"),
    status=Status.OURS,
    scope=Scope(
        {"noisy-gradient"},
        {View.ALL_ITERATES, View.AVERAGE},
        {
            Relation.REPLACE_ONE: {Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE},
            Relation.ADD_REMOVE: {Scheme.FULL},
        },
    ),
    assumptions=(
        chains.SENSITIVITY,
        chains.BOUND,
        *chains.NUMERICAL,
        Assumption(
            "positions",
            f"a record has at most {_MOST_POSITIONS} positions; with varying schedules, {_MOST_WORK} over the steps",
            _too_many_positions,
            changed(_LARGE),
        ),
        chains.CONTRACTION,
        chains.EVERY_RECORD,
    ),
    certificates=chains.shift_certificates,
    monotone=(*chains.MONOTONE_CHAIN, chains.RISES_WITH_BOUND),
)
def kept(spec: Spec) -> Guarantee:
    """Only kept iterates are released; unkept ones, and diagnostics computed from them, are not."""
    chain = chain_of(spec)
    mus = kept_shifts(chains.shift_steps(spec), chain.kept_iterates(spec.view), chain.batches_per_epoch(spec.n))
    if chain.batch.scheme is Scheme.SHUFFLE_ONCE:
        return chains.averaged_over_positions(mus, spec)
    return GaussianDP(float(np.max(mus)))
