"""Random batches, last iterate: hide the batches of the last steps, and shift away what the earlier ones left behind.

The earlier batches are taken at their worst, averaged over, or all revealed.
"""

from collections.abc import Callable

from sordino.accounting.assumptions import Assumption
from sordino.accounting.chain_assumptions import (
    ANY_TWO_RECORDS,
    CONSTANT,
    CONTRACTION,
    EQUAL_BATCHES,
    EVERY_RECORD,
    FALLS_WITH_CONVEXITY,
    MONOTONE_CHAIN,
    NUMERICAL,
    SENSITIVITY,
    chain_of,
    constant_step,
    required_steps,
    shift_certificates,
)
from sordino.accounting.convert import mix
from sordino.accounting.evaluate import last_iterate_scope, theorem
from sordino.accounting.participation.revealed import ShiftLaw, drawn_batches, reshuffled_passes
from sordino.accounting.participation.window import SampledChain, best_with_largest_distance, best_with_random_distance
from sordino.accounting.shifts.contraction import contraction_of, required_contraction
from sordino.core.bound import Citation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError

# The delta at which windows and splits are chosen when the spec states none; the choice is public either way.
REFERENCE_DELTA = 1e-6
# Smaller contractions are rounded up to this one: logarithms stay finite, and nothing is lost.
_SMALLEST_CONTRACTION = 1e-9


def contraction_and_ratio(spec: Spec) -> tuple[float, float]:
    """c > 0 and kappa of the identical steps of a run that meets the needs below."""
    (step, _), ratio = constant_step(spec), required_steps(spec).constant_ratio
    if ratio is None:
        raise InputError("Expected a constant step size and noise scale, got a schedule; use evaluate.")
    return max(required_contraction(spec).at(step), _SMALLEST_CONTRACTION), ratio


def _modulus(spec: Spec) -> float:
    found, eta = contraction_of(spec), chain_of(spec).step_size.constant
    return 0.0 if isinstance(found, str) or eta is None else found.at(eta)


def _not_contracting(spec: Spec) -> str | None:
    modulus = _modulus(spec)
    return None if modulus < 1 else f"needs a contraction c < 1, and c = {modulus:.6g}"


def _expanding(spec: Spec) -> str | None:
    modulus = _modulus(spec)
    return None if modulus <= 1 else f"needs a contraction c <= 1, and c = {modulus:.6g}"


def _made_expanding(spec: Spec) -> Spec:
    return spec.with_values({"problem.smoothness": 4 / (chain_of(spec).step_size.constant or 1.0)})


def _unsampled(spec: Spec) -> str | None:
    size = chain_of(spec).divisor(spec.n)
    return None if size < spec.n else f"needs batches of b < n records, and b = {size}, n = {spec.n}"


CONTRACTING = Assumption("contracting", "c < 1", _not_contracting, _made_expanding)
NOT_EXPANDING = Assumption("not expanding", "c <= 1", _expanding, _made_expanding)
SAMPLED = Assumption("sampled", "b < n", _unsampled, lambda spec: spec.with_values({"algorithm.batch.size": spec.n}))

CONTRACTED_CHAIN = (SENSITIVITY, *NUMERICAL, CONTRACTION, CONSTANT, EVERY_RECORD)


def sampled_chain(spec: Spec) -> SampledChain:
    """The run's contraction, ratio, rate and length."""
    chain = chain_of(spec)
    return SampledChain(*contraction_and_ratio(spec), chain.rate(spec.n), chain.steps)


@theorem(
    id="shifted.random-batches",
    statement=(
        "With batches of b of n records drawn afresh, q = b/n, contraction c < 1 and ratio kappa between any two "
        "records, the last iterate is dominated by the composition of G(kappa (c^{nu+1} - c^T) / ((1-c) sqrt(theta))), "
        "C_q(G(kappa / sqrt(1-theta))) and C_q(G(kappa))^nu, for every window nu < T and every theta in (0, 1). Both "
        "are chosen for the spec's delta, 1e-6 if it states none."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; re-derived for any two records"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one={Scheme.WITHOUT_REPLACEMENT}),
    assumptions=(*CONTRACTED_CHAIN, CONTRACTING, SAMPLED, ANY_TWO_RECORDS),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, FALLS_WITH_CONVEXITY),
)
def random_batches(spec: Spec) -> Guarantee:
    """Any window and split are valid; the best ones found are used, plain composition being one of them."""
    return best_with_largest_distance(sampled_chain(spec), spec.delta or REFERENCE_DELTA)


@theorem(
    id="shifted.random-participation",
    statement=(
        "As shifted.random-batches, with the batches before the window revealed: the distance they leave is at most "
        "kappa tau sum_j c^j B_j with independent Bernoulli(q) variables B_j, and delta is averaged over its law, "
        "rounded up. Window and split are chosen for the spec's delta, 1e-6 if it states none."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; the distance averaged"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one={Scheme.WITHOUT_REPLACEMENT}),
    assumptions=(*CONTRACTED_CHAIN, CONTRACTING, SAMPLED, ANY_TWO_RECORDS),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, FALLS_WITH_CONVEXITY),
)
def random_participation(spec: Spec) -> Guarantee:
    """Given the revealed batches the window's composition holds with their distance; revealing them averages delta."""
    return best_with_random_distance(sampled_chain(spec), spec.delta or REFERENCE_DELTA)


_LAWS: dict[Scheme, Callable[[float, NoisyGradient, int], ShiftLaw]] = {
    Scheme.WITHOUT_REPLACEMENT: lambda c, chain, n: drawn_batches(c, chain.rate(n), chain.steps),
    Scheme.RESHUFFLED: lambda c, chain, n: reshuffled_passes(c, chain.batches_per_epoch(n), chain.steps),
}


@theorem(
    id="shifted.revealed-batches",
    statement=(
        "With batches drawn independently of the data and contraction c <= 1, the last iterate has delta(epsilon) at "
        "most the average over participation patterns B of the delta of mu(B)-Gaussian DP, mu(B) the least cost of "
        "shifts given B. Up to 1e6 patterns are listed; beyond, uses are moved later and pushes before a last window "
        "do not look ahead, which only raises mu."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5, given the batches, with the exact minimiser"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one={Scheme.WITHOUT_REPLACEMENT, Scheme.RESHUFFLED}),
    assumptions=(EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING),
    certificates=shift_certificates,
    monotone=MONOTONE_CHAIN,
)
def revealed_batches(spec: Spec) -> Guarantee:
    """Given the batches the shift theorem holds; a public choice between mechanisms averages their deltas."""
    chain, (contraction, ratio) = chain_of(spec), contraction_and_ratio(spec)
    law = _LAWS[chain.batch.scheme](contraction, chain, spec.n)
    return mix(law.weights, [GaussianDP(up(ratio * mu, 2) if mu else 0.0) for mu in law.mus])
