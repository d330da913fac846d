"""Standard Gaussians from 64 random bits each, accurate far into the tails.

Inversion: one bit is the sign, 63 bits are a tail probability m in (0, 1), and the value is the z with
P(|Z| > z) = m. Unlike a generator that starts from 23 bits, whose draws stop at five standard deviations, this one
reaches nine: what it leaves out has probability 2^-63 a draw.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtri
from jax.typing import DTypeLike

# How far arithmetic takes a draw z from the quantile of its bits, in units of max(|z|, 1); the tests check it over the
# whole range.
DRAW_ERROR = {"float32": 5e-7, "float64": 1e-13}
LARGEST_DRAW = 9.2
RANDOM_BITS = 63  # besides the sign

_SIGN = np.uint32(2**31)
_MIDDLE, _FAR_MIDDLE, _FAR = 2.5, 4.5, 5.0
# In w = -log(m (2 - m)): the single-precision polynomial of Giles (2012) near the centre, sqrt(2) taken in afterwards.
_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
# In sqrt(w) - 4.5: least squares at Chebyshev points over 5 <= w <= 45.5, which is as far as 63 bits reach.
_TAIL = (
    -1.434563046132098e-07,
    2.429857488550624e-07,
    1.7172847037727479e-06,
    -5.245783995633246e-06,
    1.0337891581002623e-05,
    -5.14302882947959e-05,
    0.00021309313888195902,
    -0.0006125122308731079,
    0.0004602558328770101,
    1.4286861419677734,
    6.144410133361816,
)


def gaussians_from_words(high: Array, low: Array, dtype: DTypeLike) -> Array:
    """One standard Gaussian for each pair of random 32-bit words."""
    exact = jnp.dtype(dtype)
    whole = (high & ~_SIGN).astype(exact) * _as(2.0**-31, exact)
    probability = whole + (low.astype(exact) + _as(0.5, exact)) * _as(2.0**-63, exact)
    size = _IN_PRECISION[exact.name](probability)
    return jnp.where(high & _SIGN, -size, size)


def tail_quantile(probability: Array) -> Array:
    """The z with P(|Z| > z) = `probability`, in single precision, for probabilities from 2^-64 to 1."""
    w = -jnp.log(probability * (2.0 - probability))
    centre = jnp.float32(np.sqrt(2.0)) * _polynomial(_CENTRE, w - _MIDDLE) * (1.0 - probability)
    return jnp.where(w < _FAR, centre, _polynomial(_TAIL, jnp.sqrt(w) - _FAR_MIDDLE))


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _as(value: float, dtype: np.dtype) -> Array:
    return jnp.asarray(value, dtype)


_IN_PRECISION = {"float32": tail_quantile, "float64": lambda probability: -ndtri(0.5 * probability)}
