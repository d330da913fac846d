"""Finite mixtures of one family on the line, with tails that keep their relative accuracy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.errors import InputError
from sordino.model.exact.line_family import LineFamily
from sordino.model.exact.log_sum import log_sum
from sordino.model.exact.read_only import Array, probabilities, read_only

_CHUNK = 1 << 20  # point-component pairs at a time


@dataclass(frozen=True, eq=False)
class LineMixture:
    """Component j is locations[j] + scales[j] * X, X of the family, with probability weights[j]."""

    family: LineFamily
    weights: Array
    locations: Array
    scales: Array

    def __post_init__(self) -> None:
        weights = probabilities("weights", self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "locations", read_only("locations", self.locations, (len(weights),)))
        object.__setattr__(self, "scales", read_only("scales", self.scales, (len(weights),)))
        if self.scales.min() <= 0:
            raise InputError(f"Expected scales to be positive, got {self.scales.min()!r}.")

    def log_density(self, points: ArrayLike) -> Array:
        """Log density."""
        return self._over_points(points, self._log_density)

    def density(self, points: ArrayLike) -> Array:
        """Density."""
        return np.exp(self.log_density(points))

    def cdf(self, points: ArrayLike) -> Array:
        """P(X <= point), accurate in the left tail."""
        return self._over_points(points, lambda at: self._tails(at, -1.0))

    def above(self, points: ArrayLike) -> Array:
        """P(X > point), accurate in the right tail."""
        return self._over_points(points, lambda at: self._tails(at, 1.0))

    def mass(self, left: Array, right: Array) -> Array:
        """P(left < X <= right), each from the tail that is nearer."""
        middle = float(np.median(self.locations))
        from_right = left >= middle
        by_tail = self.above(left) - self.above(right)
        return np.where(from_right, by_tail, self.cdf(right) - self.cdf(left))

    def curvature(self, left: Array, right: Array) -> Array:
        """An upper bound on |density''| over each interval."""

        def bound(ends: Array) -> Array:
            gaps = np.maximum(ends[0][:, None] - self.locations, self.locations - ends[1][:, None])
            local = self.family.curvature(np.maximum(gaps, 0.0) / self.scales)
            return local @ (self.weights / self.scales**3)

        size = max(1, _CHUNK // len(self.weights))
        parts = [bound(np.stack([left[i : i + size], right[i : i + size]])) for i in range(0, len(left), size)]
        return np.concatenate(parts) if parts else np.empty(0)

    def line(self) -> "LineMixture":
        """Itself."""
        return self

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        chosen = generator.choice(len(self.weights), size=size, p=self.weights)
        return self.locations[chosen] + self.scales[chosen] * self.family.sample(generator, size)

    def _log_density(self, points: Array) -> Array:
        standard = (points[:, None] - self.locations) / self.scales
        logs = self.family.log_density(standard) - np.log(self.scales)
        return log_sum(logs + np.log(np.maximum(self.weights, 1e-320)))

    def _tails(self, points: Array, sign: float) -> Array:
        return self.family.above(sign * (points[:, None] - self.locations) / self.scales) @ self.weights

    def _over_points(self, points: ArrayLike, evaluate: Callable[[Array], Array]) -> Array:
        at = np.asarray(points, float)
        flat = at.reshape(-1)
        size = max(1, _CHUNK // len(self.weights))
        parts = [evaluate(flat[i : i + size]) for i in range(0, len(flat), size)]
        return (np.concatenate(parts) if parts else np.empty(0)).reshape(at.shape)
