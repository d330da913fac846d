"""Kinds for mechanisms: rounds of noised sums, noised answers, randomised response, selection, random shifts.

How far a unit moves an answer or a score is always meant under the spec's own relation.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import problem as parts
from sordino.core.spec.chain import Batch, Scheme
from sordino.core.spec.fields import (
    COUNT,
    Contradiction,
    Flag,
    Nested,
    Number,
    Schema,
    Section,
    Several,
    Shape,
    Text,
    Whole,
    Word,
    as_object,
    join,
)
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, InputError, Interval, number, refuse

_TWO_OR_MORE = Interval(2, COUNT.high)
_SENSITIVITY = "how far one unit moves it at most, under the spec's relation"
MOST_SHIFTS = 1000


@dataclass(frozen=True, kw_only=True)
class Mechanism(parts.Algorithm):
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


class AnswerNoiseKind(StrEnum):
    """The law of the noise on an answer; discrete ones are laws on the whole numbers."""

    LAPLACE = "laplace"
    DISCRETE_LAPLACE = "discrete-laplace"
    GAUSSIAN = "gaussian"
    DISCRETE_GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True)
class AnswerNoise(Section):
    """Independent noise on every coordinate of an answer."""

    kind: Annotated[AnswerNoiseKind, Word(AnswerNoiseKind)]
    scale: Annotated[
        float,
        POSITIVE,
        "laws proportional to exp(-|x| / scale) (laplace, discrete-laplace) or exp(-x^2 / (2 scale^2)) (gaussian, "
        "discrete-gaussian)",
    ]


@parts.RUNS.register("noised-answer", kw_only=True)
class NoisedAnswer(Mechanism):
    """An answer of bounded sensitivity plus noise."""

    query: Annotated[str, Text(), "what is answered, in words for people; no theorem reads them"]
    sensitivity: Annotated[float, POSITIVE, f"{_SENSITIVITY}: l1 for Laplace noise, l2 for Gaussian noise"]
    dim: Annotated[int, Whole(), "number of values"] = 1
    noise: Annotated[AnswerNoise, Nested(AnswerNoise)]
    rate: Annotated[float | None, OPEN_UNIT, "secret chance of a unit to take part in a use; absent: all do"] = None

    @property
    def once(self) -> str:
        sampled = "" if self.rate is None else f" on a secret sample of rate {self.rate:.6g}"
        noise = f"{self.noise.kind.value} noise of scale {self.noise.scale:.6g}"
        return f"{self.query}{sampled}, with {noise}"

    def contradictions(self) -> Iterator[Contradiction]:
        """Noise on the whole numbers hides whole numbers only; in several dimensions their l2 distance is any root."""
        kind = self.noise.kind
        whole = kind is AnswerNoiseKind.DISCRETE_LAPLACE or (
            kind is AnswerNoiseKind.DISCRETE_GAUSSIAN and self.dim == 1
        )
        if whole and self.sensitivity != int(self.sensitivity):
            yield Contradiction("sensitivity", "to be a whole number where answers and noise are", self.sensitivity)


@parts.RUNS.register("randomised-response", kw_only=True)
class RandomisedResponse(Mechanism):
    """Every unit reports its true category with a given probability, else one of the others at random."""

    categories: Annotated[int, _TWO_OR_MORE, "number of answers there are"]
    truth: Annotated[float, OPEN_UNIT, "probability of the true answer; the others share the rest evenly"]

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


@parts.RUNS.register("selection", kw_only=True)
class Selection(Mechanism):
    """One candidate is chosen by its score; only its name is released."""

    method: Annotated[SelectionMethod, Word(SelectionMethod)]
    sensitivity: Annotated[float, POSITIVE, f"of every score: {_SENSITIVITY}"]
    scale: Annotated[
        float,
        POSITIVE,
        "exponential: weights exp(score / scale); permute-and-flip: accepted with probability exp((score - best) / "
        "scale); noisy-max: scale of the noise on every score",
    ]
    monotone: Annotated[bool, Flag(), "whether an added unit moves all scores one way; used under add-remove"] = False

    @property
    def once(self) -> str:
        moved = f"scores moved by at most {self.sensitivity / self.scale:.6g} scales"
        return f"one candidate by {self.method.value}, {moved}"


@parts.RUNS.register("sparse-vector", kw_only=True)
class SparseVector(Mechanism):
    """Whether noised queries exceed one noised threshold, until some have; queries may be chosen adaptively."""

    sensitivity: Annotated[float, POSITIVE, f"of every query: {_SENSITIVITY}"]
    positives: Annotated[int, Whole(), "it stops after this many queries above the threshold"]
    threshold_scale: Annotated[float, POSITIVE, "Laplace scale on the threshold, drawn once"]
    query_scale: Annotated[float, POSITIVE, "Laplace scale on every query, drawn anew"]
    answer_scale: Annotated[float | None, POSITIVE, "Laplace scale of released values; absent: none"] = None
    monotone: Annotated[bool, Flag(), "whether an added unit moves all queries one way; used under add-remove"] = False

    @property
    def once(self) -> str:
        return f"sparse vector until {self.positives} queries are above a noised threshold"


@parts.RUNS.register("random-shift", kw_only=True)
class RandomShift(Mechanism):
    """A Gaussian answer that a unit moves by one of several lengths, drawn secretly and independently of the data."""

    shifts: Annotated[tuple[float, ...], Several(Number(NON_NEGATIVE), MOST_SHIFTS), "how far a present unit moves it"]
    weights: Annotated[tuple[float, ...], Several(Number(NON_NEGATIVE), MOST_SHIFTS), "with which probabilities"]
    scale: Annotated[float, POSITIVE, "standard deviation of the noise"]

    @property
    def once(self) -> str:
        return f"a Gaussian answer that a unit moves by one of {len(self.shifts)} lengths"

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.weights) != len(self.shifts):
            yield Contradiction("weights", f"to be {len(self.shifts)}, as many as shifts", len(self.weights))
        elif abs(sum(self.weights) - 1) > 1e-12:
            yield Contradiction("weights", "to add to 1", sum(self.weights))
        elif not any(weight > 0 < shift for weight, shift in zip(self.weights, self.shifts, strict=True)):
            yield Contradiction("shifts", "to have one above 0 with a weight above 0", max(self.shifts))


# Rounds of noised sums. What a round sums is said in words; theorems read how far one unit moves a sum and its noise.


class SumShape(StrEnum):
    """What a unit contributes: any vector, or a positive semidefinite matrix of rank one."""

    VECTOR = "vector"
    RANK_ONE = "rank-one"


# How far replacing a unit moves a sum, over the bound on a contribution. Two vectors may point in opposite directions;
# |x x' - z z'|^2 = |x|^4 + |z|^4 - 2 (x.z)^2 is at most twice the larger square.
_REPLACED = {SumShape.VECTOR: 2.0, SumShape.RANK_ONE: up(2.0**0.5)}

Setting = bool | int | float | str | tuple[int | float, ...]
Option = Setting | parts.Schedule
SettingValues = tuple[tuple[str, Setting], ...]
NO_SETTINGS: SettingValues = ()


@dataclass(frozen=True)
class Settings(Shape):
    """A JSON object of words to numbers, flags, lines of text, lists of numbers, maybe schedules; a tuple of pairs."""

    schedules: bool = False

    def read(self, path: str, value: object) -> tuple[tuple[str, Any], ...]:
        given: Mapping[str, object] = dict(value) if isinstance(value, tuple) else as_object(path, value)
        for name in given:
            if not isinstance(name, str) or not name.isascii() or not name.isidentifier():
                raise refuse(path, "to have names made of letters, digits and _", name)
        return tuple((name, self._entry(join(path, name), entry)) for name, entry in given.items())

    def _entry(self, path: str, value: object) -> Option:
        if self.schedules and isinstance(value, Mapping | parts.Schedule):
            return parts.Scheduled().read(path, value)
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            return Text().read(path, value)
        if isinstance(value, list | tuple) and value:
            return tuple(_number(join(path, place), entry) for place, entry in enumerate(value))
        return _number(path, value)

    def write(self, value: tuple[tuple[str, Option], ...]) -> dict[str, object]:
        written: dict[str, object] = {}
        for name, entry in value:
            plain = list(entry) if isinstance(entry, tuple) else entry
            written[name] = parts.Scheduled().write(plain) if isinstance(plain, parts.Schedule) else plain
        return written

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        numbers = {"type": "array", "minItems": 1, "items": {"type": "number"}}
        allowed = [{"type": "boolean"}, {"type": "number"}, Text().schema(definitions), numbers]
        allowed += [parts.SCHEDULES.schema(definitions)] if self.schedules else []
        names = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": allowed}}


def _number(path: str, value: object) -> int | float:
    """A finite number, kept whole where it is written whole: a count must not become a measurement."""
    checked = number(path, value)
    return int(value) if isinstance(value, int) else checked


@parts.RUNS.register("noised-sums", kw_only=True)
class NoisedSums(parts.Algorithm):
    """Rounds that release a noised sum of bounded contributions, each a function of one unit and of earlier rounds."""

    views: ClassVar[frozenset[View]] = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})

    query: Annotated[str, Text(), "what is summed, in words for people; no theorem reads them"]
    records: Annotated[int, Whole(), "number of records, or of units where a unit is stated; a public constant"]
    rounds: Annotated[int, Whole(), "number of noised sums"]
    sampling: Annotated[Batch, Nested(Batch), "which records a round uses"]
    contribution: Annotated[
        float,
        POSITIVE,
        "bound on one unit's contribution to a round, by which it moves the sum under add-remove; under replace-one by "
        "twice this, or sqrt 2 times where the shape is rank-one",
    ]
    shape: Annotated[SumShape, Word(SumShape)] = SumShape.VECTOR
    replacement: Annotated[float | None, POSITIVE, "how far a replacement moves a sum at most, if less far"] = None
    noise_multiplier: Annotated[parts.Schedule, parts.Scheduled(), "noise deviation over the contribution bound"]
    unit: Annotated[parts.AnyUnit, parts.UNIT, "whose presence is hidden"] = parts.Unit.RECORD
    options: Annotated[
        tuple[tuple[str, Option], ...], Settings(schedules=True), "damping, step sizes, ...; no theorem reads them"
    ] = NO_SETTINGS

    @property
    def words(self) -> str:
        times = "1 noised sum" if self.rounds == 1 else f"{self.rounds} rounds of noised sums"
        shape = "" if self.shape is SumShape.VECTOR else f" ({self.shape.value})"
        first = self.noise_multiplier.values(self.rounds)[0]
        replaced = "" if self.replacement is None else f"; a replacement moves it by at most {self.replacement:.6g}"
        unit = f"; one unit is {self.unit.words}" if isinstance(self.unit, parts.ColumnUnit) else ""
        return (
            f"{times}: {self.query}; {self.sampling.words}; contributions of at most {self.contribution:.6g}{shape}, "
            f"noise {first:.6g} times that{replaced}{unit}"
        )

    def needs(self, problem: parts.Problem | None, view: View) -> Iterator[Contradiction]:
        if problem is not None and problem.n not in (None, self.records):
            yield Contradiction("problem.n", f"to be absent or algorithm.records = {self.records}", problem.n)

    def contradictions(self) -> Iterator[Contradiction]:
        yield from (misfit.under("sampling") for misfit in self.sampling.misfits(self.records, "records"))
        yield from self.noise_multiplier.misfits(self.rounds, "noise_multiplier")
        for name, value in self.options:
            if isinstance(value, parts.Schedule):
                yield from value.misfits(self.rounds, f"options.{name}")
        largest = _REPLACED[self.shape] * self.contribution
        if self.replacement is not None and not self.contribution <= self.replacement <= largest:
            allowed = f"to lie between the contribution and what the shape allows, {self.contribution:g} to {largest:g}"
            yield Contradiction("replacement", allowed, self.replacement, "leave it out")
        if isinstance(self.unit, parts.ColumnUnit) and self.sampling.scheme is not Scheme.FULL:
            several = "to be full where a unit has several records"
            yield Contradiction("sampling.scheme", several, self.sampling.scheme.value)

    @property
    def batch_size(self) -> int:
        return self.sampling.divisor(self.records)

    @property
    def rate(self) -> float:
        return self.sampling.inclusion(self.records)

    @property
    def batches_per_epoch(self) -> int:
        return self.sampling.per_epoch(self.records)

    @property
    def hidden(self) -> parts.AnyUnit:
        return self.unit

    def moves(self, relation: Relation) -> float:
        """How far one unit moves a round's sum, over the contribution bound."""
        if relation is Relation.REPLACE_ONE and self.replacement is not None:
            return up(self.replacement / self.contribution)
        return moves(relation, self.shape)

    def sensitivity(self, relation: Relation) -> float:
        if relation is Relation.REPLACE_ONE and self.replacement is not None:
            return self.replacement
        return self.moves(relation) * self.contribution

    @property
    def sum_noise(self) -> Array:
        return self.noise_multiplier.values(self.rounds) * self.contribution

    def relative_noise(self, relation: Relation) -> Array:
        """The same over how far one unit moves the sum."""
        return self.noise_multiplier.values(self.rounds) / self.moves(relation)

    def schedule(self, name: str) -> parts.Schedule:
        """A setting that the run needs, a number for every round."""
        if (given := dict(self.options).get(name)) is None:
            raise InputError(f"algorithm.options.{name} is missing; {self.query!r} needs it.")
        return parts.Scheduled().read(f"algorithm.options.{name}", given)


def moves(relation: Relation, shape: SumShape = SumShape.VECTOR) -> float:
    """How far one unit moves a sum, over the contribution bound; noise over the sensitivity, times this, is over it."""
    return _REPLACED[shape] if relation is Relation.REPLACE_ONE else 1.0
