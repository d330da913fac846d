"""What all queries share: what a spec must say for them, a release, and exact rounds on the host.

The specs of a query's runs begin with its name. A spec that says something else than what is about to run is refused
before a row is read.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.bound import Relation
from sordino.core.gaussian import up
from sordino.core.spec import NoisedSums, Scheme, Spec, SumShape, Unit
from sordino.core.validate import instance_of, own_arrays, refuse
from sordino.mechanisms.posterior.laws import Posterior
from sordino.noise.integer_sums import Contributions, Tallies
from sordino.noise.port import HAIR, CheckedSum, SumNoise
from sordino.noise.randomness import Randomness


@dataclass(frozen=True, eq=False)
class SumsRelease(ABC):
    """What leaves a run: `spec` is the very object that ran, and that is certified. Arrays are copies, not writable."""

    query: ClassVar[str]
    """The words of the query that ran."""

    spec: Spec

    def __post_init__(self) -> None:
        own_arrays(self)

    @property
    def algorithm(self) -> NoisedSums:
        return instance_of("spec.algorithm", self.spec.algorithm, NoisedSums)

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """What is known after the run."""


def described(spec: Spec, name: str, replacement: float | None = None, *, units: bool = False) -> NoisedSums:
    """The noised sums of a spec; refused if they are said to be of something else than what is about to run."""
    # Contributions are shortened as vectors, row by row, so a spec may claim neither another shape nor `units`, unless
    # a row holds all records of one, and no less for a replacement than what the caller proves.
    instance_of("spec", spec, Spec)
    algorithm = instance_of("spec.algorithm", spec.algorithm, NoisedSums)
    word = name.split(maxsplit=1)[0]
    if algorithm.query.split(maxsplit=1)[0] != word:
        raise refuse("algorithm.query", f"to begin with {word!r} for a run of {name}", algorithm.query)
    if algorithm.shape is not SumShape.VECTOR:
        raise refuse("algorithm.shape", "to be vector for a run: contributions are bounded as vectors", algorithm.shape)
    if algorithm.unit is not Unit.RECORD and not units:
        raise refuse("algorithm.unit", "to be record: no run keeps the records of a unit together", "a column")
    claimed = algorithm.replacement
    if claimed is not None and (replacement is None or claimed < replacement):
        proved = "left out" if replacement is None else f"at least {replacement:.6g}"
        raise refuse("algorithm.replacement", f"to be {proved} for a run of {name}", claimed)
    return algorithm


def check_rows_fit(spec: Spec, rows: int) -> None:
    """Refuse a number of rows that is not the spec's, where that number is public."""
    records = instance_of("spec.algorithm", spec.algorithm, NoisedSums).records
    if spec.relation is Relation.REPLACE_ONE and rows != records:
        raise refuse("the number of rows", f"to be algorithm.records = {records} under replace-one", rows)


class ExactRounds:
    """Rounds over all records whose sums are whole numbers on the host and whose noise is drawn without rounding."""

    # What is released is what is certified, rounded to a grid (`noise.port`).
    def __init__(
        self, spec: Spec, name: str, rows: int, size: int, randomness: Randomness, replacement: float | None = None
    ) -> None:
        self.algorithm = described(spec, name, replacement)
        instance_of("randomness", randomness, Randomness)
        if self.algorithm.sampling.scheme is not Scheme.FULL:
            word = self.algorithm.sampling.scheme.value
            raise refuse("algorithm.sampling.scheme", "to be full, all records every round", word)
        check_rows_fit(spec, rows)
        self.sum_noise, self._size = self.algorithm.sum_noise, size
        self._noise = SumNoise.of(randomness, self.algorithm.rounds * size)
        self._multipliers = self.algorithm.noise_multiplier.values(self.algorithm.rounds)
        self._times = self.algorithm.moves(spec.relation)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on every entry of the mean over records in the first round."""
        return self.scale(0) / self.algorithm.records

    def scale(self, k: int) -> float:
        """The standard deviation of the noise on every entry of round k, a hair more than the spec says."""
        return float(self.sum_noise[k] * HAIR)

    def noised(
        self, k: int, asked: Contributions, exponent: int, *, shares: ArrayLike = 1.0, length: float = 1.0
    ) -> NDArray[Any]:
        """The sum of round k, in units of 2^exponent, with noise; a round is asked for once, or its noise is reused.

        `length`: what the spec's contribution is multiplied by; `shares`: the noise of single numbers.
        """
        bound = self.algorithm.contribution * length
        sums = asked.total(bound, exponent)
        total = CheckedSum(sums, exponent, bound, float(self._multipliers[k]), shares, self._times)
        return self._noise.noised([total], place=k * self._size)


# Two records in different bins: one count less and one more.
REPLACED = up(math.sqrt(2.0))


def noised_counts(
    spec: Spec, name: str, bins: NDArray[np.int64], number: int, randomness: Randomness
) -> NDArray[np.float64]:
    """The noised numbers of records in each of several bins.

    A record is in one bin: adding or removing it moves the counts by 1, replacing it by at most sqrt 2.
    """
    rounds = ExactRounds(spec, name, len(bins), number, randomness, REPLACED)
    if rounds.algorithm.rounds != 1 or rounds.algorithm.contribution < 1.0:
        raise refuse("the spec", "to have one round of contributions of at least 1", "another")
    once = Tallies(len(bins), None, bins, lambda part: np.ones(len(bins[part])), number)
    return rounds.noised(0, once, 0)
