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
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.influence.declaration import Declaration
from sordino.algorithm.influence.sums import cut_share
from sordino.core.arrays import Array
from sordino.core.validate import one_of, refuse

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
        error: what the scale of errors is taken to be by now, where that is another than the round's own.
        spread: the same for the dispersion of counts.
    """

    scale: float = 1.0
    clip: float = 1.0
    cap: float = math.inf
    middle: float = 0.0
    dispersion: float = 0.0
    first: bool = False
    error: float | None = None
    spread: float | None = None

    def known_by(self, last: "At") -> "At":
        """The same round, read with the scale and dispersion of a later one."""
        return self._replace(error=last.scale, spread=last.dispersion)


class PsiLaw(NamedTuple):
    """What is expected of psi, for every row.

    Attributes:
        mean: (rows, outputs).
        derivative: of the mean in the true score, (rows, outputs, outputs).
        variance: the second moments of psi, (rows, outputs, outputs).
    """

    mean: Array
    derivative: Array
    variance: Array


class Family(ABC):
    """One kind of target; register an instance in `FAMILIES` and every plan, release and posterior knows it."""

    name: ClassVar[str]
    # Which table of shares a plan begins from, what is read of the target before the first round, and whether the mean
    # of psi is so curved in the score that a posterior is drawn and not written down.
    budget: ClassVar[str] = "numbers"
    reads: ClassVar[str] = "nothing"
    curved: ClassVar[bool] = False
    # Whether bounds are on sums over a unit's rows and not on every row, and how well stand-ins know the whole slope.
    per_unit: ClassVar[bool] = False
    open_slope: ClassVar[float] = 0.07
    # What the variances of its entries are multiplied by, where exposures depend on targets.
    open_entries: ClassVar[float] = 1.0
    # The most scales at which residuals may be cut, whatever the budget.
    most_clip: ClassVar[float] = math.inf
    # Every so many of the stand-in rows are used: more than 1 where the law of psi takes long to compute.
    every: ClassVar[int] = 1

    def typical_exposure(self, low: float, high: float, even: Array) -> Array:
        """Exposures between declared bounds for numbers that lie evenly in (0, 1): even in the logarithm."""
        return low * (high / low) ** even

    def followed(self, y: Array, score: Array, exposure: Array, declaration: Declaration) -> tuple[Array, Array]:
        """Targets and exposures of all rows, units together, where a unit is followed only up to a bound."""
        del score, declaration
        return y, exposure

    def typical_rate(self, declaration: Declaration) -> float:
        """The mean of a count with score 0, for expected widths."""
        del declaration
        return 1.0

    def at_risk(self, declaration: Declaration, flags: NDArray[np.bool_], scores: Array, effects: Array) -> Array:
        """Exposures of stand-in rows with these scores, for declarations with time bins."""
        del declaration, flags, effects
        return np.ones((len(scores), 1))

    def outputs(self, declaration: Declaration) -> int:
        """How many scores a record has."""
        del declaration
        return 1

    def contrasts(self, declaration: Declaration) -> Array:
        """The map from a record's scores to those in which coefficients are told."""
        return np.eye(self.outputs(declaration))

    def check(self, declaration: Declaration) -> None:
        """Refuse a declaration that lacks what the family needs."""
        del declaration

    def effect_scale(self, declaration: Declaration) -> float:
        """The standard deviation of encoded coefficients, in the family's own units of the target."""
        return 1.0 if declaration.effect_scale is None else declaration.effect_scale

    def intercept_scale(self, declaration: Declaration) -> float:
        """The standard deviation of the intercept, the score of a record in the middle of the declared bounds."""
        return 1.5 * self.effect_scale(declaration)

    def target(self, declaration: Declaration, y: Array) -> Array:
        """Targets as they are compared with scores, brought inside what was declared."""
        del declaration
        return y

    def units(self, declaration: Declaration) -> tuple[float, float]:
        """What a score of 1 and a score of 0 are in units of the target, where scores are predictions of it."""
        del declaration
        return 1.0, 0.0

    def typical_score(self, declaration: Declaration) -> float:
        """The score of a typical record, for simulated tables."""
        del declaration
        return 0.0

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        """Targets of simulated records with these scores, in the units of `target`."""
        raise refuse("the family", "to be one that can be simulated", self.name)

    @abstractmethod
    def bound(self, declaration: Declaration, at: At) -> float:
        """The most that psi can be, over all targets and scores."""

    @abstractmethod
    def slope_bound(self, declaration: Declaration, at: At) -> float:
        """The most that the slope can be, or its Frobenius norm where there are several outputs."""

    @abstractmethod
    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        """What each record says, shape (rows, outputs)."""

    def residual(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        """A record's residual over what is taken for its standard deviation, for histograms: shape (rows,)."""
        return (y - score[:, 0]) / at.scale

    @abstractmethod
    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        """Vectors r, each (rows, outputs), whose squares r r' add up to the slope of each record."""

    def prepared(self, asked: Array, exposure: Array, at: At) -> Any:
        """What a round needs again and again: the part of `law` that depends on the score asked for alone."""
        del exposure, at
        return asked

    @abstractmethod
    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        """Mean, derivative and variance of psi at the score asked for, where `score` is the true one."""

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        """The same for several rounds."""
        return [self.law(score, prepared, exposure, at) for prepared, at in asked]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        """The mean alone."""
        return self.law(score, prepared, exposure, at).mean

    @abstractmethod
    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        """The slope that is released at the score asked for, (rows, outputs, outputs), where x alone decides on it."""


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

    def intercept_scale(self, declaration: Declaration) -> float:
        return 0.35

    def target(self, declaration: Declaration, y: Array) -> Array:
        half, middle = self.units(declaration)
        return np.clip((y - middle) / half, -1.0, 1.0)

    def units(self, declaration: Declaration) -> tuple[float, float]:
        low, high = declaration.target or (-1.0, 1.0)
        return (high - low) / 2.0, (high + low) / 2.0

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        errors = generator.standard_t(5, len(scores)) * generator.uniform(0.04, 0.15)
        return np.clip(scores[:, 0] + errors, -1.0, 1.0)

    def bound(self, declaration: Declaration, at: At) -> float:
        return at.clip * at.scale

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 1.0

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        most = at.clip * at.scale
        return np.clip(y[:, None] - score, -most, most)

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        return [(np.abs(y[:, None] - score) < at.clip * at.scale).astype(np.float64)]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        """Of normal errors: the mean is the integral of P(|e + difference| < k s) over the difference."""
        error = at.scale if at.error is None else at.error
        k, away = at.clip * at.scale / error, (score - prepared) / error
        up, down = away + k, away - k
        below_up, below_down = special.ndtr(up), special.ndtr(down)
        mean = error * (up * below_up + _density(up) - down * below_down - _density(down) - k)
        inside = 2.0 * special.ndtr(k) - 1.0
        clipped = inside - 2.0 * k * math.exp(-0.5 * k * k) / _SQRT_2PI + k * k * (1.0 - inside)
        variance = np.full((*score.shape, 1), error**2 * clipped)
        return PsiLaw(mean, (below_up - below_down)[..., None], variance)

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        if len({at.error for _, at in asked}) > 1 or asked[0][1].error is None:
            return super().laws(score, asked, exposure)
        # All at once: cuts are along the first axis.
        error = asked[0][1].error
        k = np.array([at.clip * at.scale / error for _, at in asked])[:, None, None]
        away = (score - np.array([prepared for prepared, _ in asked])) / error
        up, down = away + k, away - k
        below_up, below_down = special.ndtr(up), special.ndtr(down)
        mean = error * (up * below_up + _density(up) - down * below_down - _density(down) - k)
        inside = 2.0 * special.ndtr(k) - 1.0
        clipped = inside - 2.0 * k * np.exp(-0.5 * k * k) / _SQRT_2PI + k * k * (1.0 - inside)
        variance = np.broadcast_to(error**2 * clipped, mean.shape)[..., None]
        return [PsiLaw(*one) for one in zip(mean, (below_up - below_down)[..., None], variance, strict=True)]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        error = at.scale if at.error is None else at.error
        k = at.clip * at.scale / error
        if score.ndim < 3:
            away = (score - prepared) / error
            return error * (_ramp(away + k) - _ramp(away - k) - k)
        # Many draws: on a line between places that are 1/256 errors apart, off by less than 1e-6 errors.
        reach = k + 6.0
        steps = math.ceil(512.0 * reach)
        grid = np.linspace(-reach, reach, steps + 1)
        values = (error * (_ramp(grid + k) - _ramp(grid - k) - k)).astype(score.dtype)
        scale = score.dtype.type(steps / (2.0 * reach * error))
        place = (score - prepared.astype(score.dtype)) * scale + score.dtype.type(steps / 2.0)
        np.clip(place, 0.0, steps - 0.01, out=place)
        whole = place.astype(np.int32)
        place -= whole
        return values[whole] + place * np.diff(values)[whole]

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        return self.law(prepared, prepared, exposure, at).derivative


def _ramp(values: Array) -> Array:
    """The integral of the normal distribution function."""
    return values * special.ndtr(values) + _density(values)


@register
class Robust(Linear):
    """Huber regression: the same psi with the threshold of 1.345 scales or less that a robust fit is asked for.

    The target is the one of Huber's loss, so skew errors or gross ones are no misspecification: the sandwich from the
    released meat is what intervals rest on.
    """

    name = "robust"
    most_clip = 1.345


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

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        return (generator.random(len(scores)) < special.expit(scores[:, 0])).astype(np.float64)

    def bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 if at.first else float(special.expit(at.cap))

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.25

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        return y[:, None] - special.expit(np.clip(score, -at.cap, at.cap))

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        p = special.expit(score)
        return [np.sqrt(p * (1.0 - p))]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        p = special.expit(score)
        mean, slope = p - special.expit(np.clip(prepared, -at.cap, at.cap)), p * (1.0 - p)
        return PsiLaw(mean, slope[..., None], (slope + mean**2)[..., None])

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        p = special.expit(score)
        slope = p * (1.0 - p)
        shown = slope[..., None]
        means = [p - special.expit(np.clip(prepared, -at.cap, at.cap)) for prepared, at in asked]
        return [PsiLaw(mean, shown, (slope + mean**2)[..., None]) for mean in means]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        asked = special.expit(np.clip(prepared, -at.cap, at.cap))
        if score.ndim < 3:
            return special.expit(score) - asked
        # Many draws: as few passes as it takes.
        found = np.exp(np.minimum(np.negative(score), 80.0))
        found += 1.0
        np.reciprocal(found, out=found)
        return np.subtract(found, asked.astype(score.dtype), out=found)

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        p = special.expit(prepared)
        return (p * (1.0 - p))[..., None]


@register
class Multinomial(Family):
    """Several classes 0, ..., C - 1: psi = E'(e_y - p), p the softmax of E times the scores, each cut to +-cap first.

    E is an orthonormal basis of the vectors whose entries add up to 0, so all classes are alike and |psi| = |e_y - p|;
    coefficients are told as contrasts with the first class. |e_y - p|^2 = (1 - p_y)^2 + the sum of the other p_c^2 <=
    1 + top, top the largest probability that cut scores allow; at the first point it is 1 - 1/C. Slope E'(diag(p) - p
    p')E, the sum of p_c E'(e_c - p)(e_c - p)'E: its norm is at most 1/2, reached at p = 1/2 for two classes.
    """

    name = "multinomial"
    budget = "classes"
    curved = True

    def outputs(self, declaration: Declaration) -> int:
        return (declaration.classes or 2) - 1

    def check(self, declaration: Declaration) -> None:
        if declaration.classes is None or declaration.classes < 2:
            raise refuse("classes", "to be declared, at least 2, for the family multinomial", declaration.classes)

    def contrasts(self, declaration: Declaration) -> Array:
        basis = _basis(self.outputs(declaration) + 1)
        return basis[1:] - basis[0]

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        lifted = scores @ _basis(scores.shape[1] + 1).T + generator.gumbel(size=(len(scores), scores.shape[1] + 1))
        return np.argmax(lifted, axis=1).astype(np.float64)

    def bound(self, declaration: Declaration, at: At) -> float:
        classes = declaration.classes or 2
        if at.first:
            return math.sqrt(1.0 - 1.0 / classes)
        # The other p_c are at most `top` and together at most 1 - p_y: |psi|^2 <= (1 - p_y)^2 + top (1 - p_y).
        top = 1.0 / (1.0 + (classes - 1) * math.exp(-2.0 * at.cap))
        return math.sqrt(1.0 + top)

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 * (1.0 + cut_share(declaration))

    def target(self, declaration: Declaration, y: Array) -> Array:
        return np.clip(np.rint(y), 0.0, (declaration.classes or 2) - 1.0)

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        basis = _basis(score.shape[-1] + 1)
        return basis[y.astype(np.int64)] - _in_basis(_shares_of(score, basis, at.cap), basis)

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        basis = _basis(score.shape[-1] + 1)
        p = _shares_of(score, basis)
        middle = _in_basis(p, basis)
        return [np.sqrt(p[c])[:, None] * (basis[c] - middle) for c in range(len(basis))]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        basis = _basis(score.shape[-1] + 1)
        p = _softmax(score, basis)
        mean, slope = (p - _softmax(prepared, basis, at.cap)) @ basis, _slope(p, basis)
        return PsiLaw(mean, slope, slope + mean[..., :, None] * mean[..., None, :])

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        basis = _basis(score.shape[-1] + 1)
        p = _softmax(score, basis)
        slope = _slope(p, basis)
        means = [(p - _softmax(prepared, basis, at.cap)) @ basis for prepared, at in asked]
        return [PsiLaw(mean, slope, slope + mean[..., :, None] * mean[..., None, :]) for mean in means]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        basis = _basis(score.shape[-1] + 1)
        # Draws keep their precision.
        basis, asked = basis.astype(score.dtype), (_softmax(prepared, basis, at.cap) @ basis).astype(score.dtype)
        p = _shares_of(score, basis)
        # Outputs before rows in memory: sums over rows follow.
        found = np.empty((*score.shape[:-2], basis.shape[1], score.shape[-2]), score.dtype)
        for k in range(basis.shape[1]):
            one = p[0] * basis[0, k]
            for c in range(1, len(basis)):
                if basis[c, k] != 0.0:
                    one += p[c] * basis[c, k]
            np.subtract(one, asked[..., k], out=found[..., k, :])
        return np.swapaxes(found, -1, -2)

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        basis = _basis(prepared.shape[-1] + 1)
        return _slope(_softmax(prepared, basis), basis)


def _slope(p: Array, basis: Array) -> Array:
    """E'(diag(p) - p p')E for every row."""
    middle, outputs = p @ basis, basis.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    return (p @ squares).reshape(len(p), outputs, outputs) - middle[:, :, None] * middle[:, None, :]


@cache
def _basis(classes: int) -> Array:
    """Helmert's basis of the vectors whose entries add up to 0: (classes, classes - 1), columns of length 1."""
    found = np.zeros((classes, classes - 1))
    for k in range(1, classes):
        found[:k, k - 1], found[k, k - 1] = 1.0, -float(k)
        found[:, k - 1] /= math.sqrt(k * (k + 1.0))
    return found


def _in_basis(shares: list[Array], basis: Array) -> Array:
    """Shares of all classes times the basis, added class by class: a row's answer depends on that row alone."""
    found = np.empty((len(shares[0]), basis.shape[1]), order="F")
    for k in range(basis.shape[1]):
        np.multiply(shares[0], basis[0, k], out=found[:, k])
        for c in range(1, len(basis)):
            if basis[c, k] != 0.0:
                found[:, k] += shares[c] * basis[c, k]
    return found


def _shares_of(scores: Array, basis: Array, cap: float = math.inf) -> list[Array]:
    """Probabilities of all classes, whose scores are basis times `scores`, cut to +-cap; added one by one."""
    lifted = []
    for row in basis:
        one = scores[..., 0] * row[0]
        for k in range(1, len(row)):
            if row[k] != 0.0:
                one += scores[..., k] * row[k]
        lifted.append(one if cap == math.inf else np.clip(one, -cap, cap, out=one))
    most = lifted[0].copy()
    for one in lifted[1:]:
        np.maximum(most, one, out=most)
    for one in lifted:
        np.exp(np.subtract(one, most, out=one), out=one)
    total = lifted[0].copy()
    for one in lifted[1:]:
        total += one
    return [np.divide(one, total, out=one) for one in lifted]


def _softmax(scores: Array, basis: Array, cap: float = math.inf) -> Array:
    """The same in one array, classes last."""
    return np.stack(_shares_of(scores, basis, cap), axis=-1)


def _density(values: Array) -> Array:
    return np.exp(-0.5 * values * values) / _SQRT_2PI
