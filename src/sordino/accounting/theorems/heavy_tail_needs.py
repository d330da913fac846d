"""What both heavy-tail theorems read off a run: its noise as a stable law, and where it starts."""

import math

from sordino.accounting.stable import gaussian_moment
from sordino.core.rounding import up
from sordino.core.spec import GaussianStart, NoisyGradient, PointStart, StableNoise

NOISES = frozenset({"gaussian", "stable"})


def tail_index(chain: NoisyGradient) -> float:
    """alpha; Gaussian noise is the stable law of index 2."""
    return chain.noise.alpha if isinstance(chain.noise, StableNoise) else 2.0


def stable_unit(chain: NoisyGradient) -> float:
    """The scale of the stable law per unit of the chain's noise scale: N(0, tau^2) has index 2, scale tau / sqrt(2)."""
    return 1.0 if isinstance(chain.noise, StableNoise) else math.sqrt(0.5)


def start_moment(chain: NoisyGradient, dim: int, power: float) -> float:
    """(E |theta_0|^p)^(1/p), rounded up."""
    start = chain.start
    if isinstance(start, GaussianStart):
        return start.scale * gaussian_moment(power, dim) ** (1 / power)
    values = start.values if isinstance(start, PointStart) else None
    return 0.0 if values is None else up(math.hypot(*values), 4)
