"""What all released sums say together about the coefficients, noise included.

Model. Write t for the coefficients of whitened rows, g_k for the noised mean gradient at the point t_k, and n for the
number of units. For rows of the declared shapes (`whitening.stand_in_rows`) the mean of a gradient is a known function
m_k(t), 0 at t = t_k. The table's rows are others, so

    g_k = m_k(t) + D (t - t_k) + e + noise_k,

with D a random symmetric matrix, the part of the mean slope that declared shapes and the scatter's noise leave open,
and e the sampling error, common to all rounds because every round measures the same targets. D has independent entries
and one common factor of the whole slope; the released curvature updates it, and it is integrated out. The covariance of
all residuals is averaged over the current posterior of t and is not a function of t: otherwise a guess of D that is
too wide would shrink effects, and not only widen intervals.

The sampling covariance is that of the family, carried over to the released slope (model), or shrunk from that to the
released meat (sandwich).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sordino.algorithm.influence.effects import Effects
from sordino.algorithm.influence.families import At
from sordino.algorithm.influence.likeness import Likeness
from sordino.algorithm.influence.meat import with_meat, with_meat_of_units
from sordino.algorithm.influence.plan import Plan
from sordino.algorithm.influence.readings import Centre
from sordino.algorithm.influence.whitening import Whitened, bin_flags, positive, root, stand_in_exposure
from sordino.core.arrays import Array

# How far a table's slopes are from those of declared shapes, relative to the mean slope: entries on the diagonal and
# off it, those of intercept and column, and of the intercept.
DIAGONAL, ENTRY, INTERCEPT_COLUMN, INTERCEPT = 0.08, 0.037, 0.08, 0.07
# Weights make slopes of columns that are more spread than they were read grow by less than they are; this is squared.
_RESPONSE = 0.45
# The error of what the mean gradient bends away from its tangent at the last point.
BEND = 0.3
# The scale of errors is known up to a factor. Read too small, it makes mean gradients of cut residuals level off too
# soon, so that far coefficients look as likely as near ones: they bend as if the scale were so many errors larger.
BLURRED = 1.5
# Errors are taken to be at least this share of residuals.
LEAST_ERRORS = 0.5
_ROUNDS, _SETTLED, NEARLY_SETTLED = 14, 0.03, 0.3
# Every so many stand-in rows are enough for how a mean gradient bends, and half of these where every round is asked.
_PART, _AT_ONCE = 4, 64
_UNLIKE = 0.15
_BEYOND, _NEAR = 4.0, 0.5
_MOVED = 0.05
# Axes of units' gradients are those of slopes that are at least this share of the mean slope.
_LEAST_SLOPE = 0.05


class Round(NamedTuple):
    """A point, the noised mean gradient there, the deviation of its noise, and what is public about the round."""

    point: Array
    gradient: Array
    noise: float
    at: At


class Evidence:
    """Released sums of one fit, in whitened coordinates; answers with a Gaussian approximation or with draws."""

    def __init__(self, plan: Plan, centre: Centre, whitened: Whitened) -> None:
        self.plan, self.family, self.units = plan, plan.kind, plan.records
        self.outputs, self.size = plan.outputs, plan.coefficients
        chosen = whitened.rows[:: self.family.every]
        self.rows = np.column_stack([np.ones(len(chosen)), chosen])
        self.weights = np.minimum(1.0, plan.tau**2 / np.sum(self.rows**2, axis=1)) / len(self.rows)
        self._weighted = self.rows * self.weights[:, None]
        self.exposure = stand_in_exposure(plan, len(self.rows))
        self._flags = bin_flags(plan, centre) if plan.declaration.time_bins else None
        one = np.zeros((self.size // self.outputs,) * 2)
        one[0, 0] = 1.0
        one[0, 1:], one[1:, 1:] = -centre.values @ whitened.matrix, whitened.matrix
        self.to_encoded = np.asarray(np.kron(one, plan.kind.contrasts(plan.declaration)), np.float64)
        self._open = self._open_slopes(whitened)
        self.rounds: list[Round] = []
        self._prepared: dict[int, Any] = {}
        self._tangents: dict[int, Array] = {}
        self._planned: tuple[int, Array] | None = None
        self._moved_by_dispersion: tuple[Array, Array] | None = None
        self.scale_error = 0.0
        # The scale of errors over that of residuals at the last point.
        self.error_share = 1.0
        self.curvature: tuple[Array, float] | None = None
        self.meat: tuple[Array, float] | None = None
        self.likeness: Likeness | None = None
        self.prior = Effects(plan, self.to_encoded)

    def _open_slopes(self, whitened: Whitened) -> Array:
        """Variances of entries of D, relative to the square of the mean slope."""
        width = self.size // self.outputs
        found = np.full((width, width), ENTRY**2)
        np.fill_diagonal(found, DIAGONAL**2)
        mean = np.minimum(whitened.mean_variance, 1.0)
        squares = np.outer(mean, mean) * (0.5 + 0.5 * np.eye(width - 1))
        found[1:, 1:] += np.minimum(_RESPONSE * whitened.open_variance + squares, 1.0)
        found[0, 1:] = INTERCEPT_COLUMN**2 + mean
        found[1:, 0] = found[0, 1:]
        found[0, 0] = INTERCEPT**2
        found *= self.family.open_entries
        return np.asarray(np.kron(found, np.ones((self.outputs, self.outputs))), np.float64)

    def add(self, one: Round, scale_error: float) -> None:
        """One more round."""
        self.rounds.append(one)
        if self._flags is not None:
            effects = self.to_encoded @ one.point
            self.exposure = self.family.at_risk(self.plan.declaration, self._flags, self.scores(one.point), effects)
        self._prepared[id(one)] = self.family.prepared(self.scores(one.point), self.exposure, one.at)
        # Earlier rounds are read anew with what is known by now about the errors, where that has changed.
        changed = len(self.rounds) < 2 or one.at.known_by(one.at) != one.at.known_by(self.rounds[-2].at)
        self.error_share = 1.0
        for each in self.rounds if changed else (one,):
            self._tangents[id(each)] = self._tangent(each)
        self.scale_error = scale_error

    def axes(self) -> Array:
        """By what a gradient at the last point moves each encoded coefficient, as rows of length 1."""
        slope = self.local(*self.centre(NEARLY_SETTLED)).slopes[-self.size :]
        # Where all residuals are cut there is no slope, and a gradient moves every coefficient alike.
        least = max(_LEAST_SLOPE * float(np.mean(np.diag(slope))), 1e-9)
        found = self.to_encoded @ np.linalg.inv(positive(slope, least))
        return np.asarray(found / np.sqrt(np.sum(found**2, axis=1, keepdims=True)), np.float64)

    def add_curvature(self, matrix: Array, noise: float) -> None:
        """The noised mean slope at the last point."""
        self.curvature = matrix, noise

    def add_meat(self, matrix: Array, noise: float) -> None:
        """The noised mean of squared gradients at the last point."""
        self.meat = matrix, noise

    # Rows of declared shapes.
    def scores(self, theta: Array) -> Array:
        """Of the stand-in rows: (rows, outputs), or (draws, rows, outputs) for several coefficients."""
        shaped = theta.reshape(-1, self.size // self.outputs, self.outputs)
        found = np.tensordot(shaped, self.rows, axes=(1, 1)).transpose(0, 2, 1)
        return found[0] if theta.ndim == 1 else found

    def mean(self, theta: Array, one: Round) -> Array:
        """The mean gradient m_k at some coefficients."""
        at = self._known(one)
        psi = self.family.mean(self.scores(theta), self._prepared[id(one)], self.exposure, at)
        return np.asarray((self._weighted.T @ psi).ravel(), np.float64)

    def some_means(self, theta: Array, one: Round, middle: Array) -> Array:
        """The same for many, from a part of the stand-in rows, moved to agree with all of them in value and slope.

        They agree at `middle`; what is left to the part is how the mean gradient bends, a small share of it.
        """
        every = _PART if self.family.curved else 2 * _PART
        part, at = slice(None, None, every), self._known(one)
        if self.family.reads == "location" and at.error is not None:
            at = at._replace(error=at.error * (1.0 + BLURRED * self.scale_error))
        rows, weights = self.rows[part], self.weights[part] * every
        prepared, exposure, weighted = self._prepared[id(one)][part], self.exposure[part], rows * weights[:, None]
        law = self.family.law(rows @ middle.reshape(-1, self.outputs), prepared, exposure, at)
        mean, slope, _ = self._law(middle, one)
        mean, slope = mean - (weighted.T @ law.mean).ravel(), slope - self._spread(law.derivative, weights, rows)
        shaped = theta.reshape(-1, self.size // self.outputs, self.outputs).astype(np.float32)
        found = np.empty((len(theta), self.size))
        # Seven digits are enough for draws. Few at a time, so that their scores stay in the cache.
        rows, weighted = rows.astype(np.float32), weighted.astype(np.float32)
        for few in (slice(first, first + _AT_ONCE) for first in range(0, len(theta), _AT_ONCE)):
            scores: Any = np.tensordot(shaped[few], rows, axes=(1, 1)).transpose(0, 2, 1)
            psi = self.family.mean(scores, prepared, exposure, at)
            found[few] = np.tensordot(psi, weighted, axes=(1, 0)).transpose(0, 2, 1).reshape(-1, self.size)
        return found + mean + (theta - middle) @ slope.T

    def _law(self, theta: Array, one: Round) -> tuple[Array, Array, Array]:
        """The mean gradient m_k, its derivative, and the second moments of one row's psi."""
        at = self._known(one)
        law = self.family.law(self.scores(theta), self._prepared[id(one)], self.exposure, at)
        return (self._weighted.T @ law.mean).ravel(), self._spread(law.derivative, self.weights), law.variance

    def _laws(self, theta: Array) -> tuple[Array, list[Array], list[Array]]:
        """The same for all rounds: (rounds, size), and lists of slopes and second moments."""
        asked = [(self._prepared[id(one)], self._known(one)) for one in self.rounds]
        found = self.family.laws(self.scores(theta), asked, self.exposure)
        means = np.array([(self._weighted.T @ one.mean).ravel() for one in found])
        slopes: list[Array] = []
        for place, one in enumerate(found):
            # Families whose slope does not depend on the point asked about answer with one array.
            same = place > 0 and one.derivative is found[place - 1].derivative
            slopes.append(slopes[-1] if same else self._spread(one.derivative, self.weights))
        return means, slopes, [one.variance for one in found]

    def _tangent(self, one: Round) -> Array:
        """The slope of the mean gradient at the round's own point."""
        if self.family.reads != "location":
            return self._law(one.point, one)[1]
        # There the share of residuals that are not cut is the same for all rows.
        nothing = np.zeros((1, 1))
        inside = float(self.family.law(nothing, nothing, nothing, self._known(one)).derivative[0, 0, 0])
        return inside * (self._weighted.T @ self.rows)

    def _known(self, one: Round) -> At:
        """What is public about a round, with the scale of errors as it is known by now."""
        at = one.at.known_by(self.rounds[-1].at)
        return at if self.error_share == 1.0 or at.error is None else at._replace(error=self.error_share * at.error)

    def _take_off(self, theta: Array, covariance: Array) -> None:
        """Take what the last point is away from the truth off the scale of residuals there: the rest is errors.

        Residuals were counted at that point, so their square is that of errors and of the scores' distance. Taken for
        errors, they make a cut look tighter and slopes smaller than they are, and intervals of poor budgets too wide.
        """
        last = self.rounds[-1]
        away = self.rows @ (theta - last.point)
        share = float(np.mean(away**2 + squares_in(covariance, self.rows))) / last.at.scale**2
        found = math.sqrt(max(1.0 - share, LEAST_ERRORS**2))
        if abs(found - self.error_share) > 0.01:
            self.error_share = found
            for one in self.rounds:
                self._tangents[id(one)] = self._tangent(one)

    def local(self, theta: Array, covariance: Array) -> "Local":
        """Everything around one point: mean gradients and slopes of all rounds, what is open, and covariances."""
        return self._local(theta, covariance, given_slopes=False)[0]

    def local_given_slopes(self, theta: Array, covariance: Array) -> tuple["Local", "Opened"]:
        """The same with privacy as if slopes were known, and what is open about them."""
        return self._local(theta, covariance, given_slopes=True)

    def _local(self, theta: Array, covariance: Array, *, given_slopes: bool) -> tuple["Local", "Opened"]:
        if self.family.reads == "location" and len(self.rounds) > 1:
            self._take_off(theta, covariance)
        means, slopes, variances = self._laws(theta)
        opened = self._opened(theta, slopes[-1])
        sampling = self._sampling(variances[-1], slopes[-1], slopes[-1] + opened.mean) / self.units
        known = Opened(opened.mean, np.zeros_like(opened.variances), opened.left, 0.0) if given_slopes else opened
        privacy = self._privacy(theta, covariance, known, means, slopes)
        residuals = [
            one.gradient - mean - opened.mean @ (theta - one.point)
            for one, mean in zip(self.rounds, means, strict=True)
        ]
        whole, rounds = self._together(variances), len(self.rounds)
        blocks = whole[:, None, :, None] * sampling[None, :, None, :]
        return Local(
            np.concatenate([slope + opened.mean for slope in slopes]),
            np.concatenate(residuals),
            opened.mean,
            blocks.reshape(rounds * self.size, rounds * self.size),
            privacy,
        ), opened

    def _spread(self, blocks: Array, weights: Array, some: Array | None = None) -> Array:
        """The mean of w z z' x block over stand-in rows, or over some of them."""
        rows = self.rows if some is None else some
        if self.outputs == 1:
            return (rows.T * (weights * blocks[:, 0, 0])) @ rows
        found = np.empty((self.size, self.size))
        for a in range(self.outputs):
            for b in range(a + 1):
                block = (rows.T * (weights * blocks[:, a, b])) @ rows
                found[a :: self.outputs, b :: self.outputs] = block
                found[b :: self.outputs, a :: self.outputs] = block
        return found

    # What is open about slopes.
    def _opened(self, theta: Array, slope: Array) -> "Opened":
        """What is known about D, given the released curvature if there is one."""
        last = self.rounds[-1]
        level = float(np.mean(np.diag(slope)))
        variances = self._open * level**2
        factor = self.family.open_slope**2 + (self._scale_slope(last) * self.scale_error) ** 2
        if self.curvature is None:
            return Opened(np.zeros_like(slope), variances, slope, factor)
        matrix, noise = self.curvature
        seen = matrix - self._released_slope(theta, slope)
        noises = noise**2 * (0.5 + 0.5 * np.eye(self.size))
        if self.family.reads == "location" and level > _NEAR * float(np.mean(np.diag(matrix))):
            # Slopes of numbers are those of the columns. Entries that are so far from what declared shapes allow are
            # not theirs, such as those of a column that is 0 in nine of ten records: the curvature speaks alone there.
            # Not at coefficients at which nearly all residuals would be cut, where slopes are 0 whatever the columns.
            beyond = seen**2 > _BEYOND**2 * (variances + noises + factor * slope**2)
            variances = np.where(beyond, seen**2, variances)
        total, upper = variances + noises, np.triu_indices(self.size)
        precision = 1.0 / factor + np.sum((slope**2 / total)[upper])
        common = np.sum((slope * seen / total)[upper]) / precision
        gain = variances / total
        left = (1.0 - gain) * slope
        return Opened(gain * seen + common * left, gain * noises, left, 1.0 / precision)

    def _released_slope(self, theta: Array, slope: Array) -> Array:
        """What stand-in rows say of the slope that is released at the last point; `slope` is that of the mean there."""
        last = self.rounds[-1]
        if self.family.reads == "location":
            if self.error_share == 1.0:
                return slope
            law = self.family.law(self.scores(theta), self._prepared[id(last)], self.exposure, last.at)
            return self._spread(law.derivative, self.weights)
        if self._planned is None or self._planned[0] != len(self.rounds):
            found = self.family.released_slope(self._prepared[id(last)], self.exposure, last.at)
            self._planned = len(self.rounds), self._spread(found, self.weights)
        return self._planned[1]

    def _scale_slope(self, one: Round) -> float:
        """The relative change of the slope with the scale of residuals."""
        if self.family.reads != "location":
            return 0.0
        k = one.at.clip
        nothing = np.zeros((1, 1))
        inside = float(self.family.law(nothing, nothing, nothing, one.at).derivative[0, 0, 0])
        return 2.0 * k * float(np.exp(-0.5 * k * k)) / np.sqrt(2.0 * np.pi) / inside

    # Covariance of residuals.
    def _sampling(self, variance: Array, planned: Array, slope: Array) -> Array:
        """The covariance of one unit's gradient at the last point; `slope` is the table's, `planned` the stand-ins'."""
        model = self._spread(variance, self.weights**2 * len(self.rows))
        # What happens in a time bin has mean 0 given what happened before, so errors of a unit's bins are uncorrelated.
        model /= max(1, len(self.plan.declaration.time_bins))
        if self.curvature is not None:
            ratio = root(slope) @ np.linalg.inv(root(planned))
            model = ratio @ model @ ratio.T
        if self.likeness is not None:
            # Also for model covariance: that is one of a record, and does not say how alike several of a unit are.
            model = self.likeness.of_units(model)
        if self.meat is None or self.plan.covariance == "model":
            return model
        return (with_meat if self.likeness is None else with_meat_of_units)(model, *self.meat)

    def _together(self, variances: list[Array]) -> Array:
        """Sampling errors of all rounds relative to the last: how large, and how far they are one error.

        Rounds that cut residuals alike have one error. Where the cut has changed, errors with heavy tails are less than
        one by some share of the change.
        """
        sizes = np.sqrt([float(np.mean(one)) for one in variances])
        sizes /= sizes[-1]
        cuts = np.array([[np.log(one.at.scale), one.at.dispersion] for one in self.rounds])
        apart = np.abs(cuts[:, None] - cuts[None]).sum(axis=2) * (self.family.reads in ("location", "counts"))
        return np.outer(sizes, sizes) * np.maximum(1.0 - _UNLIKE * apart, 0.5)

    def _privacy(self, theta: Array, spread: Array, opened: "Opened", means: Array, slopes: list[Array]) -> Array:
        """What noise adds to the residuals of all rounds, itself and through what it leaves open about slopes.

        With a_j = t - t_j, the mean of a_j a_k' is M_jk = a_j a_k' + spread. For entries of D with variances V, D a_j
        and D a_k have the covariance V_ab M_jk[b, a] off the diagonal and the sum of V_ab M_jk[b, b] on it; and what
        their common factor adds.
        """
        rounds, size, places = len(self.rounds), self.size, np.arange(self.size)
        away = theta - np.array([one.point for one in self.rounds])
        moved = away @ opened.left.T
        found = (opened.variances[:, None, :] * away.T[:, :, None])[None] * away[:, None, None, :]
        found += opened.factor * moved[:, :, None, None] * moved[None, None]
        found += (opened.variances * spread.T + opened.factor * opened.left @ spread @ opened.left.T)[None, :, None, :]
        # The diagonal of every pair of rounds, which holds what the first line puts there.
        there = (away[:, None] * away[None] + np.diag(spread)) @ opened.variances.T
        own = np.diag(opened.variances) * (away[:, None] * away[None] + np.diag(spread))
        found[:, places, :, places] += (there - own).transpose(2, 0, 1)
        spread_out = self._dispersed(theta, means)
        if spread_out is not None:
            found += spread_out[:, :, None, None] * spread_out[None, None]
        for j, one in enumerate(self.rounds):
            bent = self._bent(theta, spread, one, means[j], slopes[j])
            found[j, :, j, :] += 0.7 * bent
            found[j, places, j, places] += one.noise**2 + 0.3 * np.trace(bent) / size
        return found.reshape(rounds * size, rounds * size)

    def _dispersed(self, theta: Array, means: Array) -> Array | None:
        """How far an error of the dispersion of counts moves the mean gradient of every round: one error for all.

        It depends little on the coefficients, and is computed again where they have moved.
        """
        if self.family.reads != "counts" or self.scale_error == 0.0:
            return None
        known = self._moved_by_dispersion
        if known is not None and len(known[1]) == len(means) and np.max(np.abs(theta - known[0])) < _MOVED:
            return known[1]
        last, scores, moved = self.rounds[-1].at, self.scores(theta), []
        for one, mean in zip(self.rounds, means, strict=True):
            at = one.at._replace(error=last.scale, spread=last.dispersion + self.scale_error)
            other = self.family.mean(scores, self._prepared[id(one)], self.exposure, at)
            moved.append((self._weighted.T @ other).ravel() - mean)
        self._moved_by_dispersion = theta, np.array(moved)
        return self._moved_by_dispersion[1]

    def _bent(self, theta: Array, spread: Array, one: Round, mean: Array, slope: Array) -> Array:
        """Squares of what the mean gradient bends away from its tangent, times the share of it that is not known."""
        away = theta - one.point
        bend = mean - self._tangents[id(one)] @ away
        found = BEND**2 * np.outer(bend, bend)
        if self.family.curved:
            far = min(1.0, float(away @ away + np.trace(spread)))
            found += (0.1 * float(np.mean(np.diag(slope)))) ** 2 * far * spread
        return found

    # Gaussian approximation.
    def centre(self, settled: float = _SETTLED) -> tuple[Array, Array]:
        """Mean and covariance of whitened coefficients, by steps of Gauss and Newton.

        They end where a step is less than so many deviations long, after the third at the earliest unless only the next
        point is asked for: gradients are right wherever they are taken.
        """
        inverse_square = 1.0 / self.prior.scale**2
        theta = self.rounds[-1].point.copy()
        covariance: Array = np.asarray(np.linalg.inv(self.prior.precision(inverse_square)[0]), np.float64)
        for step in range(_ROUNDS):
            local = self.local(theta, covariance)
            weighted = np.linalg.solve(local.sampling + local.privacy, local.slopes)
            known = weighted.T @ local.slopes
            right = weighted.T @ (local.residuals + local.slopes @ theta)
            if step:
                inverse_square = self.prior.inverse_square(theta, covariance)
            precision, pull = self.prior.precision(inverse_square)
            inverse = np.asarray(np.linalg.inv(known + precision), np.float64)
            covariance = (inverse + inverse.T) / 2.0
            move = covariance @ (right + pull) - theta
            length = float(np.linalg.norm(move))
            theta = theta + move * min(1.0, 3.0 / max(length, 1e-12)) * (1.0 if step < 4 else 0.7)
            if (step > 1 or settled > _SETTLED) and step and length < settled * np.sqrt(np.trace(covariance)):
                break
        return theta, covariance


def squares_in(matrix: Array, rows: Array) -> Array:
    """r'Mr for every row."""
    return np.einsum("ij,ij->i", rows @ matrix, rows)


class Opened(NamedTuple):
    """D: its mean, the variances of its entries, the direction of its common factor, and that factor's variance."""

    mean: Array
    variances: Array
    left: Array
    factor: float


class Local(NamedTuple):
    """Slopes and residuals of all rounds at a point, the mean of D, and both parts of the residuals' covariance."""

    slopes: Array
    residuals: Array
    opened: Array
    sampling: Array
    privacy: Array
