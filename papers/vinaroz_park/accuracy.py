"""How far the private posterior is from the non-private one: by Monte Carlo, and by the published formulas.

One noised step of a Gaussian posterior with precision L and linear parameter h = L mu (Vinaroz & Park, Section 4):
h + e, and L + E + A with E symmetric, e and E Gaussian, and A = (rho - smallest eigenvalue of L + E) I.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.validate import NON_NEGATIVE, POSITIVE, number, refuse, whole_number

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianStep:
    """A posterior (h, L), the noise on either part, and the floor rho of the repaired spectrum."""

    linear: Matrix
    precision: Matrix
    linear_noise: float
    precision_noise: float
    floor: float

    def __post_init__(self) -> None:
        h, L = np.array(self.linear, np.float64), np.array(self.precision, np.float64)
        if h.ndim != 1 or L.shape != (len(h), len(h)) or not np.allclose(L, L.T) or np.linalg.eigvalsh(L)[0] <= 0:
            raise refuse("precision", "to be a positive definite matrix that fits the linear part", f"shape {L.shape}")
        object.__setattr__(self, "linear", h)
        object.__setattr__(self, "precision", L)
        number("linear_noise", self.linear_noise, NON_NEGATIVE)
        number("precision_noise", self.precision_noise, NON_NEGATIVE)
        number("floor", self.floor, POSITIVE)

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return len(self.linear)


@dataclass(frozen=True)
class MonteCarlo:
    """An average over simulated steps, and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Heuristic:
    """A published formula whose proof has gaps; a number to look at, never a bound to rely on."""

    value: float
    claimed_probability: float
    reason: str

    @property
    def label(self) -> str:
        """What this number is."""
        return f"HEURISTIC: {self.reason}"


def expected_kl(step: GaussianStep, generator: np.random.Generator, draws: int) -> MonteCarlo:
    """The mean of KL(posterior || noised posterior) over `draws` simulated steps."""
    count, d = whole_number("draws", draws), step.dim
    e = step.linear_noise * generator.standard_normal((count, d))
    upper = np.triu(step.precision_noise * generator.standard_normal((count, d, d)))
    noise = upper + np.triu(upper, 1).swapaxes(1, 2)
    noisy = step.precision + noise
    if step.precision_noise > 0:
        lowest = np.linalg.eigvalsh(noisy)[:, 0]
        noisy = noisy + (step.floor - lowest)[:, None, None] * np.eye(d)
    values = _kl(step.linear, step.precision, step.linear + e, noisy)
    return MonteCarlo(float(values.mean()), float(values.std(ddof=1) / math.sqrt(count)))


def theorem_formula(step: GaussianStep, deviation: float) -> Heuristic:
    """The right side of Vinaroz & Park, Theorem 4.1, at M = `deviation`, b in the eigenbasis of L; not proved.

    The paper does not say in which basis b_i is a coordinate of b = L^-1/2 h; only paired with the i-th eigenvector is
    b_i^2 / (1 + lambda_i) what (39) means. Its proof takes the eigenvalues of L^-1/2 (E + A) L^-1/2 to be those of
    E + A over those of L, and uses that E and -E have the same law as if they were equal. No case is known in which the
    mean KL is above it.
    """
    M, d = number("deviation", deviation, POSITIVE), step.dim
    eigenvalues, vectors = np.linalg.eigh(step.precision)
    lowest, variance = eigenvalues[0], d * step.precision_noise**2
    drift = math.sqrt(2 * variance * math.log(d))
    low, high = (1 + (sign * 2 * M - lowest + step.floor) / eigenvalues for sign in (-1, 1))
    inverse = (low + high - 1 + (lowest + drift - step.floor) / eigenvalues) / (low * high)
    b = vectors.T @ step.linear / np.sqrt(eigenvalues)
    a = np.linalg.solve(step.precision, step.linear)
    raised = -lowest + drift + step.floor
    with np.errstate(invalid="ignore"):
        logs = np.log(inverse)
    value = 0.5 * (
        raised * np.sum(1 / eigenvalues)
        + step.linear_noise**2 / lowest * inverse.sum()
        + b**2 @ inverse
        - b @ b
        + raised * (a @ a)
        + logs.sum()
    )
    chance = 1 - d * math.exp(-(M**2) / (2 * variance)) if variance > 0 else 1.0
    return Heuristic(float(value), chance, "steps of the proof of Theorem 4.1 do not hold")


def clipped_kl(linear: ArrayLike, precision: ArrayLike, clip: float) -> float:
    """KL(posterior || clipped posterior) when linear part and precision are each shortened to `clip`, corrected.

    With s = max(1, |L| / C), t = max(1, |h| / C), b = s / t - 1: (d / s + b^2 / s h' L^-1 h - d + d log s) / 2. The
    paper's appendix A has d s for the first term and the norm of the covariance in the logarithm.
    """
    h, L = np.asarray(linear, np.float64), np.asarray(precision, np.float64)
    C, d = number("clip", clip, POSITIVE), len(h)
    s, t = max(1.0, float(np.linalg.norm(L)) / C), max(1.0, float(np.linalg.norm(h)) / C)
    b = s / t - 1
    return 0.5 * (d / s + b * b / s * float(h @ np.linalg.solve(L, h)) - d + d * math.log(s))


def _kl(linear: Matrix, precision: Matrix, noisy_linear: Matrix, noisy_precision: Matrix) -> Matrix:
    covariance = np.linalg.inv(precision)
    gap = np.linalg.solve(noisy_precision, noisy_linear[..., None])[..., 0] - covariance @ linear
    trace = np.einsum("nij,ji->n", noisy_precision, covariance)
    quadratic = np.einsum("ni,nij,nj->n", gap, noisy_precision, gap)
    log_ratio = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(noisy_precision)[1]
    return 0.5 * (trace + quadratic - len(linear) + log_ratio)
