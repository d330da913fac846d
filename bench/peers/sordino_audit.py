"""The audit task in Sordino."""

from importlib.metadata import version

import audit_task as task
import numpy as np
from scipy.special import ndtr

from sordino.auditing.confidence import (
    ErrorCounts,
    band_epsilon,
    choose_threshold,
    count_errors,
    epsilon_lower,
)
from sordino.auditing.methods.one_run import KnownGaussian, mu_lower
from sordino.auditing.methods.one_run_guesses import epsilon_from_guesses, planned_guesses, right_guesses
from sordino.core import gaussian

_SUM = KnownGaussian("one Gaussian release of two known means, noise of standard deviation 1")
_CHOSEN = task.MODELS // 8  # a quarter of the models of each dataset chooses the threshold
# What the certificate lets one coin be told; plans are made from that, before any run.
_ADVANTAGE = float(2 * ndtr(task.MU / 2) - 1)


def all_thresholds(seed: int) -> float:
    return float(band_epsilon(*task.releases(seed), task.DELTA, task.CONFIDENCE))


def chosen_threshold(seed: int) -> float:
    return epsilon_lower(_chosen_counts(seed), task.DELTA, task.CONFIDENCE)


def gaussian_pair(seed: int) -> float:
    first, second = task.releases(seed)
    heads = np.repeat([False, True], [len(first), len(second)])
    return gaussian.epsilon_lower(mu_lower(np.concatenate([first, second]), heads, _SUM, task.CONFIDENCE), task.DELTA)


def one_run(seed: int) -> float:
    coins, scores = task.one_run(seed)
    plan = planned_guesses(task.CANARIES, task.CANARIES, _ADVANTAGE, task.DELTA, task.CONFIDENCE)
    right = right_guesses(scores, coins, plan.guesses)
    return epsilon_from_guesses(task.CANARIES, plan.guesses, right, task.DELTA, task.CONFIDENCE)


def one_run_known_noise(seed: int) -> float:
    coins, scores = task.one_run(seed)
    return gaussian.epsilon_lower(mu_lower(scores, coins, _SUM, task.CONFIDENCE), task.DELTA)


def _chosen_counts(seed: int) -> ErrorCounts:
    first, second = task.releases(seed)
    threshold = choose_threshold(first[:_CHOSEN], second[:_CHOSEN], task.DELTA, task.CONFIDENCE)
    return _counts(first[_CHOSEN:], second[_CHOSEN:], float(threshold))


def _counts(first, second, threshold: float) -> ErrorCounts:
    false_positives, false_negatives = count_errors(first, second, threshold)
    return ErrorCounts(int(false_positives), len(first), int(false_negatives), len(second))


if __name__ == "__main__":
    ways = {
        "all thresholds": all_thresholds,
        "chosen threshold": chosen_threshold,
        "gaussian pair": gaussian_pair,
        "one run": one_run,
        "one run, known noise": one_run_known_noise,
    }
    task.report(ways, {name: version(name) for name in ("numpy", "scipy")})
