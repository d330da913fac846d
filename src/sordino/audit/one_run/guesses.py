"""From scores to guesses: the highest are guessed in, the lowest out, and both numbers are fixed before the run.

Several canaries may share a direction: the release then tells their sum, and each of them a little less clearly, but
there are more coins to guess. How many pay depends on how far one canary can be told at all, which the certificate
bounds, and on how many independent directions a release has. The plan looks at nothing else.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.audit.one_run.theorem import epsilon_from_guesses
from sordino.core.errors import InputError
from sordino.core.validate import COUNT, PROBABILITY, Interval, number, whole_number

Coins = NDArray[np.bool_]

_EACH = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
# A release that tells a coin for certain is planned for as if it told it this clearly.
_CLEAREST = 12.0
_LEVELS = np.linspace(0.0, 1.0, 401)[:-1] + 1 / 800


class GuessPlan(NamedTuple):
    """How many canaries stand in each direction, how many coins are guessed, and what the expected outcome proves."""

    directions: int
    each: int
    guesses: int
    expected: float

    @property
    def canaries(self) -> int:
        """All of them."""
        return self.directions * self.each


def planned_guesses(directions: int, most: int, total_variation: float, delta: float, confidence: float) -> GuessPlan:
    """The plan whose expected outcome proves most, of at most `most` canaries in so many directions.

    `total_variation` bounds how well one coin can be told. Any plan is valid; this one is made for a Gaussian release.
    """
    directions = min(whole_number("directions", directions, COUNT), whole_number("most", most, COUNT))
    advantage = number("total_variation", total_variation, PROBABILITY)
    clarity = min(_CLEAREST, 2 * float(special.ndtri(0.5 + 0.5 * min(advantage, 1 - 1e-12))))
    best: tuple[float, float, GuessPlan] | None = None
    for each in _EACH:
        coins = directions * each
        if coins > most and each > 1:
            break
        chances = _chances(clarity, each)
        for share in _SHARES:
            guesses = max(1, round(share * coins))
            kept = chances[-max(1, round(share * len(chances))) :]
            right = guesses * float(kept.mean()) - _forced(coins, guesses) * float(2 * kept[0] - 1)
            proved = epsilon_from_guesses(coins, guesses, math.floor(right), delta, confidence)
            surplus = (right - guesses / 2) / math.sqrt(guesses)
            if best is None or (proved, surplus) > best[:2]:
                best = proved, surplus, GuessPlan(directions, each, guesses, proved)
    if best is None:
        raise InputError(f"Expected room for a canary, got {most}.")
    return best[2]


def _forced(coins: int, guesses: int) -> float:
    """How many guesses are expected to be of the wrong side because coins do not fall half and half, but guesses do."""
    deviation = math.sqrt(coins) / 2
    room = (coins - guesses) / 2 / deviation
    return 2 * deviation * (math.exp(-room * room / 2) / math.sqrt(2 * math.pi) - room * float(special.ndtr(-room)))


def _chances(clarity: float, each: int) -> NDArray[np.float64]:
    """Of a direction with so many coins, the chance that a coin is guessed right, at quantiles of how clear it looks.

    One coin shifts the score by `clarity` one way or the other, and the others of its direction are noise to it.
    """
    variance = 1.0 + (each - 1) * clarity**2 / 4
    # |score| / sd has the law of |N(shift, 1)|; its quantiles by bisection on a grid are enough for a plan.
    shift = clarity / 2 / math.sqrt(variance)
    grid = np.linspace(0.0, shift + 6.0, 2001)
    law = special.ndtr(grid - shift) - special.ndtr(-grid - shift)
    looks = np.interp(_LEVELS, law, grid)
    return special.expit(2 * shift * looks)


def fair_coins(number: int, generator: np.random.Generator) -> Coins:
    """Independent fair coins."""
    return generator.integers(0, 2, whole_number("coins", number)).astype(bool)


def usual_guesses(coins: int) -> int:
    """How many coins to guess when nothing is known: all of a few, the clearest tenth of many."""
    return max(min(whole_number("coins", coins), 50), coins // 10)


def right_guesses(scores: NDArray[np.floating], coins: Coins, guesses: int) -> int:
    """How many of `guesses` guesses are right: the upper half of them by score says heads, the lower half tails.

    A score is larger when its coin looks like heads. Which coins are guessed depends on the release alone.
    """
    scores, coins = np.asarray(scores, float), np.asarray(coins, bool)
    if scores.shape != coins.shape or scores.ndim != 1 or np.isnan(scores).any():
        raise InputError(f"Expected one score, not NaN, for each of {coins.shape} coins, got shape {scores.shape}.")
    guesses = whole_number("guesses", guesses, Interval(0, len(coins)))
    order = np.argsort(-scores, kind="stable")
    heads = (guesses + 1) // 2
    said_tails = order[len(order) - (guesses - heads) :]
    return int(coins[order[:heads]].sum() + (~coins[said_tails]).sum())
