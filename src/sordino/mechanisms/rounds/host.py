"""The loop of noised sums on the host: whole numbers, so that sums are exact and noise is drawn without rounding.

`loop` is the one that is compiled; there a query says what is summed, and here whoever runs asks for every round.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.spec import Scheme, Spec
from sordino.core.validate import instance_of, refuse
from sordino.mechanisms.rounds.registry import check_rows_fit, described
from sordino.noise.exact import ExactGaussians
from sordino.noise.randomness import Randomness
from sordino.noise.sums import noised_sums

# More noise than the rounding of its scale could take away.
HAIR = 2.0**-50


class ExactRounds:
    """Rounds over all records whose sums are whole numbers on the host and whose noise is drawn without rounding."""

    # What is released is what is certified, rounded to a grid (`noise.sums`).
    def __init__(
        self, spec: Spec, name: str, rows: int, size: int, randomness: Randomness, replacement: float | None = None
    ) -> None:
        self.algorithm = described(spec, name, replacement)
        instance_of("randomness", randomness, Randomness)
        if self.algorithm.sampling.scheme is not Scheme.FULL:
            raise refuse(
                "algorithm.sampling.scheme", "to be full, all records every round", self.algorithm.sampling.scheme.value
            )
        check_rows_fit(spec, rows)
        self.sum_noise, self._size = self.algorithm.sum_noise, size
        self._noise = ExactGaussians.of(randomness, self.algorithm.rounds * size)

    def scale(self, k: int) -> float:
        """The standard deviation of the noise on every entry of round k, a hair more than the spec says."""
        return float(self.sum_noise[k] * (1.0 + HAIR))

    def noised(self, k: int, sums: NDArray[np.int64], exponent: int, scale: ArrayLike | None = None) -> NDArray[Any]:
        """The sums of round k, in units of 2^exponent, with noise; a round is asked for once, or its noise is reused.

        `scale` is that of the noise where sums are noised before they are weighed.
        """
        part = slice(k * self._size, (k + 1) * self._size)
        return noised_sums(sums, exponent, self.scale(k) if scale is None else scale, self._noise, part)
