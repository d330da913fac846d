"""Sampled batches: random allocation, draws with replacement, truncated Poisson batches and min-separation.

Uses kept apart, **proof**. Every record that was not used in the last s - 1 steps is drawn with probability p, on its
own. Give away the uses of all others, which say nothing about the record's. Given what was seen before, a step uses the
record with some probability q <= p: p times that of being free. So it is (1 - q) N(0, I) + q N(v, I) with |v| at most
kappa, around a mean that both neighbours share; q may depend on all that was seen, and on the neighbour.
*Add-remove*: against N(0, I) every divergence of the mixture is convex in q and 0 at q = 0, so it is at most q / p
times that at p. *Replace-one*: the divergence of the mixtures of rates q and q' is jointly convex in (q, q'), so it is
at most the largest at the corners of [0, p]^2: both p, the pair of Poisson batches; one of them 0, a record without a
gradient, which that pair covers too; both 0, nothing. So every step is dominated by the Poisson pair at rate p,
whatever was seen before, and the pairs compose (Zhu, Dong & Wang 2022, Theorem 10). Where a record is used is drawn
without looking at it, and s steps in a row use it once at most, which is the other bound. *Units*, add-remove: given
which of its records are free a step is one of Poisson batches; the divergence from N(0, I) is convex, in either order,
so it is at most the largest over what may be free: all of them, as more records that may be drawn show more.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import hidden_steps as hidden
from sordino.accounting.convert import repeat
from sordino.accounting.evaluate import ours, theorem
from sordino.core.binomial import log_chances
from sordino.core.bound import Citation, Relation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.loss.allocation import LARGEST_MU, SMALLEST_MU, within_reach
from sordino.core.loss.mixture_pairs import WithReplacementPair
from sordino.core.loss.pair import Pair
from sordino.core.spec import Scheme, Spec

_LONGEST_ROUND = 1_000_000
_MOST_RATIOS = 6  # a round of each ratio takes about a second
_MOST_PAIRS = 32  # different ratios of steps with replacement, each with dozens of uses
# Different truncated steps where delta is smaller: their grids reach far, and 128 of them take too long.
_ORDINARY_DELTA, _FEW_PAIRS = 1e-15, 16
_MOST_TOLD = 4096  # uses in a step that are distinguished
_SO_MANY_OTHERS = assume.caller_checked(
    "records",
    "under add-remove, there are at most problem.n records beside the unit that differs: in a larger table batches are "
    "full more often",
    lambda spec: spec.relation is Relation.ADD_REMOVE,
)
_with_replacement = partial(
    theorem,
    scope=assume.Scope(assume.STEP_KINDS, assume.STEP_VIEWS, {Relation.REPLACE_ONE: {Scheme.WITH_REPLACEMENT}}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.ANY_TWO_RECORDS),
)
_allocated, _truncated, _apart = (
    partial(
        ours,
        scope=assume.Scope(assume.STEP_KINDS, assume.STEP_VIEWS, dict.fromkeys(Relation, frozenset({scheme}))),
        assumptions=(chains.BOUND, *chains.NUMERICAL, *more),
    )
    for scheme, *more in (
        (Scheme.RANDOM_ALLOCATION,),
        (Scheme.TRUNCATED_POISSON, _SO_MANY_OTHERS),
        (Scheme.MIN_SEPARATION,),
    )
)


def _rounds(steps: assume.NoisySteps) -> list[tuple[float, int, int]]:
    """(ratio, steps made, how many): the rounds of a run, each with its largest ratio, few of them different."""
    length = steps.batches_per_epoch
    whole, rest = divmod(steps.steps, length)
    if steps.constant_ratio is not None:
        rounds = [(steps.constant_ratio, length, whole), (steps.constant_ratio, rest, 1)]
    else:
        ratios = steps.ratios()
        tops = ratios[: whole * length].reshape(-1, length).max(axis=1)
        if len(np.unique(tops)) > _MOST_RATIOS:
            edges = np.geomspace(tops.min(), tops.max(), _MOST_RATIOS) * (1 + 1e-12)
            tops = edges[np.searchsorted(edges, tops)]
        counted = zip(*np.unique(tops, return_counts=True), strict=True)
        rounds = [(float(top), length, int(count)) for top, count in counted]
        rounds.append((float(ratios[whole * length :].max(initial=0.0)), rest, 1))
    return [(max(ratio, SMALLEST_MU), made, count) for ratio, made, count in rounds if made and count]


@assume.assumption("reach", f"rounds have at most {_LONGEST_ROUND} steps, and kappa is at most {LARGEST_MU}")
def _reachable(spec: Spec) -> str | None:
    steps = chains.required_steps(spec)
    if steps.batches_per_epoch > _LONGEST_ROUND:
        return f"evaluates rounds of at most {_LONGEST_ROUND} steps, and a round has {steps.batches_per_epoch}"
    if within_reach(largest := max(ratio for ratio, _, _ in _rounds(steps))):
        return None
    return f"evaluates uses that move a step by {LARGEST_MU} noises at most, and one moves {largest:.3g}"


def _blocks(spec: Spec) -> list[hidden.Round]:
    """Rounds with one use: k uses of t are k rounds of floor(t / k)."""
    steps, uses = chains.required_steps(spec), assume.batches_of(spec)[0].uses or 1
    total = steps.batches_per_epoch // uses
    # Of a round that is cut short less is seen; with several uses it counts as a whole one.
    return [
        hidden.Round(total, min(made, total) if uses == 1 else total, ratio, count * uses)
        for ratio, made, count in _rounds(steps)
    ]


@_allocated(
    "composition.random-allocation",
    Citation("feldman2025privacy", "the reduction to one pair and from k uses to one, computed by convex order"),
    assumptions=(chains.BOUND, *chains.NUMERICAL, _reachable),
)
def random_allocation(spec: Spec) -> Guarantee:
    """If every record is used in one step of a round of t, drawn for it alone, a round with the record against one
    without it is dominated by the average of the t shifts of one coordinate of N(0, I) by kappa = eta G / (b tau)
    against N(0, I), and its reverse; in k of t steps, by k such rounds of floor(t / k). Under replace-one it is the
    average of the shifts by kappa against that of the shifts by -kappa. Rounds compose."""
    # Given all other records' steps; what later rounds and steps compute from earlier ones is post-processing.
    return hidden.allocated(_blocks(spec), spec.relation)


@_allocated(
    "composition.random-allocation-renyi",
    Citation("feldman2025privacy", "the reduction to one pair and from k uses to one; moments of that pair"),
)
def random_allocation_renyi(spec: Spec) -> Guarantee:
    """The rounds of composition.random-allocation have Rényi divergences of order a of at most 1 / (a - 1) times log E
    R^a (a record less) and log E R^(1 - a) (one more), R the mean of t independent exp(kappa Z - kappa^2 / 2), Z
    standard normal; under replace-one the least of (a / b) log E R^b + (1 - a / b) log E R^-s over b > a, s = (a - 1) b
    / (b - a). Rounds add. No delta is too small for it, and no kappa too large."""
    # See `bounds.renyi` for the proof; the loss distribution is smaller where it has an answer.
    return hidden.allocated_renyi(_blocks(spec), spec.relation)


@_allocated(
    "composition.allocated-uses", Citation("dong2022gaussian", "Corollary 3.3, given the steps of every record")
)
def allocated_uses(spec: Spec) -> Guarantee:
    """With random allocation a record is used k times a round, so rounds are mu-Gaussian DP with mu^2 = sum over rounds
    of k times the largest kappa^2, kappa = eta G / (b tau); twice that mu under replace-one. No secrecy of the steps is
    claimed."""
    # Where a record is used is drawn without looking at it.
    steps, uses = chains.required_steps(spec), assume.batches_of(spec)[0].uses or 1
    ways = 1.0 if spec.relation is Relation.ADD_REMOVE else 2.0
    square = math.fsum(count * min(uses, made) * ratio * ratio for ratio, made, count in _rounds(steps))
    return GaussianDP(up(ways * math.sqrt(square) * (1 + 1e-14), 2))


@_with_replacement(
    "composition.subsampled-with-replacement",
    Citation("balle2018subsampling", "Theorem 10, read as a dominating pair"),
    status=Status.AS_STATED,
)
def subsampled_with_replacement(spec: Spec) -> Guarantee:
    """A step on b records drawn one by one with replacement from n: with w_k the binomial probability of k uses and q =
    1 - (1 - 1/n)^b, its delta at ln(1 + q (e^epsilon - 1)) is at most the sum over k >= 1 of w_k times that of a (k
    kappa)-Gaussian at epsilon, kappa = eta Delta / (b tau); both orders. The steps compose as loss distributions."""
    # Slots that hold the record are refilled with others; a record drawn k times moves the sum k times as far.
    steps, (batch, records) = chains.required_steps(spec), assume.batches_of(spec)
    size = batch.divisor(records)
    if records == 1:
        return repeat(GaussianDP(up(size * max(ratio for ratio, _ in steps.grouped()))), steps.steps)
    return chains.stepwise(spec, partial(WithReplacementPair, size, records), _MOST_PAIRS)


def _drawn_uses(size: int, records: int, order: float, ratio: float) -> float:
    """log of the mean of exp(order (order - 1) (k ratio)^2 / 2) over binomial numbers of uses k, rounded up."""
    most = min(size, _MOST_TOLD)
    k = np.arange(1, most + 1, dtype=float)
    logs, errors = log_chances(k, size, 1 / records)
    # So many uses have at most the probability of the last of them in chosen places, times the places; all count as b.
    logs[-1] -= (size - most) * math.log1p(-1 / records) * (1 + 1e-15)
    k[-1] = size
    with np.errstate(over="ignore"):  # beyond floats it is infinite, and says so
        terms = logs + errors + hidden.log_expm1(order * (order - 1) / 2 * (k * ratio) ** 2 * (1 + 1e-14))
    if math.isinf(peak := float(terms.max())):
        return math.inf
    return float(np.logaddexp(0.0, peak + math.log(float(np.exp(terms - peak).sum())) + 1e-14))


@_with_replacement(
    "composition.with-replacement-renyi",
    Citation("mironov2017renyi", "Propositions 1 and 7, given the number of uses"),
    status=Status.OURS,
)
def with_replacement_renyi(spec: Spec) -> Guarantee:
    """A step on b records drawn one by one with replacement from n, given how often it draws the record: its Rényi
    divergence of order a is at most 1 / (a - 1) times log of the sum over k of w_k exp(a (a - 1) (k kappa)^2 / 2), w_k
    the binomial probability of k uses. Steps add. No delta is too small for it."""
    # How often a step draws the record does not depend on what the record is; so given away, it hides nothing.
    steps, (batch, records) = chains.required_steps(spec), assume.batches_of(spec)
    size = batch.divisor(records)
    if records == 1:
        return repeat(GaussianDP(up(size * max(ratio for ratio, _ in steps.grouped()))), steps.steps)
    moment = partial(_drawn_uses, size, records)
    return chains.stepwise_renyi(spec, lambda order, mu: up(moment(order, mu) / (order - 1) * (1 + 1e-12)))


def _cap_and_others(spec: Spec) -> tuple[int, int]:
    """How many records a truncated batch holds at most, and how many there may be beside the one that differs."""
    batch, records = assume.batches_of(spec)
    return records if batch.most is None else batch.most, records + max(spec.surplus - 1, 0)


@_truncated(
    "composition.truncated-poisson-renyi",
    Citation("mironov2017renyi", "Proposition 1, with Mironov, Talwar & Zhang 2019, given the others"),
)
def truncated_poisson_renyi(spec: Spec) -> Guarantee:
    """The steps of composition.truncated-poisson by their Rényi divergences: given whether the batch is full, exp((a -
    1) D_a) is the average of that of a Poisson step and that of a full batch, in which the record takes the place of
    another and moves the sum by 2 kappa. Steps add. No delta is too small for it."""
    # How many others are drawn says nothing about the record.
    rate = chains.required_steps(spec).rate
    full = hidden.full_chance(*_cap_and_others(spec), rate)
    return chains.stepwise_renyi(spec, lambda order, mu: hidden.capped_renyi(order, rate, mu, full, spec.relation))


def _truncated_unit(spec: Spec, size: int) -> Guarantee:
    """Steps that a unit of so many records joins or leaves; the proof is in `bounds.hidden_steps`."""
    steps, (cap, others) = chains.required_steps(spec), _cap_and_others(spec)
    return _stepwise(spec, partial(hidden.unit_step, steps.rate, size=size, cap=cap, others=others))


@_truncated(
    "composition.truncated-poisson",
    Citation("zhu2022optimal", "Theorems 10 and 11 and Proposition 30, given the number of others"),
    grouped=_truncated_unit,
)
def truncated_poisson(spec: Spec) -> Guarantee:
    """Poisson batches of which only the first B records in the order of the table are used: given how many others are
    drawn, a step is one of the Poisson theorem where they are fewer than B, and else the record takes the place of
    another, which moves the sum by at most 2 kappa, at the same rate; delta is the average over the binomial number of
    others. The steps compose as loss distributions."""
    # How many others are drawn says nothing about the record; nothing is added to delta for full batches.
    rate = chains.required_steps(spec).rate
    full = hidden.full_chance(*_cap_and_others(spec), rate)
    return _stepwise(spec, partial(hidden.capped_step, spec.relation, rate, full=full))


def _stepwise(spec: Spec, pair: Callable[[float], Pair]) -> Guarantee:
    ordinary = assume.chosen_delta(spec) >= _ORDINARY_DELTA
    return chains.stepwise(spec, pair, assume.MOST_RATIOS if ordinary else _FEW_PAIRS)


@_apart(
    "composition.min-separation",
    Citation("zhu2022optimal", "Theorems 10 and 11, at the rate given all that was seen"),
    grouped=lambda spec, size: chains.stepwise(spec, partial(hidden.unit_step, _free_chance(spec), size=size)),
)
def min_separation(spec: Spec) -> Guarantee:
    """If every record that was not used in the last s - 1 steps is drawn with probability p on its own, each step is
    dominated, whatever was seen before, by that of Poisson batches at rate p: of the record it uses at most as much.
    The steps compose as loss distributions."""
    # The proof is at the head of the file; that uses are apart is not used, and costs nothing.
    return chains.stepwise(spec, partial(hidden.poisson_step, spec.relation, _free_chance(spec)))


def _free_chance(spec: Spec) -> float:
    batch, records = assume.batches_of(spec)
    return min(1.0, batch.chance(records) * (1 + 1e-15))


@_apart("composition.separated-uses", Citation("dong2022gaussian", "Corollary 3.3, given the steps of every record"))
def separated_uses(spec: Spec) -> Guarantee:
    """If two uses of a record are at least s steps apart, T steps use it at most ceil(T / s) times, and are mu-Gaussian
    DP with mu^2 = sum over every s steps of the largest kappa^2, kappa = eta G / (b tau); twice that mu under
    replace-one. No secrecy of the steps is claimed."""
    # Where a record is used is drawn without looking at it.
    batch, records = assume.batches_of(spec)
    return chains.one_use_in(spec, batch.apart(records), 1.0 if spec.relation is Relation.ADD_REMOVE else 2.0)
