"""Several runs on the same data, certified together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from sordino.core.spec.algorithm import ALGORITHMS, RUNS, Algorithm
from sordino.core.spec.average import Average
from sordino.core.spec.problem import Problem
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Nested, Section
from sordino.core.spec.shape import Several, Word
from sordino.core.view import View

# Parts that differ are certified one by one, some 15 ms each and up; releases beyond that belong into a ledger.
MOST_PARTS = 1000


@dataclass(frozen=True)
class Part(Section):
    """One run of a composite; relation and delta are stated once, outside."""

    algorithm: Annotated[Algorithm, RUNS]
    problem: Annotated[Problem | None, Nested(Problem)] = None
    average: Annotated[Average | None, Nested(Average)] = None
    view: Annotated[View | None, Word(tuple(View)), "absent: the composite's view"] = None


@ALGORITHMS.register("composite")
@dataclass(frozen=True)
class Composite(Algorithm):
    """A list of runs; each part states its own problem, and its own view if it differs."""

    views: ClassVar[frozenset[View]] = frozenset(View)

    parts: Annotated[tuple[Part, ...], Several(Nested(Part), MOST_PARTS)]

    def misfits(self, problem: Problem | None, average: Average | None, view: View) -> Iterator[Contradiction]:
        """Every part makes sense by itself; what belongs to a part is not stated outside."""
        for key, section in (("problem", problem), ("average", average)):
            if section is not None:
                yield Contradiction(key, "to be absent for a composite", f"a {key}", "state it in each part")
        for position, part in enumerate(self.parts):
            for misfit in part.algorithm.misfits(part.problem, part.average, part.view or view):
                yield misfit.under(f"algorithm.parts.{position}")
        allowed = frozenset[View]().union(*(part.algorithm.views for part in self.parts))
        if view not in allowed:
            yield Contradiction("view", f"to be one of {', '.join(sorted(allowed))} for these parts", view.value)
