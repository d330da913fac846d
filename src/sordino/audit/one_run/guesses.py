"""From scores to guesses: the highest are guessed in, the lowest out, and the number of guesses is fixed beforehand."""

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.validate import Interval, whole_number

Coins = NDArray[np.bool_]


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
