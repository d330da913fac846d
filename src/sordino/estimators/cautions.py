"""What is said about a budget before it is spent."""

import warnings

from sordino.estimators.situation import Situation


class DeltaWarning(UserWarning):
    """Delta is so large that a run could publish a whole record and keep its promise."""


def warn_of_delta(situation: Situation) -> None:
    """Warn where delta is at least one over the declared number of records."""
    records, delta = situation.records, situation.delta
    if records * delta < 1.0:
        return
    warnings.warn(
        f"delta {delta:g} is not below 1 / {records}, one over the number of records: a run that publishes one record "
        f"picked at random would keep this promise; choose a delta far below that, such as {0.01 / records:.1g}.",
        DeltaWarning,
        stacklevel=3,
    )
