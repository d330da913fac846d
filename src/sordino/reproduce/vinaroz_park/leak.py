"""An audit of the mismatched mode: two datasets that differ in one record, told apart from the released posterior.

Records of a line through the origin have messages that do not depend on the cavity, so the sum of messages is a linear
recursion: the last visit of the record in question leaves a mark that N noises of 2 C sigma / N cannot hide.
"""

from dataclasses import dataclass

import numpy as np

from sordino.algorithm.message_passing import Prior, RaiseEigenvalues, Refinement
from sordino.algorithm.message_passing.mismatch import mismatched_sep
from sordino.algorithm.randomness import SeededRandomness
from sordino.audit.confidence.attack_bound import epsilon_lower
from sordino.audit.confidence.error_counts import ErrorCounts
from sordino.core import gaussian
from sordino.core.spec import Sampling
from sordino.model.sites import GaussianSite
from sordino.reproduce.vinaroz_park.budget import DELTA
from sordino.reproduce.vinaroz_park.propagation import CLAIMED_MULTIPLIER

CONFIDENCE = 0.99
RECORDS, EPOCHS, CLIP = 256, 2, 1.0


@dataclass(frozen=True)
class Leak:
    """A lower bound from runs at confidence 99 %, and the exact epsilon of one round of all records."""

    epsilon: float
    exact: float
    runs: int
    records: int


def mismatch_leak(seed: int, runs: int) -> Leak:
    """Run the mode on both datasets so many times each, with a threshold fixed beforehand at 0."""
    first, second = (
        [_statistic(target, 2 * runs * seed + side * runs + k) for k in range(runs)]
        for side, target in enumerate((1.0, -1.0))
    )
    wrong = sum(value <= 0.0 for value in first), sum(value > 0.0 for value in second)
    counts = ErrorCounts(wrong[0], runs, wrong[1], runs)
    # One round of all records moves the sum by 2 C; the mode's noise is that of damping 1, N times too small.
    # The messages differ from opposite ones by less than 1 in 1000: their precisions have the same sign.
    exact = gaussian.epsilon_lower(0.999 * RECORDS / CLAIMED_MULTIPLIER, DELTA)
    return Leak(epsilon_lower(counts, DELTA, CONFIDENCE), exact, runs, RECORDS)


def _statistic(target: float, seed: int) -> float:
    """Precision times mean of a fitted slope; the first record pulls up or down, all others pull nowhere."""
    X, y = np.full((RECORDS, 1), 0.5), np.zeros(RECORDS)
    y[0] = 100.0 * target
    result = mismatched_sep(
        GaussianSite(diagonal=True, noise_precision=1.0),
        X,
        y,
        SeededRandomness(seed),
        prior=Prior(10.0),
        refinement=Refinement(repair=RaiseEigenvalues(1e-3)),
        steps=EPOCHS * RECORDS,
        sampling=Sampling.PASSES,
        batch=1,
        clip=CLIP,
        noise_multiplier=CLAIMED_MULTIPLIER,
    )
    return float(result.posterior.natural[0])
