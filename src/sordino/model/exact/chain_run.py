"""What every exact law of a chain needs: the checked algorithm, its schedules, its start and its batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.errors import InputError
from sordino.core.spec import GaussianStart, NoisyGradient, PointStart, Spec
from sordino.core.validate import instance_of
from sordino.model.exact import batch_patterns
from sordino.model.exact.batch_patterns import Stage
from sordino.model.exact.quadratic import Quadratics
from sordino.model.exact.read_only import Array


@dataclass(frozen=True, eq=False)
class ChainRun:
    """A chain on quadratics, ready to be followed step by step."""

    chain: NoisyGradient
    data: Quadratics
    divisor: int
    step_sizes: Array
    noise_scales: Array
    start_mean: Array
    start_scale: float

    @classmethod
    def of(cls, spec: Spec, data: Quadratics) -> "ChainRun":
        """Read a spec; projection and clipping are refused because the law would no longer be known."""
        chain: NoisyGradient = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        if chain.projection is not None or chain.clipping is not None:
            raise InputError("Expected a chain without projection and clipping, got one whose law is not known.")
        if spec.dim != data.dim:
            raise InputError(f"Expected data with problem.dim = {spec.dim} parameters, got {data.dim}.")
        scale = chain.start.scale if isinstance(chain.start, GaussianStart) else 0.0
        values = chain.start.values if isinstance(chain.start, PointStart) else None
        return cls(
            chain,
            data,
            chain.divisor(spec.n),
            chain.step_size.values(chain.steps),
            chain.noise.scale.values(chain.steps),
            np.zeros(data.dim) if values is None else np.array(values),
            scale,
        )

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same size and noise."""
        return self.chain.step_size.is_constant and self.chain.noise.scale.is_constant

    def stages(self, n: int, batches: Sequence[ArrayLike] | None) -> tuple[Stage, ...]:
        """All patterns of batches, or the given one."""
        if batches is None:
            return batch_patterns.patterns(self.chain, n, self.data)
        if len(batches) != self.chain.steps:
            raise InputError(f"Expected one batch per step, {self.chain.steps} in all, got {len(batches)}.")
        return batch_patterns.listed(batches, self.data)

    def maps(self, stage: Stage, position: int, step: int) -> tuple[Array, Array]:
        """Matrix and offset of step number `step`, the stage's `position`-th, one for each alternative."""
        curvature, pull = self.data.drift(stage.counts[:, position % stage.counts.shape[1]], self.divisor)
        size = self.step_sizes[step]
        return np.eye(self.data.dim) - size * curvature, size * pull
