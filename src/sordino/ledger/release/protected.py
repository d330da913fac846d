"""Whom a release protects, in words: one record, or all records of a unit; and records that merely belong together."""

import math
from dataclasses import dataclass
from typing import Any

from sordino.accounting.evaluate import for_group
from sordino.core.bound import Bound, Relation
from sordino.core.gaussian import show_up
from sordino.core.spec import AnyUnit, ColumnUnit, Spec, Unit
from sordino.core.spec.problem import UNIT
from sordino.data import Schema


@dataclass(frozen=True)
class Group:
    """What a certificate about one record says about several that change together.

    Attributes:
        records: how many change together at most, as declared.
        relation: how they change.
        epsilon: for all of them, rounded up; infinite where there is none.
        delta: at which that holds.
    """

    records: int
    relation: Relation
    epsilon: float
    delta: float

    @property
    def sentence(self) -> str:
        """The same for people."""
        change = (
            "replaced together by as many others; the number of records is public"
            if self.relation is Relation.REPLACE_ONE
            else "added or removed together"
        )
        found = f"at most {show_up(self.epsilon)}" if math.isfinite(self.epsilon) else "not finite"
        return (
            f"No column says whose a record is, so a record is the unit. Up to {self.records} records are declared to "
            f"belong together: for {self.records} of them epsilon is {found} at delta {self.delta:g} ({change})."
        )


@dataclass(frozen=True)
class Protected:
    """Whom a certificate is about.

    Attributes:
        unit: as the spec states it.
        group: of records that belong together, where that is declared and no column says which.
    """

    unit: AnyUnit
    group: Group | None = None

    @property
    def name(self) -> str:
        """The word for what is hidden."""
        return "record" if isinstance(self.unit, Unit) else "unit"

    @property
    def words(self) -> str:
        """What is hidden."""
        return "one record" if isinstance(self.unit, Unit) else f"one unit: {self.unit.words}"

    @property
    def several(self) -> str:
        """What a reader must know who thinks of people and not of records."""
        if isinstance(self.unit, ColumnUnit):
            return (
                f"It holds for one unit, all records with one value of {self.unit.column!r} together. Whoever stands "
                "under two values is two units, and protected less."
            )
        if self.group is not None:
            return f"It holds for one record. {self.group.sentence}"
        return (
            "It holds for one record, and no other unit was declared. Whoever has several records in the table is "
            "protected less: with k of them at about k times epsilon, and a larger delta."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the unit as in a spec, and the group where there is one."""
        group = None
        if self.group is not None:
            epsilon = self.group.epsilon if math.isfinite(self.group.epsilon) else None
            group = {"records": self.group.records, "epsilon": epsilon, "delta": self.group.delta}
        return {"unit": UNIT.write(self.unit), "group": group}


def protected(spec: Spec, schema: Schema | None, bound: Bound | None, delta: float) -> Protected:
    """Whom a release protects: its spec says so, and its schema whether records belong together all the same."""
    declared = None if schema is None else schema.unit
    if isinstance(spec.unit, ColumnUnit) or declared is None or declared.most_records == 1 or bound is None:
        return Protected(spec.unit)
    epsilon = for_group(bound, spec, declared.most_records).epsilon(delta)
    return Protected(spec.unit, Group(declared.most_records, spec.relation, epsilon, delta))
