"""Choosing a canary by trial: small fleets learn from every candidate, and the one that shows most is taken.

How fast a canary is learnt and how soon it is forgotten cannot be read off models that have not seen it. The models of
a pilot have numbers of their own, share no randomness with the fleet that is attacked, and are thrown away: however the
canary was chosen by them, a bound from the attacked fleet holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.audit.fleet import Fleet, FleetPlan, FleetRecords, Members, Probabilities, Replacement
from sordino.audit.neural.attack import log_odds
from sordino.audit.neural.canary import Canary
from sordino.audit.neural.setting import NeuralData, PilotRound
from sordino.model.base import Model


@dataclass(frozen=True, eq=False)
class Piloted:
    """A candidate and, by epoch, how far apart models with and without it were.

    Separation is the difference of the mean log-odds of the label at the canary, over their pooled deviation.
    """

    canary: Canary
    separations: NDArray[np.float64]

    @property
    def score(self) -> float:
        """The least separation in the second half of the epochs."""
        return float(np.min(self.separations[len(self.separations) // 2 :]))


def pilot(
    model: Model,
    data: NeuralData,
    plan: FleetPlan,
    size: PilotRound,
    canaries: Sequence[Canary],
    first: int,
    train: Callable[..., Fleet],
) -> tuple[Piloted, ...]:
    """Train models of D and of the neighbour that each of the first candidates makes; best candidate first.

    Members are numbered from `first`; `plan` is that of the round.
    """
    tried = tuple(canaries[: size.candidates])
    replacements = [Replacement(each.row, each.x_star, float(each.label)) for each in tried]
    records = FleetRecords.with_neighbours(data.features, data.target, replacements)
    which = (0,) * size.of_d + tuple(number for number in range(1, len(tried) + 1) for _ in range(size.each))
    members = Members(tuple(range(first, first + len(which))), which)
    points = jnp.asarray(np.stack([each.x_star for each in tried]))
    probes = {"probabilities": Probabilities(points, jnp.asarray([each.label for each in tried]))}
    odds = log_odds(train(model, records, plan, members, probes).readings["probabilities"])
    place = np.asarray(which)
    found = [
        Piloted(canary, separation(odds[:, place == 0, number], odds[:, place == number + 1, number]))
        for number, canary in enumerate(tried)
    ]
    return tuple(sorted(found, key=lambda each: -each.score))


def separation(without: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference of means along the last axis over the pooled deviation; readings that are no numbers give zero."""
    squares = sum(np.var(side, axis=-1) * side.shape[-1] for side in (without, seen))
    deviation = np.sqrt(squares / (without.shape[-1] + seen.shape[-1] - 2))
    return np.nan_to_num((seen.mean(axis=-1) - without.mean(axis=-1)) / np.maximum(deviation, 1e-6))
