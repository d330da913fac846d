"""What all released sums say together about the coefficients, noise included.

Model. Write t for the coefficients of whitened rows, g_k for the noised mean gradient at the point t_k, and n for the
number of units. For rows of the declared shapes (`readings.stand_in_rows`) the mean of a gradient is a known function
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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.influence.families import At
from sordino.algorithm.influence.plan import Plan
from sordino.algorithm.influence.readings import Centre, Whitened, positive_mean

Array = NDArray[np.float64]
# How far a table's slopes are from those of declared shapes, relative to the mean slope: entries of the matrix (half
# that variance off the diagonal), those of intercept and column, of the intercept, and the common factor.
ENTRY, INTERCEPT_COLUMN, INTERCEPT, COMMON = 0.10, 0.12, 0.08, 0.10
# The error of what the mean gradient bends away from its tangent at the last point.
BEND = 0.3
# A meat's entries are within this share of the model's, before it is seen.
MEAT = 0.4
# Common scales of effects around the declared one, and their weights.
EFFECT_SCALES = np.array([0.5, 0.85, 1.0, 1.18, 1.8, 3.0])
EFFECT_WEIGHTS = np.array([0.04, 0.20, 0.46, 0.20, 0.06, 0.04])
INTERCEPT_SCALE = 1.2
_ROUNDS = 14


class Round(NamedTuple):
    """A point, the noised mean gradient there, the deviation of its noise, and what is public about the round."""

    point: Array
    gradient: Array
    noise: float
    at: At


class Parts(NamedTuple):
    """Residual covariance of all rounds in two parts that add up."""

    sampling: Array
    privacy: Array


class Evidence:
    """Released sums of one fit, in whitened coordinates; answers with a Gaussian approximation or with draws."""

    def __init__(self, plan: Plan, centre: Centre, whitened: Whitened) -> None:
        self.plan, self.family, self.units = plan, plan.kind, plan.records
        self.outputs, self.size = plan.outputs, plan.coefficients
        self.rows = np.column_stack([np.ones(len(whitened.rows)), whitened.rows])
        self.weights = np.minimum(1.0, plan.tau**2 / np.sum(self.rows**2, axis=1)) / len(self.rows)
        self.exposure = stand_in_exposure(plan, len(self.rows))
        one = np.zeros((self.size // self.outputs,) * 2)
        one[0, 0] = 1.0
        one[0, 1:], one[1:, 1:] = -centre.values @ whitened.matrix, whitened.matrix
        self.to_encoded = np.kron(one, np.eye(self.outputs))
        self._open = self._open_slopes(whitened)
        self.rounds: list[Round] = []
        self.scale_error = 0.0
        self.curvature: tuple[Array, float] | None = None
        self.meat: tuple[Array, float] | None = None
        prior = np.ones(self.size // self.outputs)
        prior[0] = INTERCEPT_SCALE
        self.prior_root = np.repeat(1.0 / prior, self.outputs)[:, None] * self.to_encoded
        self.effect = plan.kind.effect_scale(plan.declaration)

    def _open_slopes(self, whitened: Whitened) -> Array:
        """Variances of entries of D, relative to the square of the mean slope."""
        width = self.size // self.outputs
        halves = np.full((width, width), 0.5) + 0.5 * np.eye(width)
        found = ENTRY**2 * halves
        mean = np.minimum(whitened.mean_variance, 1.0)
        found[1:, 1:] += np.minimum(0.5 * whitened.open_variance + halves[1:, 1:] * np.outer(mean, mean), 0.3)
        found[0, 1:] = INTERCEPT_COLUMN**2 + mean
        found[1:, 0] = found[0, 1:]
        found[0, 0] = INTERCEPT**2
        return np.kron(found, np.ones((self.outputs, self.outputs)))

    def add(self, one: Round, scale_error: float) -> None:
        """One more round."""
        self.rounds.append(one)
        self.scale_error = scale_error

    def add_curvature(self, matrix: Array, noise: float) -> None:
        """The noised mean slope at the last point."""
        self.curvature = matrix, noise

    def add_meat(self, matrix: Array, noise: float) -> None:
        """The noised mean of squared gradients at the last point."""
        self.meat = matrix, noise

    # ------------------------------------------------------------------------------------------ rows of declared shapes
    def scores(self, theta: Array) -> Array:
        """Of the stand-in rows: (rows, outputs), or (draws, rows, outputs) for several coefficients."""
        return self.rows @ theta.reshape(*theta.shape[:-1], -1, self.outputs)

    def mean(self, theta: Array, one: Round) -> Array:
        """The mean gradient m_k at coefficients (size,) or (draws, size)."""
        psi = self.family.mean(self.scores(theta), self.scores(one.point), self.exposure, one.at)
        found = np.matmul((self.rows * self.weights[:, None]).T, psi)
        return found.reshape(*theta.shape[:-1], self.size)

    def slope(self, theta: Array, one: Round) -> Array:
        """The derivative of the mean gradient."""
        return self._spread(
            self.family.derivative(self.scores(theta), self.scores(one.point), self.exposure, one.at), self.weights
        )

    def _spread(self, blocks: Array, weights: Array) -> Array:
        """The mean of w z z' x block over stand-in rows."""
        if self.outputs == 1:
            return (self.rows * (weights * blocks[:, 0, 0])[:, None]).T @ self.rows
        found = np.einsum("ia,ibc,id->abdc", self.rows * weights[:, None], blocks, self.rows, optimize=True)
        return found.reshape(self.size, self.size)

    # ------------------------------------------------------------------------------------------ what is open about slopes
    def _opened(self, theta: Array) -> tuple[Array, Array, Array, float]:
        """Mean and variances of D, the direction of its common factor, and that factor's variance."""
        last = self.rounds[-1]
        slope = self.slope(theta, last)
        level = float(np.mean(np.diag(slope)))
        variances = self._open * level**2
        factor = COMMON**2 + (self._scale_slope(last) * self.scale_error) ** 2
        if self.curvature is None:
            return np.zeros_like(slope), variances, slope, factor
        matrix, noise = self.curvature
        seen = matrix - self._spread(
            self.family.released_slope(self.scores(theta), self.scores(last.point), self.exposure, last.at),
            self.weights,
        )
        noises = noise**2 * (0.5 + 0.5 * np.eye(self.size))
        total, upper = variances + noises, np.triu_indices(self.size)
        precision = 1.0 / factor + np.sum((slope**2 / total)[upper])
        common = np.sum((slope * seen / total)[upper]) / precision
        gain = variances / total
        left = (1.0 - gain) * slope
        return gain * seen + common * left, gain * noises, left, 1.0 / precision

    def _scale_slope(self, one: Round) -> float:
        """The relative change of the slope with the scale of residuals."""
        if self.family.reads != "location":
            return 0.0
        k = one.at.clip
        nothing = np.zeros((1, 1))
        inside = float(self.family.derivative(nothing, nothing, nothing, one.at)[0, 0, 0])
        return 2.0 * k * float(np.exp(-0.5 * k * k)) / np.sqrt(2.0 * np.pi) / inside

    # ------------------------------------------------------------------------------------------ covariance of residuals
    def sampling(self, theta: Array, slope: Array) -> Array:
        """The covariance of one unit's gradient at the last point."""
        last = self.rounds[-1]
        at_truth = self.scores(theta)
        model = self._spread(
            self.family.variance(at_truth, self.scores(last.point), self.exposure, last.at),
            self.weights**2 * len(self.rows),
        )
        if self.curvature is not None:
            ratio = _root(slope) @ np.linalg.inv(_root(self.slope(theta, last)))
            model = ratio @ model @ ratio.T
        if self.meat is None or self.plan.covariance == "model":
            return model
        matrix, noise = self.meat
        halves = 0.5 + 0.5 * np.eye(self.size)
        level = float(np.mean(np.diag(model)))
        gain = (MEAT * level) ** 2 / ((MEAT * level) ** 2 + noise**2) * np.ones_like(halves)
        return _positive(model + gain * (matrix - model), 0.1 * level)

    def residual_parts(self, theta: Array, spread: Array, opened: tuple[Array, Array, Array, float]) -> Parts:
        """The covariance of all residuals, for coefficients with this mean and covariance."""
        mean, variances, left, factor = opened
        rounds, size = len(self.rounds), self.size
        slope = self.slope(theta, self.rounds[-1]) + mean
        sampling = self.sampling(theta, _positive(slope, 0.1 * float(np.mean(np.diag(slope))))) / self.units
        privacy = np.zeros((rounds, size, rounds, size))
        diagonal = np.arange(size)
        for j, one in enumerate(self.rounds):
            for k, other in enumerate(self.rounds):
                second = np.outer(theta - one.point, theta - other.point) + spread
                block = variances * second.T
                block[diagonal, diagonal] = variances @ np.diag(second)
                block += factor * left @ second @ left.T
                if j == k:
                    block[diagonal, diagonal] += one.noise**2
                    bent = self._bent(theta, spread, one)
                    block += 0.7 * bent
                    block[diagonal, diagonal] += 0.3 * np.trace(bent) / size
                privacy[j, :, k, :] = block
        return Parts(np.tile(sampling, (rounds, rounds)), privacy.reshape(rounds * size, rounds * size))

    def _bent(self, theta: Array, spread: Array, one: Round) -> Array:
        """Squares of what the mean gradient bends away from its tangent, times the share of it that is not known."""
        away = theta - one.point
        tangent = self.slope(one.point, one) @ away
        bend = self.mean(theta, one) - tangent
        slope = float(np.mean(np.diag(self.slope(theta, one))))
        if self.family.curved:
            far = min(1.0, float(away @ away + np.trace(spread)))
            return BEND**2 * np.outer(bend, bend) + (0.1 * slope) ** 2 * far * spread
        return BEND**2 * np.outer(bend, bend)

    def residuals(self, theta: Array, mean: Array) -> Array:
        """Of all rounds, for coefficients (draws, size)."""
        return np.concatenate(
            [one.gradient - self.mean(theta, one) - (theta - one.point) @ mean for one in self.rounds], axis=-1
        )

    # ------------------------------------------------------------------------------------------ Gaussian approximation
    def prior_precision(self) -> Array:
        """Of whitened coefficients, for effects of scale 1."""
        return self.prior_root.T @ self.prior_root

    def effect_weights(self, theta: Array, covariance: Array) -> Array:
        """Weights of the common scales of effects, for coefficients with this mean and covariance."""
        scales, precision = self.effect * EFFECT_SCALES, self.prior_precision()
        length = theta @ precision @ theta + np.trace(precision @ covariance)
        logs = np.log(EFFECT_WEIGHTS) - 0.5 * length / scales**2 - self.size * np.log(scales)
        found = np.exp(logs - logs.max())
        return found / found.sum()

    def centre(self) -> tuple[Array, Array]:
        """Mean and covariance of whitened coefficients, by steps of Gauss and Newton."""
        precision = self.prior_precision()
        inverse_square = 1.0 / self.effect**2
        theta = self.rounds[-1].point.copy()
        covariance = np.linalg.inv(precision * inverse_square)
        for step in range(_ROUNDS):
            opened = self._opened(theta)
            parts = self.residual_parts(theta, covariance, opened)
            slopes = np.concatenate([self.slope(theta, one) + opened[0] for one in self.rounds])
            weighted = np.linalg.solve(parts.sampling + parts.privacy, slopes)
            known = weighted.T @ slopes
            right = weighted.T @ (self.residuals(theta[None], opened[0])[0] + slopes @ theta)
            if step:
                weights = self.effect_weights(theta, covariance)
                inverse_square = float(np.sum(weights / (self.effect * EFFECT_SCALES) ** 2))
            covariance = np.linalg.inv(known + inverse_square * precision)
            covariance = (covariance + covariance.T) / 2.0
            move = covariance @ right - theta
            length = float(np.linalg.norm(move))
            theta = theta + move * min(1.0, 3.0 / max(length, 1e-12)) * (1.0 if step < 4 else 0.7)
            if step > 2 and length < 1e-4 * np.sqrt(np.trace(covariance)):
                break
        return theta, covariance


def stand_in_exposure(plan: Plan, rows: int) -> Array:
    """Exposures of stand-in rows: even over the logarithm of the declared range."""
    if plan.declaration.exposure is None:
        return np.ones((rows, 1))
    low, high = np.log(plan.declaration.exposure)
    even = (np.random.default_rng(18_002).permutation(rows) + 0.5) / rows
    return np.exp(low + (high - low) * even)[:, None]


def _root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 1e-12 * max(values[-1], 1e-12)))) @ vectors.T


def _positive(matrix: Array, least: float) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return (vectors * np.maximum(values, least)) @ vectors.T


__all__ = ["Evidence", "Parts", "Round", "positive_mean", "stand_in_exposure"]
