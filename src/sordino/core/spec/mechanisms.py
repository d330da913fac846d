"""Kinds for single mechanisms: noised answers, randomised response, selection, sparse vector, random shifts.

Each is described by what its dominating pair depends on. How far a unit moves an answer or a score is always meant
under the spec's own relation; a mechanism may be used several times, each use chosen in view of the earlier ones.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core.bound import View
from sordino.core.spec.fields import (
    COUNT,
    Contradiction,
    Flag,
    Number,
    Section,
    Several,
    TaggedUnion,
    Text,
    Whole,
    Word,
)
from sordino.core.spec.problem import RUNS, Algorithm
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, Interval

ANSWER_NOISES = TaggedUnion()

_TWO_OR_MORE = Interval(2, COUNT.high)
_SENSITIVITY = "how far one unit moves it at most, under the spec's relation"
MOST_SHIFTS = 1000


@dataclass(frozen=True, kw_only=True)
class Mechanism(Algorithm):
    """A mechanism that answers once, or several times with adaptive choices; everything it says is seen."""

    views: ClassVar[frozenset[View]] = frozenset({View.ALL_ITERATES})

    repetitions: Annotated[int, Whole(), "uses on the same data, each chosen in view of earlier answers"] = 1

    @property
    @abstractmethod
    def once(self) -> str:
        """What one use is, in words."""

    @property
    def words(self) -> str:
        return self.once if self.repetitions == 1 else f"{self.repetitions} times: {self.once}"


@ANSWER_NOISES.register("laplace")
@dataclass(frozen=True)
class LaplaceAnswer(Section):
    """Laplace noise on every coordinate."""

    scale: Annotated[float, Number(POSITIVE), "density proportional to exp(-|x| / scale)"]


@ANSWER_NOISES.register("discrete-laplace")
@dataclass(frozen=True)
class DiscreteLaplaceAnswer(Section):
    """Laplace noise on the whole numbers, on every coordinate."""

    scale: Annotated[float, Number(POSITIVE), "probabilities proportional to exp(-|x| / scale)"]


@ANSWER_NOISES.register("gaussian")
@dataclass(frozen=True)
class GaussianAnswer(Section):
    """Gaussian noise on every coordinate."""

    scale: Annotated[float, Number(POSITIVE), "standard deviation"]


@ANSWER_NOISES.register("discrete-gaussian")
@dataclass(frozen=True)
class DiscreteGaussianAnswer(Section):
    """Gaussian noise on the whole numbers, on every coordinate."""

    scale: Annotated[float, Number(POSITIVE), "sigma; probabilities proportional to exp(-x^2 / (2 sigma^2))"]


AnswerNoise = LaplaceAnswer | DiscreteLaplaceAnswer | GaussianAnswer | DiscreteGaussianAnswer


@RUNS.register("noised-answer")
@dataclass(frozen=True, kw_only=True)
class NoisedAnswer(Mechanism):
    """An answer of bounded sensitivity plus noise."""

    query: Annotated[str, Text(), "what is answered, in words for people; no theorem reads them"]
    sensitivity: Annotated[float, Number(POSITIVE), f"{_SENSITIVITY}: l1 for Laplace noise, l2 for Gaussian noise"]
    dim: Annotated[int, Whole(), "number of values"] = 1
    noise: Annotated[AnswerNoise, ANSWER_NOISES]
    rate: Annotated[
        float | None,
        Number(OPEN_UNIT),
        "chance with which each unit takes part, drawn afresh for every use and kept secret; absent: all do",
    ] = None

    @property
    def once(self) -> str:
        sampled = "" if self.rate is None else f" on a secret sample of rate {self.rate:.6g}"
        noise = f"{ANSWER_NOISES.word_of(self.noise)} noise of scale {self.noise.scale:.6g}"
        return f"{self.query}{sampled}, with {noise}"

    def contradictions(self) -> Iterator[Contradiction]:
        """Noise on the whole numbers hides whole numbers only; in several dimensions their l2 distance is any root."""
        whole = isinstance(self.noise, DiscreteLaplaceAnswer) or (
            isinstance(self.noise, DiscreteGaussianAnswer) and self.dim == 1
        )
        if whole and self.sensitivity != int(self.sensitivity):
            yield Contradiction("sensitivity", "to be a whole number where answers and noise are", self.sensitivity)


@RUNS.register("randomised-response")
@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(Mechanism):
    """Every unit's category is told truly with a probability, else as one of the others at random."""

    categories: Annotated[int, Whole(_TWO_OR_MORE), "number of answers there are"]
    truth: Annotated[float, Number(OPEN_UNIT), "probability of the true answer; the others share the rest evenly"]

    @property
    def once(self) -> str:
        return f"randomised response over {self.categories} categories, true with probability {self.truth:.6g}"


class SelectionMethod(StrEnum):
    """How one of several candidates is chosen by its score."""

    EXPONENTIAL = "exponential"
    PERMUTE_AND_FLIP = "permute-and-flip"
    NOISY_MAX_LAPLACE = "noisy-max-laplace"
    NOISY_MAX_GUMBEL = "noisy-max-gumbel"
    NOISY_MAX_EXPONENTIAL = "noisy-max-exponential"


@RUNS.register("selection")
@dataclass(frozen=True, kw_only=True)
class Selection(Mechanism):
    """One candidate is chosen by its score; only its name is told."""

    method: Annotated[SelectionMethod, Word(SelectionMethod)]
    sensitivity: Annotated[float, Number(POSITIVE), f"of every score: {_SENSITIVITY}"]
    scale: Annotated[
        float,
        Number(POSITIVE),
        "exponential: weights exp(score / scale); permute-and-flip: accepted with probability exp((score - best) / "
        "scale); noisy-max: scale of the noise on every score",
    ]
    monotone: Annotated[
        bool, Flag(), "whether one unit that is added moves all scores the same way; used under add-remove only"
    ] = False

    @property
    def once(self) -> str:
        return (
            f"one candidate by {self.method.value}, scores moved by at most {self.sensitivity / self.scale:.6g} scales"
        )


@RUNS.register("sparse-vector")
@dataclass(frozen=True, kw_only=True)
class SparseVector(Mechanism):
    """Whether noised queries exceed one noised threshold, until some have; queries may be chosen adaptively."""

    sensitivity: Annotated[float, Number(POSITIVE), f"of every query: {_SENSITIVITY}"]
    positives: Annotated[int, Whole(), "after so many queries above the threshold it stops"]
    threshold_scale: Annotated[float, Number(POSITIVE), "Laplace scale on the threshold, drawn once"]
    query_scale: Annotated[float, Number(POSITIVE), "Laplace scale on every query, drawn anew"]
    answer_scale: Annotated[
        float | None, Number(POSITIVE), "Laplace scale of the values told of the queries above; absent: none are told"
    ] = None
    monotone: Annotated[
        bool, Flag(), "whether one unit that is added moves all queries the same way; used under add-remove only"
    ] = False

    @property
    def once(self) -> str:
        return f"sparse vector until {self.positives} queries are above a noised threshold"


@RUNS.register("random-shift")
@dataclass(frozen=True, kw_only=True)
class RandomShift(Mechanism):
    """A Gaussian answer that a unit moves by one of several lengths, drawn secretly and independently of the data."""

    shifts: Annotated[tuple[float, ...], Several(Number(NON_NEGATIVE), MOST_SHIFTS), "how far a present unit moves it"]
    weights: Annotated[tuple[float, ...], Several(Number(NON_NEGATIVE), MOST_SHIFTS), "with which probabilities"]
    scale: Annotated[float, Number(POSITIVE), "standard deviation of the noise"]

    @property
    def once(self) -> str:
        return f"a Gaussian answer that a unit moves by one of {len(self.shifts)} lengths"

    def contradictions(self) -> Iterator[Contradiction]:
        """Probabilities that belong to the shifts, one of which moves something."""
        if len(self.weights) != len(self.shifts):
            yield Contradiction("weights", f"to be {len(self.shifts)}, as many as shifts", len(self.weights))
        elif abs(sum(self.weights) - 1) > 1e-12:
            yield Contradiction("weights", "to add to 1", sum(self.weights))
        elif not any(weight > 0 < shift for weight, shift in zip(self.weights, self.shifts, strict=True)):
            yield Contradiction("shifts", "to have one above 0 with a weight above 0", max(self.shifts))
