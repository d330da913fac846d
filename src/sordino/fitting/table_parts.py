"""A fit on a table that is read in parts: the parts, the engine that sums over them, and the encoding of rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sordino.engines as _engines  # noqa: F401  registers every engine
from sordino.core.bound import Relation
from sordino.core.validate import InputError, instance_of
from sordino.data import Schema
from sordino.data.encode import check_parts, counting_column
from sordino.data.sources.registry import TablePart, parts_of
from sordino.data.table import Table
from sordino.engines.totals import Encode, Engine, Progress, Totals, engine_of, ignore_progress
from sordino.engines.unit_buckets import UnitSpread, buckets_for
from sordino.fitting.charge import RowAccess
from sordino.fitting.declaration import FitDeclaration, encoded_rows
from sordino.fitting.methods import Outcome
from sordino.fitting.methods.bounded_influence import BoundedInfluence, InfluencePlan, given_rows
from sordino.fitting.problem import Sources
from sordino.fitting.resume import FitCheckpoint
from sordino.mechanisms.regression.rows import UnitRows, unit_rows
from sordino.mechanisms.statistics.questions import Rows

METHOD = BoundedInfluence.name
IN_MEMORY = "memory"


@dataclass(frozen=True, eq=False)
class EncodedThere:
    """How rows of some part become what is summed; public, so that it can travel."""

    declaration: FitDeclaration
    plan: InfluencePlan

    def __call__(self, table: Table) -> Iterator[UnitRows]:
        # How many records there are is compared for all parts together, and not here.
        X, y, units, weights = encoded_rows(self.declaration, Relation.ADD_REMOVE, table, None)
        made = self.plan.made
        given = replace(given_rows(self.plan.problem, self.plan.columns, X, y, units), weight=weights)
        yield from unit_rows(made.family, made.declaration, given)


@dataclass(frozen=True, eq=False)
class RowsThere:
    """How a look reads rows; public, so that it can travel."""

    schema: Schema

    def __call__(self, table: Table) -> Iterator[Rows]:
        yield Rows.of(table, self.schema)


class HowMany(NamedTuple):
    """Asks nothing of rows: what comes back is how many there are."""

    name: str = "number"
    numbers: int = 1
    exponent: int = 0

    def of(self, rows: Rows) -> NDArray[np.int64]:
        return np.zeros(self.numbers, np.int64)


@dataclass(frozen=True, eq=False)
class TableInParts:
    """Parts of a private table that were looked at but not read, and the engine that will ask them.

    `whole_units` declares that no unit has rows in two parts; `keep` is the file in which rounds are kept, if they are.
    """

    engine: Engine
    word: str
    parts: Sequence[TablePart]
    columns: tuple[str, ...]
    whole_units: bool
    told: Progress = ignore_progress
    keep: Any = None

    def learned(self, plan: InfluencePlan, declaration: FitDeclaration, sources: Sources, access: RowAccess) -> Outcome:
        """Learn from the parts, after the debit; what the checkpoint holds of rounds before is not asked again."""
        method = instance_of("the method", plan.method, BoundedInfluence)
        schema, kept = declaration.schema, access.checkpoint
        totals = access.read(lambda: self.totals(schema, EncodedThere(declaration, plan), kept))
        declared = None if schema.weight is None else schema.records
        return method.run_sums(plan, lambda asked: access.read(partial(totals, asked)), sources, declared, kept)

    def totals(self, schema: Schema, encode: Encode, kept: FitCheckpoint | None = None) -> Totals:
        """The sums of the parts, which are arranged first such that none divides a unit; after the debit."""
        spread = self._spread(schema)
        if spread is not None and kept is not None:
            spread = replace(spread, key=kept.key)
        parts = self.engine.arranged(self.parts, spread)
        together = schema.unit_column is not None
        marks = None if kept is None else kept.marks
        return Totals(self.engine, parts, encode, self.columns, together=together, told=self.told, marks=marks)

    def number(self, schema: Schema) -> int:
        """How many records there are, or units: public under replace-one. One column is read."""
        columns = (counting_column(schema, self.columns),)
        spread = self._spread(schema)
        parts = self.engine.arranged(self.parts, None if spread is None else replace(spread, columns=columns))
        together = schema.unit_column is not None
        return Totals(self.engine, parts, RowsThere(schema), columns, together=together)(HowMany()).units

    def _spread(self, schema: Schema) -> UnitSpread | None:
        if schema.unit is None or schema.unit_column is None or self.whole_units or len(self.parts) == 1:
            return None
        parts = len(self.parts) if self.engine.elsewhere else 1
        buckets = buckets_for(schema.records * schema.unit.most_records, parts)
        return UnitSpread(schema.unit_column, tuple(schema.missing_tokens), self.columns, buckets)

    def settings(self, schema: Schema) -> dict[str, object]:
        """What a release says of where its sums were added up."""
        if schema.unit_column is None:
            return {"engine": self.word}
        how = "declared to lie in one part each" if self.whole_units else "brought together by a keyed hash"
        return {"engine": self.word, "units": how}


def table_in_parts(
    schema: Schema,
    source: object,
    engine: object,
    *,
    only: Sequence[str] | None = None,
    whole_units: bool = False,
    told: Progress = ignore_progress,
    keep: object = None,
) -> TableInParts:
    """Look at names and types of all parts, or of the columns in `only`, and connect to the engine; reads no row."""
    parts = parts_of(schema.source(source))
    columns = check_parts(schema, parts, only)
    if schema.unit_column is not None:
        loose = next((part.name for part in parts if not part.ordered), None)
        if loose is not None:
            raise InputError(
                f"Only the first records of {schema.unit_column!r} with many records are used, so rows need a "
                f"fixed order, and {loose} has none. Add an ORDER BY to its query, or save it as Parquet."
            )
    if whole_units and schema.unit_column is None:
        raise InputError("`--whole-units` needs a schema with a unit column. Omit it.")
    asking = engine_of(engine)
    try:
        asking.check(parts)
    except BaseException:
        asking.close()
        raise
    word = engine.split("://", 1)[0] if isinstance(engine, str) else type(asking).__name__
    return TableInParts(asking, word, parts, columns, whole_units, told, keep)
