"""Which runs a theorem is about, and how such a run uses a record.

A scope names kinds of runs, views, relations, batches and noises. Chains and noised sums reduce to noisy steps: which
of them may see the record, and how far it can move them relative to the noise. Nothing here claims amplification.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from sordino.accounting.assumptions import certificate_for
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Constant, Relation, View
from sordino.core.spec import ALGORITHMS, Algorithm, GaussianNoise, NoisedSums, NoisyGradient, Scheme, Spec
from sordino.core.spec.chain import OWN_PLACES
from sordino.core.spec.fields import Section
from sordino.core.spec.problem import ConstantSchedule, Schedule

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


# Schemes that pass over the records in batches of b, the last of a pass smaller if b does not divide n.
PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
# Schemes whose accounting compares a batch with the record to one without it, also under replace-one.
HIDDEN_USES = frozenset({Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION})
LONGEST_SCHEDULE = 10_000_000
MOST_RATIOS = 128  # steps with more different ratios than this are rounded up onto as many
# Smaller ratios are rounded up to this one: its square does not underflow, and it costs nothing.
SMALLEST_RATIO = 1e-150
_GAUSSIAN_ALPHA = 2.0
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

    def grouped(self, most: int = MOST_RATIOS) -> list[tuple[float, int]]:
        """(ratio, count), ratios rounded up onto at most about `most` values: composing them needs no more."""
        if self.constant_ratio is not None:
            return [(self.constant_ratio, self.steps)]
        values, counts = np.unique(self.ratios(), return_counts=True)
        if len(values) <= most:
            return [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]
        edges = np.geomspace(values[0], values[-1], most) * (1 + 1e-12)
        slots = np.searchsorted(edges, values)
        totals = np.bincount(slots, weights=counts, minlength=most)
        return [(float(edges[i]), round(totals[i])) for i in range(most) if totals[i]]


def largest_position(terms: Array, period: int) -> float:
    """The largest sum of the terms at one position of every pass of `period` steps; relative error below 1e-14.

    Each position is made contiguous first: only then does NumPy sum in pairs. Down the columns it adds one by one, and
    millions of passes would lose a hundred thousand units in the last place.
    """
    period = min(period, len(terms))
    positions = np.pad(terms, (0, -len(terms) % period)).reshape(-1, period).T
    with np.errstate(over="ignore"):
        return float(np.ascontiguousarray(positions).sum(axis=1).max())


def scheme_of(algorithm: Algorithm) -> Scheme | None:
    """How batches are chosen, or None for kinds without batches."""
    if isinstance(algorithm, NoisyGradient):
        return algorithm.batch.scheme
    return algorithm.sampling.scheme if isinstance(algorithm, NoisedSums) else None


def statable(kind: type[Section]) -> tuple[frozenset[Scheme], frozenset[str]]:
    """The schemes and the noises that a spec of this kind can state; both empty for kinds without steps."""
    if issubclass(kind, NoisyGradient):
        return frozenset(Scheme), frozenset({"gaussian", "stable"})
    return (frozenset(Scheme), frozenset({"gaussian"})) if issubclass(kind, NoisedSums) else (frozenset(), frozenset())


def noise_of(algorithm: Algorithm) -> str | None:
    """The kind of noise, or None for kinds without steps; a stable law with alpha = 2 is Gaussian."""
    if isinstance(algorithm, NoisyGradient):
        noise = algorithm.noise
        return "gaussian" if isinstance(noise, GaussianNoise) or noise.alpha == _GAUSSIAN_ALPHA else "stable"
    return "gaussian" if isinstance(algorithm, NoisedSums) else None


def sensitivity_constant(relation: Relation, scheme: Scheme | None) -> Constant:
    """Which constant says how far one record moves a step.

    Replace-one: the sensitivity. Add-remove: the gradient bound, the move of a record that appears or vanishes. Poisson
    batches under replace-one use the bound too: the old record may be in the batch without the new one.
    """
    if relation is Relation.ADD_REMOVE or scheme in HIDDEN_USES:
        return GRADIENT_BOUND
    return GRADIENT_SENSITIVITY


def noisy_steps(algorithm: Algorithm, spec: Spec) -> NoisySteps | None:
    """The steps of a run, or None for kinds without steps."""
    if isinstance(algorithm, NoisyGradient):
        return _of_chain(algorithm, spec)
    if not isinstance(algorithm, NoisedSums):
        return None
    # A Poisson batch may hold the old unit without the new one, so it moves by one contribution each way.
    hidden = algorithm.sampling.scheme in HIDDEN_USES
    factor = (1.0 if hidden else algorithm.moves(spec.relation)) * _ROUND_UP
    batches = (algorithm.rate, algorithm.batches_per_epoch)
    one = ConstantSchedule(1.0)
    return _steps(algorithm.sampling.scheme, algorithm.rounds, batches, factor, one, algorithm.noise_multiplier)


def _of_chain(chain: NoisyGradient, spec: Spec) -> NoisySteps | None:
    certificate = certificate_for(spec, sensitivity_constant(spec.relation, chain.batch.scheme))
    if certificate is None:
        return None
    # A stable law with alpha = 2 and scale sigma is Gaussian with standard deviation sqrt(2) sigma.
    unit = 1.0 if isinstance(chain.noise, GaussianNoise) else 0.5**0.5
    factor = certificate.value / chain.divisor(spec.n) * unit * _ROUND_UP
    batches = (chain.rate(spec.n), chain.batches_per_epoch(spec.n))
    return _steps(chain.batch.scheme, chain.steps, batches, factor, chain.step_size, chain.noise.scale)


def _steps(
    scheme: Scheme, steps: int, batches: tuple[float, int], factor: float, size: Schedule, scale: Schedule
) -> NoisySteps:
    """Steps whose ratios are factor * size / scale, rounded up; infinite where that overflows."""

    def ratio(size: Array, scale: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return np.maximum(factor * size / scale * _ROUND_UP, SMALLEST_RATIO)

    every = None
    if size.constant is not None and scale.constant is not None:
        every = float(ratio(np.array(size.constant), np.array(scale.constant)))
    return NoisySteps(scheme, steps, *batches, every, lambda: ratio(size.values(steps), scale.values(steps)))
