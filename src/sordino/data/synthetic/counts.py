"""Counts with a logarithmic link."""

import math

import numpy as np

from sordino.core.validate import Interval, number
from sordino.data.kinds import UNSCALED
from sordino.data.synthetic.base import Synthetic, assemble, draw_rows, draw_theta, generator
from sordino.data.targets import NumberTarget


@generator("poisson")
def poisson(rng: np.random.Generator, records: int, dim: int, *, cap: float = 1.0, signal: float = 1.5) -> Synthetic:
    """Draw y ~ Poisson(exp(x theta)) with |theta| = `signal`; the public bound on y clips with probability < 1e-9.

    With the largest mean m = exp(cap * signal), Chernoff's bound at t = m + 10 sqrt(m) + 30 is below 1e-9 for every m.
    """
    number("cap * signal", cap * signal, Interval(0.0, 10.0, low_open=True), "choose a smaller cap or signal")
    rows = draw_rows(rng, records, dim, cap)
    theta = draw_theta(rng, (dim,), signal)
    largest_mean = math.exp(cap * signal)
    bound = float(math.ceil(largest_mean + 10.0 * math.sqrt(largest_mean) + 30.0))
    counts = np.minimum(rng.poisson(np.exp(rows @ theta)), bound)
    return assemble(rows, counts, NumberTarget(0.0, bound, UNSCALED), cap, {"theta": theta, "count_bound": bound})
