"""The cheapest shifts of last and kept iterates, with any batches, and of chains whose steps are affine.

Between two kept iterates the state of a chain is hidden, so a segment costs what a last iterate costs.

Kept draws: a kept iterate is the whole state (a chain has neither momentum nor correlated noise), so a segment starts
at a point that both neighbours' chains were seen at. **Proof.** Let Y_1, ..., Y_m be the kept iterates. Given Y_1, ...,
Y_{j-1} the segment up to Y_j is a chain of its own from the point Y_{j-1}, whatever that is, and its batches are
independent of the past: drawn afresh at every step, or passes that begin in the segment. (Of a pass that kept iterates
cut, `bounds.segments` makes the parts independent.) So the conditional laws of Y_j are dominated by a last-iterate pair
that holds for every start, at distance 0, and the m pairs compose (Zhu, Dong & Wang 2022, Theorem 10).

Affine chains: if every record's objective has the same constant curvature m = M, a step is theta -> c theta + eta p +
tau xi with c = 1 - eta m and p the mean pull of the batch. **Proof.** Given the batches the last of T iterates is
Gaussian with covariance tau^2 (sum over k of c^(2 (T-k))) I on both datasets, and its mean moves by (eta / b) (p - p')
times the sum of c^(T-k) B_k over the steps that use the record. So it is mu(B)-Gaussian DP, exactly, and since batches
are drawn independently of the data delta is at most the average. Poisson batches vary in size: there all of the
curvature must be the regulariser's.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import window as windows
from sordino.accounting.bounds.closed_forms import cyclic_shift, every_step_shift, kept_shifts, position_shifts
from sordino.accounting.bounds.contraction import IdenticalSteps, ListedSteps
from sordino.accounting.bounds.revealed import drawn_batches, parts_of_passes
from sordino.accounting.bounds.segments import PassParts, gaussian_mixture, pass_sum_law, places_in_passes, segments_of
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import compose, failing, mix
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import FIXED_ORDERS, Assumption, Scope, assumption, last_iterate_scope, promised
from sordino.core import bound as constants
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Citation, Relation, View
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair
from sordino.core.spec import Scheme, Spec

_ONE_BY_ONE = 1000  # quiet steps up to here are listed one by one, more of them in groups


@as_stated(
    "shifted.full",
    Citation("bok2024shifted", "Section 4, noisy gradient descent with strongly convex losses"),
    scope=last_iterate_scope(replace_one={Scheme.FULL}, add_remove={Scheme.FULL}),
    assumptions=(*chains.ANY_STEPS, chains.CONTRACTION, chains.EVERY_RECORD),
)
def full(spec: Spec) -> Guarantee:
    """With full batches, contraction c and ratio kappa the last of T iterates is mu-Gaussian DP with mu^2 = kappa^2 (1
    - c^T)/(1 + c^T) (1 + c)/(1 - c), and kappa^2 T for c >= 1; with varying schedules mu^2 is the least sum of a_k^2 /
    tau_k^2 over shifts z_k = c_k z_{k-1} + s_k - a_k >= 0 with z_T = 0. Equality holds on quadratics with c <= 1."""
    return GaussianDP(every_step_shift(chains.shift_steps(spec)))


@as_stated(
    "shifted.cyclic",
    Citation("bok2024shifted", "Theorem 4.5"),
    scope=last_iterate_scope(replace_one={Scheme.CYCLIC}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.CONTRACTION, chains.EVERY_RECORD),
)
def cyclic(spec: Spec) -> Guarantee:
    """With l >= 2 cyclic batches, contraction c < 1 and ratio kappa the last iterate after K epochs is mu-Gaussian DP
    with mu^2 = kappa^2 [1 + c^(2l-2) (1 - c^2)/(1 - c^l)^2 (1 - q)/(1 + q)], q = c^(l(K-1)); kappa^2 [1 + (K-1)/l] for
    c = 1. With varying schedules, a partial last epoch or c > 1 the least cost of shifts is computed for every position
    of the record, and the largest counts."""
    # With identical steps the worst record is the one whose last use is the last step; otherwise all are tried.
    period, steps = chain_of(spec).batches_per_epoch(spec.n), chains.shift_steps(spec)
    if isinstance(steps, IdenticalSteps):
        return GaussianDP(cyclic_shift(steps.contraction, steps.ratio, period, -(-steps.count // period)))
    return GaussianDP(float(position_shifts(steps.contractions, steps.moves, steps.noises, period).max()))


@ours(
    "shifted.shuffle-once",
    Citation("bok2024shifted", "Theorem 4.5, given the order, averaged over it"),
    scope=last_iterate_scope(replace_one={Scheme.SHUFFLE_ONCE}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.CONTRACTION, chains.EVERY_RECORD),
)
def shuffle_once(spec: Spec) -> Guarantee:
    """With records shuffled once, delta(epsilon) is at most the average over the record's batch j of the delta of a
    mu_j-Gaussian, mu_j being the least cost of shifts for a record in the j-th of the cyclic batches."""
    # Given the order the run is cyclic; the order is independent of the data and may be revealed.
    chain, steps = chain_of(spec), chains.shift_steps(spec)
    period = chain.batches_per_epoch(spec.n)
    if isinstance(steps, ListedSteps):
        mus = position_shifts(steps.contractions, steps.moves, steps.noises, period)
        return chains.averaged_over_positions(mus, spec)
    # Groups of batches: mu depends on the uses and falls with the quiet steps after the last one, so a group takes the
    # mu of its least quiet batch. The last batch of a pass, which may lack some records, is the least quiet one with
    # its number of uses, and a group of its own.
    size, rest, uses = chain.divisor(spec.n), (steps.count - 1) % period + 1, -(-steps.count // period)
    mus, weights = [], []
    for count, low, high in ((uses, 0, rest), (uses - 1, rest, period)):
        for first, stop in pairwise(_quiet_edges(low, high)):
            mus.append(cyclic_shift(steps.contraction, steps.ratio, period, count, first))
            weights.append(float((stop - first) * size))
    weights[0 if rest == period else len(_quiet_edges(0, rest)) - 1] -= period * size - spec.n
    return gaussian_mixture(np.array(mus), np.array(weights))


def _quiet_edges(low: int, high: int) -> list[int]:
    """low, ..., high: one by one at first, then in steps of a tenth."""
    edges, edge = [low], low
    while edge < high:
        edge = min(high, edge + 1 + max(0, edge - low - _ONE_BY_ONE) // 10)
        edges.append(edge)
    return edges


# Smaller contractions are rounded up to this one: logarithms stay finite, and nothing is lost.
_SMALLEST_CONTRACTION = 1e-9


def contraction_and_ratio(spec: Spec) -> tuple[float, float]:
    """c > 0 and kappa of the identical steps of a run that meets the needs below."""
    (step, _), ratio = chains.constant_step(spec), chains.required_steps(spec).constant_ratio
    return max(chains.required_contraction(spec).at(step), _SMALLEST_CONTRACTION), promised(ratio)


def _contraction(name: str, limit: str, holds: Callable[[float], bool]) -> Assumption:
    """A limit on the modulus of a constant step."""

    def failure(spec: Spec) -> str | None:
        modulus = chains.required_contraction(spec).at(chains.constant_step(spec)[0])
        return None if holds(modulus) else f"needs a contraction {limit}, and c = {modulus:.6g}"

    return Assumption(name, limit, failure)


@assumption("sampled", "b < n, or a Poisson rate below 1")
def _sampled(spec: Spec) -> str | None:
    chain, size = chain_of(spec), chain_of(spec).divisor(spec.n)
    if chain.batch.scheme is Scheme.POISSON:
        rate = chain.rate(spec.n)
        return None if rate < 1 else f"needs batches that may lack a record, and the rate is {rate:g}"
    return None if size < spec.n else f"needs batches of b < n records, and b = {size}, n = {spec.n}"


NOT_EXPANDING = _contraction("not expanding", "c <= 1", lambda modulus: modulus <= 1)
CONTRACTED_CHAIN = (*chains.ANY_STEPS, chains.CONTRACTION, chains.CONSTANT, chains.EVERY_RECORD)
_POISSON_PAIRS = {Relation.ADD_REMOVE: PoissonRemovePair, Relation.REPLACE_ONE: PoissonReplacePair}


def sampled_chain(spec: Spec) -> windows.SampledChain:
    """The run's contraction, ratio, rate and length; of Poisson batches also what a use leaves, and the failure."""
    chain, (contraction, ratio) = chain_of(spec), contraction_and_ratio(spec)
    run = windows.SampledChain(contraction, ratio, chain.rate(spec.n), chain.steps)
    if chain.batch.scheme is not Scheme.POISSON:
        return run
    failure = chains.required_contraction(spec).failure
    return replace(run, sampled=_POISSON_PAIRS[spec.relation], move=left_by_use(spec, ratio), failure=failure)


def left_by_use(spec: Spec, ratio: float) -> float:
    """s_0 over the noise: eta G / b under add-remove, eta min(Delta, 2 G) / b under replace-one."""
    if spec.relation is Relation.ADD_REMOVE:
        return ratio
    bound, sensitivity = (assume.certificate_for(spec, one) for one in (GRADIENT_BOUND, GRADIENT_SENSITIVITY))
    if bound is None or sensitivity is None or bound.value == 0.0:
        return 2 * ratio
    return min(2 * ratio, up(ratio * (sensitivity.value / bound.value), 4))


def sampled_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """Those of the shifts, and the sensitivity where Poisson batches compare two records."""
    chain = chain_of(spec)
    used = (*chains.used_certificates(spec), *chains.CONTRACTION.certificates(spec))
    if chain.batch.scheme is not Scheme.POISSON or spec.relation is Relation.ADD_REMOVE:
        return used
    return tuple(dict.fromkeys((*used, *assume.section_certificates(spec, (GRADIENT_SENSITIVITY,)))))


_CONTRACTING = _contraction("contracting", "c < 1", lambda modulus: modulus < 1)
# Batches are drawn afresh at every step.
_fresh_batches = partial(
    ours,
    scope=last_iterate_scope(replace_one={Scheme.WITHOUT_REPLACEMENT, Scheme.POISSON}, add_remove={Scheme.POISSON}),
    assumptions=(*CONTRACTED_CHAIN, _CONTRACTING, _sampled, chains.ANY_TWO_RECORDS),
    certificates=sampled_certificates,
)


@_fresh_batches(
    "shifted.random-batches",
    Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; re-derived for any two records"),
)
def random_batches(spec: Spec) -> Guarantee:
    """With batches of b of n records drawn afresh, q = b/n, contraction c < 1 and ratio kappa between any two records,
    the last iterate is dominated by the composition of G(kappa (c^{nu+1} - c^T) / ((1-c) sqrt(theta))), C_q(G(kappa /
    sqrt(1-theta))) and C_q(G(kappa))^nu, for every window nu < T and every theta in (0, 1). Poisson batches: the same
    with the Poisson pairs in place of C_q, where every batch that can be drawn contracts by c (batches too large for
    that are rarer than a thousandth of delta, which is added). Window and split are chosen for the spec's delta, 1e-6
    if it states none."""
    return windows.best_split(sampled_chain(spec), assume.chosen_delta(spec), random=False)


@_fresh_batches(
    "shifted.random-participation",
    Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; the distance averaged"),
)
def random_participation(spec: Spec) -> Guarantee:
    """As shifted.random-batches, with the batches before the window revealed: the distance they leave is at most s_0
    sum_j c^j B_j with independent Bernoulli(q) variables B_j and s_0 = kappa tau (eta min(Delta, 2 G) / b for Poisson
    batches under replace-one), and delta is averaged over its law, rounded up. Window and split are chosen for the
    spec's delta, 1e-6 if it states none."""
    # Given the revealed batches the window's composition holds with their distance; revealing them averages delta.
    return windows.best_split(sampled_chain(spec), assume.chosen_delta(spec), random=True)


@ours(
    "shifted.revealed-batches",
    Citation("bok2024shifted", "Theorem 4.5, given the batches, with the exact minimiser"),
    scope=last_iterate_scope(
        replace_one={Scheme.WITHOUT_REPLACEMENT, Scheme.RESHUFFLED, Scheme.POISSON}, add_remove={Scheme.POISSON}
    ),
    assumptions=(chains.EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING),
    certificates=sampled_certificates,
)
def revealed_batches(spec: Spec) -> Guarantee:
    """With batches drawn independently of the data and contraction c <= 1, the last iterate has delta(epsilon) at most
    the average over participation patterns B of the delta of mu(B)-Gaussian DP, mu(B) the least cost of shifts given B.
    Up to 1e6 patterns are listed; beyond, uses are moved later and pushes before a last window do not look ahead; both
    can only enlarge the bound."""
    # Given the batches the shift theorem holds; a public choice between mechanisms averages their deltas.
    chain, (contraction, _) = chain_of(spec), contraction_and_ratio(spec)

    def law(parts: PassParts) -> windows.RoundedLaw:
        if chain.batch.scheme is Scheme.RESHUFFLED:
            return parts_of_passes(contraction, chain.batches_per_epoch(spec.n), parts)
        return drawn_batches(contraction, chain.rate(spec.n), parts.tail)

    return _mixtures(spec, law)


def _mixtures(spec: Spec, law: Callable[[PassParts], windows.RoundedLaw]) -> Guarantee:
    """Segments with the Gaussian guarantees of these mus, in units of a use's move; which one holds is revealed."""
    _, ratio = contraction_and_ratio(spec)
    move = left_by_use(spec, ratio) if chain_of(spec).batch.scheme is Scheme.POISSON else ratio

    def segment(parts: PassParts) -> Guarantee:
        mus = law(parts)
        return mix(mus.weights, [GaussianDP(up(move * mu, 2) if mu else 0.0) for mu in mus.values])

    return _composed(spec, segment, _segments(spec))


def _composed(spec: Spec, segment: Callable[[PassParts], Guarantee], segments: Counter[PassParts]) -> Guarantee:
    """The composition; Poisson batches that are too large for the modulus fail once for the whole run."""
    failure = chains.required_contraction(spec).failure if chain_of(spec).batch.scheme is Scheme.POISSON else 0.0
    return failing(compose((segment(parts), count) for parts, count in segments.items()), failure)


def _segments(spec: Spec) -> Counter[PassParts]:
    """The segments of a run by length, and by how they cut passes where there are passes."""
    chain = chain_of(spec)
    kept = chain.kept_iterates(spec.view)
    if chain.batch.scheme is Scheme.RESHUFFLED:
        return segments_of(kept, chain.batches_per_epoch(spec.n))
    lengths = Counter({PassParts(0, 0, kept[0]): 1})
    lengths[PassParts(0, 0, kept.step)] += len(kept) - 1
    return +lengths


_kept_on = partial(Scope, {"noisy-gradient"}, {View.ALL_ITERATES, View.AVERAGE})
_MOST_POSITIONS = 100_000
_MOST_WORK = 20_000_000


@assumption(
    "positions",
    f"a record has at most {_MOST_POSITIONS} positions; with varying schedules, {_MOST_WORK} over the steps",
)
def _few_positions(spec: Spec) -> str | None:
    chain = chain_of(spec)
    positions = min(chain.batches_per_epoch(spec.n), chain.steps)
    most = _MOST_POSITIONS if chains.varying_schedule(chain) is None else _MOST_WORK // chain.steps
    if positions <= max(most, 1):
        return None
    return f"evaluates at most {most} positions of the record in a run of this length, and there are {positions}"


@ours(
    "composition.kept",
    Citation("dong2022gaussian", "Corollary 3.3, over segments bounded by Bok et al. 2024, Section 4"),
    scope=_kept_on({Relation.REPLACE_ONE: {Scheme.FULL, *FIXED_ORDERS}, Relation.ADD_REMOVE: {Scheme.FULL}}),
    assumptions=(*chains.ANY_STEPS, _few_positions, chains.CONTRACTION, chains.EVERY_RECORD),
)
def kept(spec: Spec) -> Guarantee:
    """If the iterates t_1 < ... < t_m of a chain are kept, they are together mu-Gaussian DP with mu^2 the sum over the
    segments between them of the least cost of shifts from distance 0 to distance 0, for the worst position of the
    record; with records shuffled once delta is the average over positions. Averages of kept iterates are
    post-processing."""
    # Only kept iterates are released; unkept ones, and diagnostics computed from them, are not.
    chain = chain_of(spec)
    mus = kept_shifts(chains.shift_steps(spec), chain.kept_iterates(spec.view), chain.batches_per_epoch(spec.n))
    if chain.batch.scheme is Scheme.SHUFFLE_ONCE:
        return chains.averaged_over_positions(mus, spec)
    return GaussianDP(float(np.max(mus)))


_RANDOM = {
    Relation.REPLACE_ONE: {Scheme.WITHOUT_REPLACEMENT, Scheme.POISSON, Scheme.RESHUFFLED},
    Relation.ADD_REMOVE: {Scheme.POISSON},
}
_MOST_PLACES = 64  # of a pass, at which iterates are kept
_AFFINE_VALUES = 400  # of the distance that uses leave


@assumption("places in passes", f"iterates are kept at no more than {_MOST_PLACES} places of reshuffled passes")
def _few_places(spec: Spec) -> str | None:
    chain = chain_of(spec)
    places = places_in_passes(chain.kept_iterates(spec.view), chain.batches_per_epoch(spec.n))
    if chain.batch.scheme is not Scheme.RESHUFFLED or places <= _MOST_PLACES:
        return None
    return f"evaluates kept iterates at {_MOST_PLACES} places of a pass at most, and they are at {places}"


@ours(
    "composition.kept-random",
    Citation("zhu2022optimal", "Theorem 10, over segments bounded as in Bok et al. 2024, Section 4"),
    scope=_kept_on(_RANDOM),
    assumptions=(chains.EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING, _few_places, chains.ANY_TWO_RECORDS),
    certificates=sampled_certificates,
)
def kept_random(spec: Spec) -> Guarantee:
    """Kept iterates of a chain with contraction c <= 1 on random batches are dominated by the composition over the
    segments between them of last-iterate pairs from a common point: revealed batches, or a window for batches drawn
    afresh (without replacement, Poisson) and c < 1. Of reshuffled passes that kept iterates cut the later parts are
    given a use of their own, uniform in each. Averages of kept iterates are post-processing."""
    chain, (contraction, _) = chain_of(spec), contraction_and_ratio(spec)
    if chain.batch.scheme is Scheme.RESHUFFLED or contraction >= 1.0 or chain.rate(spec.n) >= 1.0:
        return revealed_batches.proof(spec)
    # The windows are chosen for as many segments as there are; `_composed` adds the failure, once for all of them.
    whole, segments, delta = replace(sampled_chain(spec), failure=0.0), _segments(spec), assume.chosen_delta(spec)
    best = partial(windows.best_split, delta=delta, random=True, copies=segments.total())
    windowed = _composed(spec, lambda one: best(replace(whole, steps=one.tail)), segments)
    if segments.keys() == {PassParts(0, 0, 1)}:  # every iterate is kept: steps compose
        return windowed
    return min((windowed, revealed_batches.proof(spec)), key=lambda guarantee: guarantee.epsilon(delta))


@assumption(
    "constant curvature",
    "every record's objective has one constant curvature, m = M; with Poisson batches the regulariser's",
)
def _constant_curvature(spec: Spec) -> str | None:
    found = assume.public_certificates(spec, constants.STRONG_CONVEXITY, constants.SMOOTHNESS)
    if isinstance(found, str):
        return found
    low, high = (Fraction(one.value) for one in found)
    if low != high:
        return f"needs objectives of one constant curvature m = M, and m = {float(low):.6g}, M = {float(high):.6g}"
    if chain_of(spec).batch.scheme is not Scheme.POISSON:
        return None
    regulariser = (constants.REGULARISER_STRONG_CONVEXITY, constants.REGULARISER_SMOOTHNESS)
    kept = [chains.stated_value(spec, constant) for constant in regulariser]
    if kept == [low, low]:
        return None
    return (
        "needs linear losses where the batch size is random, and the regulariser's curvature is not all of the "
        f"objective's: [{float(kept[0]):.6g}, {float(kept[1]):.6g}] of {float(low):.6g}"
    )


_CONVEX_CHAIN = (chains.EQUAL_BATCHES, chains.CONVEX_CLIPPING, *CONTRACTED_CHAIN, NOT_EXPANDING)


@ours(
    "shifted.affine",
    Citation("dong2022gaussian", "Theorem 2.7 and Corollary 3.3, given the batches"),
    scope=Scope({"noisy-gradient"}, {View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE}, _RANDOM),
    assumptions=(*_CONVEX_CHAIN, _constant_curvature, chains.UNPROJECTED, _few_places),
    certificates=sampled_certificates,
)
def affine(spec: Spec) -> Guarantee:
    """If every record's objective has one constant curvature m = M (quadratics that differ by their pull), delta of the
    last iterate is at most the average over the batches of that of mu(B)-Gaussian DP, mu(B) = kappa |sum of c^(T-k)
    B_k| / sqrt(sum of c^(2(T-k))), c = 1 - eta m; kept iterates compose over the segments between them."""
    chain, (contraction, _) = chain_of(spec), contraction_and_ratio(spec)
    period, log = chain.batches_per_epoch(spec.n), math.log(contraction)

    def law(parts: PassParts) -> windows.RoundedLaw:
        steps = parts.steps(period)
        if chain.batch.scheme is Scheme.RESHUFFLED:
            found = pass_sum_law(contraction, period, parts)
        else:
            found = windows.distance_law(contraction, chain.rate(spec.n), steps, _AFFINE_VALUES)
        # The sum of c^(2j) over j < steps, rounded down.
        volume = float(steps) if log == 0.0 else math.expm1(2 * log * steps) / math.expm1(2 * log)
        root = math.sqrt(volume * (1 - 1e-12))
        return replace(found, values=tuple(value / root * (1 + 1e-14) for value in found.values))

    return _mixtures(spec, law)
