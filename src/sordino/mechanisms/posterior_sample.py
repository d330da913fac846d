"""Posterior draws of certified length: by rejection under an envelope, or by a Metropolis sampler with noise.

What is drawn is what `posterior.rejection`, `posterior.rejection-pure` and `posterior.perturbed` certify for the same
spec; `accounting/theorems/posterior_drawn.py` has the proofs. Draws are made in floating point.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from sordino.core import spec as specs
from sordino.core.arrays import Array
from sordino.core.validate import InputError, instance_of, refuse
from sordino.noise.port import ExactDraws
from sordino.noise.randomness import Law, Purpose, Randomness

Potential = Callable[[Array], Array]  # rows of parameters to one value each
Gradient = Callable[[Array], Array]  # one vector of parameters to another
_AT_ONCE = 4096  # proposals that are evaluated together
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PosteriorDraws:
    """The released draws: one vector each, or None where no proposal was accepted."""

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
    strongly log-concave potentials, whose envelope needs it. `start` is a public vector: where the envelope is
    looked for, or the centre of the ball that is the set.
    """
    run: specs.PosteriorSample = instance_of("spec.algorithm", spec.algorithm, specs.PosteriorSample)
    instance_of("randomness", randomness, Randomness)
    generator, drawn = randomness.generator(Purpose.DRAWS), run.drawn
    if isinstance(drawn, specs.PerturbedDraws) or drawn is None:
        remedy, word = "draw with the sampler of your own and hand each draw to `perturb`", drawn and "perturbed"
        raise refuse("algorithm.drawn.kind", "to be rejection or metropolis", word, remedy)
    centre = _vector("start", np.zeros(drawn.dim) if start is None else start, drawn.dim)
    if isinstance(drawn, specs.MetropolisDraws):
        bounded, noise = instance_of("potential", run.potential, specs.BoundedPotential), ExactDraws.of(randomness)
        ball = _Ball(centre, bounded.diameter.value / 2, generator)
        draw = lambda: _noised(_metropolis(drawn, potential, ball), drawn.noise, noise)  # noqa: E731
    elif isinstance(run.potential, specs.BoundedPotential):
        ball = _Ball(centre, run.potential.diameter.value / 2, generator)
        draw = partial(_uniform_envelope, drawn.trials, potential, ball)
    else:
        concave = instance_of("potential", run.potential, specs.StronglyLogConcave)
        if gradient is None:
            raise refuse("gradient", "to be given for a strongly log-concave potential", None)
        point, m = _near_the_top(concave, drawn, gradient, centre), concave.strong_convexity.value
        draw = partial(_gaussian_envelope, m, drawn.trials, potential, point, generator)
    return PosteriorDraws(spec, tuple(draw() for _ in range(run.draws)))


def perturb(spec: specs.Spec, draw: ArrayLike, randomness: Randomness) -> Array:
    """Add the noise of a `perturbed` run to one draw of a custom sampler.

    Formal guarantees: those of `posterior.perturbed`, if the sampler is within the stated distance whatever the data.
    """
    run: specs.PosteriorSample = instance_of("spec.algorithm", spec.algorithm, specs.PosteriorSample)
    drawn: specs.PerturbedDraws = instance_of("spec.algorithm.drawn", run.drawn, specs.PerturbedDraws)
    return _noised(_vector("draw", draw, drawn.dim), drawn.noise, ExactDraws.of(randomness))


def _noised(draw: Array, noise: specs.AverageNoise, drawn: ExactDraws) -> Array:
    return drawn.floating(draw, Law(noise.kind), noise.scale)


def _near_the_top(
    potential: specs.StronglyLogConcave, drawn: specs.RejectionDraws, gradient: Gradient, start: Array
) -> Array:
    """A point, and its gradient, at which the envelope costs a factor of 2 at most."""
    # A step of length 1/M shortens the gradient by 1 - m/M at least, so this ends.
    if drawn.smoothness is None:
        raise refuse("algorithm.drawn.smoothness", "to be given for a strongly log-concave potential", None)
    m, M = potential.strong_convexity.value, drawn.smoothness.value
    short = math.sqrt(2 * math.log(2) / max(1 / m - 1 / M, 1e-300)) * (1 - 1e-9)
    point, slope = start, _vector("gradient", gradient(start), drawn.dim)
    size = float(np.linalg.norm(slope))
    steps = math.ceil(math.log(max(size / short, 1.0)) / -math.log1p(-m / M)) + 8 if m < M else 8
    for _ in range(steps):
        if size <= short:
            break
        point = point - slope / M
        slope = _vector("gradient", gradient(point), drawn.dim)
        size = float(np.linalg.norm(slope))
    if size > short:
        raise InputError("The gradient contradicts strong_convexity or smoothness.")
    return np.stack([point, slope])


def _gaussian_envelope(m: float, trials: int, function: Potential, point: Array, generator: Generator) -> Array | None:
    """Proposals from N(x - g / m, I / m), of which F lies above the quadratic."""
    place, slope = point
    middle = place - slope / m
    height = float(_evaluated(function, place[None, :])[0]) - float(slope @ slope) / (2 * m)

    def attempt(count: int) -> tuple[Array, Array]:
        moves = generator.standard_normal((count, len(place))) / math.sqrt(m)
        rows = middle + moves
        return rows, _evaluated(function, rows) - height - m / 2 * np.sum(moves * moves, axis=1)

    return _accepted(attempt, trials, generator)


class _Ball(NamedTuple):
    """The set on which a bounded potential lives, with draws from it."""

    centre: Array
    radius: float
    generator: Generator

    def draws(self, count: int) -> Array:
        ways = self.generator.standard_normal((count, len(self.centre)))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        return self.centre + self.radius * self.generator.random((count, 1)) ** (1 / len(self.centre)) * ways


def _uniform_envelope(trials: int, function: Potential, ball: _Ball) -> Array:
    """Uniform proposals on the ball; where none is accepted, one more."""

    def attempt(count: int) -> tuple[Array, Array]:
        rows = ball.draws(count)
        return rows, _evaluated(function, rows)

    found = _accepted(attempt, trials, ball.generator)
    return ball.draws(1)[0] if found is None else found


def _accepted(attempt: Callable[[int], tuple[Array, Array]], trials: int, generator: Generator) -> Array | None:
    """The first proposal that is accepted with e^-excess, of at most so many."""
    for first in range(0, trials, _AT_ONCE):
        count = min(trials - first, _AT_ONCE)
        rows, excess = attempt(count)
        if np.any(excess < -_ROUNDING * (1 + np.abs(excess))):
            raise InputError("The potential is below its envelope. Check the stated constants.")
        hits = np.flatnonzero(generator.random(count) < np.exp(-excess))
        if len(hits):
            return rows[hits[0]]
    return None


def _metropolis(drawn: specs.MetropolisDraws, function: Potential, ball: _Ball) -> Array:
    """The state after exactly so many steps with uniform proposals on the ball, from its centre."""
    state, value = ball.centre, float(_evaluated(function, ball.centre[None, :])[0])
    for first in range(0, drawn.steps, _AT_ONCE):
        rows = ball.draws(min(drawn.steps - first, _AT_ONCE))
        values, coins = _evaluated(function, rows), ball.generator.random(len(rows))
        if np.any(values < -_ROUNDING) or np.any(values > drawn.oscillation.value * (1 + _ROUNDING)):
            raise InputError("The potential must be between 0 and the stated oscillation.")
        for row, proposed, coin in zip(rows, values.tolist(), coins.tolist(), strict=True):
            if coin < math.exp(min(0.0, value - proposed)):
                state, value = row, proposed
    return state


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
