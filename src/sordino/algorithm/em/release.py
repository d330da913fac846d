"""What leaves private expectation maximisation: means, weights, noisy counts, and the spec that ran."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.em.options import EmOptions
from sordino.algorithm.posterior.factorised import FactorisedPosterior
from sordino.core.spec import Spec
from sordino.model.mixture import GaussianMixture

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class EmRelease:
    """A private mixture; `spec` is the very object that ran, and that is certified.

    `counts` are the noisy numbers of records of the components, limited to what is possible; `mean_noise` is the
    standard deviation, public, of the privacy noise on each sum of rows that the means were made of. `iterates` holds
    the means after every round where the view is all-iterates, and is None otherwise.
    """

    spec: Spec
    model: GaussianMixture
    options: EmOptions
    means: Values
    weights: Values
    counts: Values
    mean_noise: float
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("means", "weights", "counts", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> FactorisedPosterior:
        """Independent Gaussians around the means: the spread of each component's mean, and the privacy noise on it."""
        weight = self.counts + self.options.prior_precision * self.model.spread**2
        variance = self.model.spread**2 / weight + (self.mean_noise / weight) ** 2
        deviations = np.repeat(np.sqrt(variance), self.means.shape[1])
        shares = np.asarray(self.weights, np.float64)
        model = replace(self.model, weights=tuple((shares / shares.sum()).tolist()))
        return FactorisedPosterior(model, self.means.ravel(), deviations)
