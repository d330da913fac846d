"""Posterior draws of certified length: by rejection under an envelope, or by a Metropolis sampler with noise.

What is drawn is what `posterior.rejection`, `posterior.rejection-pure` and `posterior.perturbed` certify for the same
spec; `accounting/theorems/posterior_drawn.py` has the proofs. Draws are made in floating point.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core import spec as specs
from sordino.core.arrays import Array
from sordino.core.validate import InputError, instance_of, refuse
from sordino.noise.calls import Law
from sordino.noise.port import ExactDraws
from sordino.noise.randomness import Purpose, Randomness

Potential = Callable[[Array], Array]  # rows of parameters to one value each
Gradient = Callable[[Array], Array]  # one vector of parameters to another
_AT_ONCE = 4096  # proposals that are evaluated together
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PosteriorDraws:
    """What leaves the run: one vector for each draw, or None where no proposal was accepted."""

    spec: specs.Spec
    values: tuple[Array | None, ...]


def posterior_draws(
    spec: specs.Spec,
    potential: Potential,
    randomness: Randomness,
    *,
    gradient: Gradient | None = None,
    start: ArrayLike | None = None,
) -> PosteriorDraws:
    """Draw from pi proportional to e^-F as the spec says, as often as it states.

    Formal guarantees: those that `certify` gives for the same spec, if the constants of the spec hold for the potential
    whatever the records are. How long a draw takes depends on the records and must not be seen.

    `potential` is F, the sum over records and minus the logarithm of the prior, for an array with a row of parameters
    each; for a bounded potential between 0 and the stated oscillation. `gradient`, of F at one vector, is needed for
    strongly log-concave potentials, whose envelope stands on it. `start` is a public vector: where the envelope is
    looked for, or the centre of the ball that is the set.
    """
    run: specs.PosteriorSample = instance_of("spec.algorithm", spec.algorithm, specs.PosteriorSample)
    instance_of("randomness", randomness, Randomness)
    generator, drawn = randomness.generator(Purpose.DRAWS), run.drawn
    if isinstance(drawn, specs.PerturbedDraws) or drawn is None:
        remedy, word = "draw with the sampler of your own and hand each draw to `perturb`", drawn and "perturbed"
        raise refuse("algorithm.drawn.kind", "to be rejection or metropolis", word, remedy)
    centre = _vector("start", np.zeros(drawn.dim) if start is None else start, drawn.dim)
    values: list[Array | None] = []
    if isinstance(drawn, specs.MetropolisDraws):
        noise, drawing = ExactDraws.of(randomness), (run, drawn, potential, centre, generator)
        values.extend(_noised(_metropolis(*drawing), drawn.noise, noise) for _ in range(run.draws))
    elif isinstance(run.potential, specs.BoundedPotential):
        values.extend(_uniform_envelope(run.potential, drawn, potential, centre, generator) for _ in range(run.draws))
    else:
        concave: specs.StronglyLogConcave = instance_of("potential", run.potential, specs.StronglyLogConcave)
        if gradient is None:
            raise refuse("gradient", "to be given for a strongly log-concave potential", None)
        point = _near_the_top(concave, drawn, gradient, centre)
        values.extend(_gaussian_envelope(concave, drawn, potential, point, generator) for _ in range(run.draws))
    return PosteriorDraws(spec, tuple(values))


def perturb(spec: specs.Spec, draw: ArrayLike, randomness: Randomness) -> Array:
    """Add the noise of a `perturbed` run to one draw of a custom sampler.

    Formal guarantees: those of `posterior.perturbed`, if the sampler is within the stated distance whatever the data.
    """
    run: specs.PosteriorSample = instance_of("spec.algorithm", spec.algorithm, specs.PosteriorSample)
    drawn: specs.PerturbedDraws = instance_of("spec.algorithm.drawn", run.drawn, specs.PerturbedDraws)
    return _noised(_vector("draw", draw, drawn.dim), drawn.noise, ExactDraws.of(randomness))


def _noised(draw: Array, noise: specs.AverageNoise, drawn: ExactDraws) -> Array:
    law = Law.GAUSSIAN if noise.kind is specs.AverageNoiseKind.GAUSSIAN else Law.LAPLACE
    return drawn.floating(draw, law, noise.scale)


def _near_the_top(
    potential: specs.StronglyLogConcave, drawn: specs.RejectionDraws, gradient: Gradient, start: Array
) -> Array:
    """A point, and its gradient, at which the envelope costs a factor of 2 at most."""
    # A step of length 1/M shortens the gradient by 1 - m/M at least, so this ends.
    if drawn.smoothness is None:
        raise refuse("algorithm.drawn.smoothness", "to be given for a strongly log-concave potential", None)
    m, M = potential.strong_convexity.value, drawn.smoothness.value
    short = math.sqrt(2 * math.log(2) / max(1 / m - 1 / M, 1e-300)) * (1 - 1e-9)
    point = start
    slope = _vector("gradient", gradient(point), drawn.dim)
    size = float(np.linalg.norm(slope))
    steps = math.ceil(math.log(max(size / short, 1.0)) / -math.log1p(-m / M)) + 8 if m < M else 8
    for _ in range(steps):
        if size <= short:
            break
        point = point - slope / M
        slope = _vector("gradient", gradient(point), drawn.dim)
        size = float(np.linalg.norm(slope))
    if size > short:
        raise InputError("The gradient does not fall as strong_convexity and smoothness say.")
    return np.stack([point, slope])


def _gaussian_envelope(
    potential: specs.StronglyLogConcave,
    drawn: specs.RejectionDraws,
    function: Potential,
    point: Array,
    generator: np.random.Generator,
) -> Array | None:
    """Proposals from N(x - g / m, I / m), of which F lies above the quadratic."""
    m = potential.strong_convexity.value
    place, slope = point
    middle = place - slope / m
    height = float(_evaluated(function, place[None, :])[0]) - float(slope @ slope) / (2 * m)

    def attempt(count: int) -> tuple[Array, Array]:
        moves = generator.standard_normal((count, drawn.dim)) / math.sqrt(m)
        rows = middle + moves
        values = _evaluated(function, rows)
        return rows, values - height - m / 2 * np.sum(moves * moves, axis=1)

    return _accepted(attempt, drawn.trials, generator)


def _uniform_envelope(
    potential: specs.BoundedPotential,
    drawn: specs.RejectionDraws,
    function: Potential,
    centre: Array,
    generator: np.random.Generator,
) -> Array:
    """Uniform proposals on the ball; where none is accepted, one more."""
    radius = potential.diameter.value / 2

    def attempt(count: int) -> tuple[Array, Array]:
        rows = _in_ball(count, centre, radius, generator)
        return rows, _evaluated(function, rows)

    found = _accepted(attempt, drawn.trials, generator)
    return _in_ball(1, centre, radius, generator)[0] if found is None else found


def _accepted(
    attempt: Callable[[int], tuple[Array, Array]], trials: int, generator: np.random.Generator
) -> Array | None:
    """The first proposal that is accepted with e^-excess, of at most so many."""
    left = trials
    while left > 0:
        count = min(left, _AT_ONCE)
        rows, excess = attempt(count)
        if np.any(excess < -_ROUNDING * (1 + np.abs(excess))):
            raise InputError("The potential is below its envelope. Check the stated constants.")
        hits = np.flatnonzero(generator.random(count) < np.exp(-excess))
        if len(hits):
            return rows[hits[0]]
        left -= count
    return None


def _metropolis(
    run: specs.PosteriorSample,
    drawn: specs.MetropolisDraws,
    function: Potential,
    centre: Array,
    generator: np.random.Generator,
) -> Array:
    """The state after exactly so many steps with uniform proposals on the ball, from its centre."""
    bounded: specs.BoundedPotential = instance_of("potential", run.potential, specs.BoundedPotential)
    state, value = centre, float(_evaluated(function, centre[None, :])[0])
    left = drawn.steps
    while left > 0:
        count = min(left, _AT_ONCE)
        rows = _in_ball(count, centre, bounded.diameter.value / 2, generator)
        values, coins = _evaluated(function, rows), generator.random(count)
        if np.any(values < -_ROUNDING) or np.any(values > drawn.oscillation.value * (1 + _ROUNDING)):
            raise InputError("The potential must be between 0 and the stated oscillation.")
        for row, proposed, coin in zip(rows, values.tolist(), coins.tolist(), strict=True):
            if coin < math.exp(min(0.0, value - proposed)):
                state, value = row, proposed
        left -= count
    return state


def _in_ball(count: int, centre: Array, radius: float, generator: np.random.Generator) -> Array:
    ways = generator.standard_normal((count, len(centre)))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    return centre + radius * generator.random((count, 1)) ** (1 / len(centre)) * ways


def _evaluated(function: Potential, rows: Array) -> Array:
    values = np.asarray(function(rows), dtype=np.float64)
    if values.shape != (len(rows),):
        raise refuse("potential", f"to give one value for each of {len(rows)} rows", f"shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise refuse("potential", "to be finite", "NaN or infinity")
    return values


def _vector(name: str, value: ArrayLike, dim: int) -> Array:
    found = np.asarray(value, dtype=np.float64)
    if found.shape != (dim,) or not np.all(np.isfinite(found)):
        raise refuse(name, f"to be a vector of {dim} finite numbers", f"shape {found.shape}")
    return found
