"""NOT PRIVATE: Algorithm 1 with an SGLD draw on line 25, kept to show that it fails (Claim IV.9)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import instance_of, refuse, whole_number
from sordino.mechanisms.propose_test_sample import Cleaned, ProposedSample, clean, stage_of
from sordino.noise.port import ExactDraws
from sordino.noise.randomness import Randomness


def propose_test_sgld_not_private(
    spec: Spec, x: ArrayLike, y: ArrayLike, epochs: int, randomness: Randomness
) -> ProposedSample:
    """Algorithm 1 with `epochs` passes of cyclic SGLD, batches of one, step 1 / (alpha + n_1 x_h^2 beta)^2.

    For no epsilon and no delta < 1/6 is this private (Heller & Fetaya 2023, Claim IV.9): no theorem certifies it, and
    `proposed_sample` shows the leak.
    """
    run = stage_of(spec)
    instance_of("randomness", randomness, Randomness)
    whole_number("epochs", epochs)
    if run.sampler is not Sampler.SGLD:
        raise refuse("algorithm.sampler", "to be sgld for the variant that is not private", run.sampler.value)
    noise = ExactDraws.of(randomness)
    left = clean(run, x, y, noise)
    if left is None:
        return ProposedSample(spec, None)
    return ProposedSample(spec, _last_iterate(run, left, np.size(x), epochs, noise.generator))


def _last_iterate(
    run: ProposeTestSample, left: Cleaned, records: int, epochs: int, generator: np.random.Generator
) -> float:
    """The last iterate in a shuffled order, started from the prior: normal, because every step is affine."""
    order = generator.permutation(len(left.x))
    rows, targets = left.x[order], left.y[order]
    step = 1 / (run.alpha + records * run.x_high * run.x_high * run.beta) ** 2
    factors = 1 - step / 2 * (run.alpha + len(rows) * run.beta * rows * rows)
    offsets = step / 2 * len(rows) * run.beta * rows * targets
    # What each step's contribution is multiplied by until the end of its pass.
    after = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
    factor, offset, noise = float(np.prod(factors)), float(offsets @ after), step * float(after @ after)
    mean, variance = 0.0, 1 / run.alpha
    for _ in range(epochs):
        mean, variance = factor * mean + offset, factor * factor * variance + noise
    return mean + math.sqrt(variance) * float(generator.standard_normal())
