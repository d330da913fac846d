"""How a run uses a record: which steps may see it, and how far it can move them relative to the noise.

Chains and noised sums reduce to this, so the composition theorems are about both. Nothing here claims amplification;
theorems do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from sordino.accounting.assumptions import certificate_for
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Constant, Relation
from sordino.core.spec import Algorithm, GaussianNoise, NoisedSums, NoisyGradient, Scheme, Spec
from sordino.core.spec.fields import Section

# Schemes that pass over the records in batches of b, the last of a pass smaller if b does not divide n.
PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
LONGEST_SCHEDULE = 10_000_000
# Steps with more different ratios than this are rounded up onto as many.
MOST_RATIOS = 128
# Smaller ratios are rounded up to this one: its square does not underflow, and it costs nothing.
SMALLEST_RATIO = 1e-150
_GAUSSIAN_ALPHA = 2.0
# Products and quotients of four floats: a few units in the last place, rounded up.
_ROUND_UP = 1 + 1e-15


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


@singledispatch
def scheme_of(algorithm: Algorithm) -> Scheme | None:
    """How batches are chosen, or None for kinds without batches."""
    del algorithm
    return None


@scheme_of.register
def _(algorithm: NoisyGradient) -> Scheme:
    return algorithm.batch.scheme


@scheme_of.register
def _(algorithm: NoisedSums) -> Scheme:
    return algorithm.sampling.scheme


def statable(kind: type[Section]) -> tuple[frozenset[Scheme], frozenset[str]]:
    """The schemes and the noises that a spec of this kind can state; both empty for kinds without steps."""
    if issubclass(kind, NoisyGradient):
        return frozenset(Scheme), frozenset({"gaussian", "stable"})
    return (frozenset(Scheme), frozenset({"gaussian"})) if issubclass(kind, NoisedSums) else (frozenset(), frozenset())


@singledispatch
def noise_of(algorithm: Algorithm) -> str | None:
    """The kind of noise, or None for kinds without steps; a stable law with alpha = 2 is Gaussian."""
    del algorithm
    return None


@noise_of.register
def _(algorithm: NoisyGradient) -> str:
    noise = algorithm.noise
    return "gaussian" if isinstance(noise, GaussianNoise) or noise.alpha == _GAUSSIAN_ALPHA else "stable"


@noise_of.register
def _(algorithm: NoisedSums) -> str:
    del algorithm
    return "gaussian"


def sensitivity_constant(relation: Relation, scheme: Scheme | None) -> Constant:
    """Which constant says how far one record moves a step.

    Replace-one: the sensitivity. Add-remove: the gradient bound, the move of a record that appears or vanishes. Poisson
    batches under replace-one use the bound too: the old record may be in the batch without the new one.
    """
    if relation is Relation.ADD_REMOVE or scheme is Scheme.POISSON:
        return GRADIENT_BOUND
    return GRADIENT_SENSITIVITY


@singledispatch
def noisy_steps(algorithm: Algorithm, spec: Spec) -> NoisySteps | None:
    """The steps of a run, or None for kinds without steps."""
    del algorithm, spec
    return None


@noisy_steps.register
def _(algorithm: NoisyGradient, spec: Spec) -> NoisySteps | None:
    certificate = certificate_for(spec, sensitivity_constant(spec.relation, algorithm.batch.scheme))
    if certificate is None:
        return None
    n, divisor = spec.n, algorithm.divisor(spec.n)
    gaussian = isinstance(algorithm.noise, GaussianNoise)
    # A stable law with alpha = 2 and scale sigma is Gaussian with standard deviation sqrt(2) sigma.
    factor = certificate.value / divisor * (1.0 if gaussian else 0.5**0.5) * _ROUND_UP
    step, scale = algorithm.step_size.constant, algorithm.noise.scale.constant

    def ratios() -> Array:
        return _ratios(
            factor, algorithm.step_size.values(algorithm.steps), algorithm.noise.scale.values(algorithm.steps)
        )

    return NoisySteps(
        algorithm.batch.scheme,
        algorithm.steps,
        algorithm.rate(n),
        algorithm.batches_per_epoch(n),
        None if step is None or scale is None else float(_ratios(factor, np.array(step), np.array(scale))),
        ratios,
    )


def _ratios(factor: float, step: Array, scale: Array) -> Array:
    """factor * step / scale, rounded up; infinite where it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.maximum(factor * step / scale * _ROUND_UP, SMALLEST_RATIO)


@noisy_steps.register
def _(algorithm: NoisedSums, spec: Spec) -> NoisySteps | None:
    # A Poisson batch may hold the old unit without the new one, so it moves by one contribution each way.
    poisson = algorithm.sampling.scheme is Scheme.POISSON
    factor = (1.0 if poisson else algorithm.moves(spec.relation)) * _ROUND_UP

    scale, unit = algorithm.noise_multiplier.constant, np.array(1.0)

    def ratios() -> Array:
        return _ratios(factor, unit, algorithm.noise_multiplier.values(algorithm.rounds))

    return NoisySteps(
        algorithm.sampling.scheme,
        algorithm.rounds,
        algorithm.rate,
        algorithm.batches_per_epoch,
        None if scale is None else float(_ratios(factor, unit, np.array(scale))),
        ratios,
    )
