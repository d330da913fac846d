"""A look at a table that is not read whole: questions travel to its parts, and whole numbers come back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.engines.totals import Totals
from sordino.algorithm.rounds.questions import EXPONENT, Question, Rows
from sordino.core.bound import Relation
from sordino.data import Schema
from sordino.data.encode import check_number
from sordino.data.parts import parts_of
from sordino.estimators.in_parts import RowsThere, TableInParts, table_in_parts

Whole = NDArray[Any]
# The sums of some questions over all rows.
SumsOf = Callable[[Sequence[Question]], list[Whole]]


def sums_in_memory(rows: Rows) -> SumsOf:
    """The sums of questions over rows in memory."""
    return lambda questions: [one.sums(rows) for one in questions]


@dataclass(frozen=True, eq=False)
class AskedTogether:
    """The questions of one round, as an engine brings them to rows."""

    name: str
    questions: tuple[Question, ...]

    @property
    def numbers(self) -> int:
        """Entries of all sums."""
        return sum(one.size for one in self.questions)

    @property
    def exponent(self) -> int:
        """Of the unit of the sums."""
        return EXPONENT

    def of(self, rows: Rows) -> tuple[NDArray[np.int64], int]:
        """What these rows add."""
        return np.concatenate([one.sums(rows) for one in self.questions]), EXPONENT


def parts_to_look_at(schema: Schema, data: Any, engine: Any, names: Sequence[str]) -> TableInParts:
    """The parts, of which names and types are looked at; no row is read. A count reads the first column."""
    return table_in_parts(schema, data, engine, only=names or parts_of(schema.source(data))[0].names()[:1])


def sums_in_parts(given: TableInParts, schema: Schema, relation: Relation) -> SumsOf:
    """Sums by the engine, after the debit; the number of units is compared in every round."""
    total: Totals = given.totals(schema, RowsThere(schema))

    def sums(questions: Sequence[Question]) -> list[Whole]:
        found = total(AskedTogether("look", tuple(questions)))
        check_number(schema, relation, found.units)
        return np.split(found.sums.integers(), np.cumsum([one.size for one in questions])[:-1])

    return sums
