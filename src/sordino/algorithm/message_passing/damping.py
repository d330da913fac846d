"""Damping: one object holds gamma, and both the step and its noise come from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.rounds.feed import sum_noise, sum_sensitivity
from sordino.core.relation import Relation
from sordino.core.spec import ListSchedule, MessagePassing, Sampling
from sordino.core.validate import POSITIVE, number, whole_number

Values = NDArray[np.float64]


@dataclass(frozen=True)
class DampedSteps:
    """The steps theta <- theta + (gamma / N) (sum of clipped messages + noise - b theta_f) of a described run.

    Noise enters the sum before gamma multiplies it, so no step can have the noise of another gamma: the noise of a
    step is `noise_multiplier` times its `sensitivity` whatever the schedules are.
    """

    algorithm: MessagePassing
    relation: Relation

    @property
    def sum_sensitivity(self) -> float:
        """How far one record moves the sum of clipped messages."""
        return sum_sensitivity(self.algorithm, self.relation)

    @property
    def gains(self) -> Values:
        """gamma / N of each step: what multiplies the noised sum."""
        return self.algorithm.damping.values(self.algorithm.steps) / self.algorithm.records

    @property
    def sum_noise(self) -> Values:
        """The standard deviation of the noise on the sum of each step."""
        return sum_noise(self.algorithm, self.relation)

    @property
    def sensitivity(self) -> Values:
        """How far one record moves theta in each step: 2 gamma C / N under replace-one, half that under add-remove."""
        return self.gains * self.sum_sensitivity

    @property
    def noise(self) -> Values:
        """The standard deviation of the noise on theta in each step."""
        return self.gains * self.sum_noise

    @property
    def expected(self) -> Values:
        """How many records each step is expected to sum: the public batch size, less in the last batch of a pass."""
        algorithm = self.algorithm
        sizes = np.full(algorithm.steps, float(algorithm.batch_size))
        if algorithm.sampling == Sampling.PASSES:
            last = algorithm.batches_per_epoch - 1
            sizes[last :: last + 1] = algorithm.records - last * algorithm.batch_size
        return sizes


def linear_decay(initial: float, final: float, steps: int) -> ListSchedule:
    """A schedule that goes from `initial` to `final` in equal steps."""
    number("initial", initial, POSITIVE)
    number("final", final, POSITIVE)
    return ListSchedule(tuple(np.linspace(initial, final, whole_number("steps", steps)).tolist()))
