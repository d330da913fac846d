"""Noise that is correlated over steps: what a matrix mechanism adds to the sums of a run.

A matrix mechanism releases C G + s Z, with G the sums of all steps, one a row, and Z independent noise. A trainer
needs G, so it is multiplied by the inverse of C: step k is given its sum plus s n_k, with n = C^-1 Z. For a lower
triangular Toeplitz matrix that is a recursion over a few past steps: n_k = (z_k - c_1 n_{k-1} - ...) / c_0 for a
band c, and n_k = z_k - r_1 z_{k-1} - ... where the inverse is the band.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.spec.matrices import (
    BandedInverseRootStrategy,
    MatrixMechanism,
    ParticipationScheme,
    Strategy,
    ToeplitzStrategy,
)
from sordino.core.validate import refuse
from sordino.mechanisms.chain import batches


@dataclass(frozen=True)
class NoiseCorrelation:
    """How the noise of a step follows from standard noise and the past."""

    first: float  # what standard noise is multiplied by
    past: tuple[float, ...]  # what each of the last kept vectors is multiplied by, the latest first
    keeps_noise: bool  # whether a step's noise is kept (a band of C) or its standard noise (of the inverse)

    def step(self, standard: Array, kept: Array) -> tuple[Array, Array]:
        """The noise of a step, and what is kept for the next; `kept` has shape (len(past), parameters)."""
        if not self.past:
            return self.first * standard, kept
        noise = self.first * standard + jnp.asarray(self.past, standard.dtype) @ kept
        latest = noise if self.keeps_noise else standard
        return noise, jnp.concatenate([latest[None], kept[:-1]])


INDEPENDENT = NoiseCorrelation(1.0, (), True)


def correlation_of(strategy: Strategy, steps: int) -> NoiseCorrelation:
    """The recursion of a banded matrix, or of one with a banded inverse; others are refused."""
    if isinstance(strategy, ToeplitzStrategy):
        band = strategy.first_column(min(steps, len(strategy.coefficients)))
        return NoiseCorrelation(1.0 / band[0], tuple(-entry / band[0] for entry in band[1:]), True)
    if isinstance(strategy, BandedInverseRootStrategy):
        width = min(strategy.bands, steps)
        column = strategy.first_column(width)
        inverse = np.zeros(width)
        inverse[0] = 1.0 / column[0]
        for lag in range(1, width):
            inverse[lag] = -float(column[1 : lag + 1] @ inverse[lag - 1 :: -1][:lag]) / column[0]
        return NoiseCorrelation(inverse[0], tuple(map(float, inverse[1:])), False)
    raise refuse("algorithm.strategy", "to be toeplitz or bisr for a training run", type(strategy).__name__)


class Turns(batches.Rounds):
    """Records that each have one step of every pass, by place in the table or drawn once for each alone."""

    drawn_once = False

    def __init__(self, sampling: batches.Sampling) -> None:
        length, rows = sampling.round or 1, sampling.rows
        super().__init__(sampling, length, rows / length)
        places = np.arange(rows) * length // max(1, rows)
        turns = sampling.generator.integers(0, length, rows) if self.drawn_once else places
        self._turns = self.by_step(turns)

    def drawn(self) -> list[tuple[batches.Indices, batches.Counts]]:
        return [self._turns]


class BallsInBins(Turns):
    """Every record draws its step of a pass once, and keeps it."""

    drawn_once = True


class PoissonTurns(BallsInBins):
    """Every record draws its group once; in its group's turn it takes part by chance, drawn for every turn."""

    def drawn(self) -> list[tuple[batches.Indices, batches.Counts]]:
        records, edges = self._turns
        used = self.sampling.generator.random(len(records)) < self.sampling.rate
        return [(records[used], np.concatenate([[0], np.cumsum(used)])[edges])]


_STREAMS: dict[ParticipationScheme, type[batches.Batches]] = {
    ParticipationScheme.SINGLE: Turns,
    ParticipationScheme.EPOCHS: Turns,
    ParticipationScheme.BALLS_IN_BINS: BallsInBins,
    ParticipationScheme.RANDOM_ALLOCATION: batches.RandomAllocation,
    ParticipationScheme.MIN_SEPARATION: batches.MinSeparation,
}
BY_PLACE = frozenset({ParticipationScheme.SINGLE, ParticipationScheme.EPOCHS})


def participating(run: MatrixMechanism, rows: int, generator: np.random.Generator) -> batches.Batches:
    """The batches of a matrix mechanism's participation.

    Where turns go by place in the table, a record that is left out would move others to other steps; such schemes are
    for replace-one, which `train` checks.
    """
    scheme, separation = run.participation.scheme, run.participation.separation or 1
    length = run.steps if scheme is ParticipationScheme.SINGLE else separation
    size, rate = max(1, -(-rows // length)), run.participation.rate or 1.0
    if run.participation.cap is not None:
        raise refuse("algorithm.participation.cap", "to be absent for a training run", run.participation.cap)
    sampling = batches.Sampling(rows, size, rate, 1, run.steps, generator, round=length, separation=separation)
    if scheme is ParticipationScheme.POISSON:
        return batches.Poisson(sampling) if separation == 1 else PoissonTurns(sampling)
    if scheme is ParticipationScheme.MIN_SEPARATION and run.participation.rate is None:
        raise refuse("algorithm.participation.rate", "to be given for min-separation batches of a run", None)
    return _STREAMS[scheme](sampling)
