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
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import one_of, refuse
from sordino.mechanisms.influence.declaration import Declaration

FAMILIES: dict[str, "Family"] = {}
# Beyond it single precision would not tell places of a grid apart.
_MOST_PLACES = 2**16
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
        # Many draws: on a line between places that are 1/256 errors apart, off by less than 1e-6 errors.
        reach = k + 6.0
        steps = math.ceil(512.0 * reach)
        if score.ndim < 3 or steps > _MOST_PLACES:
            away = (score - prepared) / error
            return error * (_ramp(away + k) - _ramp(away - k) - k)
        grid = np.linspace(-reach, reach, steps + 1)
        values = (error * (_ramp(grid + k) - _ramp(grid - k) - k)).astype(score.dtype)
        scale = score.dtype.type(steps / (2.0 * reach * error))
        place = (score - prepared.astype(score.dtype)) * scale + score.dtype.type(steps / 2.0)
        np.clip(place, 0.0, steps, out=place)
        whole = np.minimum(place.astype(np.int32), steps - 1)
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


def _density(values: Array) -> Array:
    return np.exp(-0.5 * values * values) / _SQRT_2PI
