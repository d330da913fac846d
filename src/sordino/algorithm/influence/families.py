"""Families of targets: what a record says about its score, bounded, and what is expected of it.

A family gives psi(y, score), bounded in y for every score that is asked for, of mean 0 where the score is right. All
that depends on x alone (weights, caps of scores, corrections) is public once the point asked for is, so it biases
nothing: shortening happens to records by their x and to y by psi, never to products of both.

Each class states *psi*, the *slope* that is released as curvature, both with their bounds, the *consistency
correction*, and what a posterior needs: the mean of psi under another score, its derivative, and its variance. Scores
have shape (rows, outputs) or (draws, rows, outputs); targets (rows,).
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.influence.declaration import Declaration
from sordino.algorithm.influence.sums import CUT_MATRIX
from sordino.core.validate import one_of, refuse

Array = NDArray[np.float64]
FAMILIES: dict[str, "Family"] = {}
_SQRT_2PI = math.sqrt(2.0 * math.pi)


class At(NamedTuple):
    """What is public about a round besides its point.

    Attributes:
        scale: of residuals (numbers), or the mean of counts; 1 elsewhere.
        clip: in units of the scale (numbers) or of a count's standard deviation.
        cap: scores are cut to plus and minus this, around `middle`, before they are compared with targets.
        middle: the score of a typical record.
        dispersion: of counts: the variance is mean + dispersion * mean^2.
        first: whether the point is the public one at which all scores are 0.
    """

    scale: float = 1.0
    clip: float = 1.0
    cap: float = math.inf
    middle: float = 0.0
    dispersion: float = 0.0
    first: bool = False


class Family(ABC):
    """One kind of target; register an instance in `FAMILIES` and every plan, release and posterior knows it."""

    name: ClassVar[str]
    # Which table of shares a plan begins from, what is read of the target before the first round, and whether the mean
    # of psi is so curved in the score that a posterior is drawn and not written down.
    budget: ClassVar[str] = "numbers"
    reads: ClassVar[str] = "nothing"
    curved: ClassVar[bool] = False

    def outputs(self, declaration: Declaration) -> int:
        """How many scores a record has."""
        del declaration
        return 1

    def check(self, declaration: Declaration) -> None:
        """Refuse a declaration that lacks what the family needs."""
        del declaration

    def effect_scale(self, declaration: Declaration) -> float:
        """The standard deviation of encoded coefficients, in the family's own units of the target."""
        return 1.0 if declaration.effect_scale is None else declaration.effect_scale

    def target(self, declaration: Declaration, y: Array) -> Array:
        """Targets as they are compared with scores, brought inside what was declared."""
        del declaration
        return y

    def units(self, declaration: Declaration) -> tuple[float, float]:
        """What a score of 1 and a score of 0 are in units of the target, where scores are predictions of it."""
        del declaration
        return 1.0, 0.0

    @abstractmethod
    def bound(self, declaration: Declaration, at: At) -> float:
        """The most that psi can be, over all targets and scores."""

    @abstractmethod
    def slope_bound(self, declaration: Declaration, at: At) -> float:
        """The most that the slope can be, or its Frobenius norm where there are several outputs."""

    @abstractmethod
    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        """What each record says, shape (rows, outputs)."""

    @abstractmethod
    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        """Vectors r, each (rows, outputs), whose squares r r' add up to the slope of each record."""

    @abstractmethod
    def mean(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        """The mean of psi at the score asked for, where `score` is the true one."""

    @abstractmethod
    def derivative(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        """The derivative of `mean` in the true score: (rows, outputs, outputs)."""

    @abstractmethod
    def released_slope(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        """The mean of the slope that is released at the score asked for: (rows, outputs, outputs)."""

    @abstractmethod
    def variance(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        """The covariance of psi: (rows, outputs, outputs)."""


def family_of(name: str) -> Family:
    """The family of that name."""
    return FAMILIES[one_of("family", name, FAMILIES)]


def register(kind: type[Family]) -> type[Family]:
    """Make a family known."""
    FAMILIES[kind.name] = kind()
    return kind


@register
class Linear(Family):
    """Means of numbers, by Huber's psi with a threshold of `clip` residual scales.

    psi = clip(y - score, -k s, k s), bound k s; slope 1 where it is not cut, else 0, bound 1. No correction: for errors
    that are symmetric around the mean, psi has mean 0 at the truth whatever their spread and tails. For skew errors the
    intercept is that of the trimmed mean; slopes are right where the law of errors does not depend on x.
    """

    name = "linear"
    reads = "location"

    def check(self, declaration: Declaration) -> None:
        if declaration.target is None:
            raise refuse("target", f"to have declared bounds for the family {self.name}", None)

    def effect_scale(self, declaration: Declaration) -> float:
        half = self.units(declaration)[0]
        return 0.1 if declaration.effect_scale is None else declaration.effect_scale / half

    def target(self, declaration: Declaration, y: Array) -> Array:
        half, middle = self.units(declaration)
        return np.clip((y - middle) / half, -1.0, 1.0)

    def units(self, declaration: Declaration) -> tuple[float, float]:
        low, high = declaration.target or (-1.0, 1.0)
        return (high - low) / 2.0, (high + low) / 2.0

    def bound(self, declaration: Declaration, at: At) -> float:
        return at.clip * at.scale

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 1.0

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        most = at.clip * at.scale
        return np.clip(y[:, None] - score, -most, most)

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        return [(np.abs(y[:, None] - score) < at.clip * at.scale).astype(np.float64)]

    def mean(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        """Of normal errors: the integral of P(|e + difference| < k s) over the difference."""
        k, away = at.clip, (score - asked) / at.scale
        up, down = away + k, away - k
        inner = up * special.ndtr(up) + _density(up) - down * special.ndtr(down) - _density(down)
        return at.scale * (inner - k)

    def derivative(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        k, away = at.clip, (score - asked) / at.scale
        return (special.ndtr(away + k) - special.ndtr(away - k))[..., None]

    def released_slope(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        return self.derivative(score, asked, exposure, at)

    def variance(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        k = at.clip
        inside = 2.0 * special.ndtr(k) - 1.0
        clipped = inside - 2.0 * k * math.exp(-0.5 * k * k) / _SQRT_2PI + k * k * (1.0 - inside)
        return np.full((*score.shape, 1), at.scale**2 * clipped)


@register
class Robust(Linear):
    """Huber regression: the same psi with the threshold of 1.345 scales or less that a robust fit is asked for.

    The target is the one of Huber's loss, so skew errors or gross ones are no misspecification: the sandwich from the
    released meat is what intervals rest on.
    """

    name = "robust"


@register
class Logistic(Family):
    """Two classes, targets 0 and 1: psi = y - expit(score cut to +-C).

    |psi| <= expit(C), and 1/2 at the first point, where all scores are 0. Slope p (1 - p) at the score, at most 1/4.
    No correction is needed for the cut: it is a function of x, and the posterior compares psi with its mean, cut alike.
    """

    name = "logistic"
    budget = "classes"
    curved = True

    def target(self, declaration: Declaration, y: Array) -> Array:
        return (y > 0.5).astype(np.float64)

    def bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 if at.first else float(special.expit(at.cap))

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.25

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        return y[:, None] - special.expit(np.clip(score, -at.cap, at.cap))

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        p = special.expit(score)
        return [np.sqrt(p * (1.0 - p))]

    def mean(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        return special.expit(score) - special.expit(np.clip(asked, -at.cap, at.cap))

    def derivative(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        p = special.expit(score)
        return (p * (1.0 - p))[..., None]

    def released_slope(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        return self.derivative(asked, asked, exposure, at)

    def variance(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        p, q = special.expit(score), special.expit(np.clip(asked, -at.cap, at.cap))
        return (p * (1.0 - p) + (p - q) ** 2)[..., None]


@register
class Multinomial(Family):
    """Several classes 0, ..., C - 1 with the first as reference: psi_c = 1[y = c] - softmax_c for c = 1, ..., C - 1.

    Scores are cut to +-cap first, a function of x. |psi|^2 = (1 - p_y)^2 + sum of other p_c^2 < 2, and at the first
    point (1 - 1/C)^2 + (C - 2) / C^2. Slope diag(p) - p p', the sum of p_c (e_c - p)(e_c - p)' over all classes: its
    norm is at most that of all C rows and columns, at most 1/2, reached at two classes with p = 1/2.
    """

    name = "multinomial"
    budget = "classes"
    curved = True

    def outputs(self, declaration: Declaration) -> int:
        return (declaration.classes or 2) - 1

    def check(self, declaration: Declaration) -> None:
        if declaration.classes is None or declaration.classes < 2:
            raise refuse("classes", "to be declared, at least 2, for the family multinomial", declaration.classes)

    def bound(self, declaration: Declaration, at: At) -> float:
        classes = declaration.classes or 2
        if at.first:
            return math.sqrt((1.0 - 1.0 / classes) ** 2 + (classes - 2.0) / classes**2)
        most, least = (float(one) for one in np.exp([at.cap, -at.cap]))
        if classes == 2:
            return most / (1.0 + most)
        # 1 - p_y is at most 1; every other p_c is at most `top`, and together they are at most 1.
        top = most / (most + (classes - 2) * least + 1.0)
        return math.sqrt(1.0 + (top * top if classes == 3 else top))

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 * (1.0 + CUT_MATRIX)

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        found = -_softmax(np.clip(score, -at.cap, at.cap))
        chosen = np.flatnonzero(y > 0.5)
        found[chosen, y[chosen].astype(np.int64) - 1] += 1.0
        return found

    def target(self, declaration: Declaration, y: Array) -> Array:
        return np.clip(np.rint(y), 0.0, (declaration.classes or 2) - 1.0)

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        p = _softmax(score)
        rest = np.maximum(1.0 - p.sum(axis=-1, keepdims=True), 0.0)
        found = [np.sqrt(rest) * -p]
        for c in range(p.shape[-1]):
            root = -p.copy()
            root[..., c] += 1.0
            found.append(np.sqrt(p[..., c : c + 1]) * root)
        return found

    def mean(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        return _softmax(score) - _softmax(np.clip(asked, -at.cap, at.cap))

    def derivative(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        p = _softmax(score)
        return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])

    def released_slope(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        return self.derivative(asked, asked, exposure, at)

    def variance(self, score: Array, asked: Array, exposure: Array, at: At) -> Array:
        away = self.mean(score, asked, exposure, at)
        return self.derivative(score, asked, exposure, at) + away[..., :, None] * away[..., None, :]


def _density(values: Array) -> Array:
    return np.exp(-0.5 * values * values) / _SQRT_2PI


def _softmax(scores: Array) -> Array:
    """Probabilities of the classes behind the first, whose score is 0; sums over classes are added one by one."""
    most = np.maximum(scores.max(axis=-1), 0.0)
    lifted = np.exp(scores - most[..., None])
    total = np.exp(-most)
    for c in range(scores.shape[-1]):
        total = total + lifted[..., c]
    return lifted / total[..., None]
