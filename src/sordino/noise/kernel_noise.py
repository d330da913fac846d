"""The noise of compiled kernels: drawn here a block of steps at a time, added inside by `NoisePort.added`."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.noise.device_gaussian import step_gaussians
from sordino.noise.lattice import Lattice, Total, in_doubles
from sordino.noise.randomness import ADDED, Law, NoisedCall, Purpose, Randomness
from sordino.noise.rounded_gaussian import SCALES
from sordino.noise.secure import key_for, standard_gaussians


def step_noise(
    randomness: Randomness,
    lattice: Lattice | None,
    scales: NDArray[np.float64],
    first: int,
    shape: tuple[int, ...],
    dtype: DTypeLike,
) -> Any:
    """Noise of steps `first`, ..., shape (steps, ...): on a lattice, otherwise standard Gaussians in floating point.

    `scales` are those of all steps of the run.
    """
    if lattice is None:
        return randomness.gaussians(Purpose.NOISE, first, shape[0], shape[1:], dtype)
    in_spacings = _in_units(scales, lattice.exponent)
    drawn = randomness.whole_gaussians(Purpose.NOISE, first, shape[0], in_spacings, math.prod(shape[1:]))
    return jax.tree.map(jnp.asarray, lattice.halves(drawn.reshape(shape)))


def _in_units(scales: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Scales in units of 2^exponent, at least the least one there is: a little more noise is as private."""
    return np.maximum(np.ldexp(scales, -exponent), SCALES.low)


def keyed_noise(key: Array, step: Any, size: int) -> Array:
    """Standard Gaussians of a step of a pure chain, which has the caller's keys."""
    return standard_gaussians(key_for(key, Purpose.NOISE, step), (size,))


_SMALLEST = 2.0**-54  # half the resolution of a uniform draw, so that zero is never met


def stable_scales(generator: np.random.Generator, shape: tuple[int, int], alpha: float) -> NDArray[np.float64]:
    """The random scales of the next steps of stable noise, shape (steps, chains); drawn in order."""
    return np.asarray(mixing_scale(generator.random((*shape, 2)), alpha, np))


def keyed_scale(key: Array, step: Any, alpha: float) -> Array:
    """The random scale of a step of a pure chain with stable noise."""
    return mixing_scale(jax.random.uniform(key_for(key, Purpose.MIXING, step), (2,), jnp.float64), alpha, jnp)


def mixing_scale(draws: Any, alpha: float, numbers: Any) -> Any:
    """For uniform pairs in [0, 1) an s such that s N(0, I) has the stable law exp(-|u|^alpha), alpha > 1."""
    # Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index alpha /
    # 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of Kanter (1975,
    # Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).
    if alpha == 2.0:
        return numbers.full(draws.shape[:-1], np.sqrt(2.0))
    index = alpha / 2.0
    angle = np.pi * numbers.maximum(draws[..., 0], _SMALLEST)
    exponential = numbers.maximum(-numbers.log1p(-draws[..., 1]), _SMALLEST)
    turned = numbers.sin(index * angle) / numbers.sin(angle) ** (1.0 / index)
    positive = turned * (numbers.sin((1.0 - index) * angle) / exponential) ** ((1.0 - index) / index)
    return numbers.sqrt(2.0 * positive)


_DRAWS_AT_ONCE = 2**18  # noise of so many numbers is drawn at once, for several steps


class NetworkNoise:
    """Noise, by step, on the whole-number sums of a training run, in units of 2^exponent; whole numbers if `exact`."""

    def __init__(
        self, randomness: Randomness, noise: NDArray[np.float64], exponent: int, size: int, *, exact: bool
    ) -> None:
        self.randomness, self.noise, self.exponent, self.size, self.exact = randomness, noise, exponent, size, exact
        self.scales = _in_units(noise, exponent)
        self._as_floats: Callable[..., Array] = jax.jit(
            lambda whole: (whole.astype(jnp.float64) * math.ldexp(1.0, exponent)).astype(jnp.float32)
        )
        self._drawn: tuple[int, Any] = (0, ())

    def added(self, total: Array, k: int) -> Array:
        """The sum of step k with its noise."""
        if not self.exact:
            gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.size,), jnp.float32)[0]
            with in_doubles():
                sums = self._as_floats(total)
            scale = jnp.asarray(self.noise[k], jnp.float32)
            return self.randomness.port.added(Total(jnp.zeros_like(sums), sums), scale, gaussian)
        if self.randomness.port is ADDED:
            with in_doubles():
                return self._as_floats(total + self._noise(k))
        sums = np.asarray(total)
        call = NoisedCall(Law.GAUSSIAN, sums, self.noise[k], math.ldexp(1.0, self.exponent))
        answer = self.randomness.port.answer(
            call, lambda: np.ldexp((sums + np.asarray(self._noise(k))).astype(np.float64), self.exponent)
        )
        return jnp.asarray(np.asarray(answer), jnp.float32)

    def _noise(self, k: int) -> Any:
        """Noise of a step, which depends on its number alone; drawn for several steps at once."""
        first, drawn = self._drawn
        if not first <= k < first + len(drawn):
            steps = min(max(1, _DRAWS_AT_ONCE // self.size), len(self.noise) - k)
            if jax.default_backend() == "cpu":
                drawn = self.randomness.whole_gaussians(Purpose.NOISE, k, steps, self.scales, self.size)
            else:
                drawn = step_gaussians(self.randomness, Purpose.NOISE, k, self.scales[k : k + steps], self.size)
            first, self._drawn = k, (k, drawn)
        with in_doubles():
            return jnp.asarray(drawn[k - first])
