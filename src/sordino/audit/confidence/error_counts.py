"""What an attack is judged by: how often it took one dataset for the other, on models it had not seen before."""

from dataclasses import dataclass

from sordino.audit.confidence.clopper_pearson import upper_end
from sordino.core.validate import OPEN_UNIT, Interval, number, whole_number


@dataclass(frozen=True)
class ErrorCounts:
    """Errors of one fixed decision rule on independent models of two datasets.

    A false positive says "second" of a model of the first dataset, a false negative "first" of one of the second.

    Attributes:
        false_positives: out of `first_models`.
        false_negatives: out of `second_models`.
    """

    false_positives: int
    first_models: int
    false_negatives: int
    second_models: int

    def __post_init__(self) -> None:
        whole_number("first_models", self.first_models)
        whole_number("second_models", self.second_models)
        whole_number("false_positives", self.false_positives, Interval(0, self.first_models))
        whole_number("false_negatives", self.false_negatives, Interval(0, self.second_models))

    def upper_ends(self, confidence: float) -> tuple[float, float]:
        """Upper ends of both error rates that hold together with this confidence: each may fail half as often."""
        failure = each_failure(confidence)
        return (
            float(upper_end(self.false_positives, self.first_models, failure)),
            float(upper_end(self.false_negatives, self.second_models, failure)),
        )

    @property
    def without_errors(self) -> "ErrorCounts":
        """The same models, all told apart: what the best possible outcome would have been."""
        return ErrorCounts(0, self.first_models, 0, self.second_models)


def each_failure(confidence: float) -> float:
    """The failure probability of each of two limits that are to hold together (union bound)."""
    return (1.0 - number("confidence", confidence, OPEN_UNIT)) / 2
