"""Where a theorem applies: kinds of runs, views, relations, batches and noises."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from sordino.accounting.scope import noise_of, scheme_of, statable
from sordino.core.bound import Relation, View
from sordino.core.spec import ALGORITHMS, Algorithm, Scheme, Spec
from sordino.core.spec.chain import OWN_PLACES

STEP_KINDS = frozenset({"noisy-gradient", "noised-sums"})
STEP_VIEWS = frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE, View.POSTERIOR_PARAMETERS})
_SHIFTING = frozenset(Scheme) - OWN_PLACES


@dataclass(frozen=True)
class Cell:
    """One entry of the table theorem x relation x scheme x view x noise."""

    kind: str
    relation: Relation
    scheme: str
    view: View
    noise: str


@dataclass(frozen=True)
class Scope:
    """The runs a theorem is about.

    Attributes:
        kinds: algorithm kinds, as spelled in SPEC.json.
        views: what may be seen.
        batches: for each relation covered, the batch schemes covered; empty sets for kinds without batches.
        noises: noise kinds of the steps; stable noise with alpha = 2 is Gaussian and counts as such.
    """

    kinds: Set[str]
    views: Set[View]
    batches: Mapping[Relation, Set[Scheme]] = field(hash=False)
    noises: Set[str] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        for name in ("kinds", "views", "noises"):
            object.__setattr__(self, name, frozenset(getattr(self, name)))
        batches = {relation: frozenset(covered) for relation, covered in self.batches.items()}
        object.__setattr__(self, "batches", MappingProxyType(batches))

    def failure(self, spec: Spec) -> str | None:
        """Why the run is out of scope, or None."""
        kind, scheme, noise = kind_of(spec), scheme_of(spec.algorithm), noise_of(spec.algorithm)
        if kind not in self.kinds:
            return f"is about {_listed(self.kinds)} runs, and this is a {kind} run"
        if spec.relation is Relation.ADD_REMOVE and scheme in _SHIFTING:
            return (
                f"the relation is add-remove and the batches are {scheme}: inserting or removing a record shifts every "
                "later batch, so such batches have a guarantee under replace-one only"
            )
        if spec.relation not in self.batches:
            return f"holds under {_listed(self.batches)}, and the relation is {spec.relation}"
        if scheme is not None and scheme not in self.batches[spec.relation]:
            covered = _listed(self.batches[spec.relation])
            return f"covers {covered} batches under {spec.relation}, and the batches are {scheme}"
        if noise is not None and noise not in self.noises:
            return f"covers {_listed(self.noises)} noise, and the noise is {noise}"
        if spec.view not in self.views:
            return f"covers the views {_listed(self.views)}, and the view is {spec.view}"
        return None

    def cells(self) -> Iterator[Cell]:
        """Every combination covered that a spec can state."""
        for kind in sorted(self.kinds):
            member = ALGORITHMS.table[kind]
            views = sorted(self.views & member.views) if issubclass(member, Algorithm) else []
            schemes, noises = statable(member)
            for relation, covered in self.batches.items():
                for scheme in sorted(covered & schemes) if schemes else ["-"]:
                    for view in views:
                        for noise in sorted(self.noises & noises) if noises else ["-"]:
                            yield Cell(kind, relation, str(scheme), view, noise)


def last_iterate_scope(
    *, replace_one: Set[Scheme], add_remove: Set[Scheme] = frozenset(), noises: Set[str] = frozenset({"gaussian"})
) -> Scope:
    """Chains of which the last iterate is seen, with these batches; a relation without any is not covered."""
    schemes = {Relation.REPLACE_ONE: replace_one, Relation.ADD_REMOVE: add_remove}
    batches = {relation: covered for relation, covered in schemes.items() if covered}
    return Scope({"noisy-gradient"}, {View.LAST_ITERATE}, batches, noises)


def kind_of(spec: Spec) -> str:
    """The SPEC.json spelling of the algorithm's kind."""
    return ALGORITHMS.word_of(spec.algorithm)


def _listed(words: Iterable[object]) -> str:
    ordered = sorted(str(word) for word in words)
    return ", ".join(ordered[:-1]) + " and " + ordered[-1] if len(ordered) > 1 else "".join(ordered)
