"""Kinds for single mechanisms: noised answers, randomised response, selection, sparse vector, correlated noise, tuning.

Each is described by what its dominating pair depends on. How far a unit moves an answer or a score is always meant
under the spec's own relation; a mechanism may be used several times, each use chosen in view of the earlier ones.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np
from scipy import signal

from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec.fields import Nested, Section, Tagged
from sordino.core.spec.problem import RUNS, Algorithm
from sordino.core.spec.shapes import COUNT, Contradiction, Flag, Number, Numbers, Several, Text, Whole, Word
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, Interval

ANSWER_NOISES = Tagged()
STRATEGIES = Tagged()

_TWO_OR_MORE = Interval(2, COUNT.high)
_SENSITIVITY = "how far one unit moves it at most, under the spec's relation"
MOST_STEPS = 2048  # of a matrix mechanism whose matrix is written out: its Gram matrix is held in memory
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


class Strategy(Section):
    """A matrix C: what is released is C times the stacked contributions of all steps, plus independent noise."""

    @abstractmethod
    def first_column(self, steps: int) -> Array | None:
        """The first column of a lower triangular Toeplitz matrix, or None where the matrix is not one."""

    def gram(self, steps: int) -> Array:
        """C' C, a row and a column for every step."""
        places = np.arange(steps)
        lag = places[:, None] - places[None, :]
        matrix = np.where(lag >= 0, np.asarray(self.first_column(steps))[np.maximum(lag, 0)], 0.0)
        return matrix.T @ matrix

    def squares(self, steps: int) -> Array:
        """The diagonal of the Gram matrix: squared lengths of the columns."""
        return np.cumsum(np.asarray(self.first_column(steps)) ** 2)[::-1]

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        """What keeps the matrix from serving so many steps."""
        return iter(())


@STRATEGIES.register("toeplitz")
@dataclass(frozen=True)
class ToeplitzStrategy(Strategy):
    """A lower triangular banded Toeplitz matrix, by the entries of its first column."""

    coefficients: Annotated[tuple[float, ...], Numbers(Number()), "first column; entries after these are 0"]

    def first_column(self, steps: int) -> Array:
        return np.pad(np.array(self.coefficients, dtype=np.float64), (0, max(0, steps - len(self.coefficients))))[
            :steps
        ]

    def contradictions(self) -> Iterator[Contradiction]:
        """A matrix with a zero diagonal has no inverse."""
        if self.coefficients[0] == 0.0:
            yield Contradiction("coefficients", "to begin with a number other than 0", 0.0)

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        if len(self.coefficients) > steps:
            yield Contradiction("coefficients", f"to be at most the {steps} steps", len(self.coefficients))


@STRATEGIES.register("blt")
@dataclass(frozen=True)
class BufferedStrategy(Strategy):
    """Buffered linear Toeplitz: 1 on the diagonal and sum_i weights[i] decays[i]^(lag - 1) below it."""

    weights: Annotated[tuple[float, ...], Numbers(Number())]
    decays: Annotated[tuple[float, ...], Numbers(Number(Interval(0.0, 1.0)))]

    def contradictions(self) -> Iterator[Contradiction]:
        """A weight for every decay."""
        if len(self.weights) != len(self.decays):
            yield Contradiction("weights", f"to be {len(self.decays)}, as many as decays", len(self.weights))

    def first_column(self, steps: int) -> Array:
        powers = np.asarray(self.decays)[:, None] ** np.arange(max(steps - 1, 0))[None, :]
        return np.concatenate([[1.0], np.asarray(self.weights) @ powers])


@STRATEGIES.register("bisr")
@dataclass(frozen=True)
class BandedInverseRootStrategy(Strategy):
    """The matrix whose inverse is the banded inverse square root of the prefix-sum matrix."""

    bands: Annotated[int, Whole(), "diagonals of the inverse that are kept"]

    def first_column(self, steps: int) -> Array:
        # (1 - x)^(1/2) = 1 - sum of rest_j x^j; the inverse of its first terms follows by recursion.
        kept = min(self.bands, steps)
        rest = np.cumprod(np.concatenate([[0.5], 1 - 1.5 / np.arange(2, max(kept, 2))]))[: kept - 1]
        return np.asarray(signal.lfilter([1.0], np.concatenate([[1.0], -rest]), np.eye(1, steps)[0]))


@STRATEGIES.register("tree")
@dataclass(frozen=True)
class TreeStrategy(Strategy):
    """Sums over the nodes of a binary tree whose leaves are the steps: tree aggregation."""

    def first_column(self, steps: int) -> None:
        return None

    def gram(self, steps: int) -> Array:
        places = np.arange(steps)
        # Two steps share the nodes above the highest bit in which they differ.
        return self._levels(steps) - np.frexp((places[:, None] ^ places[None, :]).astype(float))[1].astype(float)

    def squares(self, steps: int) -> Array:
        return np.full(steps, float(self._levels(steps)))

    def _levels(self, steps: int) -> int:
        return 1 + (steps - 1).bit_length()


@STRATEGIES.register("dense")
@dataclass(frozen=True)
class DenseStrategy(Strategy):
    """Any lower triangular matrix, row by row."""

    rows: Annotated[tuple[tuple[float, ...], ...], Several(Numbers(Number()), MOST_STEPS)]

    def first_column(self, steps: int) -> None:
        return None

    def gram(self, steps: int) -> Array:
        matrix = np.array([(*row, *[0.0] * (steps - len(row))) for row in self.rows], dtype=np.float64)
        return matrix.T @ matrix

    def squares(self, steps: int) -> Array:
        return np.diag(self.gram(steps))

    def contradictions(self) -> Iterator[Contradiction]:
        """Nothing above the diagonal: noise that knows later steps cannot be drawn in order."""
        for place, row in enumerate(self.rows):
            later = [(column, entry) for column, entry in enumerate(row) if column > place and entry != 0.0]
            if later:
                column, entry = later[0]
                zero = f"to be 0, because column {column} is above the diagonal of row {place}"
                yield Contradiction(f"rows.{place}.{column}", zero, entry, "give a lower triangular matrix")
                return
            if len(row) <= place or row[place] == 0.0:
                yield Contradiction(f"rows.{place}", f"to have a number other than 0 in column {place}", len(row))
                return

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        if len(self.rows) != steps or any(len(row) > steps for row in self.rows):
            yield Contradiction("rows", f"to be {steps} rows of at most {steps} entries", len(self.rows))


class ParticipationScheme(StrEnum):
    """When one unit may contribute."""

    SINGLE = "single"
    EPOCHS = "epochs"
    MIN_SEPARATION = "min-separation"


@dataclass(frozen=True)
class Participation(Section):
    """How often a unit contributes, and how far apart; fixed by its place, never by the data."""

    scheme: Annotated[ParticipationScheme, Word(ParticipationScheme)]
    separation: Annotated[int | None, Whole(), "epochs: steps of a pass; min-separation: steps between two uses"] = None
    uses: Annotated[int | None, Whole(), "uses at most; absent: as many as the separation leaves room for"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        """A single use has no separation, several have one."""
        single = self.scheme is ParticipationScheme.SINGLE
        if single and self.separation is not None:
            yield Contradiction("separation", "to be absent for a single participation", self.separation)
        if single and self.uses not in (None, 1):
            yield Contradiction("uses", "to be absent or 1 for a single participation", self.uses)
        if self.scheme is ParticipationScheme.EPOCHS and self.uses is not None:
            yield Contradiction("uses", "to be absent for epochs, in each of which a unit is used", self.uses)
        if not single and self.separation is None:
            yield Contradiction("separation", f"to be given for {self.scheme.value} participation", None)

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        """Uses that the steps leave no room for."""
        room = self.most_uses(steps)
        if self.separation is not None and self.separation > steps:
            yield Contradiction("separation", f"to be at most the {steps} steps", self.separation)
        elif self.uses is not None and self.uses > room:
            most = f"to be at most {room} = ceil({steps} steps / separation {self.separation or steps})"
            yield Contradiction("uses", most, self.uses)

    def most_uses(self, steps: int) -> int:
        """How many uses the separation leaves room for."""
        return 1 if self.separation is None else -(-steps // self.separation)


@RUNS.register("matrix-mechanism")
@dataclass(frozen=True, kw_only=True)
class MatrixMechanism(Mechanism):
    """Noise correlated over the steps of a run: contributions times a matrix, plus independent Gaussian noise."""

    steps: Annotated[int, Whole(Interval(1, 10_000_000))]
    strategy: Annotated[Strategy, STRATEGIES]
    contribution: Annotated[
        float, Number(POSITIVE), "bound on one unit's contribution to a step; under replace-one it moves by twice that"
    ]
    noise_multiplier: Annotated[float, Number(POSITIVE), "noise standard deviation over the contribution bound"]
    participation: Annotated[Participation, Nested(Participation)]

    @property
    def once(self) -> str:
        kind, how = STRATEGIES.word_of(self.strategy), self.participation.scheme.value
        return f"{self.steps} steps with {kind} correlated noise, {how} participation"

    def contradictions(self) -> Iterator[Contradiction]:
        """Matrix and participation fit the steps."""
        yield from (misfit.under("strategy") for misfit in self.strategy.misfits(self.steps))
        yield from (misfit.under("participation") for misfit in self.participation.misfits(self.steps))
