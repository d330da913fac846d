"""How much one step of a run can stretch a distance, from certified constants, rounded up; convex or not.

- **Declared curvature**: every record's objective, regulariser included, is m-strongly convex and M-smooth as run; a
  step with |B| = b records stretches by at most max(|1 - eta m|, |1 - eta M|).
- **Corrected clipping modulus** ("corrected"): a convex beta-smooth loss, norm-clipped, with quadratic decay lambda.

Clipping features, or a scalar residual, keeps a convex loss; so does clipping the norm with two classes, whose residual
is a multiple of one fixed vector. Clipping the length of any other vector destroys curvature: Ye & Shokri 2022,
Proposition F.2, claims that a clipped convex gradient is that of a convex, equally smooth function, but its Jacobian s
P H (0 < s <= 1, P the projection orthogonal to the gradient, H the Hessian) is not symmetric, and with three or more
classes its symmetric part is indefinite. So declared constants are refused but in the cases above. With a = 1 - eta
lambda > 0 and t = eta beta the step theta - eta (clip(g(theta)) + lambda theta) has a Lipschitz constant of at most

    c = a / sqrt(1 - t / (4 a))   if t <= 3 a,   else   t - a,

which some loss attains; to first order in eta it is 1 - eta (lambda - beta / 8).

A batch of |B| = f b records, divided by b, has the objective f (loss + r) + (1 - f) r. Up to b records the extremes
over f in {f_min, 1} count. A Poisson batch may hold any number, f from 0 to s / b: with m <= loss + r <= M and a <= r
<= L its curvature is piecewise linear in f, so f = 0, 1 and s / b decide: a and L; m and M; f m - (f - 1) L and f M -
(f - 1) a. Without a regulariser an empty batch does not contract. s is the number of records where that does not
stretch the step; otherwise the smallest one that some step exceeds with so small a probability (at most a thousandth of
delta, over all steps) that it is added to delta: the batches of the records that neighbours share are drawn
independently of the differing one, so given them the modulus holds, and delta is averaged over them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sordino.accounting.scope import PASSES, SMALLEST_RATIO, chosen_delta, public_certificate, public_certificates
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.binomial import at_least
from sordino.core.bound import Certificate
from sordino.core.gaussian import UNIT_ROUNDOFF, down, least_whole, up, widen_up
from sordino.core.spec import ClippingKind, GaussianNoise, NoisyGradient, Schedule, Scheme, Spec
from sordino.core.validate import refuse

# The formula loses at most a factor 2 of the relative accuracy of a and t, correctly rounded for one step; for each of
# many steps they are a product and a difference of rounded terms.
_ACCURACY = 2.0**-48


def clipped_modulus(eta: float, lam: float, beta: float) -> float:
    """The Lipschitz constant of one norm-clipped step with weight decay `lam`, rounded up."""
    decayed = 1 - Fraction(eta) * Fraction(lam)
    if decayed <= 0:
        raise refuse("eta * lam", "to be below 1 for the corrected modulus", eta * lam, "take a smaller step")
    a, t = float(decayed), float(Fraction(eta) * Fraction(beta))
    return widen_up(a / math.sqrt(1.0 - t / (4.0 * a)) if t <= 3.0 * a else t - a, _ACCURACY)


# With two classes the residual is a multiple of one fixed vector, so clipping the norm clips a scalar residual.
_SCALAR_RESIDUAL_CLASSES = 2

_REGULARISER = (constants.REGULARISER_STRONG_CONVEXITY, constants.REGULARISER_SMOOTHNESS)


@dataclass(frozen=True)
class Contraction:
    """The modulus of a step by its step size; only theorems about Poisson batches meet and add a `failure`."""

    certificates: tuple[Certificate, ...]
    at: Callable[[float], float]
    at_each: Callable[[Array], Array]
    corrected: bool = False  # whether it is the corrected clipping modulus, where the paper's statement fails
    failure: float = 0.0  # probability that some Poisson batch of the run is too large for the modulus

    def over(self, schedule: Schedule, steps: int) -> float | Array:
        return self.at_each(schedule.values(steps)) if schedule.constant is None else self.at(schedule.constant)


UNSTRETCHED = Contraction((), lambda _: 1.0, np.ones_like)


def contraction_of(spec: Spec) -> Contraction | str:
    """The contraction of a run's steps, or why none is certified."""
    chain = spec.algorithm
    if not isinstance(chain, NoisyGradient):
        return "needs a noisy gradient chain"
    declared = clipping_breaks_curvature(chain) or _from_curvature(spec, chain)
    if isinstance(declared, Contraction) or not _clips_vectors(chain):
        return declared
    corrected = _from_clipping(spec, chain)
    return corrected if isinstance(corrected, Contraction) else f"{declared}; {corrected}"


def resting_on(modulus: Contraction | str | None) -> tuple[Certificate, ...]:
    """The certificates of a modulus, where it is one."""
    return modulus.certificates if isinstance(modulus, Contraction) else ()


def regulariser_contraction(spec: Spec) -> Contraction | str | None:
    """The modulus of theta - eta grad r(theta) alone; None when the run declares no regulariser."""
    if spec.problem is None or spec.problem.regulariser is None:
        return None
    certificates = public_certificates(spec, *_REGULARISER)
    return certificates if isinstance(certificates, str) else _between(certificates, *_values(certificates))


def _values(certificates: tuple[Certificate, ...]) -> tuple[Fraction, ...]:
    return tuple(Fraction(certificate.value) for certificate in certificates)


def clipping_breaks_curvature(chain: NoisyGradient) -> str | None:
    """Why the curvature of the update as run is not believed: its clipping need not keep a convex loss."""
    clipping = chain.clipping
    if clipping is None or not _clips_vectors(chain) or clipping.classes == _SCALAR_RESIDUAL_CLASSES:
        return None
    given = f"there are {clipping.classes}"
    if clipping.classes is None:
        given = "algorithm.clipping.classes is not given (for a scalar residual, give 2 or clip by kind residual)"
    return (
        f"norm clipping keeps strong_convexity and smoothness only for 2 classes, and {given}. For 3 or more, Ye & "
        "Shokri 2022, Proposition F.2, is false: with p = (0.001, 0.836, 0.163), gradients clipped at 0.98 |g| and "
        "step 0.1, some pair of points moves apart by a factor of 1.0017"
    )


def _clips_vectors(chain: NoisyGradient) -> bool:
    """Whether the length of a vector is clipped: of the gradient, or of a residual with several classes."""
    clipping = chain.clipping
    if clipping is None or clipping.kind is ClippingKind.FEATURE:
        return False
    return clipping.kind is ClippingKind.NORM or (clipping.classes or 0) > _SCALAR_RESIDUAL_CLASSES


def _from_curvature(spec: Spec, chain: NoisyGradient) -> Contraction | str:
    certificates = public_certificates(spec, constants.STRONG_CONVEXITY, constants.SMOOTHNESS)
    if isinstance(certificates, str):
        return certificates
    low, high = _values(certificates)
    if chain.batch.scheme is Scheme.POISSON:
        return _of_poisson_batches(spec, chain, certificates)
    size = chain.divisor(spec.n)
    last = spec.n % size if chain.batch.scheme in PASSES else 0
    if last == 0:
        return _between(certificates, low, high)
    regulariser = public_certificates(spec, *_REGULARISER)
    if isinstance(regulariser, str):
        return f"{regulariser}, and the last batch of a pass has {last} of {size} records"
    share, (kept_low, kept_high) = Fraction(last, size), _values(regulariser)
    least, most = min(low, share * low + (1 - share) * kept_low), max(high, share * high + (1 - share) * kept_high)
    return _between((*certificates, *regulariser), least, most)


_TOO_LARGE = 1e-3  # of delta, for Poisson batches that are too large


def _of_poisson_batches(spec: Spec, chain: NoisyGradient, certificates: tuple[Certificate, ...]) -> Contraction | str:
    """The modulus of steps on |B| <= s records, divided by b."""
    regulariser = public_certificates(spec, *_REGULARISER)
    if isinstance(regulariser, str):
        return f"{regulariser}, and a Poisson batch may be empty"
    (low, high), (kept_low, kept_high) = _values(certificates), _values(regulariser)
    records = spec.n + spec.surplus

    def up_to(most: int) -> Contraction:
        beyond = max(Fraction(most, chain.divisor(spec.n)) - 1, Fraction(0))
        least = min(kept_low, low, (1 + beyond) * low - beyond * kept_high)
        largest = max(kept_high, high, (1 + beyond) * high - beyond * kept_low)
        return _between((*certificates, *regulariser), least, largest)

    def chance_of_more(most: int) -> float:
        """The probability that some step's batch holds so many of the shared records or more: a union bound."""
        return up(chain.steps * float(at_least([most], records, chain.rate(spec.n))[1][0]))

    whole = up_to(records)
    step = chain.step_size.largest(chain.steps)
    if whole.at(step) <= up_to(0).at(step):
        return whole
    allowed = _TOO_LARGE * chosen_delta(spec)
    most = least_whole(lambda size: chance_of_more(size) <= allowed, 0, records + 1)
    return whole if most > records else replace(up_to(most), failure=chance_of_more(most))


def _between(certificates: tuple[Certificate, ...], low: Fraction, high: Fraction) -> Contraction:
    """The modulus of a gradient step whose curvature lies in [low, high]."""

    def at(step: float) -> float:
        size = Fraction(step)
        exact = max(abs(1 - size * low), abs(1 - size * high))
        try:
            nearest = float(exact)
        except OverflowError:
            return np.inf
        return nearest if Fraction(nearest) >= exact else up(nearest)

    def at_each(steps: Array) -> Array:
        # The float next to a bound differs from it by less than the slack of `_distance_from_one`.
        return np.maximum(_distance_from_one(steps, float(low)), _distance_from_one(steps, float(high)))

    return Contraction(certificates, at, at_each)


def _distance_from_one(steps: Array, curvature: float) -> Array:
    """|1 - eta m|, rounded up by what four roundings of a product of that size amount to; exact at 0."""
    with np.errstate(over="ignore", under="ignore"):
        product = steps * curvature
        return np.abs(1.0 - product) + np.where(product == 0.0, 0.0, 4 * UNIT_ROUNDOFF * (1.0 + product))


def _from_clipping(spec: Spec, chain: NoisyGradient) -> Contraction | str:
    if chain.batch.scheme is Scheme.POISSON:
        return "the corrected clipping modulus needs batches of at most b records, and a Poisson batch may have more"
    certificates = public_certificates(spec, constants.UNCLIPPED_SMOOTHNESS, *_REGULARISER)
    if isinstance(certificates, str):
        return f"the corrected clipping modulus {certificates}"
    beta, convexity, smoothness = (certificate.value for certificate in certificates)
    if convexity != smoothness:
        return (
            "the corrected clipping modulus needs quadratic weight decay, and the regulariser has strong convexity "
            f"{convexity!r} < smoothness {smoothness!r}"
        )
    largest = chain.step_size.largest(chain.steps)
    if Fraction(largest) * Fraction(convexity) >= 1:
        return (
            f"the corrected clipping modulus needs eta * lambda < 1, and it is {largest!r} * {convexity!r} = "
            f"{largest * convexity:.6g}"
        )

    def at_each(steps: Array) -> Array:
        kept, steepness = 1.0 - steps * convexity, steps * beta
        with np.errstate(invalid="ignore", divide="ignore"):
            mild = kept / np.sqrt(1.0 - steepness / (4.0 * kept))
        # 1 - eta lambda may cancel: its absolute error is a unit of 1.
        return np.where(steepness <= 3.0 * kept, mild, steepness - kept) * (1.0 + _ACCURACY) + _ACCURACY

    def at(step: float) -> float:
        return clipped_modulus(step, convexity, beta) if np.isfinite(step * beta) else np.inf

    return Contraction(certificates, at, at_each, corrected=True)


# A stable law with alpha = 2 and scale sigma is Gaussian with standard deviation sqrt(2) sigma; rounded down.
_STABLE_TO_GAUSSIAN = down(2.0**0.5)


@dataclass(frozen=True)
class IdenticalSteps:
    """Steps that are all alike: their number, contraction c, ratio kappa = s / tau, and noise tau."""

    count: int
    contraction: float
    ratio: float
    noise: float

    def relative(self, distance: float) -> float:
        return up(distance / self.noise)


@dataclass(frozen=True)
class ListedSteps:
    """Contraction, move and noise of each step."""

    contractions: Array
    moves: Array
    noises: Array


Steps = IdenticalSteps | ListedSteps


def chain_steps(chain: NoisyGradient, contraction: Contraction, move: float) -> Steps:
    """The steps of a chain, each of which moves by at most its step size times `move`."""
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    gaussian = isinstance(chain.noise, GaussianNoise)
    if step is not None and scale is not None:
        noise = scale if gaussian else down(scale * _STABLE_TO_GAUSSIAN)
        return IdenticalSteps(chain.steps, contraction.at(step), max(up(move * step / noise, 2), SMALLEST_RATIO), noise)
    sizes, noises = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)
    if not gaussian:
        noises = noises * (_STABLE_TO_GAUSSIAN * (1 - 2 * UNIT_ROUNDOFF))
    moves = np.maximum(move * sizes * (1 + 2 * UNIT_ROUNDOFF), SMALLEST_RATIO * noises)
    contractions = np.asarray(contraction.over(chain.step_size, chain.steps), dtype=np.float64)
    return ListedSteps(np.broadcast_to(contractions, moves.shape), moves, noises)


# How much a step of one dataset stretches a distance when the loss need not be convex.
#
# Three routes, the first that is certified: the contraction of `contraction_of`; for clipped gradients of a
# beta-smooth loss of any shape, the regulariser's modulus plus eta beta, because cutting a vector down to a ball is a
# projection and stretches nothing; and 1 + eta M for an update that is M-smooth as run. The last is the one to declare
# for losses that are not convex: elsewhere unclipped_smoothness is that of a convex loss.

_STEP_ACCURACY = 1e-15  # two products and two sums


def near_modulus(spec: Spec) -> Contraction | str:
    """The modulus of a step on one dataset, or why none is certified."""
    contraction = contraction_of(spec)
    if isinstance(contraction, Contraction):
        return contraction
    beta, modulus = public_certificate(spec, constants.UNCLIPPED_SMOOTHNESS), regulariser_contraction(spec)
    if beta is not None and isinstance(modulus, Contraction):
        return _stretched(modulus, beta.value, 3, (beta, *modulus.certificates))
    smooth = public_certificate(spec, constants.SMOOTHNESS)
    if smooth is None:
        return (
            "needs smoothness (of the update as run) or unclipped_smoothness (of the loss before clipping) from public "
            "knowledge, and neither is given"
        )
    # A batch smaller than its divisor keeps the regulariser whole, and a share of everything else.
    regulariser = public_certificate(spec, constants.REGULARISER_SMOOTHNESS)
    used = (smooth,) if regulariser is None else (smooth, regulariser)
    return _stretched(UNSTRETCHED, max(certificate.value for certificate in used), 2, used)


def _stretched(base: Contraction, slope: float, units: int, used: tuple[Certificate, ...]) -> Contraction:
    """A modulus that exceeds `base` by at most `slope` times the step size."""

    def at_each(steps: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return (base.at_each(steps) + steps * slope) * (1 + _STEP_ACCURACY)

    return Contraction(used, lambda step: up(base.at(step) + step * slope, units), at_each)
