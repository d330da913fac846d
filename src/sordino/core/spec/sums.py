"""Kind `noised-sums`: rounds of sums of bounded contributions with noise, and the three kinds it took the place of.

What a round sums is said in words, for people; theorems read how far one unit moves a sum and how much noise is on it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec.chain import Batch, Scheme
from sordino.core.spec.fields import Nested
from sordino.core.spec.instance import NO_SETTINGS, Setting, Settings
from sordino.core.spec.problem import RUNS, UNIT, Algorithm, AnyUnit, ColumnUnit, Problem, Unit
from sordino.core.spec.schedules import SCHEDULES, Schedule, Scheduled
from sordino.core.spec.shapes import Contradiction, Number, Schema, Text, Whole, Word
from sordino.core.validate import POSITIVE, InputError


class SumShape(StrEnum):
    """What a unit contributes: any vector, or a positive semidefinite matrix of rank one."""

    VECTOR = "vector"
    RANK_ONE = "rank-one"


# How far replacing a unit moves a sum, over the bound on a contribution. Two vectors may point in opposite directions;
# |x x' - z z'|^2 = |x|^4 + |z|^4 - 2 (x.z)^2 is at most twice the larger square.
_REPLACED = {SumShape.VECTOR: 2.0, SumShape.RANK_ONE: up(2.0**0.5)}


Option = Setting | Schedule


class Options(Settings):
    """Settings, and schedules written as objects; kept and shown, never read by a theorem."""

    def read_entry(self, path: str, value: Any) -> Option:
        """Read an object as a schedule, anything else as a setting."""
        if isinstance(value, Mapping | Schedule):
            return Scheduled().read(path, value)
        return super().read_entry(path, value)

    def write_entry(self, value: Option) -> Any:
        return Scheduled().write(value) if isinstance(value, Schedule) else super().write_entry(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        found = super().schema(definitions)
        found["additionalProperties"]["anyOf"].append(SCHEDULES.schema(definitions))
        return found


@RUNS.register("noised-sums")
@dataclass(frozen=True, kw_only=True)
class NoisedSums(Algorithm):
    """Rounds that release a noised sum of bounded contributions, each a function of one unit and of earlier rounds."""

    views: ClassVar[frozenset[View]] = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})

    query: Annotated[str, Text(), "what is summed, in words for people; no theorem reads them"]
    records: Annotated[int, Whole(), "number of records, or of units where a unit is stated; a public constant"]
    rounds: Annotated[int, Whole(), "number of noised sums"]
    sampling: Annotated[Batch, Nested(Batch), "which records a round uses"]
    contribution: Annotated[
        float,
        Number(POSITIVE),
        "bound on one unit's contribution to a round: under add-remove a unit moves the sum by at most this much, "
        "under replace-one by at most twice this much, or sqrt 2 times where the shape is rank-one",
    ]
    shape: Annotated[SumShape, Word(SumShape)] = SumShape.VECTOR
    replacement: Annotated[
        float | None,
        Number(POSITIVE),
        "how far replacing a unit moves a round's sum at most, where that is less than contribution and shape say",
    ] = None
    noise_multiplier: Annotated[Schedule, Scheduled(), "noise standard deviation over the contribution bound"]
    unit: Annotated[AnyUnit, UNIT, "whose presence is hidden"] = Unit.RECORD
    options: Annotated[
        tuple[tuple[str, Option], ...], Options(), "damping, step sizes, ...: shown, never read by a theorem"
    ] = NO_SETTINGS

    @property
    def words(self) -> str:
        times = "1 noised sum" if self.rounds == 1 else f"{self.rounds} rounds of noised sums"
        shape = "" if self.shape is SumShape.VECTOR else f" ({self.shape.value})"
        first = self.noise_multiplier.values(self.rounds)[0]
        replaced = "" if self.replacement is None else f"; a replacement moves it by at most {self.replacement:.6g}"
        unit = f"; one unit is {self.unit.words}" if isinstance(self.unit, ColumnUnit) else ""
        return (
            f"{times}: {self.query}; {self.sampling.words}; contributions of at most {self.contribution:.6g}{shape}, "
            f"noise {first:.6g} times that{replaced}{unit}"
        )

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """The number of records is stated once, or twice alike."""
        if problem is not None and problem.n not in (None, self.records):
            yield Contradiction("problem.n", f"to be absent or algorithm.records = {self.records}", problem.n)

    def contradictions(self) -> Iterator[Contradiction]:
        """Batches fit into the records, schedules serve all rounds, and units of several records stay whole."""
        yield from (misfit.under("sampling") for misfit in self.sampling.misfits(self.records, "records"))
        yield from self.noise_multiplier.misfits(self.rounds, "noise_multiplier")
        for name, value in self.options:
            if isinstance(value, Schedule):
                yield from value.misfits(self.rounds, f"options.{name}")
        largest = _REPLACED[self.shape] * self.contribution
        if self.replacement is not None and not self.contribution <= self.replacement <= largest:
            allowed = f"to lie between the contribution and what the shape allows, {self.contribution:g} to {largest:g}"
            yield Contradiction("replacement", allowed, self.replacement, "leave it out")
        if isinstance(self.unit, ColumnUnit) and self.sampling.scheme is not Scheme.FULL:
            several = "to be full where a unit has several records"
            yield Contradiction("sampling.scheme", several, self.sampling.scheme.value)

    @property
    def batch_size(self) -> int:
        """Records a round, the default resolved."""
        return self.sampling.divisor(self.records)

    @property
    def rate(self) -> float:
        """The probability that a round uses a given record."""
        return self.sampling.inclusion(self.records)

    @property
    def batches_per_epoch(self) -> int:
        """How many batches one pass over the records takes, a partial last one included."""
        return self.sampling.per_epoch(self.records)

    @property
    def hidden(self) -> AnyUnit:
        return self.unit

    def moves(self, relation: Relation) -> float:
        """How far one unit moves a round's sum, over the contribution bound."""
        if relation is Relation.REPLACE_ONE and self.replacement is not None:
            return up(self.replacement / self.contribution)
        return moves(relation, self.shape)

    def sensitivity(self, relation: Relation) -> float:
        """How far one unit moves a round's sum."""
        if relation is Relation.REPLACE_ONE and self.replacement is not None:
            return self.replacement
        return self.moves(relation) * self.contribution

    @property
    def sum_noise(self) -> Array:
        """The standard deviation of the noise on each round's sum."""
        return self.noise_multiplier.values(self.rounds) * self.contribution

    def relative_noise(self, relation: Relation) -> Array:
        """The same over how far one unit moves the sum."""
        return self.noise_multiplier.values(self.rounds) / self.moves(relation)

    def option(self, name: str) -> Option:
        """A setting that whoever runs the sums needs."""
        given = dict(self.options)
        if name not in given:
            raise InputError(f"Expected algorithm.options.{name} to be given for {self.query!r}, got nothing.")
        return given[name]

    def schedule(self, name: str) -> Schedule:
        """A setting that is a number for every round."""
        return Scheduled().read(f"algorithm.options.{name}", self.option(name))


def moves(relation: Relation, shape: SumShape = SumShape.VECTOR) -> float:
    """How far one unit moves a sum, over the contribution bound; noise over the sensitivity, times this, is over it."""
    return _REPLACED[shape] if relation is Relation.REPLACE_ONE else 1.0
