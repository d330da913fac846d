"""How a run uses a record: which steps may see it, and how far it can move them relative to the noise.

Chains and noised sums reduce to this, so the composition theorems are about both. Nothing here claims amplification;
theorems do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.accounting.assumptions import certificate_for
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Constant, Relation
from sordino.core.spec import Algorithm, GaussianNoise, NoisedSums, NoisyGradient, Scheme, Spec
from sordino.core.spec.fields import Section
from sordino.core.spec.problem import ConstantSchedule, Schedule

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
