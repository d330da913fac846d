"""Linear regression with Gaussian noise, and the same with gross errors (Huber's contamination)."""

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import OPEN_UNIT, POSITIVE, number
from sordino.data.kinds import UNSCALED
from sordino.data.synthetic.base import Synthetic, assemble, draw_rows, draw_theta, generator
from sordino.data.targets import NumberTarget

# A Gaussian leaves ten standard deviations with probability 1.6e-23: the target bound is public and clips nothing.
_TAIL = 10.0


@generator("linear")
def linear(
    rng: np.random.Generator, records: int, dim: int, *, cap: float = 1.0, signal: float = 1.0, noise: float = 0.1
) -> Synthetic:
    """Draw y = x theta + noise * N(0, 1) with |theta| = `signal` and |x| <= `cap`."""
    rows, theta, bound = _design(rng, records, dim, cap, signal, noise)
    target = rows @ theta + noise * rng.standard_normal(records)
    kind = NumberTarget(-bound, bound, UNSCALED)
    return assemble(rows, np.clip(target, -bound, bound), kind, cap, {"theta": theta, "noise": noise})


@generator("contaminated")
def contaminated(
    rng: np.random.Generator,
    records: int,
    dim: int,
    *,
    cap: float = 1.0,
    signal: float = 1.0,
    noise: float = 0.1,
    fraction: float = 0.05,
) -> Synthetic:
    """Linear regression where each target is, with probability `fraction`, uniform over its whole public range."""
    number("fraction", fraction, OPEN_UNIT)
    rows, theta, bound = _design(rng, records, dim, cap, signal, noise)
    clean = np.clip(rows @ theta + noise * rng.standard_normal(records), -bound, bound)
    gross = rng.random(records) < fraction
    target = np.where(gross, rng.uniform(-bound, bound, records), clean)
    truth = {"theta": theta, "noise": noise, "fraction": fraction, "contaminated": gross}
    return assemble(rows, target, NumberTarget(-bound, bound, UNSCALED), cap, truth)


def _design(
    rng: np.random.Generator, records: int, dim: int, cap: float, signal: float, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    number("signal", signal, POSITIVE)
    number("noise", noise, POSITIVE)
    rows = draw_rows(rng, records, dim, cap)
    return rows, draw_theta(rng, (dim,), signal), cap * signal + _TAIL * noise
