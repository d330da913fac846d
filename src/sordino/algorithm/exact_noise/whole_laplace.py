"""Whole numbers from the discrete Laplace law, P(k) proportional to exp(-|k| / scale), from fair whole numbers alone.

A whole number that moves by at most D between neighbours, released with such noise, has probabilities whose ratio is at
most exp(D / scale): the guarantee of the Laplace mechanism of that scale, with nothing rounded anywhere. Events of
probability exp(-x) need no exponential (von Neumann 1951); the rest is Canonne, Kamath & Steinke 2020, Algorithm 2.
"""

from fractions import Fraction

import numpy as np

from sordino.algorithm.noise_port import Law, NoisedCall
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.validate import refuse

# Scales are taken as fractions with this denominator, rounded up; uniform whole numbers stay below 2^63.
_DENOMINATOR = 2**16
_LARGEST = 2**40


def noised_whole(value: int, scale: float, randomness: Randomness) -> int:
    """A whole number with such noise, from a run's stream of noise."""
    call = NoisedCall(Law.LAPLACE, np.array([value]), scale)
    return randomness.port.answer(call, lambda: value + whole_laplace(randomness.generator(Purpose.NOISE), scale))


def whole_laplace(generator: np.random.Generator, scale: float) -> int:
    """One draw; the scale is rounded up to a multiple of 2^-16."""
    if not 0.0 < scale <= _LARGEST:
        raise refuse("the scale of the noise", f"to be above 0 and at most {_LARGEST}", scale)
    exact = Fraction(-int(-Fraction(scale) * _DENOMINATOR // 1), _DENOMINATOR)
    top, bottom = exact.numerator, exact.denominator
    while True:
        rest = int(generator.integers(0, top))
        if not _happens(generator, Fraction(rest, top)):
            continue
        wholes = 0
        while _happens(generator, Fraction(1)):
            wholes += 1
        size = (rest + top * wholes) // bottom
        negative = bool(generator.integers(0, 2))
        if not (negative and size == 0):
            return -size if negative else size


def _happens(generator: np.random.Generator, x: Fraction) -> bool:
    """True with probability exp(-x), for 0 <= x <= 1: the first failure among events of probability x / k is odd."""
    k = 1
    while generator.integers(0, x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1
