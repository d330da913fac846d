"""NOT PRIVATE: the published numbers' likely setting, kept apart so that nothing private can become it.

The step uses damping gamma = N, the noise that of gamma = 1: 2 C sigma / N on the natural parameters, N times smaller
than what one record moves them. It reproduces the pattern of Vinaroz & Park, Table 3, and leaks (theory, section 8).
"""

from typing import Any

import numpy as np

from sordino.algorithm.message_passing.damping import DampedSteps
from sordino.algorithm.message_passing.non_private import NonPrivateResult
from sordino.algorithm.message_passing.options import Prior, Refinement
from sordino.algorithm.message_passing.run import Feeding, Setting
from sordino.algorithm.message_passing.sep import finished
from sordino.algorithm.randomness import Randomness
from sordino.algorithm.records import checked_rows
from sordino.core.relation import Relation
from sordino.core.spec import ConstantSchedule, MessagePassing, Sampling
from sordino.model.sites.base import Site


def mismatched_sep(
    site: Site,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    prior: Prior,
    refinement: Refinement,
    steps: int,
    sampling: Sampling,
    batch: int | None = None,
    clip: float,
    noise_multiplier: float,
) -> NonPrivateResult:
    """Step with gamma = N and add the noise of gamma = 1. The result has no guarantee and carries none."""
    X, y = checked_rows(features, target)
    feeding = mismatched_feeding(len(X), steps, sampling, batch, clip, noise_multiplier)
    reason = "steps of damping N with the noise of damping 1, N times too small for the claimed guarantee"
    return finished(Setting(site, prior, refinement, X.shape[1]), feeding, X, y, randomness, reason)


def mismatched_feeding(
    records: int, steps: int, sampling: Sampling, batch: int | None, clip: float, noise_multiplier: float
) -> Feeding:
    """What the kernel is fed: gain 1, and noise that belongs to gain 1 / N."""
    algorithm = MessagePassing(
        records=records,
        steps=steps,
        sampling=sampling,
        batch=batch,
        clip=clip,
        noise_multiplier=ConstantSchedule(noise_multiplier),
        damping=ConstantSchedule(1.0),
    )
    rounds = DampedSteps(algorithm, Relation.REPLACE_ONE)
    # The kernel adds noise to the sum and multiplies by the gain 1, so this is the noise on theta itself.
    return Feeding(algorithm, np.ones(steps), rounds.noise, rounds.expected, clip)
