"""Kept iterates of a chain, and chains whose steps are affine.

Between two kept iterates the state of a chain is hidden, so a segment costs what a last iterate costs.

Kept draws: a kept iterate is the whole state (a chain has neither momentum nor correlated noise), so a segment starts
at a point that both neighbours' chains were seen at. **Proof.** Let Y_1, ..., Y_m be the kept iterates. Given Y_1, ...,
Y_{j-1} the segment up to Y_j is a chain of its own from the point Y_{j-1}, whatever that is, and its batches are
independent of the past: drawn afresh at every step, or passes that begin in the segment. (Of a pass that kept iterates
cut, `bounds.segments` makes the parts independent.) So the conditional laws of Y_j are dominated by a
last-iterate pair that holds for every start, at distance 0, and the m pairs compose (Zhu, Dong & Wang 2022, Theorem
10).

Affine chains: if every record's objective has the same constant curvature m = M, a step is theta -> c theta + eta p +
tau xi with c = 1 - eta m and p the mean pull of the batch. **Proof.** Given the batches the last of T iterates is
Gaussian with covariance tau^2 (sum over k of c^(2 (T-k))) I on both datasets, and its mean moves by (eta / b) (p - p')
times the sum of c^(T-k) B_k over the steps that use the record. So it is mu(B)-Gaussian DP, exactly, and since batches
are drawn independently of the data delta is at most the average. Poisson batches vary in size: there all of the
curvature must be the regulariser's.
"""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting.bounds.closed_forms import kept_shifts
from sordino.accounting.bounds.contraction import required_contraction
from sordino.accounting.bounds.revealed import drawn_batches, parts_of_passes
from sordino.accounting.bounds.segments import PassParts, pass_sum_law, places_in_passes, segments_of
from sordino.accounting.bounds.window import best_with_random_distance, distance_law
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import compose, failing
from sordino.accounting.evaluate import ours
from sordino.accounting.scope import Scope, assumption, chosen_delta, public_certificates
from sordino.accounting.theorems.shifted import (
    CONTRACTED_CHAIN,
    NOT_EXPANDING,
    contraction_and_ratio,
    left_by_use,
    moved_mixture,
    sampled_certificates,
    sampled_chain,
)
from sordino.core import bound as constants
from sordino.core.bound import Citation, Relation, View
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec

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
    "If the iterates t_1 < ... < t_m of a chain are kept, they are together mu-Gaussian DP with mu^2 the sum over the "
    "segments between them of the least cost of shifts from distance 0 to distance 0, for the worst position of the "
    "record; with records shuffled once delta is the average over positions. Averages of kept iterates are "
    "post-processing.",
    Citation("dong2022gaussian", "Corollary 3.3, over segments bounded by Bok et al. 2024, Section 4"),
    scope=Scope(
        {"noisy-gradient"},
        {View.ALL_ITERATES, View.AVERAGE},
        {Relation.REPLACE_ONE: {Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}, Relation.ADD_REMOVE: {Scheme.FULL}},
    ),
    assumptions=(*chains.ANY_STEPS, _few_positions, chains.CONTRACTION, chains.EVERY_RECORD),
)
def kept(spec: Spec) -> Guarantee:
    """Only kept iterates are released; unkept ones, and diagnostics computed from them, are not."""
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


def _segments(spec: Spec) -> Counter[PassParts]:
    """The segments of a run by length, and by how they cut passes where there are passes."""
    chain = chain_of(spec)
    kept = chain.kept_iterates(spec.view)
    if chain.batch.scheme is Scheme.RESHUFFLED:
        return segments_of(kept, chain.batches_per_epoch(spec.n))
    lengths = Counter({PassParts(0, 0, kept[0]): 1})
    lengths[PassParts(0, 0, kept.step)] += len(kept) - 1
    return +lengths


@assumption("places in passes", f"iterates are kept at no more than {_MOST_PLACES} places of reshuffled passes")
def _few_places(spec: Spec) -> str | None:
    chain = chain_of(spec)
    places = places_in_passes(chain.kept_iterates(spec.view), chain.batches_per_epoch(spec.n))
    if chain.batch.scheme is not Scheme.RESHUFFLED or places <= _MOST_PLACES:
        return None
    return f"evaluates kept iterates at {_MOST_PLACES} places of a pass at most, and they are at {places}"


def _with_failure(spec: Spec, uses: list[tuple[Guarantee, int]]) -> Guarantee:
    """The composition; Poisson batches that are too large for the modulus fail once for the whole run."""
    failure = required_contraction(spec).failure if chain_of(spec).batch.scheme is Scheme.POISSON else 0.0
    return failing(compose(uses), failure)


def _move(spec: Spec) -> float:
    _, ratio = contraction_and_ratio(spec)
    return left_by_use(spec, ratio) if chain_of(spec).batch.scheme is Scheme.POISSON else ratio


def _revealed(spec: Spec) -> Guarantee:
    chain, (contraction, _), move = chain_of(spec), contraction_and_ratio(spec), _move(spec)

    def segment(parts: PassParts) -> Guarantee:
        if chain.batch.scheme is Scheme.RESHUFFLED:
            law = parts_of_passes(contraction, chain.batches_per_epoch(spec.n), parts)
        else:
            law = drawn_batches(contraction, chain.rate(spec.n), parts.tail)
        return moved_mixture(law, move)

    return _with_failure(spec, [(segment(parts), count) for parts, count in _segments(spec).items()])


@ours(
    "composition.kept-random",
    "Kept iterates of a chain with contraction c <= 1 on random batches are dominated by the composition over the "
    "segments between them of last-iterate pairs from a common point: revealed batches, or a window for batches drawn "
    "afresh (without replacement, Poisson) and c < 1. Of reshuffled passes that kept iterates cut the later parts are "
    "given a use of their own, uniform in each. Averages of kept iterates are post-processing.",
    Citation("zhu2022optimal", "Theorem 10, over segments bounded as in Bok et al. 2024, Section 4"),
    scope=Scope({"noisy-gradient"}, {View.ALL_ITERATES, View.AVERAGE}, _RANDOM),
    assumptions=(chains.EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING, _few_places, chains.ANY_TWO_RECORDS),
    certificates=sampled_certificates,
)
def kept_random(spec: Spec) -> Guarantee:
    """Both ways of looking at a segment hold; the composition with the smaller epsilon is used."""
    chain, (contraction, _) = chain_of(spec), contraction_and_ratio(spec)
    windows = chain.batch.scheme is not Scheme.RESHUFFLED and contraction < 1.0 and chain.rate(spec.n) < 1.0
    if not windows:
        return _revealed(spec)
    # The windows are chosen for as many segments as there are.
    whole, segments, delta = sampled_chain(spec), _segments(spec), chosen_delta(spec)
    total = sum(segments.values())
    windowed = _with_failure(
        spec, [(best_with_random_distance(whole.of_length(one.tail), delta, total), n) for one, n in segments.items()]
    )
    if segments.keys() == {PassParts(0, 0, 1)}:  # every iterate is kept: steps compose
        return windowed
    return min((windowed, _revealed(spec)), key=lambda guarantee: guarantee.epsilon(delta))


@assumption(
    "constant curvature",
    "every record's objective has one constant curvature, m = M; with Poisson batches the regulariser's",
)
def _constant_curvature(spec: Spec) -> str | None:
    if isinstance(found := public_certificates(spec, constants.STRONG_CONVEXITY, constants.SMOOTHNESS), str):
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


@ours(
    "shifted.affine",
    "If every record's objective has one constant curvature m = M (quadratics that differ by their pull), delta of "
    "the last iterate is at most the average over the batches of that of mu(B)-Gaussian DP, mu(B) = kappa |sum of "
    "c^(T-k) B_k| / sqrt(sum of c^(2(T-k))), c = 1 - eta m; kept iterates compose over the segments between them.",
    Citation("dong2022gaussian", "Theorem 2.7 and Corollary 3.3, given the batches"),
    scope=Scope({"noisy-gradient"}, {View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE}, _RANDOM),
    assumptions=(
        chains.EQUAL_BATCHES,
        chains.CONVEX_CLIPPING,
        *CONTRACTED_CHAIN,
        NOT_EXPANDING,
        _constant_curvature,
        chains.UNPROJECTED,
        _few_places,
    ),
    certificates=sampled_certificates,
)
def affine(spec: Spec) -> Guarantee:
    """Given the batches, the exact Gaussian; the batches are revealed, and delta is averaged."""
    chain, (contraction, _), move = chain_of(spec), contraction_and_ratio(spec), _move(spec)
    period, log = chain.batches_per_epoch(spec.n), math.log(contraction)

    def segment(parts: PassParts) -> Guarantee:
        steps = parts.steps(period)
        if chain.batch.scheme is Scheme.RESHUFFLED:
            law = pass_sum_law(contraction, period, parts)
        else:
            law = distance_law(contraction, chain.rate(spec.n), steps, _AFFINE_VALUES)
        # The sum of c^(2j) over j < steps, rounded down.
        volume = float(steps) if log == 0.0 else math.expm1(2 * log * steps) / math.expm1(2 * log)
        root = math.sqrt(volume * (1 - 1e-12))
        return moved_mixture(replace(law, values=tuple(value / root * (1 + 1e-14) for value in law.values)), move)

    return _with_failure(spec, [(segment(parts), count) for parts, count in _segments(spec).items()])
