"""What is said about a budget before it is spent."""

import warnings

from sordino.estimators.situation import Situation


class DeltaWarning(UserWarning):
    """Delta is so large that a run could publish a whole record and keep its promise."""


class NonPrivateWarning(UserWarning):
    """Something that was seen in private rows: for the eyes of whoever may see the rows, never part of a release."""


def delta_cautions(situation: Situation) -> tuple[str, ...]:
    """A sentence, said as a warning too, where delta is at least one over the declared number of records."""
    records, delta = situation.records, situation.delta
    if records * delta < 1.0:
        return ()
    sentence = (
        f"delta {delta:g} is not below 1 / {records}, one over the number of records: a run that publishes one record "
        f"picked at random would keep this promise; choose a delta far below that, such as {0.01 / records:.1g}."
    )
    warnings.warn(sentence, DeltaWarning, stacklevel=4)
    return (sentence,)
