"""Families of targets: the bounded derivative of a row's loss in its score, and the slope of that derivative.

At a point, a row with whitened columns z and score s = z't contributes w u psi to the gradient and w u u' v to the
slopes, where u = g z. The stretch g and the weight w = min(1, tau/|u|, tau far/|u|^2) see x, exposure and public
numbers, never the target. psi has mean 0 at the right score and is bounded in y. So no product of row and residual is
ever cut, and the estimating equation has its root at the truth whatever tau is (Mallows' weights).

With several outputs psi is a vector, and v is the sum of r r' over `roots` r.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, lru_cache, reduce
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import linalg, special

from sordino.core.arrays import Array
from sordino.core.validate import instance_of, one_of, refuse
from sordino.mechanisms.regression.declaration import Declaration

FAMILIES: dict[str, "type[Family]"] = {}
_MOST_SPREAD = 1.5  # scales of rows differ by at most this factor, up or down: exp(1.5) is 4.5
HUBER = 1.345  # Huber's threshold: 95 % of least squares' efficiency for normal errors
LARGEST_SCORE = 30.0  # scores beyond this are no rates of anything
# The least share of slopes that a count keeps after its residual is cut; smaller ones would be no slope at all.
LEAST_SLOPE = 0.05
TYPICAL_RESIDUAL = 0.1  # the standard deviation of a typical error, over half the target's range


class At(NamedTuple):
    """Public numbers of a round besides its point."""

    scale: float = 1.0  # of residuals of numbers
    cut: float = math.inf  # of residuals, in scales (numbers) or standard deviations (counts)
    shift: float = 0.0  # the mean of what is cut, in scales
    tilt: float = 0.0  # makes the score insensitive to the scale, see `Linear`
    size: float = 0.0  # the mean size of cut residuals
    typical: float = 1.0  # the information of a typical count about its score
    dispersion: float = 0.0  # counts have variance mean + dispersion * mean^2
    factor: float = 1.0  # what the law says is cut off counts is multiplied by this
    largest: float = 1.0  # mean of a count
    follow: float = 1.0  # people are followed until so many events were to be expected, see `survival`
    last: bool = False  # the last point, where slopes are those of the score itself


class Says(NamedTuple):
    """What rows say at a point: psi (rows, outputs), stretch (rows,), and roots of slopes, each (rows, outputs)."""

    psi: Array
    stretch: Array
    roots: list[Array]


class Family(ABC):
    """One kind of target, with a declaration that has what it needs. Every plan knows every subclass.

    `start` says what is read of the target first: "number", "class", "classes", "counts" or "events". `per_unit`:
    bounds are on the sum over a unit's rows. `curve` names how a mean gradient bends: "", "logit", "classes" or "log".
    `reach` is psi's bound over its standard deviation, for typical rows: how noise and sampling compare; `typical` are
    slope, variance and bound of a typical row's psi in the expectations of a plan.
    """

    name: ClassVar[str]
    typical: ClassVar[tuple[float, float, float]]
    start: ClassVar[str] = "number"
    per_unit: ClassVar[bool] = False
    curve: ClassVar[str] = ""
    reach: ClassVar[float] = 1.0

    def __init_subclass__(cls) -> None:
        FAMILIES[cls.name] = cls

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = instance_of("declaration", declaration, Declaration)
        self.outputs, self.contrasts = 1, np.eye(1)  # scores of a row, and the map to those that are reported
        self.half, self.middle = 1.0, 0.0  # what a score of 1 is in units of the target, and a score of 0
        # The prior standard deviation of encoded coefficients, in the family's own units of the target.
        self.effect_scale = 1.0 if declaration.effect_scale is None else declaration.effect_scale

    def target(self, y: Array) -> Array:
        """Targets as they are compared with scores, brought inside what was declared: by default 0 and 1."""
        return (y > 0.5).astype(np.float64)

    def followed(self, y: Array, score: Array, exposure: Array, at: At) -> tuple[Array, Array]:
        """Targets and exposures of all rows where a unit is followed only up to a bound."""
        return y, exposure

    def residual(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Array:
        """A row's residual over what is taken for its standard deviation."""
        return (y - score[:, 0]) / at.scale * _shrunk_by(spread)

    @abstractmethod
    def bound(self, at: At) -> float:
        """The most that |psi| can be."""

    @abstractmethod
    def slope_bound(self, at: At) -> float:
        """The most that v can be, or its Frobenius norm."""

    @abstractmethod
    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        """What rows say; `spread` is the logarithm of their scale, 0 where there is none."""


def family_of(name: str, declaration: Declaration) -> Family:
    """The family of that name, for a declaration."""
    return FAMILIES[one_of("family", name, FAMILIES)](declaration)


def _shrunk_by(spread: Array) -> Array:
    return np.exp(-np.clip(spread, -_MOST_SPREAD, _MOST_SPREAD))


class Linear(Family):
    """Means of numbers: least squares without the noise of least squares.

    With e = residual / (s exp(spread)) and c = clip(e, -k, k), psi = s (c + a - b (|c| - m)). Here a is the mean of
    e - c, m that of |c|, and b = E[e; |e| < k] / E[|e|; |e| < k]; all are released. psi has mean 0 at the regression of
    the mean, and its derivative in an error of the row's scale is 0: skew errors whose scale depends on x do not bias
    it, to first order (orthogonal in Neyman's sense). |psi| <= s (k (1 + |b|) + |a| + |b| m).

    Slope: 1 where |e| < k, times 1 - b sign(e), so at most 1 + |b|. Before the last point it is Huber's weight
    min(1, k/|e|), which majorises: such steps do not run away.
    """

    name = "linear"
    reach = 1.8
    typical = 0.82, 0.71 * TYPICAL_RESIDUAL**2, HUBER * TYPICAL_RESIDUAL  # normal errors, cut at Huber's threshold

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        if declaration.target is None:
            raise refuse("target", f"to have declared bounds for the family {self.name}", None)
        low, high = declaration.target
        self.half, self.middle = (high - low) / 2.0, (high + low) / 2.0
        self.effect_scale = 0.1 if declaration.effect_scale is None else declaration.effect_scale / self.half

    def target(self, y: Array) -> Array:
        return np.clip((y - self.middle) / self.half, -1.0, 1.0)

    def bound(self, at: At) -> float:
        return at.scale * (at.cut * (1.0 + abs(at.tilt)) + abs(at.shift) + abs(at.tilt) * at.size)

    def slope_bound(self, at: At) -> float:
        return 1.0 + abs(at.tilt)

    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        e = self.residual(y, score, exposure, spread, at)
        size, cut = np.abs(e), np.clip(e, -at.cut, at.cut)
        psi = at.scale * (cut + at.shift - at.tilt * (np.abs(cut) - at.size))
        if at.last:
            slope = (size < at.cut) * (1.0 - at.tilt * np.sign(e))
        else:
            slope = np.minimum(1.0, at.cut / np.maximum(size, 1e-12))
        return Says(psi[:, None], _shrunk_by(spread), [np.sqrt(slope)[:, None]])


class Robust(Linear):
    """Huber regression: the same psi cut at 1.345 scales, and nothing added back.

    The estimand is the minimiser of Huber's loss, so skew or gross errors are no misspecification.
    """

    name = "robust"
    reach = 1.6


class Logistic(Family):
    """Two classes, targets 0 and 1: psi = (y - p) / (2 max(p, 1 - p)), p = expit(score), so |psi| <= 1/2.

    The divisor sees x and the point alone, as w does, so psi has mean 0 at the right score. Without it |y - p| is up to
    1, for rows whose class is nearly certain; they say least about coefficients. Dividing halves the noise and makes
    standard errors of sampling at most 2 % larger, for normal scores of any mean and spread.

    Slope min(p, 1 - p) / 2, at most 1/4. Before the last point the slope is halfway between that and the same share of
    tanh(|s|/2) / (2 |s|), which majorises (Jaakkola and Jordan 2000): at most 1/4 too, and never so flat that a step
    runs away.
    """

    name = "logistic"
    start = "class"
    curve = "logit"
    typical = 0.133, 0.103, 0.5  # scores of standard deviation 1.5

    def bound(self, at: At) -> float:
        return 0.5

    def slope_bound(self, at: At) -> float:
        return 0.25

    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        p = special.expit(score)
        slope, share = p * (1.0 - p), 0.5 / np.maximum(p, 1.0 - p)
        if not at.last:
            size = np.maximum(np.abs(score), 1e-6)
            slope = 0.5 * (slope + 0.5 * np.tanh(0.5 * size) / size)
        return Says((y[:, None] - p) * share, np.ones(len(y)), [np.sqrt(np.minimum(slope * share, 0.25))])


class Multinomial(Family):
    """Several classes 0, ..., C - 1: psi = E'(e_y - p), p the softmax of E times the scores.

    E is an orthonormal basis of the vectors whose entries add up to 0, so all classes are alike and |psi| = |e_y - p|;
    coefficients are reported as contrasts with the first class. |e_y - p|^2 = (1 - p_y)^2 + the sum of the other p_c^2,
    which is at most 2 (1 - p_y)^2 <= 2. Slope E'(diag(p) - p p')E, the sum of p_c E'(e_c - p)(e_c - p)'E: its norm is
    at most 1/2, reached at p = 1/2 for two classes. Before the last point p is drawn halfway to equal shares, which is
    Boehning's (1992) majorising slope in part; the same bound holds for it.
    """

    name = "multinomial"
    start = "classes"
    curve = "classes"
    typical = 0.66, 0.66, math.sqrt(2.0)  # the same scores; of all classes together, which have as many rows

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        classes = declaration.classes
        if classes is None or classes < 2:
            raise refuse("classes", "to be declared, at least 2, for the family multinomial", classes)
        self.outputs, self.contrasts = classes - 1, helmert(classes)[1:] - helmert(classes)[0]

    def target(self, y: Array) -> Array:
        return np.clip(np.rint(y), 0.0, self.outputs)

    def bound(self, at: At) -> float:
        return math.sqrt(2.0)

    def slope_bound(self, at: At) -> float:
        return 0.5 * (1.0 + cut_share(self.declaration))

    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        basis = helmert(score.shape[1] + 1)
        p = class_shares(score, basis)
        psi = basis[y.astype(np.int64)] - _in_basis(p, basis)
        if not at.last:
            p = [0.5 * (one + 1.0 / len(basis)) for one in p]
        middle = _in_basis(p, basis)
        roots = [np.sqrt(p[c])[:, None] * (basis[c] - middle) for c in range(len(basis))]
        return Says(psi, np.ones(len(y)), roots)


def cut_share(declaration: Declaration) -> float:
    """By which share cutting the vectors of a unit's matrix of slopes can lengthen it, where there are several roots.

    A unit has k C vectors of P numbers, for k rows and C classes, whose squared lengths add up to at most
    L^2 = tau far, and a bound of L^2 / 2. Cutting to 20 digits below 2^e <= sqrt 2 L moves each by at most
    sqrt(P) 2^(e - 20). By Cauchy and Schwarz the matrix moves by at most 2 sqrt(k C) L sqrt(P) 2^(e - 20), less than
    5.7 sqrt(k C P) 2^-20 of L^2 / 2; the square of what is cut off is far less. At least 2^-9, which costs nothing.
    """
    classes = declaration.classes or 2
    numbers = (declaration.columns + 1) * classes
    return max(2.0**-9, 6.5 * math.sqrt(declaration.most_records * classes * numbers) * 2.0**-20)


@cache
def helmert(classes: int) -> Array:
    """Helmert's basis of the vectors whose entries add up to 0: (classes, classes - 1), columns of length 1."""
    return np.ascontiguousarray(linalg.helmert(classes).T)


def _combined(parts: Sequence[Array], weights: Array) -> Array:
    """Parts times weights, added one by one: a row's answer depends on that row alone."""
    return reduce(np.add, [part * weight for part, weight in zip(parts, weights, strict=True) if weight])


def _in_basis(shares: list[Array], basis: Array) -> Array:
    """Shares of all classes times the basis, column by column in memory."""
    return np.array([_combined(shares, column) for column in basis.T]).T


def class_shares(scores: Array, basis: Array) -> list[Array]:
    """Probabilities of all classes, whose scores are basis times `scores`."""
    lifted = [_combined(list(scores.T), row) for row in basis]
    most = reduce(np.maximum, lifted)
    lifted = [np.exp(one - most) for one in lifted]
    total = reduce(np.add, lifted)
    return [one / total for one in lifted]


class Poisson(Family):
    """Counts with exposure: mean m = exposure exp(score), residual e = (y - m) / sd(m), sd^2 = m (1 + d m).

    psi = sqrt(V) (clip(e, -k, k) + f a(m)), a(m) = E[e - clip(e)] by the law, with the stretch g = sqrt(v / V), where
    v = m / (1 + d m) is a count's information and V that of a typical one. The factor f is released: it is 1 if the law
    is right, and otherwise makes psi's mean 0 on average. Since (|e| - k)+ <= e^2 / (4 k) and E e^2 = 1 by the law,
    |a| <= 1 / (4 k), so |psi| <= sqrt(V) (k + f / (4 k)).

    Slope V E[clip(e) e], between 0 and V: a function of x and exposure alone.
    """

    name = "poisson"
    start = "counts"
    curve = "log"
    reach = 2.5
    typical = 0.85, 0.8, 1.65  # counts of mean 1, cut at 1.5 standard deviations

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        if declaration.target is None or declaration.target[0] < 0.0:
            wanted = f"to have declared bounds from 0 on for the family {self.name}"
            raise refuse("target", wanted, declaration.target)
        self.limits = declaration.target

    def target(self, y: Array) -> Array:
        return np.clip(np.rint(y), *self.limits)

    def bound(self, at: At) -> float:
        return math.sqrt(at.typical) * (at.cut + at.factor * 0.25 / at.cut) * (1.0 + 2.0**-20)

    def slope_bound(self, at: At) -> float:
        return at.typical

    def residual(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Array:
        mean = self.mean(score, exposure, at)
        return (y - mean) / np.sqrt(mean * (1.0 + at.dispersion * mean))

    @staticmethod
    def mean(score: Array, exposure: Array, at: At) -> Array:
        """Means of counts, between a thousandth and the largest that is declared."""
        return np.clip(exposure * np.exp(np.minimum(score[:, 0], LARGEST_SCORE)), 1e-3, at.largest)

    def expected_cut(self, score: Array, exposure: Array, at: At) -> tuple[Array, Array]:
        """E[e - clip(e)] and E[clip(e) e] by the law."""
        places, cut, both = cut_counts(at.cut, at.largest, at.dispersion)
        logs = np.log(self.mean(score, exposure, at))
        return np.interp(logs, places, cut), np.interp(logs, places, both)

    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        mean, root = self.mean(score, exposure, at), math.sqrt(at.typical)
        cut, both = self.expected_cut(score, exposure, at)
        e = self.residual(y, score, exposure, spread, at)
        psi = root * (np.clip(e, -at.cut, at.cut) + at.factor * cut)
        stretch = np.sqrt(mean / (1.0 + at.dispersion * mean)) / root
        return Says(psi[:, None], stretch, [root * np.sqrt(np.clip(both, LEAST_SLOPE, 1.0))[:, None]])


class NegativeBinomial(Poisson):
    """Counts that vary more than a Poisson law: d is read off sizes of residuals, and a wrong d costs no validity."""

    name = "negative-binomial"
    typical = 0.85 * 2.0 / 3.0, 0.8 * 2.0 / 3.0, 1.65 * math.sqrt(2.0 / 3.0)  # half again the variance


@lru_cache(maxsize=64)
def cut_counts(cut: float, largest: float, dispersion: float) -> tuple[Array, Array, Array]:
    """By the law of counts, at logarithms of means: E[e - clip(e)] and E[clip(e) e]."""
    mean = np.geomspace(1e-3, largest, 90)[:, None]
    deviation = np.sqrt(mean * (1.0 + dispersion * mean))
    # Sums over few enough counts: beyond the mean plus 12 deviations nothing is left, and large means are thinned out.
    step = np.maximum(1.0, (mean + 12.0 * deviation + 30.0) / 2048.0)
    counts = np.floor(np.arange(2048.0)[None] * step)
    if dispersion < 1e-6:
        logs = counts * np.log(mean) - mean - special.gammaln(counts + 1.0)
    else:
        parts = 1.0 / dispersion
        logs = special.gammaln(counts + parts) - special.gammaln(parts) - special.gammaln(counts + 1.0)
        logs = logs + counts * np.log(mean / (parts + mean)) - parts * np.log1p(mean / parts)
    p = np.exp(logs)
    p /= p.sum(axis=1, keepdims=True)
    e = (counts - mean) / deviation
    kept, bound = np.clip(e, -cut, cut), 0.25 / cut
    return np.log(mean[:, 0]), np.clip((p * (e - kept)).sum(axis=1), -bound, bound), (p * kept * e).sum(axis=1)
