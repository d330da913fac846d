"""Run it: scale by public bounds, sum, add noise once, and fit.

In the words of a spec this is message passing with Gaussian sites, all records, one round and no memory: the sum of all
messages is the sum of all stacks, so the theorems of message passing certify it. Sums and noise are exact (see
`exact_noise`): what is released is what is certified, rounded to a grid.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise import ExactGaussians, noised_sums
from sordino.algorithm.exact_noise.record_sums import PRODUCT_EXPONENT
from sordino.algorithm.posterior.dense_gaussian import DenseGaussianPosterior
from sordino.algorithm.randomness import Randomness
from sordino.algorithm.records import checked_rows
from sordino.algorithm.sufficient_statistics.noise_aware import Fitted, NoisedSums, fit
from sordino.algorithm.sufficient_statistics.stack import StatisticsStack
from sordino.core.relation import Relation
from sordino.core.spec import MessagePassing, Sampling, Spec
from sordino.core.validate import POSITIVE, instance_of, number, refuse
from sordino.core.view import View
from sordino.model.gaussian_linear import GaussianLinear

Array = NDArray[np.float64]
_HAIR = 2.0**-50


@dataclass(frozen=True)
class StatisticsOptions:
    """Public bounds and choices.

    Attributes:
        row_norm: rows are scaled by this length, and shortened to it.
        target_bound: targets are scaled by this number, and cut to it.
        prior_precision: of the coefficients of scaled rows and targets, around 0.
        least_variance: residual variance of scaled targets is at least this.
        stack: how the sums are weighed against one another.
    """

    row_norm: float
    target_bound: float
    prior_precision: float = 1.0
    least_variance: float = 1e-4
    stack: StatisticsStack = field(default_factory=StatisticsStack)

    def __post_init__(self) -> None:
        for name in ("row_norm", "target_bound", "prior_precision", "least_variance"):
            object.__setattr__(self, name, number(name, getattr(self, name), POSITIVE))
        instance_of("stack", self.stack, StatisticsStack)


def statistics_spec(
    records: int, noise_multiplier: float, relation: Relation, options: StatisticsOptions, delta: float | None = None
) -> Spec:
    """The run in words: one full round whose noise is `noise_multiplier` times the sums' sensitivity."""
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "message-passing",
                "records": records,
                "steps": 1,
                "sampling": Sampling.FULL.value,
                "clip": options.stack.length,
                "noise_multiplier": noise_multiplier,
                "damping": float(records),
            },
            "relation": relation.value,
            "view": View.POSTERIOR_PARAMETERS.value,
            "delta": delta,
        }
    )


@dataclass(frozen=True, eq=False)
class StatisticsRelease:
    """The noised sums; everything else is computed from them and from public numbers."""

    spec: Spec
    options: StatisticsOptions
    features: int
    statistics: Array

    def __post_init__(self) -> None:
        own = np.array(self.statistics, np.float64)
        own.setflags(write=False)
        object.__setattr__(self, "statistics", own)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on every entry of the stack."""
        algorithm = instance_of("spec.algorithm", self.spec.algorithm, MessagePassing)
        return float(algorithm.noise_multiplier.values(1)[0]) * self.options.stack.sensitivity(self.spec.relation)

    @property
    def fitted(self) -> Fitted:
        """The posterior in scaled units."""
        algorithm = instance_of("spec.algorithm", self.spec.algorithm, MessagePassing)
        stack = self.options.stack
        gram, cross, square = stack.parts(self.statistics, self.features)
        sums = NoisedSums(
            gram, cross, square, self.noise, self.noise / stack.cross, algorithm.records, self.noise / stack.square
        )
        return fit(sums, self.options.prior_precision, self.options.least_variance)

    @property
    def posterior(self) -> DenseGaussianPosterior:
        """The posterior in the units of the rows and targets that were given."""
        found, scale = self.fitted, self.options.target_bound / self.options.row_norm
        model = GaussianLinear(noise_precision=1.0 / (found.residual_variance * self.options.target_bound**2))
        return DenseGaussianPosterior(model, scale * found.mean, scale * scale * found.covariance)


def run_statistics(
    spec: Spec, features: Any, target: Any, randomness: Randomness, *, options: StatisticsOptions
) -> StatisticsRelease:
    """Release the noised sums of a described run."""
    algorithm = instance_of("spec.algorithm", spec.algorithm, MessagePassing)
    instance_of("randomness", randomness, Randomness)
    if algorithm.sampling is not Sampling.FULL or algorithm.steps != 1:
        raise refuse("algorithm", "to be one round over all records", f"{algorithm.steps} of {algorithm.sampling}")
    if algorithm.clip < options.stack.length:
        raise refuse("algorithm.clip", f"to be at least the stack's length {options.stack.length:.6g}", algorithm.clip)
    X, y = checked_rows(features, target, np.float64)
    if spec.relation is Relation.REPLACE_ONE and len(X) != algorithm.records:
        raise refuse("the number of rows", f"to be algorithm.records = {algorithm.records} under replace-one", len(X))
    stack, width = options.stack, X.shape[1]
    sums = stack.sums(np.asarray(X, np.float64) / options.row_norm, np.asarray(y, np.float64) / options.target_bound)
    silent = StatisticsRelease(spec, options, width, np.zeros(len(sums)))
    weights = stack.weights(width)
    # Sums are noised before they are weighed, because weighing would round them; a hair more noise makes up for it.
    scales = silent.noise / weights * (1.0 + _HAIR)
    noise = ExactGaussians.of(randomness, len(sums))
    return StatisticsRelease(spec, options, width, weights * noised_sums(sums, PRODUCT_EXPONENT, scales, noise))
