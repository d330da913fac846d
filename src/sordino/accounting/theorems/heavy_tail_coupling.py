"""Any stable noise, last iterate: run two neighbours with the same noise, and compare their last steps.

No clipping, no logarithm of n and no unknown constants: the mean distance of the coupled chains bounds the total
variation through the noise of the last step alone, and a moment of the chain bounds unclipped gradients.
"""

import numpy as np

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.certified_sections import section_certificates, unusable
from sordino.accounting.constants import certificate_for, uncertified
from sordino.accounting.heavy_tail.coupling import constant_moves, listed_moves, mean_distance_from_origin
from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.contraction import contraction_of
from sordino.accounting.stable import shift_total_variation
from sordino.accounting.theorems.coupling_needs import (
    COUPLED_SCHEMES,
    SCHEDULE_LENGTH,
    extremes,
    largest_modulus,
    moduli,
)
from sordino.accounting.theorems.heavy_tail_needs import NOISES, stable_unit, start_moment, tail_index
from sordino.accounting.theorems.shift_needs import CONTRACTION, EVERY_RECORD, chain_of
from sordino.core.bound import Status
from sordino.core.certificate import Certificate
from sordino.core.citation import Citation
from sordino.core.constants import GRADIENT_SENSITIVITY, GROWTH_AT_ZERO, GROWTH_G0, GROWTH_G1
from sordino.core.guarantee import Guarantee, TotalVariation
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View

_GROWTH = (GROWTH_G0, GROWTH_G1, GROWTH_AT_ZERO)
# A few products of certified numbers.
_ROUND_UP = 1 + 1e-14
# What underflows is rounded up to this.
_SMALLEST = 1e-300


def _sources(spec: Spec) -> tuple[Certificate, ...]:
    """What bounds the difference of two records' gradients: its growth, or else its supremum."""
    growth = section_certificates(spec, _GROWTH)
    supremum = certificate_for(spec, GRADIENT_SENSITIVITY)
    bounded = () if supremum is None else (supremum,)
    return growth if growth and (unusable(growth) is None or not bounded) else bounded


def _unbounded(spec: Spec) -> str | None:
    found = _sources(spec)
    if not found:
        return (
            "needs problem.gradient_growth (|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|) or "
            "gradient_sensitivity, and neither is given"
        )
    return unusable(found)


def _made_unbounded(spec: Spec) -> Spec:
    return uncertified(spec, GRADIENT_SENSITIVITY).with_values({"problem.gradient_growth": None})


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    found = contraction_of(spec)
    return (*_sources(spec), *(() if isinstance(found, str) else found.certificates))


@theorem(
    id="heavy-tail.coupling",
    statement=(
        "If a step contracts by c and |grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|, the last iterate of a "
        "chain with stable noise of index alpha and scale sigma is (0, delta)-DP with "
        "delta = 2 F_alpha(z / (2 sigma)) - 1 <= z Gamma(1 + 1/alpha) / (pi sigma), F_alpha the cdf of the "
        "one-dimensional law, z = (eta / n)(g0 + g1 R)(1 - c^T)/(1 - c) for full batches and batches drawn at random, "
        "eta / b at the steps of the worst position for cyclic ones; R bounds E |theta_k| through "
        "u_k^p <= (c u_{k-1} + eta B)^p + sigma^p E |xi|^p, best p < alpha, B = sup |grad f(0,x)|."
    ),
    citation=Citation("simsekli2024differential", "Lemma 18, improved, and a synchronous coupling in place of Lemma 5"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}), frozenset({View.LAST_ITERATE}), {Relation.REPLACE_ONE: COUPLED_SCHEMES}, NOISES
    ),
    assumptions=(
        Assumption(
            "gradient growth",
            "the difference of two records' gradients grows at most linearly, with certified gradient_growth, or is "
            "bounded, with certified gradient_sensitivity",
            _unbounded,
            _made_unbounded,
        ),
        SCHEDULE_LENGTH,
        CONTRACTION,
        EVERY_RECORD,
        caller_checked(
            "drift at the origin",
            "gradient_growth.at_zero bounds the drift at the origin of every batch as run, regulariser included",
        ),
    ),
    certificates=_certificates,
)
def coupling(spec: Spec) -> Guarantee:
    """Given everything but the last noise the two laws are shifts of each other; concavity takes the mean inside."""
    chain = chain_of(spec)
    _, last_noise = extremes(chain.noise.scale, chain.steps)
    distance = max(_largest_difference(spec) * _moves(spec) * _ROUND_UP, _SMALLEST)
    return TotalVariation(
        shift_total_variation(tail_index(chain), distance / (last_noise * stable_unit(chain)) * _ROUND_UP)
    )


def _largest_difference(spec: Spec) -> float:
    """g0 + g1 R: the mean difference of the two records' gradients at any step."""
    values = {certificate.constant: certificate.value for certificate in _sources(spec)}
    if GRADIENT_SENSITIVITY in values:
        return values[GRADIENT_SENSITIVITY]
    g0, g1 = values[GROWTH_G0], values[GROWTH_G1]
    return g0 if g1 == 0.0 else (g0 + g1 * _radius(spec, values[GROWTH_AT_ZERO])) * _ROUND_UP


def _radius(spec: Spec, at_zero: float) -> float:
    """R >= E |theta_k| before every step; schedules at their worst values."""
    chain = chain_of(spec)
    largest_step, _ = extremes(chain.step_size, chain.steps)
    largest_noise, _ = extremes(chain.noise.scale, chain.steps)
    found = mean_distance_from_origin(
        largest_modulus(spec),
        largest_step * at_zero,
        largest_noise * stable_unit(chain),
        tail_index(chain),
        spec.dim,
        lambda power: start_moment(chain, spec.dim, power),
        chain.steps - 1,
    )
    if chain.projection is None:
        return found
    return min(found, max(start_moment(chain, spec.dim, 1.0), chain.projection.radius))


def _moves(spec: Spec) -> float:
    """The sum over steps of eta_k / b times what later steps leave of it, in the mean over the batches.

    The bound on E |theta_k| holds given all batches, so moves average over them: a batch drawn at random, also one of a
    shuffled pass, holds the record with probability at most b / n, and the step moves by eta_k / n in the mean. The
    steps that use a record of a cyclic pass are known.
    """
    chain = chain_of(spec)
    known = chain.batch.scheme is Scheme.CYCLIC
    divisor, period = (chain.divisor(spec.n), chain.batches_per_epoch(spec.n)) if known else (spec.n, 1)
    modulus = moduli(spec)
    if isinstance(modulus, np.ndarray):
        return listed_moves(modulus, chain.step_size.values(chain.steps), period) / divisor
    largest_step, _ = extremes(chain.step_size, chain.steps)
    return constant_moves(modulus, period, chain.steps) * largest_step / divisor
