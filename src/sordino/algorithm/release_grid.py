"""The grid of what a chain releases: far finer than its noise, and coarser than the last bits of a float."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.grid_rounding import grid_below
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import instance_of
from sordino.core.view import View

# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024


def on_release_grid(spec: Spec, values: Any) -> NDArray[np.float64]:
    """Released draws or averages, rounded to a thousandth of the least noise that is on any of them.

    Post-processing, so it costs nothing. It takes away the last bits, in which computed noise is least like real noise;
    it proves nothing about the others. A run without noise is left as it is.
    """
    given = np.asarray(values, np.float64)
    if spec.view is View.AVERAGE and spec.average is not None:
        least = spec.average.noise.scale
    else:
        algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        kept = np.asarray(algorithm.kept_iterates(spec.view))  # iterate k holds the noise of the k-th step
        least = float(algorithm.noise.scale.values(algorithm.steps)[kept - 1].min())
    return grid_below(least, _CELLS).round(given) if least > 0.0 else given
