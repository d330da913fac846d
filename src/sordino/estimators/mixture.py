"""A private mixture of Gaussians."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import instance_of
from sordino.estimators.base import PrivateEstimator
from sordino.fitting.tasks import Task, mixture_settings
from sordino.models.families.mixture import GaussianMixture


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianMixture(PrivateEstimator):
    """Private mixture of `components` Gaussians of a public `spread`, in units of the scaled columns.

    Method: "em". After `fit`: `means_` in encoded units, `weights_`, `posterior_` of the means with the privacy noise
    in it; on drawn tables its 95 % intervals held the true means in 87 to 95 % of cases. The other parameters are those
    of `PrivateEstimator`.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateGaussianMixture
        >>> generator = np.random.default_rng(0)
        >>> X = np.concatenate([generator.normal(place, 0.1, (2500, 2)) for place in (-0.5, 0.5)])
        >>> model = PrivateGaussianMixture(
        ...     epsilon=1.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1),
        ...     components=2,
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> np.sort(model.fit(X).means_[:, 0]).round(1).tolist()
        [-0.5, 0.5]
        >>> one, other = model.predict([[-0.5, -0.5], [0.5, 0.5]])
        >>> bool(one != other)
        True
    """

    _task: ClassVar[Task] = Task.MIXTURE

    components: int = 2
    spread: float = 0.25

    def predict_proba(self, X: Any) -> Array:
        """The probability of each component, at the posterior's mean."""
        densities = self._log_densities(X)
        return special.softmax(densities, axis=1)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most probable component of each row."""
        return np.argmax(self._log_densities(X), axis=1)

    def score_samples(self, X: Any) -> Array:
        """The log-density of each encoded row."""
        return np.logaddexp.reduce(self._log_densities(X), axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-density; reading private rows, it is NON-PRIVATE."""
        del y
        return float(np.mean(self.score_samples(X)))

    def _log_densities(self, X: Any) -> Array:
        encoded = self._encode(X)
        return self._predictor.component_log_densities(encoded)

    def _finish(self) -> None:
        model = instance_of("model", self._predictor.model, GaussianMixture)
        self.weights_ = np.array(model.weights)
        self.means_ = self._predictor.posterior.mean.reshape(len(model.weights), -1)

    def _settings(self) -> dict[str, Any]:
        return mixture_settings(self.components, self.spread)
