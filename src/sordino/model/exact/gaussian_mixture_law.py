"""A finite mixture of Gaussian laws: a chain whose order of records is random."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.errors import InputError
from sordino.model.exact.gaussian_law import GaussianLaw, checked_covariance
from sordino.model.exact.line_family import NORMAL
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.log_sum import log_sum
from sordino.model.exact.read_only import Array, probabilities, read_only


@dataclass(frozen=True, eq=False)
class GaussianMixtureLaw:
    """Component j is N(means[j], covariances[j]), with probability weights[j]."""

    weights: Array
    means: Array
    covariances: Array

    def __post_init__(self) -> None:
        weights = probabilities("weights", self.weights)
        means = read_only("means", self.means, (len(weights), None))
        shape = (len(weights), means.shape[1], means.shape[1])
        covariances = checked_covariance(read_only("covariances", self.covariances, shape))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)

    @classmethod
    def of(cls, law: GaussianLaw) -> "GaussianMixtureLaw":
        """A Gaussian law as a mixture of one."""
        return cls(np.ones(1), law.mean[None], law.covariance[None])

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.means.shape[1]

    @property
    def mean(self) -> Array:
        """The mean of the mixture."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        """The covariance of the mixture."""
        spread = self.means - self.mean
        within = np.einsum("j,jab->ab", self.weights, self.covariances)
        return within + np.einsum("j,ja,jb->ab", self.weights, spread, spread)

    def component(self, index: int) -> GaussianLaw:
        """One component."""
        return GaussianLaw(self.means[index], self.covariances[index])

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws, one a row."""
        counts = generator.multinomial(size, self.weights)
        parts = [self.component(j).sample(generator, int(counts[j])) for j in range(len(counts)) if counts[j]]
        return generator.permutation(np.concatenate(parts), axis=0)

    def log_density(self, points: ArrayLike) -> Array:
        """Log density at points of shape (..., dim)."""
        logs = np.stack([self.component(j).log_density(points) for j in range(len(self.weights))])
        used = self.weights > 0
        return log_sum((logs[used].T + np.log(self.weights[used])).T, axis=0)

    def density(self, points: ArrayLike) -> Array:
        """Density at points of shape (..., dim)."""
        return np.exp(self.log_density(points))

    def cdf(self, values: ArrayLike) -> Array:
        """P(theta <= value) for a law on the line."""
        return self.line().cdf(values)

    def line(self) -> LineMixture:
        """The same law as a mixture on the line."""
        if self.dim != 1:
            raise InputError(f"Expected a law on the line, got one with {self.dim} coordinates.")
        return LineMixture(NORMAL, self.weights, self.means[:, 0], np.sqrt(self.covariances[:, 0, 0]))
