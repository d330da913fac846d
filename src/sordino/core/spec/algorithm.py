"""What every algorithm kind has in common, and the two unions they register in."""

from collections.abc import Iterator
from typing import ClassVar

from sordino.core.spec.average import Average
from sordino.core.spec.problem import Problem
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Section
from sordino.core.spec.tagged import Tagged
from sordino.core.view import View

RUNS = Tagged()
"""Algorithms that run by themselves."""

ALGORITHMS = Tagged(wider=RUNS)
"""All algorithms: runs, and composites of runs."""


class Algorithm(Section):
    """A mechanism, described completely and without data."""

    views: ClassVar[frozenset[View]]
    """What an adversary may be assumed to see of it."""

    def misfits(self, problem: Problem | None, average: Average | None, view: View) -> Iterator[Contradiction]:
        """What keeps a spec with this algorithm and these other sections from making sense, with the spec's keys."""
        if view not in self.views:
            allowed = ", ".join(sorted(self.views))
            yield Contradiction("view", f"to be one of {allowed} for this algorithm", view.value)
        if average is None and view == View.AVERAGE:
            yield Contradiction("average", "to be given when the view is average", None)
        if average is not None and view != View.AVERAGE:
            yield Contradiction("average", f"to be absent when the view is {view.value}", "an average")
        yield from self.needs(problem, view)

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """The rules of this kind of algorithm on its problem and view; none unless it states some."""
        return iter(())


def required(problem: Problem | None, *names: str) -> Iterator[Contradiction]:
    """A contradiction for each of the named keys that `problem` lacks."""
    for name in names:
        if problem is None or getattr(problem, name) is None:
            yield Contradiction(f"problem.{name}", "to be given for this algorithm", None)
