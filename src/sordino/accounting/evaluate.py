"""Theorems: how one registers, where it applies, and the tightest bound of a run."""

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any

from sordino.accounting import convert
from sordino.accounting.assumptions import Assumption, CheckedBy
from sordino.accounting.noisy_steps import noise_of, scheme_of, statable
from sordino.accounting.shifts.contraction import Contraction, contraction_of
from sordino.core.bound import UNCLIPPED_SMOOTHNESS, Bound, Certificate, Citation, Inapplicable, Relation, Status, View
from sordino.core.guarantee import Guarantee, check_delta
from sordino.core.spec import ALGORITHMS, Algorithm, NoisyGradient, PosteriorSample, Scheme, Spec, Unit
from sordino.core.spec.problem import UNIT
from sordino.core.validate import InputError, SordinoError

STEP_KINDS = frozenset({"noisy-gradient", "noised-sums"})
STEP_VIEWS = frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE, View.POSTERIOR_PARAMETERS})

_SHIFTING = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT})
_RELATION_RULE = (
    "inserting or removing a record shifts every later batch, so such batches have a guarantee under replace-one only"
)


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

    kinds: frozenset[str]
    views: frozenset[View]
    batches: Mapping[Relation, frozenset[Scheme]] = field(hash=False)
    noises: frozenset[str] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", MappingProxyType(dict(self.batches)))

    def failure(self, spec: Spec) -> str | None:
        """Why the run is out of scope, or None."""
        kind, scheme, noise = kind_of(spec), scheme_of(spec.algorithm), noise_of(spec.algorithm)
        if kind not in self.kinds:
            return f"is about {_listed(self.kinds)} runs, and this is a {kind} run"
        if spec.relation is Relation.ADD_REMOVE and scheme in _SHIFTING:
            return f"the relation is add-remove and the batches are {scheme}: {_RELATION_RULE}"
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
    *,
    replace_one: Iterable[Scheme],
    add_remove: Iterable[Scheme] = (),
    noises: Iterable[str] = ("gaussian",),
) -> Scope:
    """Chains of which the last iterate is seen, with these batches; a relation without any is not covered."""
    schemes = {Relation.REPLACE_ONE: frozenset(replace_one), Relation.ADD_REMOVE: frozenset(add_remove)}
    batches = {relation: covered for relation, covered in schemes.items() if covered}
    return Scope(frozenset({"noisy-gradient"}), frozenset({View.LAST_ITERATE}), batches, frozenset(noises))


def kind_of(spec: Spec) -> str:
    """The SPEC.json spelling of the algorithm's kind."""
    return ALGORITHMS.word_of(spec.algorithm)


def _listed(words: Iterable[object]) -> str:
    ordered = sorted(str(word) for word in words)
    return ", ".join(ordered[:-1]) + " and " + ordered[-1] if len(ordered) > 1 else "".join(ordered)


Proof = Callable[[Spec], Guarantee]


class Monotone(IntEnum):
    """How epsilon moves when a value of the spec grows; checked by the conformance suite."""

    FALLS = -1
    RISES = 1


@dataclass(frozen=True)
class Theorem:
    """A proved statement: what it is about, what it assumes, who proved it, and how to compute its guarantee.

    The proof is a pure function of the spec and returns the guarantee of **one** run of the algorithm; several chains
    or draws are composed by `evaluate`. `rests_on` names the theorems used for the parts of a run, each with its part.
    """

    id: str
    statement: str
    citation: Citation
    status: Status
    scope: Scope
    assumptions: tuple[Assumption, ...]
    certificates: Callable[[Spec], tuple[Certificate, ...]]
    monotone: tuple[tuple[str, Monotone], ...]
    proof: Proof
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: ()

    def failure(self, spec: Spec) -> str | None:
        """Why the theorem does not apply to a run, or None when it does."""
        reason = self.scope.failure(spec)
        for assumption in self.assumptions:
            reason = reason or assumption.failure(spec)
        return reason


_THEOREMS: dict[str, Theorem] = {}
# Ids of earlier versions, which ledgers and releases hold, and those that took their place.
_RENAMED: dict[str, str] = {}


def theorem(
    *,
    id: str,  # noqa: A002
    statement: str,
    citation: Citation,
    status: Status,
    scope: Scope,
    assumptions: tuple[Assumption, ...] = (),
    certificates: Callable[[Spec], tuple[Certificate, ...]] = lambda _: (),
    monotone: tuple[tuple[str, Monotone], ...] = (),
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: (),
    formerly: str | None = None,
) -> Callable[[Proof], Theorem]:
    """Register a proof as a theorem.

    Args:
        id: a new name, family first.
        statement: what is proved, in one or two sentences.
        citation: where.
        status: how it relates to that place.
        scope: the runs it is about.
        assumptions: conditions on their numbers, each with its check.
        certificates: the certified constants that it uses.
        monotone: which way epsilon moves with values of the spec.
        rests_on: the theorems that it uses for parts of a run.
        formerly: the id that it had in earlier versions.

    Returns:
        A decorator for the proof: a function from a spec to the guarantee of one run.

    Raises:
        SordinoError: for an id that another proof has.

    Examples:
        >>> import sordino
        >>> from sordino.accounting.evaluate import Scope, unregister
        >>> from sordino.core.spec import Scheme
        >>> @sordino.theorem(
        ...     id="example.nothing",
        ...     statement="Whatever runs, delta is at most 1.",
        ...     citation=sordino.Citation("mironov2017renyi", "Section II"),
        ...     status=sordino.Status.OURS,
        ...     scope=Scope(
        ...         {"noisy-gradient"}, {sordino.View.LAST_ITERATE}, {sordino.Relation.REPLACE_ONE: {Scheme.FULL}}
        ...     ),
        ... )
        ... def nothing(spec):
        ...     return sordino.TotalVariation(1.0)
        >>> nothing.id
        'example.nothing'
        >>> unregister("example.nothing")
    """

    def registered(proof: Proof) -> Theorem:
        if id in _THEOREMS and _THEOREMS[id].proof.__qualname__ != proof.__qualname__:
            raise SordinoError(f"Two theorems are registered as {id!r}; ids must be unique.")
        made = Theorem(id, statement, citation, status, scope, assumptions, certificates, monotone, proof, rests_on)
        _THEOREMS[id] = made
        if formerly is not None:
            _RENAMED[formerly] = id
        return made

    return registered


@cache
def _load() -> None:
    package = importlib.import_module("sordino.accounting.theorems")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def theorems() -> tuple[Theorem, ...]:
    """Every registered theorem, by id.

    Returns:
        All of them; each has an id, a statement, a citation, a scope and assumptions.

    Examples:
        >>> import sordino
        >>> "composition.gaussian" in {theorem.id for theorem in sordino.theorems()}
        True
    """
    _load()
    return tuple(_THEOREMS[name] for name in sorted(_THEOREMS))


def current_id(name: str) -> str:
    """The id of a theorem in this version; a name that no version knows is its own answer."""
    _load()
    return _RENAMED.get(name, name)


def theorem_named(name: str) -> Theorem:
    """The theorem of this id, or of the id it had in an earlier version."""
    asked = _THEOREMS.get(current_id(name))
    if asked is None:
        near = get_close_matches(name, _THEOREMS, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise InputError(f"Expected the id of a registered theorem, got {name[:80]!r}{hint}.")
    return asked


def caller_checks(name: str, spec: Spec) -> tuple[str, ...]:
    """What the theorem of this name, and those it rests on, leave for people to check of a run; each statement once.

    An unknown name has none: nothing is known of what it assumes.
    """
    asked = _THEOREMS.get(current_id(name))
    if asked is None:
        return ()
    own = [
        assumption.statement
        for assumption in asked.assumptions
        if assumption.checked_by is CheckedBy.CALLER and assumption.concerns(spec)
    ]
    below = [statement for used, part in asked.rests_on(spec) for statement in caller_checks(used, part)]
    return tuple(dict.fromkeys([*own, *below]))


def unregister(name: str) -> None:
    """Forget a theorem; for tests that register one of their own."""
    del _THEOREMS[name]


Answer = Bound | Inapplicable


def evaluate(theorem: Theorem, spec: Spec) -> Answer:
    """What one theorem says about a run. Never raises on a run that is merely out of its reach."""
    reason = theorem.failure(spec)
    if reason is not None:
        return Inapplicable(theorem.id, reason)
    certificates = theorem.certificates(spec)
    return Bound(
        convert.repeat(theorem.proof(spec), copies(spec.algorithm)),
        spec.relation,
        spec.view,
        certificates,
        theorem.id,
        theorem.citation,
        Status.CORRECTED if _corrected(spec, certificates) else theorem.status,
    )


def _corrected(spec: Spec, certificates: tuple[Certificate, ...]) -> bool:
    """Whether a bound rests on the corrected clipping modulus, in place of one that a paper claims."""
    if all(certificate.constant != UNCLIPPED_SMOOTHNESS for certificate in certificates):
        return False
    contraction = contraction_of(spec)
    return isinstance(contraction, Contraction) and contraction.corrected


def copies(algorithm: Algorithm) -> int:
    """How many independent runs are released together: chains of a sampler, draws of a posterior."""
    if isinstance(algorithm, NoisyGradient):
        return algorithm.chains
    return algorithm.draws if isinstance(algorithm, PosteriorSample) else 1


@dataclass(frozen=True)
class Explanation:
    """What every theorem said about a run at a delta: bounds with their epsilon, smallest first, and the others.

    Attributes:
        spec: the run.
        delta: at which bounds were compared.
        bounds: every bound with its epsilon, smallest first.
        inapplicable: the theorems that say nothing, each with its reason.

    Examples:
        >>> import sordino
        >>> from sordino.algorithm import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> answer = sordino.explain(spec, 1e-5)
        >>> answer.epsilon == answer.tightest.guarantee.epsilon(1e-5)
        True
    """

    spec: Spec
    delta: float
    bounds: tuple[tuple[Bound, float], ...]
    inapplicable: tuple[Inapplicable, ...]

    @property
    def tightest(self) -> Bound | None:
        """The bound with the smallest epsilon, or None when no theorem gives a finite one."""
        return self.bounds[0][0] if self.bounds and math.isfinite(self.bounds[0][1]) else None

    @property
    def epsilon(self) -> float:
        """The smallest certified epsilon; infinite when no theorem applies."""
        return self.bounds[0][1] if self.bounds else math.inf


def explain(spec: Spec, delta: float) -> Explanation:
    """Ask every theorem; compare after composition and conversion at the target delta. Looks at no data.

    Args:
        spec: the run.
        delta: at which bounds are compared.

    Returns:
        An `Explanation`.

    Raises:
        InputError: for a delta outside of (0, 1).

    Examples:
        >>> import sordino
        >>> from sordino.algorithm import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> round(sordino.explain(spec, 1e-5).epsilon, 2)
        2.56
    """
    delta = check_delta(delta)
    answers = [evaluate(theorem, spec) for theorem in theorems()]
    bounds = [(answer, answer.guarantee.epsilon(delta)) for answer in answers if isinstance(answer, Bound)]
    bounds.sort(key=lambda item: (item[1], item[0].theorem))
    return Explanation(
        spec, delta, tuple(bounds), tuple(answer for answer in answers if isinstance(answer, Inapplicable))
    )


def tightest(spec: Spec, delta: float) -> Bound | None:
    """The best bound any theorem gives at this delta.

    Args:
        spec: the run.
        delta: at which bounds are compared.

    Returns:
        The `Bound`, or None where no theorem gives a finite epsilon.

    Raises:
        InputError: for a delta outside of (0, 1).

    Examples:
        >>> import sordino
        >>> from sordino.algorithm import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> sordino.tightest(spec, 1e-5).theorem
        'shifted.full'
    """
    return explain(spec, delta).tightest


def finite(value: float) -> float | None:
    """Infinite epsilon is null in JSON."""
    return value if math.isfinite(value) else None


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The contract of `certify --json`; the unit stands there where it is not a record."""
    best, unit = explanation.tightest, explanation.spec.unit
    return ({} if unit is Unit.RECORD else {"unit": UNIT.write(unit)}) | {
        "relation": explanation.spec.relation.value,
        "view": explanation.spec.view.value,
        "delta": explanation.delta,
        "tightest": None
        if best is None
        else {"theorem": best.theorem, "epsilon": explanation.epsilon, "citation": str(best.citation)},
        "bounds": [_bound(bound, epsilon, explanation.spec) for bound, epsilon in explanation.bounds],
        "inapplicable": [{"theorem": answer.theorem, "reason": answer.reason} for answer in explanation.inapplicable],
    }


def _bound(bound: Bound, epsilon: float, spec: Spec) -> dict[str, Any]:
    return {
        "theorem": bound.theorem,
        "epsilon": finite(epsilon),
        "delta_at_zero": bound.guarantee.delta(0.0),
        "guarantee": bound.guarantee.to_dict(),
        "citation": str(bound.citation),
        "status": bound.status.value,
        "evidence": bound.evidence.word,
        "certificates": [certificate.to_dict() for certificate in bound.certificates],
        "caller_checked": list(caller_checks(bound.theorem, spec)),
    }
