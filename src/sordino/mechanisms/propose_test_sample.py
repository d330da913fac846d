"""Propose-Test-Sample (Heller & Fetaya, Algorithm 1): one exact posterior draw of a slope, or null; to the last bit.

What leaves has the law that the theorem is about, as real numbers, but for public roundings:

1. *counts* are whole numbers; in units of 2^-20 they get discrete Laplace noise (`ExactDraws`), whose ratio of
   probabilities is at most e^epsilon for a move by one record. It is above the margin, rounded up, with probability at
   most delta: P(K > k) <= e^(-k / s) / 2 for noise of scale s in units, since 2 / (1 + e^-a) <= e^(a / 2);
2. *the slope* of line 16 is a quotient of exact sums, floored to a lattice of 2^30 spacings to its noise; one spacing,
   and a hair for the computed scale, are added to the sensitivity;
3. *which records are kept* is decided from each record and what was released, with room for rounding, so that no record
   is kept that is further from the centre than the proof assumes;
4. *the draw* is the real posterior draw N(b, 1 / p), rounded to a public lattice: b and p are fractions,
   1 / sqrt(p) is enclosed with as many digits as it takes, and so is the standard Gaussian (`ExactDraws.rounded`).

So nothing but the fairness of bits is assumed, and that one record's quotient is the same wherever it stands.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import instance_of, refuse
from sordino.noise.port import ExactDraws
from sordino.noise.randomness import Randomness

COVERED = (
    "counts and slope with discrete Laplace noise from fair bits, records kept by each one's own quotient, and the "
    "real posterior draw rounded to a public lattice, decided in fractions"
)
_UP = 1 + 1e-12
_UNITS = 2**20
_LEAST_EPSILON = 2.0**-20  # counts have noise of 2^40 units then, the most that is drawn
_ROOM = 2.0**-50


def least_records(run: ProposeTestSample, centre: float, cleaned: float) -> float:
    """n_min, rounded up, for the noisy slope `centre` and the noisy count `cleaned` (n_2 > 1) of lines 12 and 18."""
    # The last entry is n_2^(rho_2 / gamma_1): the proof of Claim C.14 needs n^gamma_1 >= n_2^rho_2, where the text of
    # (33) prints n_1. A negative centre counts as 0: slopes are never negative, so every kept one is as near to 0.
    order = 2 * math.log(1 / run.delta) / run.epsilon + 1
    high, low = run.x_high * run.x_high, run.x_low * run.x_low
    ratio, pull = high / low, run.alpha + high * run.beta
    slope = max(centre, 0.0)
    first = order / run.epsilon * high * high * pull / (0.9 * low * low)
    second = order / run.epsilon * high * high * pull * pull / (0.9 * low * low * low * run.beta)
    entries = (
        1 + 8 * ratio / run.epsilon,
        1 + order * ratio * (1 + 8 * (order - 1) / run.epsilon),
        _power(16 * order * run.beta * high * high / (0.9 * run.epsilon * low), 1 / (1 - 2 * run.gamma1)),
        _power(32 * first * slope, 1 / (2 - run.gamma1)),
        _power(32 * first, 1 / (2 - 2 * run.gamma1)),
        _power(4 * second, 1 / 3) * _power(2 * slope, 2 / 3),
        _power(16 * second, 1 / (3 - 2 * run.gamma1)),
        1 + 10 * order * ratio / run.beta,
        1 + order * ratio,
        _power(cleaned, run.rho2 / run.gamma1),
    )
    return max(entries) * _UP


def _power(base: float, exponent: float) -> float:
    """base^exponent; infinite where it overflows, which no dataset reaches."""
    logarithm = exponent * math.log(base) if base > 0.0 else -math.inf
    return math.inf if logarithm > 700 else math.exp(logarithm)


class Cleaned(NamedTuple):
    """The records of W; private, never part of a release."""

    x: Array
    y: Array


def stage_of(spec: Spec) -> ProposeTestSample:
    """The algorithm of a spec of this kind."""
    return instance_of("spec.algorithm", spec.algorithm, ProposeTestSample)


def margin(run: ProposeTestSample) -> float:
    """(1/epsilon) log(1/(2 delta)), by which every noisy count is lowered."""
    return math.log(1 / (2 * run.delta)) / run.epsilon


def slope_scale(run: ProposeTestSample, cap: float, cleaned: float) -> float:
    """Scale of the Laplace noise of line 17 for slopes of at most `cap` and the noisy count `cleaned` > 1."""
    high, low = run.x_high * run.x_high, run.x_low * run.x_low
    return cap * (2 * (cleaned - 1) * high * low + high * high) / (cleaned * (cleaned - 1) * low * low) / run.epsilon


def clean(run: ProposeTestSample, x: ArrayLike, y: ArrayLike, noise: ExactDraws) -> Cleaned | None:
    """Clip, drop outliers around a noisy slope, and test that at least n_min records are left."""
    # Where the paper leaves a case open, the answer is null: no noisy count above 0 (line 10 has no range), nothing
    # within the range (line 16 divides by 0), and nothing left in the end (line 25 has no data).
    rows, targets = _rows(run, x, y)
    slopes = targets / rows
    count = _noisy_count(run, len(rows), noise)
    cap = count**run.rho1 if count > 0 else -math.inf
    inside = slopes <= cap
    cleaned = _noisy_count(run, int(inside.sum()), noise)
    if cleaned <= 1 or not inside.any():
        return None
    centre = _noisy_slope(slope_scale(run, cap, cleaned), Cleaned(rows[inside], targets[inside]), noise, run.epsilon)
    # A slope as computed is off by a share 2^-53, and so is the difference.
    apart = np.abs(slopes - centre) + _ROOM * (slopes + abs(centre))
    near = apart <= cleaned**run.rho2 * (1.0 - _ROOM)
    kept = _noisy_count(run, int(near.sum()), noise)
    if kept < least_records(run, centre, cleaned) or not near.any():
        return None
    return Cleaned(rows[near], targets[near])


def _noisy_count(run: ProposeTestSample, count: int, noise: ExactDraws) -> float:
    """A count with Laplace noise of scale 1 / epsilon, lowered by the margin; a multiple of 2^-20."""
    lowered = count * _UNITS - math.ceil(margin(run) * _UNITS * (1.0 + 2.0**-30)) - 1
    return noise.laplace(lowered, _UNITS / run.epsilon) / _UNITS


def _noisy_slope(scale: float, left: Cleaned, noise: ExactDraws, epsilon: float) -> float:
    exponent = math.frexp(scale)[1] - 31
    spacings = math.ldexp(scale * (1.0 + 2.0**-40), -exponent) + 1.0 / epsilon
    floored = math.floor(_exact_sum(left.x, left.y) / _exact_sum(left.x, left.x) / Fraction(2) ** exponent)
    return math.ldexp(float(noise.laplace(floored, spacings)), exponent)


def _exact_sum(first: Array, second: Array) -> Fraction:
    """The sum of products, as real numbers."""
    # Mantissas are whole numbers of 53 bits, in halves of 27 so that products have 54, whose own halves add up in 64
    # bits; products of one exponent together.
    (a, p), (b, q) = np.frexp(first), np.frexp(second)
    halves = [(whole >> 27, whole & (2**27 - 1)) for whole in (np.ldexp(part, 53).astype(np.int64) for part in (a, b))]
    total, exponents = Fraction(0), p + q
    for exponent in np.unique(exponents).tolist():
        of_it = exponents == exponent
        (a1, a0), (b1, b0) = ((high[of_it], low[of_it]) for high, low in halves)
        whole = 0
        for shift, product in ((54, a1 * b1), (27, a1 * b0), (27, a0 * b1), (0, a0 * b0)):
            whole += ((int(np.sum(product >> 32)) << 32) + int(np.sum(product & (2**32 - 1)))) << shift
        total += whole * Fraction(2) ** (exponent - 106)
    return total


def _drawn(run: ProposeTestSample, records: int, left: Cleaned, noise: ExactDraws) -> float:
    """The posterior draw N(beta Sxy / p, 1 / p), p = alpha + beta Sxx, rounded to a public lattice."""
    least = 1.0 / math.sqrt(run.alpha + run.beta * records * run.x_high * run.x_high)
    exponent = math.frexp(least)[1] - 21
    unit, beta = Fraction(2) ** exponent, Fraction(run.beta)
    precision = Fraction(run.alpha) + beta * _exact_sum(left.x, left.x)
    mean = beta * _exact_sum(left.x, left.y) / precision / unit
    drawn = noise.rounded(mean, lambda level: _inverse_root(precision * unit * unit, 64 * level))
    return math.ldexp(float(drawn), exponent)


def _inverse_root(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """1 / sqrt(value) between two fractions that differ by a share of about 2^-bits."""
    inverse = 1 / value
    shift = 2 * bits + 2 * max(0, value.numerator.bit_length() - value.denominator.bit_length())
    root = math.isqrt((inverse.numerator << shift) // inverse.denominator)
    return Fraction(root, 1 << (shift // 2)), Fraction(root + 1, 1 << (shift // 2))


def _rows(run: ProposeTestSample, x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Lines 3 to 7: covariates within the public range, targets at least 0."""
    rows, targets = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if rows.ndim != 1 or rows.shape != targets.shape or len(rows) == 0:
        raise refuse("x and y", "to be two equally long lists of numbers", f"shapes {rows.shape} and {targets.shape}")
    if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
        raise refuse("x and y", "to be finite", "NaN or infinity")
    return np.clip(rows, run.x_low, run.x_high), np.maximum(targets, 0.0)


class ProposedSample(NamedTuple):
    """The released slope, or None if the tests found too few clean records."""

    spec: Spec
    slope: float | None


def propose_test_sample(spec: Spec, x: ArrayLike, y: ArrayLike, randomness: Randomness) -> ProposedSample:
    """Algorithm 1 on records (x, y).

    Formal guarantees: (4 epsilon, 2 delta)-differential privacy under replace-one, by the theorem
    `posterior.propose-test-sample`, which `certify` evaluates on the same spec, of the numbers as computed: `COVERED`
    says how.
    """
    run = stage_of(spec)
    instance_of("randomness", randomness, Randomness)
    if run.sampler is not Sampler.EXACT:
        remedy = "a draw by SGLD is not private; papers/heller_fetaya/propose_test_sgld.py runs it for study"
        raise refuse("algorithm.sampler", "to be exact", run.sampler.value, remedy)
    if run.epsilon < _LEAST_EPSILON:
        allowed = f"to be at least {_LEAST_EPSILON:.3g}, so that whole numbers hold the noise of a count"
        raise refuse("algorithm.epsilon", allowed, run.epsilon)
    noise = ExactDraws.of(randomness)
    left = clean(run, x, y, noise)
    return ProposedSample(spec, None if left is None else _drawn(run, np.size(x), left, noise))
