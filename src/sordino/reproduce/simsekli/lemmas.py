"""Lemmas 6 to 8 and 13 to 15 on the two experiments: their constants, and the quantities they bound, computed."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sordino.accounting.heavy_tail.markov import Dissipative, Lyapunov, lyapunov
from sordino.accounting.stable import absolute_moment
from sordino.model.exact import shift_total_variation
from sordino.reproduce.simsekli.setting import BATCH, DIM, LINEAR, Array, Setting

_ANGLES = 241


@dataclass(frozen=True)
class Constants:
    """Everything the lemmas name for one run, as the paper prints it.

    Attributes:
        full: beta, H of (16), kappa and M of Lemma 7 and 8 for full gradients, without a universal stable point.
        universal: the same with one, H of (17).
        batches: (45) and (46), for mini-batches.
        drift_offset: q of Lemma 6.
        ball: the radius of the set A of Lemma 6.
        batch_offset: C_1 of Lemma 13.
        least_batch: the batch size from which on Lemmas 13 and 14 hold without a universal stable point.
        least_noise: sigma_* of Theorem 9 with C = 1.
        most_noise: sigma^* of Theorem 9.
        factor: what the proof of Theorem 9 drops, (2 C (H + 1))^(1 / log(n / M)), with C = 1 and H of (16).
    """

    full: Lyapunov
    universal: Lyapunov
    batches: Lyapunov
    drift_offset: float
    ball: float
    batch_offset: float
    least_batch: int
    least_noise: float
    most_noise: float
    factor: float


def constants(setting: Setting, alpha: float, scale: float) -> Constants:
    """The lemmas' constants for a run from the origin."""
    loss, step = setting.constants, setting.step
    left_out = 1 - BATCH / setting.n
    full, universal, batches = (
        lyapunov(loss, alpha, scale, step, DIM, 0.0, share, point)
        for share, point in ((0.0, False), (0.0, True), (left_out, False))
    )
    mean = absolute_moment(alpha, 1.0, DIM)
    curved = math.sqrt(2 * step * loss.K)
    quarter = step * loss.m / 4
    offset = quarter + curved + scale * mean + quarter * loss.stable_point
    rest = 2 - full.rate + curved + (full.rate + 1) * 2 * loss.stable_point
    return Constants(
        full,
        universal,
        batches,
        offset,
        offset / quarter,
        2 * loss.K2 * loss.D * (loss.stable_point + 1),
        math.ceil((1 - loss.m / (8 * loss.K2 * loss.D)) * setting.n),
        max(0.0, (0.5 - rest) / mean),
        full.distance * scale / (2 * math.e),
        (2 * (full.offset + 1)) ** (1 / math.log(setting.n / full.distance)),
    )


def stability_of_the_minimiser(loss: Dissipative, n: int) -> float:
    """How far one record moves the minimiser of a strongly convex loss: K2 D (1 + 2 |theta_*|) / (m n).

    Lemma 7 puts the whole (B + sqrt(B^2 + 4 m K)) / m there, which does not fall with n.
    """
    return loss.K2 * loss.D * (1 + 2 * loss.stable_point) / (loss.m * n)


def mean_length(shift: Array, scale: float) -> Array:
    """E |shift + scale xi| for the Gaussian case xi ~ N(0, 2 I), exactly; `shift` holds lengths."""
    spread = math.sqrt(2) * scale
    base = spread * math.sqrt(2) * math.exp(math.lgamma((DIM + 1) / 2) - math.lgamma(DIM / 2))
    return base * special.hyp1f1(-0.5, DIM / 2, -(shift**2) / (2 * spread**2))


def farthest_gradients(setting: Setting, lengths: Array) -> Array:
    """sup |grad f(theta, x) - grad f(theta, x')| over records with |a| = 1, |b| <= 1, at |theta| = `lengths`.

    Gradients are multiples s a of unit vectors: s between a.theta - 1 and a.theta + 1 for ridge regression, between
    -1 and 1 over 1 + e^{+-a.theta} for logistic regression. Two of them in a plane through theta are farthest apart.
    """
    angles = np.linspace(0.0, math.pi, _ANGLES)
    cosines = np.cos(angles[:, None] - angles[None, :])
    found = []
    for length in lengths:
        along = length * np.cos(angles)
        ends = (along - 1, along + 1) if setting.name == LINEAR.name else _logistic_ends(along)
        squares = [
            one[:, None] ** 2 + other[None, :] ** 2 - 2 * one[:, None] * other[None, :] * cosines
            for one in ends
            for other in ends
        ]
        found.append(math.sqrt(max(float(square.max()) for square in squares)))
    return np.array(found)


def _logistic_ends(along: Array) -> tuple[Array, Array]:
    return -special.expit(-along), special.expit(along)


def one_step_distance(setting: Setting, alpha: float, scale: float, centre: float, radii: Array) -> Array:
    """TV(P(theta, .), P'(theta, .)) / V(theta) on a ray from theta_*, |theta_*| = centre, for the worst two records."""
    moves = setting.step / setting.n * farthest_gradients(setting, centre + radii)
    exact = [shift_total_variation(alpha, float(move), scale).high for move in moves]
    return np.array(exact) / (1 + radii)


def drift_excess(setting: Setting, scale: float, radii: Array) -> Array:
    """(P V)(theta) - beta V(theta) at |theta - theta_*| = radii: H is meant to bound it; Gaussian noise.

    The slowest contraction that the strong convexity allows, which a record can attain.
    """
    contraction = 1 - setting.step * setting.decay
    beta = 1 - setting.step * setting.decay / 2
    return 1 + mean_length(contraction * radii, scale) - beta * (1 + radii)
