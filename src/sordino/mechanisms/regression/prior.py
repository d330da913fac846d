"""The prior: the size of effects, and how rows are distributed given what is released about them.

*Effects.* Encoded coefficients of one column have a multivariate t law around 0: normal given a factor of its own for
each column, and the factor has an inverse gamma law. One degree of freedom (Cauchy) lets data overrule it: an effect of
five prior standard deviations that is known to one of them is drawn in by .4 standard deviations, where a normal prior
would halve it. All columns have one scale, the declared one or up to eight times that, which is read off the
coefficients: many large effects that are each drawn in a little would otherwise be drawn in together, as contrasts
with a level that has no events are. Intercepts are nearly free.

*Rows.* Nothing is estimated from such rows. Gradients and slopes are released; rows say how slopes change between two
points, relative to the released ones, and what slopes are drawn to where noise hides them. Their lengths are the
released ones, numbers point anywhere, and declared 0/1 columns have the released shares of ones.
"""

from copy import copy

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.mechanisms.regression.families import Family, class_shares, helmert
from sordino.mechanisms.regression.noised import Tail, power
from sordino.mechanisms.regression.rows import Frame, weigh

DEGREES = 1.0
# Half of a Cauchy law of this scale lies within .67 prior standard deviations, as half of a normal law does.
SCALE = 0.67
# The common scale in declared ones, by a half-Cauchy law (Gelman 2006): never below the declared scale.
SCALES = np.array([1.0, 2.0, 4.0, 8.0])
INTERCEPT = 10.0  # intercepts: so many prior standard deviations around the place of the target


class Effects:
    """The prior in whitened coordinates: coefficients t = (intercepts, slopes g), encoded slopes b = W g."""

    def __init__(self, whitening: Array, scale: float, middle: Array) -> None:
        self.outputs = len(middle)
        self.whitening, self.middle = whitening, np.zeros((1 + len(whitening)) * self.outputs)
        self.middle[: self.outputs] = middle
        self.variance = (SCALE * scale) ** 2 / (2.0 if self.outputs > 1 else 1.0)
        self.intercept = 1.0 / (INTERCEPT * scale) ** 2

    def squares(self, t: Array) -> Array:
        """Squared encoded slopes, all outputs of a column together: (..., columns)."""
        slopes = t[..., self.outputs :].reshape(*t.shape[:-1], -1, self.outputs)
        return np.sum((self.whitening @ slopes) ** 2, axis=-1)

    def precision(self, factors: Array) -> Array:
        """The precision of all coefficients where columns have these factors, (..., columns)."""
        k, columns = self.outputs, len(self.whitening)
        inner = self.whitening.T @ (self.whitening / (self.variance * factors)[..., None])
        found = np.zeros((*inner.shape[:-2], (1 + columns) * k, (1 + columns) * k))
        found[..., range(k), range(k)] = self.intercept
        for output in range(k):
            found[..., k + output :: k, k + output :: k] = inner
        return found

    def own_precision(self, factors: Array) -> Array:
        """The prior precision of each encoded coefficient by itself, the intercept first."""
        return np.append(self.intercept, 1.0 / (self.variance * factors))

    def likely_factors(self, t: Array, covariance: Array) -> Array:
        """The inverse of each factor's posterior mean precision, given the mean and covariance of coefficients."""
        k, squares = self.outputs, self.squares(t)
        for output in range(k):
            own = covariance[k + output :: k, k + output :: k]
            squares = squares + np.einsum("ij,jk,ik->i", self.whitening, own, self.whitening)
        squares = squares / self.variance
        precisions = (DEGREES + k) / (DEGREES * SCALES[:, None] ** 2 + squares)
        return 1.0 / (self.chances(squares) @ precisions)

    def chances(self, squares: Array) -> Array:
        """The posterior of the common scale, (..., scales), given squared slopes in units of the prior's variance."""
        k, scaled = self.outputs, squares[..., None, :] / SCALES[:, None] ** 2
        logs = np.log(SCALES / (1.0 + SCALES**2)) - k * squares.shape[-1] * np.log(SCALES)
        logs = logs - 0.5 * (DEGREES + k) * np.log1p(scaled / DEGREES).sum(axis=-1)
        found = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return found / found.sum(axis=-1, keepdims=True)

    def drawn_factors(self, t: Array, generator: np.random.Generator) -> Array:
        """Factors given coefficients, (..., columns): of the common scale first, and of each column given that."""
        squares = self.squares(t) / self.variance
        below = np.cumsum(self.chances(squares), axis=-1) < generator.random((*squares.shape[:-1], 1))
        scale = SCALES[np.minimum(below.sum(axis=-1), len(SCALES) - 1)][..., None] ** 2
        return (
            0.5 * (DEGREES * scale + squares) / generator.standard_gamma(0.5 * (DEGREES + self.outputs), squares.shape)
        )


# At least so many rows, and so many for each column: their second moments are made exact.
_ROWS, _ROWS_PER_COLUMN = 600, 8
_SEED = 20_369
_LARGEST = 20.0  # scores beyond this are those of no table; slopes there would be 0 in double precision
_RIDGE = 1e-3  # in units of a typical slope: no direction is flatter


class ModelRows:
    """Rows z with their weights; `curve` is a family's: "", "logit", "classes" or "log"."""

    def __init__(self, kind: Family, frame: Frame, lengths: Tail, reach: tuple[float, float], least: float) -> None:
        declaration, columns = kind.declaration, kind.declaration.columns
        generator = np.random.default_rng([_SEED, columns])
        half = max(_ROWS, _ROWS_PER_COLUMN * columns) // 2
        z = generator.standard_normal((half, columns))
        z = np.concatenate([z, -z])
        z = z @ power(z.T @ z / len(z), -0.5)
        inside, shares = lengths.inside, (generator.permutation(half) + 0.5) / half
        drawn = np.interp(shares * inside.sum(), np.cumsum(inside) - 0.5 * inside, lengths.middles)
        wanted = np.sqrt(np.maximum(np.tile(drawn, 2) ** 2 - 1.0, 0.1))
        z = z * (wanted / np.linalg.norm(z, axis=1))[:, None]
        x = frame.centre + z @ np.linalg.pinv(frame.whitening, rcond=1e-6)
        x[:, declaration.numbers] = np.clip(x[:, declaration.numbers], -1.0, 1.0)
        for places in declaration.sets:
            shares = np.clip(frame.centre[places], least, 1.0)
            shares = shares / max(1.0, float(shares.sum()) + least)
            # The rows in which the first column's latent value is largest have it, and so on: none has two of them.
            order = np.argsort(-x[:, places[0]], kind="stable")
            ends = np.rint(len(x) * np.cumsum(shares)).astype(int)
            x[:, places] = 0.0
            for place, first, stop in zip(places, [0, *ends[:-1]], ends, strict=True):
                x[order[first : max(stop, first + 1)], place] = 1.0
        self.curve = kind.curve
        self.z = np.column_stack([np.ones(len(x)), (x - frame.centre) @ frame.whitening])
        self.weights = weigh(np.linalg.norm(self.z, axis=1), *reach) / len(x)

    def counted(self, t: Array) -> "ModelRows":
        """The same rows, of two classes each counting as much as at the point t, see `families.Logistic`."""
        if self.curve != "logit":
            return self
        found = copy(self)
        found.weights = self.weights * (0.5 / special.expit(np.abs(self._scores(t)[:, 0])))
        return found

    def _scores(self, t: Array) -> Array:
        return np.clip(self.z @ t.reshape(self.z.shape[1], -1), -_LARGEST, _LARGEST)

    def _means(self, scores: Array) -> Array:
        """Mean targets at these scores, (rows, outputs)."""
        if self.curve == "classes":
            basis = helmert(scores.shape[1] + 1)
            return np.column_stack(class_shares(scores, basis)) @ basis
        return {"": np.asarray, "log": np.exp, "logit": special.expit}[self.curve](scores)

    def _variances(self, scores: Array) -> Array:
        """How means move with scores, (rows, outputs, outputs)."""
        means = self._means(scores)
        if self.curve == "classes":
            basis = helmert(scores.shape[1] + 1)
            squares = np.einsum("rc,ca,cb->rab", np.column_stack(class_shares(scores, basis)), basis, basis)
            return squares - means[:, :, None] * means[:, None, :]
        return {"": np.ones_like(means), "log": means, "logit": means * (1.0 - means)}[self.curve][:, :, None]

    def gradient(self, t: Array) -> Array:
        """The mean of w z times the mean of the target at coefficients t, up to a constant."""
        return ((self.z * self.weights[:, None]).T @ self._means(self._scores(t))).ravel()

    def slopes(self, t: Array) -> Array:
        """Its derivative."""
        inner = self._variances(self._scores(t))
        size, k = self.z.shape[1], inner.shape[1]
        found = np.empty((size, k, size, k))
        for a, b in np.ndindex(k, k):
            found[:, a, :, b] = (self.z * (self.weights * inner[:, a, b])[:, None]).T @ self.z
        found = found.reshape(t.size, t.size)
        return found + _RIDGE * float(np.mean(np.diag(found))) * np.eye(t.size)

    def bent(self, t: Array, direction: Array, places: Array) -> Array:
        """How far the mean gradient moves along a direction from t, over its slope at t, at some distances."""
        k = len(t) // self.z.shape[1]
        scores, along = self._scores(t), self.z @ direction.reshape(-1, k)

        def reached(far: Array) -> Array:
            there = np.clip(scores[:, None] + far[:, None] * along[:, None], -_LARGEST, _LARGEST)
            means = self._means(there.reshape(-1, k)).reshape(there.shape)
            return np.einsum("r,rk,rpk->p", self.weights, along, means)

        found, steps = reached(places), places[[0, -1]] * 1e-3
        slope = max(float(np.diff(reached(steps))[0] / (steps[1] - steps[0])), 1e-300)
        return (found - found[int(np.argmin(np.abs(places)))]) / slope

    def moved(self, a: Array, b: Array) -> tuple[Array, Array]:
        """How far a mean gradient moves from a to b, over its slope at a; and its slope at b, over the same."""
        if not self.curve:
            return b - a, np.eye(len(a))
        slopes = self.slopes(a)
        way = np.linalg.solve(slopes, self.gradient(b) - self.gradient(a))
        return np.asarray(way, np.float64), np.asarray(np.linalg.solve(slopes, self.slopes(b)), np.float64)
