"""The cheapest shifts of the last iterate: full, cyclic, once-shuffled and random batches."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import window as windows
from sordino.accounting.bounds.closed_forms import cyclic_shift, every_step_shift, position_shifts
from sordino.accounting.bounds.contraction import IdenticalSteps, ListedSteps, contraction_of, required_contraction
from sordino.accounting.bounds.revealed import drawn_batches, reshuffled_passes
from sordino.accounting.bounds.segments import gaussian_mixture
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import failing, mix
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import Assumption, assumption, last_iterate_scope
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Citation, Relation
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair
from sordino.core.spec import Scheme, Spec

_ONE_BY_ONE = 1000  # quiet steps up to here are listed one by one, more of them in groups


@as_stated(
    "shifted.full",
    "With full batches, contraction c and ratio kappa the last of T iterates is mu-Gaussian DP with mu^2 = kappa^2 (1 "
    "- c^T)/(1 + c^T) (1 + c)/(1 - c), and kappa^2 T for c >= 1; with varying schedules mu^2 is the least sum of "
    "a_k^2 / tau_k^2 over shifts z_k = c_k z_{k-1} + s_k - a_k >= 0 with z_T = 0. Equality holds on quadratics with c "
    "<= 1.",
    Citation("bok2024shifted", "Section 4, noisy gradient descent with strongly convex losses"),
    scope=last_iterate_scope(replace_one={Scheme.FULL}, add_remove={Scheme.FULL}),
    assumptions=(*chains.ANY_STEPS, chains.CONTRACTION, chains.EVERY_RECORD),
)
def full(spec: Spec) -> Guarantee:
    """Every step moves; identical steps have a closed form."""
    return GaussianDP(every_step_shift(chains.shift_steps(spec)))


@as_stated(
    "shifted.cyclic",
    "With l >= 2 cyclic batches, contraction c < 1 and ratio kappa the last iterate after K epochs is mu-Gaussian DP "
    "with mu^2 = kappa^2 [1 + c^(2l-2) (1 - c^2)/(1 - c^l)^2 (1 - q)/(1 + q)], q = c^(l(K-1)); kappa^2 [1 + (K-1)/l] "
    "for c = 1. With varying schedules, a partial last epoch or c > 1 the least cost of shifts is computed for every "
    "position of the record, and the largest counts.",
    Citation("bok2024shifted", "Theorem 4.5"),
    scope=last_iterate_scope(replace_one={Scheme.CYCLIC}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.CONTRACTION, chains.EVERY_RECORD),
)
def cyclic(spec: Spec) -> Guarantee:
    """With identical steps the worst record is the one whose last use is the last step; otherwise all are tried."""
    period, steps = chain_of(spec).batches_per_epoch(spec.n), chains.shift_steps(spec)
    if isinstance(steps, IdenticalSteps):
        return GaussianDP(cyclic_shift(steps.contraction, steps.ratio, period, -(-steps.count // period)))
    return GaussianDP(float(position_shifts(steps.contractions, steps.moves, steps.noises, period).max()))


@ours(
    "shifted.shuffle-once",
    "With records shuffled once, delta(epsilon) is at most the average over the record's batch j of the delta of a "
    "mu_j-Gaussian, mu_j being the least cost of shifts for a record in the j-th of the cyclic batches.",
    Citation("bok2024shifted", "Theorem 4.5, given the order, averaged over it"),
    scope=last_iterate_scope(replace_one={Scheme.SHUFFLE_ONCE}),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.CONTRACTION, chains.EVERY_RECORD),
)
def shuffle_once(spec: Spec) -> Guarantee:
    """Given the order the run is cyclic; the order is independent of the data and may be revealed."""
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
    (step, _), ratio = chains.constant_step(spec), chains.required_ratio(chains.required_steps(spec))
    return max(required_contraction(spec).at(step), _SMALLEST_CONTRACTION), ratio


def _contraction(name: str, limit: str, holds: Callable[[float], bool]) -> Assumption:
    """A limit on the modulus of a constant step, where one is certified."""

    def failure(spec: Spec) -> str | None:
        contraction, eta = contraction_of(spec), chain_of(spec).step_size.constant
        modulus = 0.0 if isinstance(contraction, str) or eta is None else contraction.at(eta)
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
    failure = required_contraction(spec).failure
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
    "With batches of b of n records drawn afresh, q = b/n, contraction c < 1 and ratio kappa between any two records, "
    "the last iterate is dominated by the composition of G(kappa (c^{nu+1} - c^T) / ((1-c) sqrt(theta))), C_q(G(kappa "
    "/ sqrt(1-theta))) and C_q(G(kappa))^nu, for every window nu < T and every theta in (0, 1). Poisson batches: the "
    "same with the Poisson pairs in place of C_q, where every batch that can be drawn contracts by c (batches too "
    "large for that are rarer than a thousandth of delta, which is added). Window and split are chosen for the spec's "
    "delta, 1e-6 if it states none.",
    Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; re-derived for any two records"),
)
def random_batches(spec: Spec) -> Guarantee:
    """Any window and split are valid; the best ones found are used, plain composition being one of them."""
    return windows.best_with_largest_distance(sampled_chain(spec), assume.chosen_delta(spec))


@_fresh_batches(
    "shifted.random-participation",
    "As shifted.random-batches, with the batches before the window revealed: the distance they leave is at most s_0 "
    "sum_j c^j B_j with independent Bernoulli(q) variables B_j and s_0 = kappa tau (eta min(Delta, 2 G) / b for "
    "Poisson batches under replace-one), and delta is averaged over its law, rounded up. Window and split are chosen "
    "for the spec's delta, 1e-6 if it states none.",
    Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; the distance averaged"),
)
def random_participation(spec: Spec) -> Guarantee:
    """Given the revealed batches the window's composition holds with their distance; revealing them averages delta."""
    return windows.best_with_random_distance(sampled_chain(spec), assume.chosen_delta(spec))


@ours(
    "shifted.revealed-batches",
    "With batches drawn independently of the data and contraction c <= 1, the last iterate has delta(epsilon) at most "
    "the average over participation patterns B of the delta of mu(B)-Gaussian DP, mu(B) the least cost of shifts "
    "given B. Up to 1e6 patterns are listed; beyond, uses are moved later and pushes before a last window do not look "
    "ahead; both can only enlarge the bound.",
    Citation("bok2024shifted", "Theorem 4.5, given the batches, with the exact minimiser"),
    scope=last_iterate_scope(
        replace_one={Scheme.WITHOUT_REPLACEMENT, Scheme.RESHUFFLED, Scheme.POISSON}, add_remove={Scheme.POISSON}
    ),
    assumptions=(chains.EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING),
    certificates=sampled_certificates,
)
def revealed_batches(spec: Spec) -> Guarantee:
    """Given the batches the shift theorem holds; a public choice between mechanisms averages their deltas."""
    chain, (contraction, ratio) = chain_of(spec), contraction_and_ratio(spec)
    if chain.batch.scheme is Scheme.RESHUFFLED:
        law = reshuffled_passes(contraction, chain.batches_per_epoch(spec.n), chain.steps)
    else:
        law = drawn_batches(contraction, chain.rate(spec.n), chain.steps)
    poisson = chain.batch.scheme is Scheme.POISSON
    move, failure = (left_by_use(spec, ratio), required_contraction(spec).failure) if poisson else (ratio, 0.0)
    return failing(moved_mixture(law, move), failure)


def moved_mixture(law: windows.RoundedLaw, move: float) -> Guarantee:
    """The Gaussian guarantees of these mus, in units of a use's move; which of them holds is revealed."""
    return mix(law.weights, [GaussianDP(up(move * mu, 2) if mu else 0.0) for mu in law.values])
