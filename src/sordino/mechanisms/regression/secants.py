"""Slopes from gradients at several points: they differ by slopes times the way between the points.

With the mean gradient c and slopes S at the last point, round k says g_k = c - S d_k + noise, d_k the way from the last
point to its own. Differences with the last round do not depend on c. S has a prior: entries around the read matrix,
independent, with the variances that are open. Differences condition it (Matheron's rule: a draw of the prior moves by
the gain times what its own noised differences miss), and given S the c of least error weighs rounds by their variances.
"""

from dataclasses import dataclass

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.regression.noised import inverse_of


@dataclass(frozen=True, eq=False)
class Secants:
    """Gradients (rounds, coefficients), the variances of their noise, and ways d; the last way is 0."""

    gradients: Array
    variances: Array
    ways: Array
    open: Array

    @property
    def weights(self) -> Array:
        """Of the rounds in the mean gradient."""
        found = 1.0 / self.variances
        return found / found.sum()

    def condition(self, slopes: Array, generator: np.random.Generator | None = None) -> Array:
        """Slopes, (..., p, p), moved by what differences say; with a generator they are draws and stay draws."""
        ways, size, rounds = self.ways[:-1], len(self.open), len(self.ways) - 1
        if not rounds:
            return slopes
        seen = self.gradients[:-1] - self.gradients[-1]
        flat = self.open - np.diag(np.diag(self.open))
        noise = np.diag(self.variances[:-1]) + self.variances[-1]
        # The covariance of differences: entry (i, j) of S is in component i by d_j and in component j by d_i.
        both = np.einsum("ij,kj,li->kilj", flat, ways, ways)
        own = np.einsum("im,km,lm->ikl", self.open, ways, ways) + noise
        for i in range(size):
            both[:, i, :, i] += own[i]
        predicted = -np.einsum("...ij,kj->...ki", slopes, ways)
        if generator is not None:
            errors = generator.standard_normal((*predicted.shape[:-2], rounds + 1, size))
            errors = errors * np.sqrt(self.variances)[:, None]
            predicted = predicted + errors[..., :-1, :] - errors[..., -1:, :]
        missed = (seen - predicted).reshape(*predicted.shape[:-2], -1)
        gain = (missed @ inverse_of(both.reshape(rounds * size, -1))).reshape(predicted.shape)
        turned = -np.einsum("...ki,kj->...ij", gain, ways)
        return slopes + flat * (turned + np.swapaxes(turned, -1, -2)) + np.diag(np.diag(self.open)) * turned
