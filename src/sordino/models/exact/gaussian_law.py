"""Gaussian laws with any covariance, their finite mixtures, and exact divergences between two laws.

`hockey_stick(first, second, epsilon)` is sup_S P(S) - exp(epsilon) Q(S), P the first law and Q the second: one
direction. A pair of neighbours has two, and privacy needs the larger.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize, special

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket, delta_range, up
from sordino.core.validate import POSITIVE, Declared, InputError, SordinoError, number, whole_number
from sordino.models.exact.line import NORMAL, LineMixture, SignedMixture, StableLaw1D, probabilities, read_only


@dataclass(frozen=True, eq=False)
class GaussianLaw:
    """N(mean, covariance); the covariance may be singular, and then there is no density."""

    mean: Array
    covariance: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", read_only("mean", self.mean, (None,)))
        covariance = read_only("covariance", self.covariance, (self.dim, self.dim))
        object.__setattr__(self, "covariance", checked_covariance(covariance))

    @property
    def dim(self) -> int:
        return len(self.mean)

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws, one a row."""
        values, vectors = linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return self.mean + generator.standard_normal((size, self.dim)) @ root.T

    def line(self) -> LineMixture:
        cholesky(self.covariance)
        return GaussianMixtureLaw(np.ones(1), self.mean[None], self.covariance[None]).line()

    def copies(self, count: int) -> "GaussianLaw":
        """The joint law of independent draws, stacked: what several chains released together look like."""
        count = whole_number("count", count)
        return GaussianLaw(np.tile(self.mean, count), np.array(linalg.block_diag(*[self.covariance] * count)))


@dataclass(frozen=True)
class ConjugateRegression(Declared):
    """y = x.theta + N(0, 1/noise_precision), theta ~ N(0, I/prior_precision): the beta and alpha of Heller & Fetaya."""

    prior_precision: Annotated[float, POSITIVE]
    noise_precision: Annotated[float, POSITIVE]

    def posterior(self, features: ArrayLike, target: ArrayLike, counts: ArrayLike | None = None) -> GaussianLaw:
        """The posterior of theta; `counts` says how often each row occurs, so that repeated rows cost nothing."""
        x = read_only("features", features, (None, None))
        y = read_only("target", target, (len(x),))
        times = np.ones(len(x)) if counts is None else read_only("counts", counts, (len(x),))
        precision = self.prior_precision * np.eye(x.shape[1]) + self.noise_precision * (x.T * times) @ x
        factor = linalg.cho_factor(precision, lower=True)
        mean = linalg.cho_solve(factor, self.noise_precision * (x.T * times) @ y)
        return GaussianLaw(mean, linalg.cho_solve(factor, np.eye(len(mean))))


def checked_covariance(covariance: Array) -> Array:
    """The symmetric part of a matrix (or stack of them) that is symmetric and non-negative up to rounding."""
    largest = np.abs(covariance).max()
    mirrored = np.swapaxes(covariance, -1, -2)
    if np.abs(covariance - mirrored).max() > 1e-9 * largest:
        raise InputError("The covariance is not symmetric.")
    symmetric = np.array((covariance + mirrored) / 2)
    if np.linalg.eigvalsh(symmetric).min() < -1e-9 * largest:
        raise InputError("The covariance has a negative eigenvalue.")
    symmetric.flags.writeable = False
    return symmetric


def cholesky(covariance: Array) -> Array:
    """The lower Cholesky factor, or a refusal of a singular covariance."""
    try:
        return linalg.cholesky(covariance, lower=True)
    except linalg.LinAlgError:
        raise InputError("The covariance is singular, so the Gaussian has no density.") from None


@dataclass(frozen=True, eq=False)
class GaussianMixtureLaw:
    """Component j is N(means[j], covariances[j]), with probability weights[j]."""

    weights: Array
    means: Array
    covariances: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", probabilities("weights", self.weights))
        object.__setattr__(self, "means", read_only("means", self.means, (len(self.weights), None)))
        covariances = read_only("covariances", self.covariances, (len(self.weights), self.dim, self.dim))
        object.__setattr__(self, "covariances", checked_covariance(covariances))

    @property
    def dim(self) -> int:
        return self.means.shape[1]

    def line(self) -> LineMixture:
        if self.dim != 1:
            raise InputError(f"This needs a law on the line; this one has {self.dim} coordinates.")
        return LineMixture(NORMAL, self.weights, self.means[:, 0], np.sqrt(self.covariances[:, 0, 0]))


# Tail functionals of a law from its analytic moment generating function M(s) = E exp(s L): the expected value of
# (1 - exp(epsilon - L))_+ is (1/2 pi i) int M(s) exp(-s epsilon) K(s) ds, K(s) = 1/(s (s+1)), along any vertical line
# right of 0 on which M is finite. The line is bent into s(y) = saddle + i c (sinh(y + i w) - i sin w), towards the side
# where the integrand decays, so that the trapezoidal rule in y converges geometrically (Boyarchenko & Levendorskii
# 2019). Everything is relative to the value at the saddle, so tiny results keep their relative accuracy.

Complex = NDArray[np.complex128]

_BENDS = (0.0, math.pi / 8, -math.pi / 8)  # below pi/4, so that Gaussian factors exp(s^2 ...) still decay
_COARSE = np.arange(0.0, 100.0, 0.25)
_HALVINGS = 8
_CONVERGED = 1e-13
_ROUNDING = 4e-15  # relative error of one term, for each unit of its exponent


def _tail_integral(exponent: Callable[[Complex], Complex], high: float) -> Bracket:
    """The integral of exp(exponent), which is log M(s) - s epsilon + log K(s): real and convex on (0, high).

    The error is estimated from the last halving of the step and the rounding of the terms.
    """

    def real(s: complex) -> float:
        return float(exponent(np.array([complex(s)]))[0].real)

    saddle = _saddle(real, high)
    peak = real(saddle)
    if peak < -700.0:
        # Chernoff's bound, with 1 / K(s) at most (1 + |s|)^2.
        return Bracket(0.0, up(math.exp(min(0.0, peak + 2 * math.log1p(abs(saddle))))))
    width = 1e-3 * min(saddle, high - saddle)  # the height at which the integrand has halved
    while real(complex(saddle, width)) > peak - math.log(2):
        width *= 1.25

    def terms(bend: float, y: Array) -> Array:
        turned = y + 1j * bend
        s = saddle + 1j * width * (np.sinh(turned) - 1j * math.sin(bend))
        powers = exponent(s) - peak
        # A contour bent the wrong way grows without bound; capped terms are enough to see that it is the wrong one.
        capped = np.clip(powers.real, -600.0, 600.0) + 1j * powers.imag
        return np.where(powers.real < -600.0, 0.0, np.real(width * np.cosh(turned) * np.exp(capped)))

    # The right bend is the one along which the integrand is smallest: it does not oscillate there.
    sizes = {bend: np.abs(terms(bend, _COARSE)) for bend in _BENDS}
    for bend in sorted(_BENDS, key=lambda bend: float(sizes[bend].sum())):
        length = float(_COARSE[sizes[bend] > 1e-19 * sizes[bend].max()][-1]) + 0.5
        result = _trapezoid(partial(terms, bend), length, 1 + abs(peak) + abs(saddle))
        if result is not None:
            value, error = result
            return Bracket(max(0.0, (value - error) * math.exp(peak)), (value + error) * math.exp(peak))
    raise SordinoError("A contour integral did not converge; please report the two laws that led to it.")


def _saddle(real: Callable[[float], float], high: float) -> float:
    """The point of the interval where the exponent is least, searched in a scale logarithmic at both ends."""
    bounded = math.isfinite(high)

    def point(u: float) -> float:
        return high / (1 + math.exp(-u)) if bounded else math.exp(u)

    grid = np.linspace(-30.0, 30.0 if bounded else 60.0, 181)
    best = int(np.argmin([real(point(u)) for u in grid]))
    ends = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    return point(float(np.asarray(optimize.fminbound(lambda u: real(point(u)), *ends))))


def _trapezoid(terms: Callable[[Array], Array], length: float, exponent: float) -> tuple[float, float] | None:
    """The integral relative to the peak and its error, or nothing if halving the step does not settle it."""
    previous = math.inf
    for halving in range(_HALVINGS):
        step = 0.25 / 2**halving
        found = terms(np.arange(0.0, length, step))
        found[0] /= 2
        value = float(found.sum()) * step / math.pi
        change = abs(value - previous)
        if change <= _CONVERGED * value:
            return value, 2 * change + _ROUNDING * exponent * (float(np.abs(found).sum()) * step / math.pi)
        previous = value
    return None


# Both covariances are diagonalised at once: in suitable coordinates Q is N(0, I) and P is N(m, diag v), and the loss
# log dP/dQ is a sum of independent one-dimensional terms with
#
#     log E_P exp(s L) = sum_i [ -log(1 - (v_i - 1) s)/2 - (s/2) log v_i + m_i^2 s (1 + s) / (2 (1 - (v_i - 1) s)) ].

_EQUAL = 1e-13  # variance ratios this close to 1 are rounding errors of the diagonalisation
_LOSS_ROUNDING = 2e-15
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class GaussianLoss:
    """The loss log dP/dQ; `shift` is the distance along coordinates with equal variance."""

    shift: float
    ratios: Array
    means: Array

    @classmethod
    def between(cls, first: GaussianLaw, second: GaussianLaw) -> "GaussianLoss":
        """The loss of `first` (P) against `second` (Q), both with a density."""
        if first.dim != second.dim:
            raise InputError(f"Expected two laws of the same dimension, got {first.dim} and {second.dim}.")
        factor = cholesky(second.covariance)
        cholesky(first.covariance)
        gap = linalg.solve_triangular(factor, first.mean - second.mean, lower=True)
        half = linalg.solve_triangular(factor, first.covariance, lower=True)
        ratios, vectors = linalg.eigh(linalg.solve_triangular(factor, half.T, lower=True))
        means = vectors.T @ gap
        equal = np.abs(ratios - 1) <= _EQUAL * max(1.0, first.dim)
        return cls(float(np.linalg.norm(means[equal])), ratios[~equal], means[~equal])

    def renyi(self, order: float) -> float:
        """Rényi divergence of P from Q; infinite where it is undefined. Order 1 is the KL divergence."""
        order = number("order", order, POSITIVE)
        if order == 1.0:
            rest = self.ratios - 1 - np.log(self.ratios) + self.means**2
            return float(0.5 * (self.shift**2 + rest.sum()))
        mixed = 1 - (self.ratios - 1) * (order - 1)
        if mixed.min(initial=1.0) <= 0:
            return math.inf
        logs = -0.5 * np.log1p(-(self.ratios - 1) * (order - 1)) / (order - 1) - 0.5 * np.log(self.ratios)
        return float(order * self.shift**2 / 2 + (logs + order * self.means**2 / (2 * mixed)).sum())

    def delta(self, epsilon: float) -> Bracket:
        """E_P (1 - exp(epsilon - L))_+, at any real epsilon."""
        epsilon = number("epsilon", epsilon)
        if len(self.ratios) == 0:
            low, high = delta_range(self.shift, epsilon)
            return Bracket(float(low), float(high))
        if len(self.ratios) == 1 and self.shift == 0.0:
            return _delta_on_the_line(float(self.ratios[0]), float(self.means[0]), epsilon)
        return self.contour(epsilon)

    def contour(self, epsilon: float) -> Bracket:
        """`delta` as a contour integral, which holds in any dimension."""

        def exponent(s: Complex) -> Complex:
            product = (self.ratios - 1) * s[:, None]
            # log(1 - z) loses digits for small z in complex arithmetic; numpy's log1p keeps them.
            logs = -0.5 * np.log1p(-product) - 0.5 * s[:, None] * np.log(self.ratios)
            pulls = (logs + self.means**2 * (s * (1 + s))[:, None] / (2 * (1 - product))).sum(axis=1)
            return pulls + self.shift**2 * s * (1 + s) / 2 - s * epsilon - np.log(s) - np.log(1 + s)

        largest = float((self.ratios - 1).max(initial=0.0))
        return _tail_integral(exponent, 1 / largest if largest > 0 else math.inf)


def _delta_on_the_line(ratio: float, mean: float, epsilon: float) -> Bracket:
    """P(S) - exp(epsilon) Q(S) for Q = N(0, 1), P = N(mean, ratio), S = {loss > epsilon}, from the quadratic's roots.

    The loss is a x^2 + b x + c; S lies outside the two roots when P is the wider law and between them otherwise.
    """
    a, b = 0.5 * (ratio - 1) / ratio, mean / ratio
    c = -0.5 * math.log(ratio) - mean * mean / (2 * ratio) - epsilon
    discriminant = b * b - 4 * a * c
    if discriminant <= 0:
        value = -math.expm1(epsilon) if a > 0 else 0.0
        return Bracket(max(0.0, value), max(0.0, value))
    # The larger root in size first: the other follows from their product without cancellation.
    stem = -0.5 * (b + math.copysign(math.sqrt(discriminant), b))
    left, right = sorted((stem / a, c / stem))
    scale = math.sqrt(ratio)
    p = _mass((left - mean) / scale, (right - mean) / scale, outside=a > 0)
    steepness = 1 + max(abs(left), abs(right)) ** 2
    if epsilon > _LARGEST_EXPONENT:
        # Q(S) underflows where exp(epsilon) overflows; all that is known is 0 <= exp(epsilon) Q(S) <= P(S).
        return Bracket(0.0, min(1.0, p * (1 + _LOSS_ROUNDING * steepness)))
    q = _mass(left, right, outside=a > 0) * math.exp(epsilon)
    error = _LOSS_ROUNDING * steepness * (p + q)
    return Bracket(min(1.0, max(0.0, p - q - error)), min(1.0, max(0.0, p - q + error)))


def _mass(left: float, right: float, *, outside: bool) -> float:
    if outside:
        return float(special.ndtr(left) + special.ndtr(-right))
    mirrored = (-right, -left) if left > 0 else (left, right)
    return float(special.ndtr(mirrored[1]) - special.ndtr(mirrored[0]))


# Two mixtures on the line: delta(epsilon) is the integral of the positive part of f = p - exp(epsilon) q. On a cell
# where f provably keeps its sign (its values at the ends exceed the curvature bound K h^2 / 8) the cdfs give that
# integral exactly. A cell where the sign is in doubt contributes at most min(int f_+, int f_-) of error, which shrinks
# fast as the cell is halved.

_FIRST_CELLS = 256
_MOST_CELLS = 1 << 20
_ROUNDS = 80


def _on_the_line(first: LineMixture, second: LineMixture, epsilon: float, width: float | None) -> Bracket:
    """Bracket of the hockey-stick divergence, of absolute width about `width` unless rounding is larger."""
    accuracy = first.family.accuracy
    width = max(1e-10, 1e4 * accuracy) if width is None else number("width", width, POSITIVE)
    f = SignedMixture(first, second, math.exp(number("epsilon", epsilon)))
    if f.positive_total == 0.0 or f.negative_total == 0.0:
        slack = 4 * accuracy * f.positive_total
        return Bracket(max(0.0, f.positive_total - slack), min(1.0, f.positive_total + slack))
    edges = _edges(f, width / (8 * (f.positive_total + f.negative_total)))
    cells = _Cells.on(f, edges[:-1], edges[1:])
    for _ in range(_ROUNDS):
        doubtful = cells.gaps > width / (4 * max(1, np.count_nonzero(cells.gaps)))
        doubtful &= np.isfinite(cells.left) & np.isfinite(cells.right)
        if cells.gaps.sum() <= width / 2 or not doubtful.any() or len(cells.gaps) > _MOST_CELLS:
            break
        cells = cells.halved(f, doubtful)
    return cells.integral(f)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Intervals that cover the line, whether f is positive over each, and what a doubtful sign may hide."""

    left: Array
    right: Array
    positive: NDArray[np.bool_]
    gaps: Array

    @classmethod
    def on(cls, f: SignedMixture, left: Array, right: Array) -> "_Cells":
        plus, minus = f.masses(left, right)
        gaps = np.minimum(plus, minus)
        inner = np.isfinite(left) & np.isfinite(right)
        a, b = left[inner], right[inner]
        f_a, f_b = f.density(a), f.density(b)
        bow = f.curvature(a, b) * (b - a) ** 2 / 8
        highest, lowest = np.maximum(f_a, f_b) + bow, np.minimum(f_a, f_b) - bow
        hidden = (b - a) * np.minimum(np.maximum(highest, 0.0), np.maximum(-lowest, 0.0))
        gaps[inner] = np.minimum(gaps[inner], hidden)
        return cls(left, right, plus > minus, gaps)

    def halved(self, f: SignedMixture, chosen: NDArray[np.bool_]) -> "_Cells":
        left, right = self.left[chosen], self.right[chosen]
        middle = (left + right) / 2
        new = _Cells.on(f, np.concatenate([left, middle]), np.concatenate([middle, right]))
        columns = ("left", "right", "positive", "gaps")
        return _Cells(*(np.concatenate([getattr(self, name)[~chosen], getattr(new, name)]) for name in columns))

    def integral(self, f: SignedMixture) -> Bracket:
        """The integral where f is positive, adjacent cells joined so that rounding errors do not add up."""
        order = np.argsort(self.left)
        positive = np.concatenate([[False], self.positive[order], [False]])
        starts = np.flatnonzero(positive[1:] & ~positive[:-1])
        ends = np.flatnonzero(positive[:-1] & ~positive[1:]) - 1
        left, right = self.left[order][starts], self.right[order][ends]
        plus, minus = f.masses(left, right)
        value = float(np.sum(plus - minus))
        # The masses of these intervals inherit the rounding errors of the tails.
        tails = f.positive_total * np.minimum(f.positive.above(left), f.positive.cdf(right))
        tails = tails + f.negative_total * np.minimum(f.negative.above(left), f.negative.cdf(right))
        rounding = 4 * f.positive.family.accuracy * float(np.sum(plus + minus + tails))
        high = max(0.0, value) + float(self.gaps.sum()) + rounding
        return Bracket(min(1.0, max(0.0, value - rounding)), min(1.0, high))


def _edges(f: SignedMixture, tail: float) -> Array:
    """Cells spaced like sinh around the middle, out to where both tails are negligible, and two unbounded ones."""
    locations = np.concatenate([f.positive.locations, f.negative.locations])
    scales = np.concatenate([f.positive.scales, f.negative.scales])
    reach = f.positive.family.reach(min(tail, 0.5))
    low, high = float((locations - reach * scales).min()), float((locations + reach * scales).max())
    middle, unit = float(np.median(locations)), float(scales.min())
    ends = np.arcsinh((np.array([low, high]) - middle) / unit)
    inner = middle + unit * np.sinh(np.linspace(ends[0], ends[1], _FIRST_CELLS))
    return np.concatenate([[-math.inf], np.unique(inner), [math.inf]])


ExactLaw = GaussianLaw | GaussianMixtureLaw | LineMixture | StableLaw1D


def hockey_stick(first: ExactLaw, second: ExactLaw, epsilon: float, width: float | None = None) -> Bracket:
    """sup over sets S of P(S) - exp(epsilon) Q(S), at any real epsilon.

    Two Gaussians: relative error about 1e-13. Mixtures on the line: absolute error `width`, 1e-10 for normal and 1e-8
    for stable components unless given.
    """
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianLoss.between(first, second).delta(epsilon)
    return _on_the_line(first.line(), second.line(), epsilon, width)
