"""Two classes through the logistic or the probit link, several classes through softmax."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import POSITIVE, Interval, number, whole_number
from sordino.data.synthetic.base import Synthetic, assemble, draw_rows, draw_theta, generator
from sordino.data.targets import BooleanTarget, CategoryTarget

Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@generator("logistic")
def logistic(rng: np.random.Generator, records: int, dim: int, *, cap: float = 1.0, signal: float = 4.0) -> Synthetic:
    """Draw y in {-1, +1} with P(y = 1) = 1 / (1 + exp(-x theta)) and |theta| = `signal`."""
    return _binary(rng, records, dim, cap, signal, special.expit)


@generator("probit")
def probit(rng: np.random.Generator, records: int, dim: int, *, cap: float = 1.0, signal: float = 2.5) -> Synthetic:
    """Draw y in {-1, +1} with P(y = 1) = Phi(x theta) and |theta| = `signal`."""
    return _binary(rng, records, dim, cap, signal, special.ndtr)


@generator("softmax")
def softmax(
    rng: np.random.Generator, records: int, dim: int, *, classes: int = 3, cap: float = 1.0, signal: float = 6.0
) -> Synthetic:
    """Draw class codes with P(y = k) proportional to exp(x theta_k); theta is dim x classes, |theta|_F = `signal`."""
    whole_number("classes", classes, Interval(2))
    number("signal", signal, POSITIVE)
    rows = draw_rows(rng, records, dim, cap)
    theta = draw_theta(rng, (dim, classes), signal)
    # The largest of logits plus independent Gumbel noise is a draw from the softmax.
    codes = np.argmax(rows @ theta + rng.gumbel(size=(records, classes)), axis=1)
    kind = CategoryTarget(tuple(str(code) for code in range(classes)))
    return assemble(rows, codes, kind, cap, {"theta": theta})


def _binary(rng: np.random.Generator, records: int, dim: int, cap: float, signal: float, link: Link) -> Synthetic:
    number("signal", signal, POSITIVE)
    rows = draw_rows(rng, records, dim, cap)
    theta = draw_theta(rng, (dim,), signal)
    return assemble(rows, rng.random(records) < link(rows @ theta), BooleanTarget(), cap, {"theta": theta})
