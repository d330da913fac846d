"""The attacks on one epoch's models: linear classifiers of a few probabilities, counted on models not seen before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack import LogisticScore
from sordino.audit.confidence import ErrorCounts, choose_threshold, count_errors
from sordino.audit.neural.setting import Claimed
from sordino.core.validate import one_of, refuse

# Probabilities are single precision: nothing between 0 and 1 is as far out as this.
_LEAST, _MOST = 1e-30, 1.0 - 2.0**-25


@dataclass(frozen=True)
class Halves:
    """Models as `Members.of_both` orders them: of each side the first `learn` teach, the other `test` are counted."""

    learn: int
    test: int

    @property
    def each(self) -> int:
        """The models of a side."""
        return self.learn + self.test

    def parts(self, readings: NDArray[np.floating]) -> tuple[NDArray[np.float64], ...]:
        """Readings, shape (models, k), of: teachers of D, teachers of D', counted models of D, counted ones of D'."""
        values = np.nan_to_num(np.asarray(readings, float))
        if values.ndim != 2 or len(values) != 2 * self.each:
            raise refuse("the readings", f"to have one row for each of {2 * self.each} models", values.shape)
        sides = values[: self.each], values[self.each :]
        return (*(side[: self.learn] for side in sides), *(side[self.learn :] for side in sides))


# From the probabilities of all models to errors on the counted ones.
Attack = Callable[[NDArray[np.floating], Halves, Claimed], ErrorCounts]
_ATTACKS: dict[str, Attack] = {}


def attack(word: str) -> Callable[[Attack], Attack]:
    """Decorator: attack every epoch in this way too; joint bounds then share their confidence with it."""

    def registered(function: Attack) -> Attack:
        _ATTACKS[word] = function
        return function

    return registered


@attack("probabilities")
def _as_in_the_paper(probabilities: NDArray[np.floating], halves: Halves, _claimed: Claimed) -> ErrorCounts:
    first, second, first_test, second_test = halves.parts(probabilities)
    rule = LogisticScore().learn(first, second)
    return _counted(rule(first_test), rule(second_test), 0.0)


@attack("log-odds")
def _of_log_odds(probabilities: NDArray[np.floating], halves: Halves, _claimed: Claimed) -> ErrorCounts:
    """The same probabilities as log-odds, which separate models that all misclassify."""
    first, second, first_test, second_test = halves.parts(log_odds(probabilities))
    rule = LogisticScore().learn(first, second)
    return _counted(rule(first_test), rule(second_test), 0.0)


@attack("log-odds, chosen cut")
def _cut_where_most_is_proved(probabilities: NDArray[np.floating], halves: Halves, claimed: Claimed) -> ErrorCounts:
    """The same score, cut where the bound on the models that teach is largest."""
    first, second, first_test, second_test = halves.parts(log_odds(probabilities))
    rule = LogisticScore().learn(first, second)
    threshold = float(choose_threshold(rule(first), rule(second), claimed.delta, claimed.confidence))
    return _counted(rule(first_test), rule(second_test), threshold)


@dataclass(frozen=True)
class EpochFinding:
    """What each attack did on one epoch, by name, and how accurate the models were: the mean over the fleet."""

    epoch: int
    by_attack: Mapping[str, ErrorCounts]
    accuracy: float

    def counts(self, attack: str) -> ErrorCounts:
        """The errors of one attack."""
        return self.by_attack[one_of("attack", attack, self.by_attack)]


def attack_epoch(
    epoch: int, probabilities: NDArray[np.floating], accuracy: NDArray, halves: Halves, claimed: Claimed
) -> EpochFinding:
    """Teach every attack on the one half of the models and count its errors on the other."""
    counts = {name: function(probabilities, halves, claimed) for name, function in _ATTACKS.items()}
    return EpochFinding(epoch, MappingProxyType(counts), float(np.mean(accuracy)))


def log_odds(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Log-odds of probabilities in single precision, none of them infinite."""
    chances = np.clip(np.asarray(probabilities, float), _LEAST, _MOST)
    return np.log(chances) - np.log1p(-chances)


def _counted(first: NDArray[np.float64], second: NDArray[np.float64], threshold: float) -> ErrorCounts:
    false_positives, false_negatives = count_errors(first, second, threshold)
    return ErrorCounts(int(false_positives), len(first), int(false_negatives), len(second))
