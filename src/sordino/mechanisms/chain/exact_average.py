"""A noised average to the last bit: whole numbers added up along the chain, one exact division, exact noise.

Statement. Let a chain state `algorithm.rounding` = r (`chain.hidden`), so that a step as computed, with its noise, is
within r tau_k of the real one with the same noise, two floorings of an iterate included. Then the averages of its kept
iterates on two neighbouring tables, coupled by the chain's noise and batches, are at most as far apart as theorems
about real chains say when every step moves by 2 r tau_k more. The average of floored iterates is a fraction of whole
numbers; it is floored to a lattice of 2^30 or more spacings h to the noise, which moves two of them apart by less than
h in every value, and whole-number noise is added: a rounded Gaussian (`rounded_gaussian`), which is the Gaussian
mechanism post-processed, or discrete Laplace noise (`exact.whole_laplace`), whose ratio of probabilities is at most
exp(|k - k'|_1 h / t). `accounting.theorems.averages.rounding_of_average` adds both to the move.

Proof. |S(x) - S'(y)| <= c |x - y| + s + 2 (p + q) for the steps S, S' as computed, with p + q <= r tau: noise on
the lattice is the same whole number in both and cutting brings no points further apart. That is the recursion of the
real chain with longer moves. Sums of whole numbers and their quotient by a public number round nothing.

What is averaged has to be computed without error: the parameters, or one of them. A function of one's own is not
averaged exactly, and a run of a spec that states a rounding refuses it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import AverageNoise, AverageNoiseKind
from sordino.core.validate import refuse
from sordino.noise.exact import whole_laplace
from sordino.noise.lattice import Lattice
from sordino.noise.randomness import Law, NoisedCall, Purpose, Randomness
from sordino.noise.rounded_gaussian import rounded_gaussians

COVERED = (
    "an average of whole numbers along a chain on a public lattice, noise from fair bits without rounding; how far "
    "arithmetic takes a step is in the average's move, elementary functions being accurate to 2^-40"
)
Whole = NDArray[np.int64]
# Iterates have at most 52 digits in spacings; sums of each half of them stay below 2^62 for so many.
_HALF = 26
_MOST_KEPT = 2**34
_FAR = 2**62


class WholeSum:
    """The sum of values on a lattice, shape (2, chains, values): of their upper digits and of their lower ones."""

    def __init__(self, lattice: Lattice, chains: int, values: int, kept: int) -> None:
        if kept > _MOST_KEPT:
            raise refuse("the kept iterates", f"to be at most {_MOST_KEPT}, so that 64 bits hold their sum", kept)
        self._lattice, self.halves = lattice, np.zeros((2, chains, values), np.int64)

    def add(self, values: Any) -> None:
        """Values of some iterates, shape (iterates, chains, values), each floored to the lattice."""
        whole = np.floor(np.ldexp(np.asarray(values, np.float64), -self._lattice.exponent)).astype(np.int64)
        self.halves[0] += np.sum(whole >> _HALF, axis=0)
        self.halves[1] += np.sum(whole & ((1 << _HALF) - 1), axis=0)

    def floored_mean(self, kept: int, exponent: int) -> Whole:
        """The sum over `kept`, floored to whole numbers of 2^exponent and cut at ends that no real one reaches."""
        shift = self._lattice.exponent - exponent
        high, low = (half.ravel().tolist() for half in self.halves)
        means = [_scaled((top << _HALF) + rest, shift, kept) for top, rest in zip(high, low, strict=True)]
        return np.array([min(max(mean, -_FAR), _FAR) for mean in means], np.int64).reshape(self.halves.shape[1:])


def _scaled(total: int, shift: int, kept: int) -> int:
    """floor(total 2^shift / kept)."""
    return (total << shift) // kept if shift >= 0 else total // (kept << -shift)


def noised_average(mean: Whole, noise: AverageNoise, randomness: Randomness) -> NDArray[np.float64]:
    """Whole numbers of the noise's lattice plus exact noise, as the nearest doubles."""
    law, drawn = _NOISES[noise.kind]
    scale = float(np.ldexp(noise.scale, -noise.exponent))

    def answer() -> NDArray[np.float64]:
        whole = mean + drawn(randomness.generator(Purpose.AVERAGE), mean.size, scale).reshape(mean.shape)
        return np.ldexp(whole.astype(np.float64), noise.exponent)

    call = NoisedCall(law, mean, noise.scale, float(np.ldexp(1.0, noise.exponent)))
    return randomness.port.answer(call, answer)


def _laplace(generator: np.random.Generator, size: int, scale: float) -> Whole:
    return np.array([whole_laplace(generator, scale) for _ in range(size)], np.int64)


_NOISES = {
    AverageNoiseKind.GAUSSIAN: (Law.GAUSSIAN, rounded_gaussians),
    AverageNoiseKind.LAPLACE: (Law.LAPLACE, _laplace),
}
