"""Stochastic expectation propagation without noise, clipped or not: the non-private relatives of the private run."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.message_passing.damping import DampedSteps
from sordino.algorithm.message_passing.non_private import NonPrivateResult
from sordino.algorithm.message_passing.options import Prior, Refinement
from sordino.algorithm.message_passing.release import Repairs
from sordino.algorithm.message_passing.run import Feeding, Setting, execute
from sordino.algorithm.posterior.gaussian import GaussianPosterior
from sordino.algorithm.randomness import Randomness
from sordino.algorithm.records import checked_rows
from sordino.core.relation import Relation
from sordino.core.spec import ConstantSchedule, MessagePassing, Sampling, Schedule
from sordino.model.sites.base import Site


def stochastic_ep(
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
    damping: float | Schedule,
    clip: float | None = None,
) -> NonPrivateResult:
    """Run the rounds of a private run with no noise, and no clip where none is given.

    `damping` is gamma: N for the standard algorithm with damping 1 / N (Li et al. 2015), where gamma is a step size.
    """
    X, y = checked_rows(features, target)
    schedule = damping if isinstance(damping, Schedule) else ConstantSchedule(damping)
    algorithm = MessagePassing(
        records=len(X),
        steps=steps,
        sampling=sampling,
        batch=batch,
        clip=1.0 if clip is None else clip,
        noise_multiplier=ConstantSchedule(1.0),
        damping=schedule,
    )
    rounds = DampedSteps(algorithm, Relation.REPLACE_ONE)
    feeding = Feeding(algorithm, rounds.gains, np.zeros(steps), rounds.expected, math.inf if clip is None else clip)
    reason = "stochastic expectation propagation without noise"
    return finished(Setting(site, prior, refinement, X.shape[1]), feeding, X, y, randomness, reason)


def finished(
    setting: Setting, feeding: Feeding, X: NDArray[Any], y: NDArray[Any], randomness: Randomness, reason: str
) -> NonPrivateResult:
    """Execute, and label the result."""
    state, _ = execute(setting, feeding, X, y, randomness)
    posterior = GaussianPosterior(setting.site, setting.family, setting.natural(state))
    return NonPrivateResult(posterior, Repairs(*(int(count) for count in state.repairs)), reason)
