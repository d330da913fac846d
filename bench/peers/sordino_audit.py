"""The audit task in Sordino."""

from importlib.metadata import version

import audit_task as task

from sordino.auditing.confidence import (
    ErrorCounts,
    GaussianPair,
    band_epsilon,
    choose_threshold,
    count_errors,
    epsilon_lower,
    epsilon_of_gaussian_pair,
)
from sordino.auditing.one_run.guesses import epsilon_from_guesses, right_guesses, usual_guesses
from sordino.core.bound import Citation

_PAIR = GaussianPair(Citation("dong2022gaussian", "Theorem 2.7"), "one Gaussian release of two known means")
_CHOSEN = task.MODELS // 8  # a quarter of the models of each dataset chooses the threshold


def all_thresholds(seed: int) -> float:
    return float(band_epsilon(*task.releases(seed), task.DELTA, task.CONFIDENCE))


def chosen_threshold(seed: int) -> float:
    first, second = task.releases(seed)
    threshold = choose_threshold(first[:_CHOSEN], second[:_CHOSEN], task.DELTA, task.CONFIDENCE)
    return epsilon_lower(_counts(first[_CHOSEN:], second[_CHOSEN:], float(threshold)), task.DELTA, task.CONFIDENCE)


def gaussian_pair(seed: int) -> float:
    first, second = task.releases(seed)
    middle = float(first[:_CHOSEN].mean() + second[:_CHOSEN].mean()) / 2
    counts = _counts(first[_CHOSEN:], second[_CHOSEN:], middle)
    return epsilon_of_gaussian_pair(counts, task.DELTA, task.CONFIDENCE, _PAIR)


def one_run(seed: int) -> float:
    coins, scores = task.one_run(seed)
    guesses = usual_guesses(task.CANARIES)
    right = right_guesses(scores, coins, guesses)
    return epsilon_from_guesses(task.CANARIES, guesses, right, task.DELTA, task.CONFIDENCE)


def _counts(first, second, threshold: float) -> ErrorCounts:
    false_positives, false_negatives = count_errors(first, second, threshold)
    return ErrorCounts(int(false_positives), len(first), int(false_negatives), len(second))


if __name__ == "__main__":
    ways = {
        "all thresholds": all_thresholds,
        "chosen threshold": chosen_threshold,
        "gaussian pair": gaussian_pair,
        "one run": one_run,
    }
    task.report(ways, {name: version(name) for name in ("numpy", "scipy")})
