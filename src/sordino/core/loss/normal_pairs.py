"""Pairs built from unit normals: the Gaussian mechanism, alone and under the three ways of sampling a batch."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy import special

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.loss.discretise import NO_ATOMS, Atoms, Bins, IntervalPair
from sordino.core.loss.pair import register

# scipy's ndtr is good to a few units in the last place; tested against mpmath in tests/core/loss/test_pairs.py.
_NDTR_ERROR = 8 * UNIT_ROUNDOFF


def normal_mass(edges: Array, mean: float) -> tuple[Array, Array]:
    """Mass of N(mean, 1) between consecutive edges and a bound on its absolute error."""
    centred = edges - mean
    lower, upper = special.ndtr(centred), special.ndtr(-centred)
    from_left = centred[1:] <= 0
    mass = np.where(from_left, lower[1:] - lower[:-1], upper[:-1] - upper[1:])
    size = np.where(from_left, lower[1:], upper[:-1])
    # Rounding of `centred` moves an edge by one unit in its last place: phi * |edge| * u is below 4 u * tail * edge^2.
    wobble = 1 + np.minimum(centred[1:] ** 2, 1e3)
    return np.maximum(mass, 0.0), _NDTR_ERROR * size * wobble


def below(edge: float, mean: float) -> float:
    """P(N(mean, 1) < edge), rounded up."""
    return float(special.ndtr(edge - mean)) * (1 + 1e-12)


def above(edge: float, mean: float) -> float:
    """P(N(mean, 1) > edge), rounded up."""
    return float(special.ndtr(mean - edge)) * (1 + 1e-12)


def quantile(tail: float) -> float:
    """z with P(N(0, 1) > z) <= tail."""
    return float(-special.ndtri(tail)) * (1 + 1e-12)


Mixture = tuple[tuple[float, float], ...]  # (weight, mean) of unit normals

_SKETCH = np.linspace(-13.0, 13.0, 521)
_FAR_SKETCH = np.linspace(-38.0, 38.0, 761)


def _masses(mixture: Mixture, edges: Array) -> tuple[Array, Array]:
    parts = [(weight, *normal_mass(edges, mean)) for weight, mean in mixture]
    masses = np.sum([weight * mass for weight, mass, _ in parts], axis=0)
    return masses, np.sum([weight * error for weight, _, error in parts], axis=0)


@dataclass(frozen=True)
class _MonotoneNormalPair(IntervalPair):
    """Both laws are mixtures of unit normals on a line and the loss increases along it."""

    @abstractmethod
    def laws(self) -> tuple[Mixture, Mixture]:
        """(weight, mean) of P, and of Q."""

    @abstractmethod
    def loss(self, z: Array) -> Array:
        """Privacy loss at the point z."""

    @abstractmethod
    def location(self, losses: Array) -> Array:
        """The point with a given loss; -inf or inf beyond the range of the loss."""

    def support(self, tail: float) -> tuple[float, float]:
        reach, means = quantile(tail), [mean for _, mean in self.laws()[0]]
        low, high = self.loss(np.array([min(means) - reach, max(means) + reach]))
        return float(low), float(high)

    def bins(self, edges: Array) -> Bins:
        first, second = self.laws()
        with np.errstate(over="ignore"):  # where nothing lies
            z = self.location(edges)
        (p, p_error), (q, q_error) = _masses(first, z), _masses(second, z)
        beneath, beyond = sum(w * below(z[0], m) for w, m in first), sum(w * above(z[-1], m) for w, m in first)
        return Bins(p, q, beneath, beyond, p_error, q_error)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        points, (law, _) = _FAR_SKETCH if far else _SKETCH, self.laws()
        centres = np.unique([mean for _, mean in law])
        z = np.unique(np.concatenate([points + centre for centre in centres]))
        middle = np.concatenate([[z[0]], (z[1:] + z[:-1]) / 2, [z[-1]]])
        return self.loss(z), _masses(law, middle)[0]


@register("gaussian")
class GaussianPair(_MonotoneNormalPair):
    """N(mu, 1) against N(0, 1)."""

    mu: Annotated[float, validate.POSITIVE]

    def laws(self) -> tuple[Mixture, Mixture]:
        return ((1.0, self.mu),), ((1.0, 0.0),)

    def loss(self, z: Array) -> Array:
        return self.mu * (z - self.mu / 2)

    def location(self, losses: Array) -> Array:
        return losses / self.mu + self.mu / 2


def log_mixture(rate: float, exponent: Array) -> Array:
    """log(1 - rate + rate exp(exponent)), accurate at both ends and for rates near 0 and 1."""
    small = np.minimum(exponent, 30.0)
    gain = rate * np.expm1(small)
    # Far below 1 the two terms are added: 1 minus nearly 1 would cancel.
    near = np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), np.log((1 - rate) + rate * np.exp(small)))
    return np.where(exponent <= 30.0, near, np.logaddexp(math.log1p(-rate), exponent + math.log(rate)))


def exponent_of(rate: float, losses: Array) -> Array:
    """The exponent with log(1 - rate + rate exp(exponent)) = loss; -inf below log(1 - rate)."""
    small = np.minimum(losses, 30.0)
    inside = np.where(small > -0.5, np.expm1(small) + rate, np.exp(small) - (1 - rate)) / rate
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(inside, 0.0))
    far = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 30.0)))
    return np.where(losses <= 30.0, near, far)


@register("poisson-remove")
class PoissonRemovePair(_MonotoneNormalPair):
    """(1-q) N(0, 1) + q N(mu, 1) against N(0, 1): a Poisson-sampled Gaussian, the record being removed."""

    mirror: ClassVar = "poisson-add"
    rate: Annotated[float, validate.OPEN_UNIT]
    mu: Annotated[float, validate.POSITIVE]

    def laws(self) -> tuple[Mixture, Mixture]:
        return ((1 - self.rate, 0.0), (self.rate, self.mu)), ((1.0, 0.0),)

    def loss(self, z: Array) -> Array:
        return log_mixture(self.rate, self.mu * (z - self.mu / 2))

    def location(self, losses: Array) -> Array:
        return exponent_of(self.rate, losses) / self.mu + self.mu / 2

    def rounding(self, largest: float) -> float:
        # An exponent is off by a few units of its terms; a loss moves by the record's share of the density times that.
        return 16 * min(1.0, self.rate - math.expm1(-largest)) * (self.mu * self.mu - math.log(self.rate))


@register("poisson-add")
class PoissonAddPair(PoissonRemovePair):
    """N(0, 1) against (1-q) N(0, 1) + q N(mu, 1), mirrored so that the loss increases: the record being added."""

    mirror: ClassVar = "poisson-remove"

    @property
    def largest_loss(self) -> float:
        return up(-math.log1p(-self.rate), 2)

    def laws(self) -> tuple[Mixture, Mixture]:
        return ((1.0, 0.0),), ((1 - self.rate, 0.0), (self.rate, -self.mu))

    def loss(self, z: Array) -> Array:
        return -super().loss(-z)

    def location(self, losses: Array) -> Array:
        return -super().location(-losses)


@register("poisson-replace")
class PoissonReplacePair(PoissonRemovePair):
    """(1-q) N(0, 1) + q N(mu, 1) against (1-q) N(0, 1) + q N(-mu, 1): Poisson sampling, replace-one. Symmetric."""

    mirror: ClassVar = ""

    def laws(self) -> tuple[Mixture, Mixture]:
        return super().laws()[0], ((1 - self.rate, 0.0), (self.rate, -self.mu))

    def loss(self, z: Array) -> Array:
        drop = self.mu * self.mu / 2
        return log_mixture(self.rate, self.mu * z - drop) - log_mixture(self.rate, -self.mu * z - drop)

    def location(self, losses: Array) -> Array:
        # mu z = L/2 + asinh((1-q)/q exp(mu^2/2) sinh(L/2)), the positive root of a quadratic in exp(mu z).
        half = np.abs(losses) / 2
        log_scale = math.log((1 - self.rate) / self.rate) + self.mu * self.mu / 2
        with np.errstate(divide="ignore", over="ignore"):
            argument = np.exp(log_scale + half + np.log(-np.expm1(-2 * half)) - math.log(2))
            root = np.where(argument < 1e8, np.arcsinh(argument), log_scale + half + np.log1p(-np.exp(-2 * half)))
        return np.sign(losses) * (half + root) / self.mu

    def rounding(self, largest: float) -> float:
        return 2 * super().rounding(largest) - 16 * math.log1p(-self.rate)


@register("without-replacement")
class WithoutReplacementPair(IntervalPair):
    """The symmetrised subsampled trade-off C_q of a Gaussian: sampling without replacement, replace-one.

    Above loss 0 it is (1-q) N(0,1) + q N(mu,1) against N(0,1); below, N(mu,1) against (1-q) N(mu,1) + q N(0,1); the
    rest of the mass is an atom at loss 0 (Zhu, Dong & Wang 2022, Proposition 30; Bok, Su & Altschuler 2024).
    """

    rate: Annotated[float, validate.OPEN_UNIT]
    mu: Annotated[float, validate.POSITIVE]

    def _halves(self) -> tuple[PoissonRemovePair, PoissonAddPair]:
        return PoissonRemovePair(self.rate, self.mu), PoissonAddPair(self.rate, self.mu)

    def rounding(self, largest: float) -> float:
        return self._halves()[0].rounding(largest)

    def atoms(self) -> Atoms:
        mass = (1 - self.rate) * math.erf(self.mu / math.sqrt(8))
        return Atoms(np.zeros(1), np.array([mass])) if mass > 0 else NO_ATOMS

    def support(self, tail: float) -> tuple[float, float]:
        upper, lower = self._halves()
        return lower.support(tail)[0], upper.support(tail)[1]

    def bins(self, edges: Array) -> Bins:
        """Bins of the two halves; an edge grid that skips 0 would straddle the atom, so 0 must be an edge."""
        above, below = self._halves()
        high, low = above.bins(edges), below.bins(edges)
        upper = edges[:-1] >= 0
        p, q, p_error, q_error = (
            np.where(upper, getattr(high, name), getattr(low, name)) for name in ("p", "q", "p_error", "q_error")
        )
        return Bins(p, q, low.p_below, high.p_above, p_error, q_error)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        (high, high_mass), (low, low_mass) = (half.sketch(far=far) for half in self._halves())
        losses = np.concatenate([low[low < 0], [0.0], high[high > 0]])
        return losses, np.concatenate([low_mass[low < 0], [self.atoms().masses.sum()], high_mass[high > 0]])
