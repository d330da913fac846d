"""Where a theorem applies: the runs in its scope, the constants they certify, and the conditions it assumes of them.

A constant is declared in the spec or follows from clipping. A condition comes with its check, which answers with both
sides of a failure in words. Chains and noised sums reduce to noisy steps: which of them may see the record, and how far
it can move them relative to the noise. Nothing here claims amplification.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Constant, Evidence, Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import ALGORITHMS, Algorithm, Batch, NoisedSums, NoisyGradient, Scheme, Spec
from sordino.core.spec.chain import OWN_PLACES, ClippingKind
from sordino.core.spec.fields import Section, keys_of
from sordino.core.spec.problem import ConstantSchedule
from sordino.core.validate import InputError

Promised = TypeVar("Promised")
Run = TypeVar("Run", bound=Algorithm)

STEP_KINDS = frozenset({"noisy-gradient", "noised-sums"})
STEP_VIEWS = frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE, View.POSTERIOR_PARAMETERS})


@dataclass(frozen=True)
class Scope:
    """The runs a theorem is about."""

    kinds: Set[str]  # as spelled in SPEC.json
    views: Set[View]
    batches: Mapping[Relation, Set[Scheme]] = field(hash=False)  # schemes by relation; empty for kinds without batches
    noises: Set[str] = frozenset({"gaussian"})  # stable noise with alpha = 2 counts as Gaussian

    def __post_init__(self) -> None:
        for name in ("kinds", "views", "noises"):
            object.__setattr__(self, name, frozenset(getattr(self, name)))
        batches = {relation: frozenset(covered) for relation, covered in self.batches.items()}
        object.__setattr__(self, "batches", MappingProxyType(batches))

    def failure(self, spec: Spec) -> str | None:
        kind, scheme, noise = ALGORITHMS.word_of(spec.algorithm), scheme_of(spec.algorithm), noise_of(spec.algorithm)
        if kind not in self.kinds:
            return f"is about {_listed(self.kinds)} runs, and this is a {kind} run"
        if spec.relation is Relation.ADD_REMOVE and scheme is not None and scheme not in OWN_PLACES:
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
            return f"covers only the view {' or '.join(sorted(self.views))}, and the view here is {spec.view}"
        return None


def last_iterate_scope(
    *, replace_one: Set[Scheme], add_remove: Set[Scheme] = frozenset(), noises: Set[str] = frozenset({"gaussian"})
) -> Scope:
    """Chains of which the last iterate is seen, with these batches; a relation without any is not covered."""
    schemes = {Relation.REPLACE_ONE: replace_one, Relation.ADD_REMOVE: add_remove}
    batches = {relation: covered for relation, covered in schemes.items() if covered}
    return Scope({"noisy-gradient"}, {View.LAST_ITERATE}, batches, noises)


def _listed(words: Iterable[object]) -> str:
    ordered = sorted(str(word) for word in words)
    return ", ".join(ordered[:-1]) + " and " + ordered[-1] if len(ordered) > 1 else "".join(ordered)


# Clipping of these kinds bounds the per-example gradient itself; clipping features does not.
_BOUNDS_GRADIENT = frozenset({ClippingKind.NORM, ClippingKind.RESIDUAL})


def certificate_for(spec: Spec, constant: Constant) -> Certificate | None:
    """The smallest usable certificate for a constant of the problem, or one that must be refused, or None.

    A gradient bound follows from clipping; a sensitivity follows from a gradient bound by the triangle inequality. A
    gradient bound is never inferred from a sensitivity.
    """
    declared = _at(spec.problem, constant.name)
    candidates = [declared] if isinstance(declared, Certificate) else []
    clipping = spec.algorithm.clipping if isinstance(spec.algorithm, NoisyGradient) else None
    if constant == GRADIENT_BOUND and clipping is not None and clipping.kind in _BOUNDS_GRADIENT:
        reason = f"per-example gradients are clipped to norm {clipping.bound!r}"
        candidates.append(Certificate(GRADIENT_BOUND, clipping.bound, Evidence.BY_CONSTRUCTION, reason))
    bound = certificate_for(spec, GRADIENT_BOUND) if constant == GRADIENT_SENSITIVITY else None
    if bound is not None and math.isfinite(2 * bound.value):
        reason = f"triangle inequality, twice the gradient bound ({bound.reason})"
        twice = replace(bound, constant=constant, value=up(2 * bound.value), reason=reason)
        candidates.append(twice)
    public = [candidate for candidate in candidates if not candidate.reads_private_data]
    return min(public or candidates, key=lambda candidate: candidate.value, default=None)


def _at(section: object, path: str) -> object:
    """The value at a dotted path of attributes; None where one is absent."""
    for name in path.split("."):
        section = getattr(section, name, None)
    return section


def section_certificates(spec: Spec, constants: Iterable[Constant]) -> tuple[Certificate, ...]:
    """The certificates of those of the constants that the run states."""
    stated = (certificate_for(spec, constant) for constant in constants)
    return tuple(certificate for certificate in stated if certificate is not None)


def section_values(spec: Spec, constants: Iterable[Constant]) -> dict[Constant, float]:
    """Their values, by constant."""
    return {certificate.constant: certificate.value for certificate in section_certificates(spec, constants)}


def public_certificate(spec: Spec, constant: Constant) -> Certificate | None:
    """The certificate of a constant, if there is one that reads no private data."""
    certificates = public_certificates(spec, constant)
    return None if isinstance(certificates, str) else certificates[0]


def public_certificates(spec: Spec, *constants: Constant) -> tuple[Certificate, ...] | str:
    """The certificates of these constants, or which of them is missing or reads private data."""
    for constant in constants:
        if certificate_for(spec, constant) is None:
            return f"needs {constant.name} ({constant.meaning}), and problem.{constant.name} is not given"
    stated = section_certificates(spec, constants)
    return unusable(stated) or stated


def unusable(certificates: Iterable[Certificate]) -> str | None:
    """Why one of these certificates must be refused, or None."""
    for one in certificates:
        if one.reads_private_data:
            known = "from public knowledge, and the certificate given reads private data"
            return f"needs {one.constant.name} {known} ({one.reason})"
    return None


def promised(value: Promised | str | None) -> Promised:
    """What a theorem's conditions promise; a proof that is called past them may find nothing, or why there is none."""
    if value is None or isinstance(value, str):
        raise InputError("This run does not meet the conditions of the theorem. Use evaluate.")
    return value


def run_of(spec: Spec, kind: type[Run]) -> Run:
    """The algorithm of a spec whose kind is in scope."""
    return promised(spec.algorithm if isinstance(spec.algorithm, kind) else None)


class CheckedBy(StrEnum):
    """Who is responsible for an assumption."""

    MACHINE = "machine"
    CALLER = "caller"


Failure = Callable[[Spec], str | None]
Certificates = Callable[[Spec], tuple[Certificate, ...]]


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem; it is asked of runs that are in its scope and meet the conditions before it."""

    name: str  # unique within a theorem
    statement: str
    failure: Failure  # None when the condition holds, otherwise the reason with both sides of the inequality
    checked_by: CheckedBy = CheckedBy.MACHINE
    concerns: Callable[[Spec], bool] = lambda _: True  # whether it says anything of a run
    certificates: Certificates = lambda _: ()  # the certified constants that a theorem uses which assumes it


def assumption(name: str, statement: str, certificates: Certificates = lambda _: ()) -> Callable[[Failure], Assumption]:
    """Turn a check into the assumption that it checks."""
    return lambda failure: Assumption(name, statement, failure, certificates=certificates)


def caller_checked(name: str, statement: str, concerns: Callable[[Spec], bool] = lambda _: True) -> Assumption:
    """A condition the library cannot see; it is printed with the bound, for the runs that it concerns."""
    return Assumption(name, statement, lambda _: None, CheckedBy.CALLER, concerns)


LARGEST_RATIO = 1e9  # beyond this a step hides nothing, and sums of squares would leave the range of floating point


def at_most(
    name: str, statement: str, value: Callable[[Spec], float | None], reason: str, limit: float = LARGEST_RATIO
) -> Assumption:
    """A number of the run is at most a limit, or it has none; texts may name {limit:g}, the reason {value:.3g} too."""

    def failure(spec: Spec) -> str | None:
        number = value(spec)
        return None if number is None or number <= limit else reason.format(limit=limit, value=number)

    return Assumption(name, statement.format(limit=limit), failure)


def up_to(called: str, value: Callable[[Spec], float | None], limit: float = LARGEST_RATIO) -> Assumption:
    """A number of the run is small enough for a guarantee to say anything."""
    reason = f"evaluates {called} up to {{limit:g}}, and it is {{value:.3g}}"
    return at_most("reach", f"{called} is at most {{limit:g}}", value, reason, limit)


def found_or_why(name: str, statement: str, found: Callable[[Spec], object]) -> Assumption:
    """A theorem finds what it needs; `found` answers with text where it does not."""
    return Assumption(name, statement, lambda spec: why if isinstance(why := found(spec), str) else None)


def certified(
    *constants: Constant, section: str = "", words: str = "", used: Callable[[Spec], bool] = lambda _: True
) -> Assumption:
    """A run that uses it certifies a constant, or those of a section of the problem, and reads no private data."""
    one = constants[0]
    stated = f"{words}{one.name}, {one.meaning}, is certified from public knowledge"
    return replace(
        found_or_why(
            f"certified {section or one.name}",
            f"the constants of problem.{section} are certified publicly" if section else stated,
            lambda spec: public_certificates(spec, *constants) if used(spec) else None,
        ),
        certificates=lambda spec: section_certificates(spec, constants) if used(spec) else (),
    )


def stated_under(spec: Spec, path: str) -> tuple[Certificate, ...]:
    """The certificates that are keys of the section at a dotted path; none where there is no section."""
    section = _at(spec, path)
    stated = (getattr(section, key.attribute) for key in keys_of(type(section))) if isinstance(section, Section) else ()
    return tuple(value for value in stated if isinstance(value, Certificate))


def certified_parts(path: str) -> Assumption:
    """The certificates that an algorithm states under `path` were found without reading private data."""
    return Assumption(
        f"public {path}",
        f"the constants of {path} are certified from public knowledge",
        lambda spec: unusable(stated_under(spec, path)),
        certificates=lambda spec: stated_under(spec, path),
    )


# Schemes that pass over the records in batches of b, the last of a pass smaller if b does not divide n.
PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
# These keep their order: a record is used at one position of every pass.
FIXED_ORDERS = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})
# Schemes whose accounting compares a batch with the record to one without it, also under replace-one.
HIDDEN_USES = frozenset({Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION})
# Batches of every step drawn afresh, by the relations under which theorems cover them.
DRAWN = {Relation.REPLACE_ONE: {Scheme.WITHOUT_REPLACEMENT, Scheme.POISSON}, Relation.ADD_REMOVE: {Scheme.POISSON}}
LONGEST_SCHEDULE = 10_000_000
MOST_RATIOS = 128  # steps with more different ratios than this are rounded up onto as many
# Smaller ratios are rounded up to this one: its square does not underflow, and it costs nothing.
SMALLEST_RATIO = 1e-150
_GAUSSIAN_ALPHA = 2.0
_REFERENCE_DELTA = 1e-6
_ROUND_UP = 1 + 1e-15  # products and quotients of four floats: a few units in the last place, rounded up


@dataclass(frozen=True)
class NoisySteps:
    """The steps of one run: their number, and the sensitivity-to-noise ratio kappa of each."""

    scheme: Scheme
    steps: int
    rate: float
    batches_per_epoch: int
    constant_ratio: float | None
    ratios: Callable[[], Array]

    @property
    def largest_ratio(self) -> float:
        return float(self.ratios().max()) if self.constant_ratio is None else self.constant_ratio

    @property
    def epochs(self) -> int:
        return -(-self.steps // self.batches_per_epoch)

    def grouped(self, most: int = MOST_RATIOS) -> list[tuple[float, int]]:
        """(ratio, count), ratios rounded up onto at most about `most` values: composing them needs no more."""
        if self.constant_ratio is not None:
            return [(self.constant_ratio, self.steps)]
        values, counts = np.unique(self.ratios(), return_counts=True)
        if len(values) <= most:
            return [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]
        edges = np.geomspace(values[0], values[-1], most) * (1 + 1e-12)
        totals = np.bincount(np.searchsorted(edges, values), weights=counts, minlength=most)
        return [(float(edges[i]), round(totals[i])) for i in range(most) if totals[i]]


def chosen_delta(spec: Spec) -> float:
    """The delta at which a theorem chooses among bounds that all hold: the spec's, or a public one."""
    return spec.delta or _REFERENCE_DELTA


def largest_of_each(terms: Array, period: int) -> Array:
    """The largest term of each `period` steps, a last part included."""
    return np.maximum.reduceat(terms, range(0, len(terms), period))


def largest_position(terms: Array, period: int) -> float:
    """The largest sum of the terms at one position of every pass of `period` steps; relative error below 1e-14."""
    # Each position is made contiguous first: only then does NumPy sum in pairs, where millions of terms lose nothing.
    period = min(period, len(terms))
    positions = np.pad(terms, (0, -len(terms) % period)).reshape(-1, period).T
    with np.errstate(over="ignore"):
        return float(np.ascontiguousarray(positions).sum(axis=1).max())


def scheme_of(algorithm: Algorithm) -> Scheme | None:
    """How batches are chosen, or None for kinds without batches."""
    if isinstance(algorithm, NoisyGradient):
        return algorithm.batch.scheme
    return algorithm.sampling.scheme if isinstance(algorithm, NoisedSums) else None


def batches_of(spec: Spec) -> tuple[Batch, int]:
    """How batches of a run with steps are chosen, and from how many records."""
    if isinstance(spec.algorithm, NoisedSums):
        return spec.algorithm.sampling, spec.algorithm.records
    return run_of(spec, NoisyGradient).batch, spec.n


def noise_of(algorithm: Algorithm) -> str | None:
    """The kind of noise, or None for kinds without steps; a stable law with alpha = 2 is Gaussian."""
    if isinstance(algorithm, NoisyGradient):
        return "gaussian" if algorithm.noise.alpha == _GAUSSIAN_ALPHA else "stable"
    return "gaussian" if isinstance(algorithm, NoisedSums) else None


def sensitivity_constant(relation: Relation, scheme: Scheme | None) -> Constant:
    """Which constant says how far one record moves a step.

    Replace-one: the sensitivity. Add-remove: the gradient bound, the move of a record that appears or vanishes. Poisson
    batches under replace-one use the bound too: the old record may be in the batch without the new one.
    """
    return GRADIENT_BOUND if relation is Relation.ADD_REMOVE or scheme in HIDDEN_USES else GRADIENT_SENSITIVITY


def noisy_steps(run: Algorithm, spec: Spec) -> NoisySteps | None:
    """The steps of a run with their ratios, rounded up; None for kinds without steps, or no certified sensitivity."""
    if isinstance(run, NoisyGradient):
        certificate = certificate_for(spec, sensitivity_constant(spec.relation, run.batch.scheme))
        if certificate is None:
            return None
        factor = certificate.value / run.divisor(spec.n) / run.noise.deviation * _ROUND_UP
        size, scale, steps = run.step_size, run.noise.scale, run.steps
    elif isinstance(run, NoisedSums):
        # A Poisson batch may hold the old unit without the new one, so it moves by one contribution each way.
        factor = (1.0 if run.sampling.scheme in HIDDEN_USES else run.moves(spec.relation)) * _ROUND_UP
        size, scale, steps = ConstantSchedule(1.0), run.noise_multiplier, run.rounds
    else:
        return None

    def ratio(size: Array, scale: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return np.maximum(factor * size / scale * _ROUND_UP, SMALLEST_RATIO)

    every = None
    if size.constant is not None and scale.constant is not None:
        every = float(ratio(np.array(size.constant), np.array(scale.constant)))
    batch, records = batches_of(spec)
    rate, period = batch.inclusion(records), batch.per_epoch(records)
    return NoisySteps(batch.scheme, steps, rate, period, every, lambda: ratio(size.values(steps), scale.values(steps)))
