"""The table kind x relation x scheme x view x noise: what a spec can state of it, and what a scope covers."""

from collections.abc import Iterator
from dataclasses import dataclass

from sordino.accounting.scope import Scope
from sordino.core.bound import Relation, View
from sordino.core.spec import ALGORITHMS, Algorithm, NoisedSums, NoisyGradient, Scheme


@dataclass(frozen=True)
class Cell:
    """One entry of the table."""

    kind: str
    relation: Relation
    scheme: str
    view: View
    noise: str


def statable(kind: str) -> Iterator[Cell]:
    """Every combination that a spec of this kind can state; a dash where it has no batches, or no noise."""
    member = ALGORITHMS.table[kind]
    views = sorted(member.views) if issubclass(member, Algorithm) else []
    schemes, noises = ["-"], ["-"]
    if issubclass(member, NoisyGradient | NoisedSums):
        schemes, noises = sorted(map(str, Scheme)), ["gaussian"]
    if issubclass(member, NoisyGradient):
        noises = ["gaussian", "stable"]
    for relation in Relation:
        for scheme in schemes:
            for view in views:
                for noise in noises:
                    yield Cell(kind, relation, scheme, view, noise)


def covered(scope: Scope) -> set[Cell]:
    """The cells of a theorem's scope."""
    return {
        cell
        for kind in scope.kinds
        for cell in statable(kind)
        if cell.relation in scope.batches
        and cell.view in scope.views
        and cell.scheme in {"-", *scope.batches[cell.relation]}
        and cell.noise in {"-", *scope.noises}
    }
