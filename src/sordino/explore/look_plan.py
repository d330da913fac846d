"""The plan of a look: what noise every question gets, what is certified for it, and its answers.

A question with the share w of the budget gets noise of standard deviation B / (mu sqrt w), where a unit moves its sums
by B and epsilon and delta afford mu. So one unit moves the stack of all sums, each over its noise, by at most
sqrt(sum of B^2 / noise^2) = mu: one Gaussian mechanism. Bounds spend half of their share on a second round, whose bins
depend on the first; Gaussian rounds add up to mu^2 = mu_1^2 + mu_2^2 however the later one is chosen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu, up
from sordino.core.spec import ListSchedule, NoisedSums, Spec
from sordino.core.validate import InputError, shown_names
from sordino.data import Schema
from sordino.data.encode import check_number
from sordino.engines.totals import Totals
from sordino.fitting.methods.base import full_sums
from sordino.fitting.problem import Sources
from sordino.fitting.table_parts import RowsThere, TableInParts
from sordino.mechanisms.statistics.answers import FILLED, Asked, Row, answer, first_ends
from sordino.mechanisms.statistics.parse_questions import ParsedQuestion
from sordino.mechanisms.statistics.population import MeansTest, SurvivalCurve
from sordino.mechanisms.statistics.questions import EXPONENT, Bounds, Correlation, Count, Question, Rows
from sordino.noise.port import CheckedSum, SumNoise
from sordino.noise.randomness import Randomness

Whole = np.ndarray
SumsOf = Callable[[Sequence[Question]], list[Whole]]  # the sums of some questions over all rows
# Bounds are refused where a cell would need more than this share of the records to be seen through the noise.
_MOST_HIDDEN, _TOGETHER, _TWO = 0.25, 0.6, math.sqrt(2.0)
_COARSE = "Suggested bounds are powers of 2: the budget is too small for a second round of counts that refines them."


class LookPlan(NamedTuple):
    """What is about to run: the questions, the noise of each, and the spec that is certified and charged."""

    asked: tuple[ParsedQuestion, ...]
    schema: Schema
    relation: Relation
    delta: float
    noise: tuple[float, ...]
    spec: Spec

    @classmethod
    def of(
        cls, asked: Sequence[ParsedQuestion], schema: Schema, epsilon: float, delta: float, relation: Relation
    ) -> Self:
        """Noise and spec, from public numbers alone."""
        public = Count if relation is Relation.REPLACE_ONE else ()
        charged = [one for one in asked if not isinstance(one.question, public)]
        if not charged:
            raise InputError("None of these questions needs rows: the number of records is public.")
        mu = largest_mu(epsilon, delta) * (1.0 - 1e-9)
        share = 1.0 / len(charged)
        bounds = [one for one in charged if isinstance(one.question, Bounds)]
        for most in (2, 1):  # bounds are refined in a second round, unless that would leave too little for the first
            rounds = {one: most if one in bounds else 1 for one in charged}
            noise = {one: up(_moved(one, relation) / (mu * math.sqrt(share / rounds[one])), 4) for one in charged}
            largest = max((noise[one] for one in bounds), default=0.0)
            if _hidden(largest, schema.records, most) <= 1.0:
                break
        moved = {one: (_moved(one, relation) / noise[one]) ** 2 for one in charged}
        squares = [sum(moved[one] for one in charged if rounds[one] >= place) for place in (1, 2)]
        # Bounds that noise would hide are refused by public numbers alone, before anything is spent.
        hidden = _hidden(largest, schema.records, 1)
        if hidden > 1.0:
            raise InputError(
                f"Epsilon {epsilon:g} is too small to read bounds for {len(charged)} questions and "
                f"{schema.records} {schema.counted}. Use about {hidden:.2g} times as much, or fewer questions. "
                "Nothing was read and nothing was spent."
            )
        spec = _spec(charged, [math.sqrt(square) for square in squares if square > 0.0], schema, relation, delta)
        return cls(tuple(asked), schema, relation, delta, tuple(noise.get(one, 0.0) for one in asked), spec)

    def answered(self, sums_of: SumsOf, sources: Sources, level: float) -> list[tuple[ParsedQuestion, tuple[Row, ...]]]:
        """Noise the sums, one call a round, and answer."""
        first = self._round(sums_of, sources.fresh(), [one.question for one in self.asked], list(self.noise))
        asked = enumerate(self.asked) if _twice(self.spec) else ()
        bounds = {k: one.question for k, one in asked if isinstance(one.question, Bounds)}
        ends = {k: first_ends(question, first[k], self.noise[k]) for k, question in bounds.items()}
        # Where the first round found no ends the second one counts all the same, so that as much is noised.
        refined = {
            k: question.refined(*(ends[k] or (-1.0, 1.0)), self.schema.records, self.noise[k])
            for k, question in bounds.items()
        }
        second: dict[int, Array] = {}
        if refined:
            noise = [self.noise[k] for k in refined]
            sums = self._round(sums_of, sources.fresh(), list(refined.values()), noise)
            second = dict(zip(refined, sums, strict=True))
        answers, public = [], (self.schema.records, self.relation is Relation.REPLACE_ONE, self.schema, level)
        for k, one in enumerate(self.asked):
            if k in ends and ends[k] is None:
                answers.append((one, ()))
                continue
            again = None if k not in ends else Asked(refined[k], second[k], self.noise[k], *public)
            given = Asked(one.question, first[k], self.noise[k], *public, again, dict(one.options))
            answers.append((one, tuple(answer(one.question, given))))
        return answers

    def _round(
        self, sums_of: SumsOf, randomness: Randomness, questions: Sequence[Question], noise: Sequence[float]
    ) -> list[Array]:
        """The noised sums of one round: one call of the port for all questions that are charged."""
        charged = [place for place, sd in enumerate(noise) if sd > 0.0]
        sums = sums_of([questions[place] for place in charged])
        totals = []
        for place, one in zip(charged, sums, strict=True):
            question = questions[place]
            shares = 1.0 / question.scaling if isinstance(question, Correlation) else 1.0
            moved = question.lengths.under(self.relation)
            totals.append(CheckedSum(one, EXPONENT, moved, noise[place] / moved, shares))
        noised = SumNoise.of(randomness, sum(map(len, sums))).noised(totals)
        parts = iter(np.split(noised, np.cumsum([len(one) for one in sums])[:-1]))
        return [next(parts) if sd > 0.0 else np.zeros(0) for sd in noise]


def look_cautions(answers: Sequence[Mapping[str, Any]], spec: Spec) -> tuple[str, ...]:
    """What a reader of answers, as they are stored, must know first; from what was released."""
    bounds = [one for one in answers if one["word"] == Bounds.word]
    lost = [one["question"] for one in bounds if not one["rows"]]
    said = [f"Noise hides every value for {shown_names(lost)}: ask fewer questions, or spend more on them."]
    few = [
        one["question"] for one in answers if one["word"] in (MeansTest.word, SurvivalCurve.word) and not one["rows"]
    ]
    hidden = [f"Too few records, or too much noise, for {shown_names(few)}: spend more, or merge rare words."]
    coarse = len(lost) < len(bounds) and not _twice(spec)
    return (*(said if lost else ()), *(hidden if few else ()), *((_COARSE,) if coarse else ()))


def _twice(spec: Spec) -> bool:
    """Whether bounds are refined in a second round."""
    return isinstance(spec.algorithm, NoisedSums) and spec.algorithm.rounds == 2


def _hidden(noise: float, records: int, rounds: int) -> float:
    """What must stand out, over what is taken to be there: a cell of a quarter, in one round two of three fifths."""
    return FILLED * noise / (_MOST_HIDDEN * records) if rounds == 2 else FILLED * noise * _TWO / (_TOGETHER * records)


def _moved(one: ParsedQuestion, relation: Relation) -> float:
    return one.question.lengths.under(relation)


def _spec(
    charged: Sequence[ParsedQuestion], mus: Sequence[float], schema: Schema, relation: Relation, delta: float
) -> Spec:
    """The run in words. Sums are over their noise and scaled so that one unit moves a round by 1."""
    replaced = relation is Relation.REPLACE_ONE
    added = up(max(one.question.lengths.added / _moved(one, relation) for one in charged))
    longest = min(1.0, added) if replaced else 1.0
    listed = "; ".join(one.question.text for one in charged)
    query = "a look: " + (listed if len(listed) <= 400 else f"{listed[:380]} and more")
    multipliers = ListSchedule(tuple(up(1.0 / mu * (1.0 - 1e-12)) / longest for mu in mus))
    algorithm = full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, len(mus))
    return Spec(algorithm=algorithm, relation=relation, view=View.ALL_ITERATES, delta=delta)


def sums_in_memory(rows: Rows) -> SumsOf:
    """The sums of questions over rows in memory."""
    return lambda questions: [one.sums(rows) for one in questions]


@dataclass(frozen=True, eq=False)
class AskedTogether:
    """The questions of one round, as an engine brings them to rows."""

    name: str
    questions: tuple[Question, ...]
    exponent: int = EXPONENT

    @property
    def numbers(self) -> int:
        return sum(one.size for one in self.questions)

    def of(self, rows: Rows) -> NDArray[np.int64]:
        return np.concatenate([one.sums(rows) for one in self.questions])


def sums_in_parts(given: TableInParts, schema: Schema, relation: Relation) -> SumsOf:
    """Sums by the engine, after the debit; the number of units is compared in every round."""
    total: Totals = given.totals(schema, RowsThere(schema))

    def sums(questions: Sequence[Question]) -> list[Whole]:
        found = total(AskedTogether("look", tuple(questions)))
        check_number(schema, relation, found.units)
        return np.split(found.sums, np.cumsum([one.size for one in questions])[:-1])

    return sums
