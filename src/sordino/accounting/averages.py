"""How far one record can move the average of a Lipschitz function along a chain, and how far chance can.

Under a synchronous coupling |X_k - X'_k| <= z_k almost surely, z_k = c z_{k-1} + s_k. The sum over the kept iterates
then moves by at most the sum of z_k over them, which is linear in the moves s_k: step k has the weight
a_k = sum over kept t >= k of c^(t - k). All functions round up.
"""

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.heavy_tail.coupling import geometric_sum
from sordino.core.spec import Scheme

Array = NDArray[np.float64]

# Longer runs use one weight for every step: that of a step with all kept iterates after it.
LONGEST_RUN = 5_000_000
_ACCURACY = 1e-12
_ANY_STEP = frozenset({Scheme.FULL, Scheme.WITHOUT_REPLACEMENT})


def step_weights(contraction: float, kept: range, steps: int) -> Array:
    """a_k for each step k = 1, ..., steps, or one number for all of them when the run is long; infinite on overflow."""
    # Imported here: it costs more than all the rest of a certificate that needs no average.
    from scipy import signal  # noqa: PLC0415

    if steps > LONGEST_RUN:
        return np.array([geometric_sum(contraction, kept.step, len(kept))]) * (1 + _ACCURACY)
    seen = np.zeros(steps)
    seen[np.asarray(kept) - 1] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.asarray(signal.lfilter([1.0], [1.0, -contraction], seen[::-1]))[::-1]
        return np.where(np.isnan(weights), np.inf, weights) * (1 + _ACCURACY)


def largest_sum(weighted: Array, scheme: Scheme, period: int, steps: int) -> float:
    """The largest sum of weighted moves over the steps that can use one record.

    Full and freshly drawn batches may use it at every step, fixed ones at one position of every pass, reshuffled ones
    once a pass, anywhere. A single entry stands for every step.
    """
    period = 1 if scheme in _ANY_STEP else min(period, steps)
    if len(weighted) < steps:
        return float(weighted[0]) * -(-steps // period) * (1 + _ACCURACY)
    passes = np.pad(weighted, (0, -steps % period)).reshape(-1, period)
    with np.errstate(over="ignore"):
        most = passes.max(axis=1).sum() if scheme is Scheme.RESHUFFLED else passes.sum(axis=0).max()
    return float(most) * (1 + _ACCURACY)


def noise_norm(scaled: Array, steps: int) -> float:
    """sqrt(sum (a_k tau_k)^2) of the steps; a single entry stands for every step."""
    with np.errstate(over="ignore"):
        total = float(np.sum(scaled * scaled)) * (steps if len(scaled) < steps else 1)
    return float(np.sqrt(total)) * (1 + _ACCURACY)
