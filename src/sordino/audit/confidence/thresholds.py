"""Choosing where to cut a score, without paying for the choice twice.

A rule says "second" when the score is at least the threshold. Scores have shape (..., models); leading axes are
independent repetitions of the whole experiment.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.audit.confidence.attack_bound import epsilon_from_rates
from sordino.audit.confidence.clopper_pearson import upper_end
from sordino.audit.confidence.error_counts import each_failure
from sordino.core.errors import InputError

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]


class ErrorCurve(NamedTuple):
    """Every rule that cuts somewhere, cheapest first: thresholds and both error counts, shape (..., models + 1).

    The last rule says "first" always. Where scores are tied, `distinct` marks the one rule that can be told apart.
    """

    thresholds: Scores
    false_positives: Counts
    false_negatives: Counts
    distinct: NDArray[np.bool_]


def error_curve(first: Scores, second: Scores) -> ErrorCurve:
    """The errors of every threshold on these scores."""
    first, second = checked_scores(first), checked_scores(second)
    pooled = np.concatenate([first, second], axis=-1)
    order = np.argsort(pooled, axis=-1, kind="stable")
    values = np.take_along_axis(pooled, order, axis=-1)
    of_second = (order >= first.shape[-1]).astype(np.int64)
    # Errors of a cut just below position j: what of the second lies before j, what of the first does not.
    start = np.zeros((*values.shape[:-1], 1), np.int64)
    missed = np.concatenate([start, np.cumsum(of_second, axis=-1)], axis=-1)
    passed = np.concatenate([start, np.cumsum(1 - of_second, axis=-1)], axis=-1)
    between = 0.5 * (values[..., 1:] + values[..., :-1])
    # Halfway between neighbours, unless rounding puts the middle on the lower one.
    inner = np.where(between > values[..., :-1], between, values[..., 1:])
    ends = np.full((*values.shape[:-1], 1), np.inf)
    thresholds = np.concatenate([-ends, inner, ends], axis=-1)
    always = np.ones_like(start, dtype=bool)
    distinct = np.concatenate([always, values[..., 1:] > values[..., :-1], always], axis=-1)
    return ErrorCurve(thresholds, first.shape[-1] - passed, missed, distinct)


def choose_threshold(first: Scores, second: Scores, delta: float, confidence: float) -> Scores:
    """The threshold with the largest bound on these scores, shape (...).

    It has seen the scores, so only scores that it has not seen may be counted with it.
    """
    curve = error_curve(first, second)
    failure = each_failure(confidence)
    first_models, second_models = np.shape(first)[-1], np.shape(second)[-1]
    first_ends = upper_end(np.arange(first_models + 1), first_models, failure)
    second_ends = upper_end(np.arange(second_models + 1), second_models, failure)
    bound = epsilon_from_rates(first_ends[curve.false_positives], second_ends[curve.false_negatives], delta)
    # Where nothing is refuted, the rule with the fewest errors is the one to try.
    errors = curve.false_positives / first_models + curve.false_negatives / second_models
    best = np.argmax(np.where(curve.distinct, bound - 1e-6 * errors, -np.inf), axis=-1)
    return np.take_along_axis(curve.thresholds, best[..., None], axis=-1)[..., 0]


def count_errors(first: Scores, second: Scores, threshold: Scores | float) -> tuple[Counts, Counts]:
    """False positives and false negatives of a threshold that was chosen without these scores, shape (...)."""
    cut = np.asarray(threshold, float)[..., None]
    return (checked_scores(first) >= cut).sum(axis=-1), (checked_scores(second) < cut).sum(axis=-1)


def checked_scores(scores: Scores) -> Scores:
    """Scores as finite numbers, one for each model; a score that is not a number decides nothing."""
    checked = np.asarray(scores, float)
    if checked.ndim < 1 or checked.shape[-1] < 1 or np.isnan(checked).any():
        raise InputError(f"Expected one score, not NaN, for each of at least one model, got shape {checked.shape}.")
    # Infinities keep their order and lose nothing else.
    return np.clip(checked, -1e300, 1e300)
