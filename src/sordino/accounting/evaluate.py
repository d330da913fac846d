"""Theorems: how one registers, where it applies, and the tightest bound of a run."""

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from operator import itemgetter
from pathlib import Path

from sordino.accounting import convert
from sordino.accounting.bounds.closed_forms import rounded_shifts
from sordino.accounting.bounds.contraction import Contraction, contraction_of
from sordino.accounting.scope import Assumption, Certificates, CheckedBy, Scope
from sordino.core.bound import UNCLIPPED_SMOOTHNESS, Bound, Certificate, Citation, Inapplicable, Relation, Status, View
from sordino.core.gaussian import show_up
from sordino.core.guarantee import Guarantee, TotalVariation, check_delta
from sordino.core.results import Estimate, Result, ResultTable
from sordino.core.spec import Algorithm, Mechanism, NoisyGradient, PosteriorSample, Spec, column_of, read_spec
from sordino.core.spec.problem import UNIT, Unit
from sordino.core.validate import InputError, Json, SordinoError, instance_of

Proof = Callable[[Spec], Guarantee]


@dataclass(frozen=True)
class Theorem:
    """A proved statement; its proof is a pure function of the spec and returns the guarantee of **one** run."""

    id: str
    statement: str
    citation: Citation
    status: Status
    scope: Scope
    assumptions: tuple[Assumption, ...]
    certificates: Certificates
    proof: Proof
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: ()  # theorems for parts of a run
    counts_rounding: bool = False  # else what `algorithm.rounding` costs is added as a shift at every step
    grouped: Callable[[Spec, int], Guarantee] | None = None  # where smaller than going record by record

    def failure(self, spec: Spec) -> str | None:
        """Why the theorem does not apply to a run, or None when it does."""
        reasons = (asked.failure(spec) for asked in (self.scope, *self.assumptions))
        return next((reason for reason in reasons if reason), None)


_THEOREMS: dict[str, Theorem] = {}


def theorem(
    id: str,  # noqa: A002
    citation: Citation,
    *,
    status: Status,
    scope: Scope,
    assumptions: tuple[Assumption, ...] = (),
    certificates: Certificates | None = None,
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: (),
    counts_rounding: bool = False,
    grouped: Callable[[Spec, int], Guarantee] | None = None,
) -> Callable[[Proof], Theorem]:
    """Register a proof, a function from a spec to the guarantee of one run, as a theorem with a new `id`.

    The first paragraph of its docstring is the statement: what is proved, in one or two sentences. The `citation` says
    where, the `status` how it relates to that place, the `scope` which runs it is about, and `assumptions` are
    conditions on their numbers, each with its check. `certificates` are the certified constants that it uses (absent:
    those that its assumptions name), and `rests_on` the theorems that it uses for parts of a run. `counts_rounding`
    says whether the proof itself takes `algorithm.rounding` into account; `grouped` is the guarantee of so many records
    that come or go together, under add-remove.

    Returns: a decorator for the proof. Raises: `SordinoError` for an id that another proof has.

    >>> import sordino
    >>> from sordino.accounting.evaluate import unregister
    >>> from sordino.accounting.scope import Scope
    >>> scope = Scope({"noisy-gradient"}, {"last-iterate"}, {sordino.Relation.REPLACE_ONE: {"full"}})
    >>> where = sordino.accounting.Citation("mironov2017renyi", "Section II")
    >>> @sordino.accounting.theorem("example.nothing", where, status="ours", scope=scope)
    ... def nothing(spec):
    ...     "Whatever runs, delta is at most 1."
    ...     return sordino.accounting.TotalVariation(1.0)
    >>> nothing.statement
    'Whatever runs, delta is at most 1.'
    >>> unregister(nothing.id)
    """

    def named(spec: Spec) -> tuple[Certificate, ...]:
        return tuple(dict.fromkeys(used for assumed in assumptions for used in assumed.certificates(spec)))

    def registered(proof: Proof) -> Theorem:
        if id in _THEOREMS and _THEOREMS[id].proof.__qualname__ != proof.__qualname__:
            raise SordinoError(f"Two theorems are registered as {id!r}; ids must be unique.")
        statement = " ".join((proof.__doc__ or "").partition("\n\n")[0].split())
        what = (id, statement, citation, status, scope, assumptions, certificates or named, proof)
        _THEOREMS[id] = Theorem(*what, rests_on, counts_rounding, grouped)
        return _THEOREMS[id]

    return registered


as_stated, corrected, ours = (partial(theorem, status=status) for status in Status)


@cache
def _load() -> dict[str, Theorem]:
    """The registry, after every file of the folder has put its theorems there."""
    package = importlib.import_module("sordino.accounting.theorems")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _THEOREMS


def theorems() -> tuple[Theorem, ...]:
    """Every registered theorem, by id.

    Returns: all of them; each has an id, a statement, a citation, a scope and assumptions.

    >>> import sordino
    >>> "composition.gaussian" in {theorem.id for theorem in sordino.theorems()}
    True
    """
    return tuple(one for _, one in sorted(_load().items()))


def theorem_named(name: str) -> Theorem:
    """The theorem of this id."""
    if (asked := _load().get(name)) is None:
        near = get_close_matches(name, _THEOREMS, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise InputError(f"Expected the id of a registered theorem, got {name[:80]!r}{hint}.")
    return asked


def caller_checks(name: str, spec: Spec) -> tuple[str, ...]:
    """What a theorem and its premises leave for people to check about a run, once each; none for unknown names."""
    if (asked := _load().get(name)) is None:
        return ()
    own = [one.statement for one in asked.assumptions if one.checked_by is CheckedBy.CALLER and one.concerns(spec)]
    below = [statement for used, part in asked.rests_on(spec) for statement in caller_checks(used, part)]
    return tuple(dict.fromkeys([*own, *below]))


def unregister(name: str) -> None:
    """Forget a theorem; for tests that register one of their own."""
    del _THEOREMS[name]


def evaluate(theorem: Theorem, spec: Spec) -> Bound | Inapplicable:
    """What one theorem says about a run. Never raises on a run that is merely out of its reach."""
    if (reason := theorem.failure(spec)) is not None:
        return Inapplicable(theorem.id, reason)
    certificates = theorem.certificates(spec)
    if isinstance(guarantee := _as_run(theorem, spec, theorem.proof(spec)), str):
        return Inapplicable(theorem.id, guarantee)
    # What depends on the corrected clipping modulus, in place of one that a paper claims.
    clipped = any(certificate.constant == UNCLIPPED_SMOOTHNESS for certificate in certificates)
    modulus = contraction_of(spec) if clipped else None
    status = Status.CORRECTED if isinstance(modulus, Contraction) and modulus.corrected else theorem.status
    return Bound(guarantee, spec.relation, spec.view, certificates, theorem.id, theorem.citation, status)


def _as_run(theorem: Theorem, spec: Spec, guarantee: Guarantee) -> Guarantee | str:
    """A guarantee with what rounding costs, for all copies that are released; or why there is none."""
    chain = spec.algorithm
    rounded: Guarantee | str = guarantee
    if isinstance(chain, NoisyGradient) and chain.rounding is not None and not theorem.counts_rounding:
        rounded = rounded_shifts(spec, chain, guarantee, theorem.id, View.ALL_ITERATES in theorem.scope.views)
    return rounded if isinstance(rounded, str) else convert.repeat(rounded, copies(chain))


def for_group(bound: Bound, spec: Spec, size: int) -> Guarantee:
    """What a bound says of `size` records that change together, such as those of a unit.

    **Proof.** One goes from the one table to the other record by record (`convert.group_of`). What is said of one
    record must hold for every two tables on the way. Under replace-one all of them have the same number of records.
    Under add-remove they have up to `size` records more than the smaller one: a batch is full more often, its curvature
    and its sum are larger. So the theorem is asked again about such tables (`Spec.together`). Only a contraction of
    full batches is taken from the smaller table alone; bounds that depend on one are Gaussian, and k records at once
    move a step k times as far, so that their mu is k times as large without any step between. Theorems with a proof for
    the group as a whole (`Theorem.grouped`) use that.
    """
    asked = _load().get(bound.theorem)
    if size == 1 or bound.relation is Relation.REPLACE_ONE or asked is None or evaluate(asked, spec) != bound:
        return convert.group_of(bound.guarantee, size)
    if asked.grouped is not None and not isinstance(found := _as_run(asked, spec, asked.grouped(spec, size)), str):
        return found
    wider = evaluate(asked, replace(spec, together=size))
    if isinstance(wider, Inapplicable):
        raise InputError(f"No bound holds for a group of {size} records: {asked.id} {wider.reason}.")
    return convert.group_of(wider.guarantee, size)


def copies(algorithm: Algorithm) -> int:
    """How many runs are released together: chains of a sampler, draws of a posterior, uses of a mechanism."""
    if isinstance(algorithm, NoisyGradient):
        return algorithm.chains
    if isinstance(algorithm, Mechanism):
        return algorithm.repetitions
    return algorithm.draws if isinstance(algorithm, PosteriorSample) else 1


@dataclass(frozen=True)
class Explanation(Result):
    """What every theorem said about a run, the `spec`, at a `delta`.

    There are `bounds`, each with its epsilon, smallest first; the `inapplicable` theorems say nothing, and why.

    >>> from sordino import accounting
    >>> answer = accounting.gaussian(noise_multiplier=2.0, relation="add-remove").explanation(1e-5)
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

    @property
    def shown(self) -> ResultTable:
        """Winner first, then the losers; what the winner depends on, and near misses."""
        spec, best = self.spec, self.tightest
        asked = {one.id for one in theorems() if one.scope.failure(spec) is None}
        near = [one for one in self.inapplicable if one.theorem in asked]
        unit = "record" if column_of(spec.unit) is None else f"one value of {column_of(spec.unit)!r}"
        title = f"{'; '.join(spec.ran)}. Relation {spec.relation}, unit {unit}, view {spec.view}, delta {self.delta:g}."
        rows = [(bound.theorem, epsilon, bound.status.value, str(bound.citation)) for bound, epsilon in self.bounds]
        header = ("theorem", "epsilon", "status", "citation")
        columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
        remarks = ["No theorem gives a finite epsilon for this run."] if best is None else []
        known = [one.guarantee.value for one, _ in self.bounds if isinstance(one.guarantee, TotalVariation)]
        if known and best is None:
            remarks.append(f"Total variation at most {show_up(min(known))}: (0, delta)-private from that delta on.")
        if best is not None:
            constants = [
                f"{one.constant.name} = {one.value:g} ({one.evidence.word}: {one.reason})" for one in best.certificates
            ]
            remarks.append(f"Tightest: {best.theorem}. It uses {'; '.join(constants) or 'no certified constant'}.")
            checks = caller_checks(best.theorem, spec)
            remarks += [f"Check this yourself, because no program can: {' '.join(checks)}"] if checks else []
        remarks += [f"Near miss, {one.theorem}: {one.reason}" for one in near]
        rest = len(self.inapplicable) - len(near)
        remarks += [f"{rest} theorems about other runs: `sordino certify --all` lists them."] if rest else []
        points = tuple(Estimate(bound.theorem, epsilon) for bound, epsilon in self.bounds if math.isfinite(epsilon))
        table = (header, tuple((theorem, show_up(epsilon), *rest) for theorem, epsilon, *rest in rows))
        return ResultTable(title, (table,), columns, (), (), tuple(remarks), (points,))


def explain(spec: Spec, delta: float) -> Explanation:
    """Ask every theorem about a `spec`; compare after composition and conversion at a target `delta`. Reads no data.

    Returns: an `Explanation`. Raises: `InputError` for a delta outside of (0, 1).

    >>> from sordino import accounting
    >>> run = accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    >>> round(accounting.explain(run.spec, 1e-5).epsilon, 4)
    1.9931
    """
    delta = check_delta(delta)
    answers = [evaluate(theorem, spec) for theorem in theorems()]
    bounds = [(answer, answer.guarantee.epsilon(delta)) for answer in answers if isinstance(answer, Bound)]
    inapplicable = tuple(one for one in answers if isinstance(one, Inapplicable))
    return Explanation(spec, delta, tuple(sorted(bounds, key=itemgetter(1))), inapplicable)


def certify(spec: Spec | str | Path, delta: float | None = None) -> Explanation:
    """Ask every theorem how private a run is, a `spec` or the path of a SPEC.json, at a `delta`; no data are read.

    Returns: an `Explanation`: its `epsilon` and `tightest` bound, every other `bounds`, and why the rest is
    `inapplicable`. Raises: `InputError` where neither the spec nor the caller states delta, or the file is no spec.

    >>> import sordino
    >>> run = sordino.accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    >>> answer = sordino.certify(run.spec, delta=1e-5)
    >>> answer.tightest.theorem, round(answer.epsilon, 4)
    ('mechanism.gaussian', 1.9931)
    """
    return explain(*at_delta(spec, delta))


def at_delta(spec: Spec | str | Path, delta: float | None) -> tuple[Spec, float]:
    """A run, or that of a file, and its delta: theorems that choose windows or splits choose them for it."""
    run = read_spec(spec) if isinstance(spec, str | Path) else instance_of("spec", spec, Spec)
    asked = run.delta if delta is None else delta
    if asked is None:
        raise InputError("The spec has no delta. Give a delta far below one over the number of records.")
    return (run if run.delta == asked else run.with_values({"delta": asked})), asked


def tightest(spec: Spec, delta: float) -> Bound | None:
    """The best bound any theorem gives on a `spec` at this `delta`.

    Returns: the `Bound`, or None where no theorem gives a finite epsilon. Raises: `InputError`, as `explain`.

    >>> from sordino import accounting
    >>> run = accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    >>> accounting.tightest(run.spec, 1e-5).theorem
    'mechanism.gaussian'
    """
    return explain(spec, delta).tightest


def bounds_of(spec: Spec) -> tuple[Bound, ...]:
    """Every bound that some theorem gives."""
    return tuple(answer for theorem in theorems() if isinstance(answer := evaluate(theorem, spec), Bound))


def why_none(spec: Spec, otherwise: str) -> str:
    """Why no theorem about such runs applies; `otherwise` where there is no such theorem."""
    reasons = {theorem.failure(spec) for theorem in theorems() if theorem.scope.failure(spec) is None}
    return "; ".join(sorted(filter(None, reasons))) or otherwise


def finite(value: float) -> float | None:
    """Infinite epsilon is null in JSON."""
    return value if math.isfinite(value) else None


def as_json(explanation: Explanation) -> Json:
    """The contract of `certify --json`; it names the unit unless that is a record."""
    best, unit = explanation.tightest, explanation.spec.unit
    return ({} if unit is Unit.RECORD else {"unit": UNIT.write(unit)}) | {
        "relation": explanation.spec.relation.value,
        "view": explanation.spec.view.value,
        "delta": explanation.delta,
        "tightest": best and {"theorem": best.theorem, "epsilon": explanation.epsilon, "citation": str(best.citation)},
        "bounds": [
            {
                "theorem": bound.theorem,
                "epsilon": finite(epsilon),
                "delta_at_zero": bound.guarantee.delta(0.0),
                "guarantee": bound.guarantee.to_dict(),
                "citation": str(bound.citation),
                "status": bound.status.value,
                "evidence": bound.evidence.word,
                "certificates": [certificate.to_dict() for certificate in bound.certificates],
                "caller_checked": list(caller_checks(bound.theorem, explanation.spec)),
            }
            for bound, epsilon in explanation.bounds
        ],
        "inapplicable": [{"theorem": answer.theorem, "reason": answer.reason} for answer in explanation.inapplicable],
    }
