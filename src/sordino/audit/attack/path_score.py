"""The likelihood ratio of a whole path on the extremal quadratic, step by step."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack.fitting import Releases
from sordino.audit.attack.scores import Score, ScoreFunction, Scores

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PathScore(Score):
    """Kept paths theta_k = decay_k theta_{k-1} + pull_k [used at k] + scale_k noise, seen along the first axis.

    The record is used at step k with probability `uses`, independently; for passes in random order, where uses are not
    independent, it is still a score, if not the best one.

    Attributes:
        chains: how many chains a release holds.
        dim: coordinates of an iterate.
        start: first coordinate of the start.
        decay: 1 - eta_k m, one for each step.
        pulls: by how much a use moves the iterate, on the first and on the second dataset, shape (2, steps).
        scale: noise scale of each step.
        uses: probability that a step uses the record.
    """

    learns: ClassVar[bool] = False
    chains: int
    dim: int
    start: float
    decay: Array
    pulls: Array
    scale: Array
    uses: Array

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return self._ratio

    def _ratio(self, releases: Releases) -> Scores:
        path = np.asarray(releases, float).reshape(len(releases), self.chains, len(self.decay), self.dim)[..., 0]
        before = np.concatenate([np.full_like(path[..., :1], self.start), path[..., :-1]], axis=-1)
        moved = path - self.decay * before
        ratios = [self._log_mixture(moved, pull) for pull in self.pulls]
        return (ratios[1] - ratios[0]).sum(axis=(1, 2))

    def _log_mixture(self, moved: Array, pull: Array) -> Array:
        exponent = (moved * pull - 0.5 * pull**2) / self.scale**2
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log1p(-self.uses), np.log(self.uses) + exponent)
