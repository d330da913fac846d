"""How cost grows: seconds against records, features, steps, chains and models, with fitted exponents.

    python bench/scaling.py [--full]

Writes its JSON, and with `write_pages` (bench/run.py) the figure and bench/pages/scaling.md.
"""

import math
from typing import Any, NamedTuple

import area
import numpy as np
from rounds import Contender, in_rounds
from scipy import stats

WORKER = "growth"


UPPER = 3  # the largest sizes, by which costs are extrapolated


class Exponent(NamedTuple):
    """The slope of log seconds against log size, with its 95 % interval."""

    slope: float
    low: float
    high: float
    intercept: float


def exponent(seconds: dict[str, list[float]]) -> Exponent:
    """Least squares on the logarithms of all repetitions; the interval is Student's."""
    sizes = np.array([float(size) for size in seconds])
    x = np.concatenate(
        [np.full(len(taken), math.log(size)) for size, taken in zip(sizes, seconds.values(), strict=True)]
    )
    y = np.log(np.concatenate([np.asarray(taken, float) for taken in seconds.values()]))
    fitted: Any = stats.linregress(x, y)
    half = float(stats.t.ppf(0.975, len(x) - 2)) * float(fitted.stderr)
    slope = float(fitted.slope)
    return Exponent(slope, slope - half, slope + half, float(fitted.intercept))


def upper(seconds: dict[str, list[float]]) -> Exponent:
    """The same for the largest sizes alone, where fixed costs weigh least."""
    return exponent(dict(list(seconds.items())[-UPPER:]))


def measure(full: bool) -> area.Measured:
    arguments = ("7", "3e6") if full else ("3", "1e6")
    found = in_rounds({WORKER: Contender("sordino_scaling.py", None, arguments)}, 1, seconds=1800.0 if full else 600.0)
    answers = found[WORKER]
    if answers.reason is not None:
        return area.Measured([], {"reason": answers.reason}, {})
    seconds: dict[str, dict[str, list[float]]] = answers.given[0]["seconds"]
    figures: dict[str, Any] = {
        "seconds": seconds,
        "exponents": {axis: exponent(taken)._asdict() for axis, taken in seconds.items()},
        "upper exponents": {axis: upper(taken)._asdict() for axis, taken in seconds.items()},
    }
    return area.Measured([], figures, {})


if __name__ == "__main__":
    area.main("scaling", measure, __doc__)
