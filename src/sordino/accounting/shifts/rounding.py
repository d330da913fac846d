"""Rounding as a shift at every step: what floating point costs a bound on a last iterate.

Statement. Let a chain be run as theta_k = Q(W_k), W_k = D_k(theta_{k-1}) + tau_k xi_k with exactly Gaussian xi_k, where
|D_k(theta) - F_k(theta)| <= p and |Q(w) - w| <= q (after the projection, if there is one) for the real step F_k, which
stretches distances by at most c_k, and let p + c_k q <= r tau_k. If shifts a_k show that the real chain is mu-Gaussian
DP, then the run is (mu + 2 mu_r)-Gaussian DP, where mu_r is the cost of shifts when every step moves by r tau_k:
r sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)) for constant c, r sqrt(T) where every iterate is seen.

Proof. |D_k(Q(x)) - D'_k(Q(y))| <= c_k |x - y| + s_k + 2 (p + c_k q), so the chain W meets the conditions of the shift
theorem with moves s_k + 2 r tau_k, and what is released is Q(W_T), a function of W_T. Distances add up linearly: if the
shifts a_k bring the distance z_k made by s_k to zero, and b_k that made by the roundings, a_k + b_k bring their sum to
zero, and both distances stay at or above zero. Its cost is the length of the vector (a_k + b_k)/tau_k, which is at most
the sum of the two lengths. Where every iterate is seen, a step costs (s_k + 2 r tau_k)/tau_k, with the same inequality.

Other proofs than by shifts: run and real chain on one table are mu_r-Gaussian to each other, as above with s_k = 0, and
Gaussian distances add up along the way from the run on D to the real chain on D, that on D', and the run on D'. Without
a projection what is released is the same function of the last noised value on all four.
"""

import math

import numpy as np

from sordino.accounting.bounds.closed_forms import full_shift
from sordino.accounting.bounds.contraction import contraction_of
from sordino.accounting.bounds.solver import optimal_shift
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import NoisyGradient, Spec

_BY_SHIFTS = "shifted."


def rounded_shifts(spec: Spec, guarantee: Guarantee, theorem: str, seen: bool) -> Guarantee | str:
    """The guarantee of the run as computed, where the spec states a rounding; or why there is none."""
    # `seen` says whether the theorem is about all iterates.
    chain = spec.algorithm
    if not isinstance(chain, NoisyGradient) or chain.rounding is None:
        return guarantee
    if not isinstance(guarantee, GaussianDP):
        return "takes roundings as shifts of a Gaussian bound, and this one is not Gaussian"
    if chain.projection is not None and not seen and not theorem.startswith(_BY_SHIFTS):
        return "takes roundings of projected iterates in proofs by shifts only"
    cost = rounding_cost(spec, chain, hidden=not seen)
    return cost if isinstance(cost, str) else GaussianDP(up(guarantee.mu + up(2.0 * cost), 2))


def rounding_cost(spec: Spec, chain: NoisyGradient, *, hidden: bool) -> float | str:
    """mu_r: the cost of a move by the stated share of the noise at every step."""
    share = chain.rounding or 0.0
    if not hidden:
        return up(share * math.sqrt(chain.steps), 3)
    contraction = contraction_of(spec)
    if isinstance(contraction, str):
        return f"takes roundings as shifts, for which {contraction}"
    step = chain.step_size.constant
    if step is not None and chain.noise.scale.constant is not None:
        return full_shift(contraction.at(step), share, chain.steps) if share else 0.0
    noises = chain.noise.scale.values(chain.steps)
    moduli = np.broadcast_to(np.asarray(contraction.over(chain.step_size, chain.steps), np.float64), noises.shape)
    return float(optimal_shift(moduli, share * noises, noises)) if share else 0.0
