"""Kind `matrix-mechanism`: noise correlated over the steps of a run, and when a unit takes part in them.

A unit takes part by its place (single, epochs, min-separation), or by chance: drawn for every step of its group
(poisson), whenever it is free (min-separation with a rate), in the same step of every pass (balls-in-bins), or in one
step of every round (random-allocation). Chance that is kept secret amplifies privacy.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import numpy as np

from sordino.core.arrays import Array
from sordino.core.spec.fields import Contradiction, Nested, Number, Numbers, Section, Several, TaggedUnion, Whole, Word
from sordino.core.spec.mechanisms import Mechanism
from sordino.core.spec.problem import RUNS
from sordino.core.validate import OPEN_UNIT, POSITIVE, Interval

STRATEGIES = TaggedUnion()
_MOST_PRODUCTS = 10**10  # of a banded inverse root, whose column takes a product for each step and band: some seconds
MOST_STEPS = 2048  # of a matrix mechanism whose matrix is written out: its Gram matrix is held in memory
_SMALLEST = 1e-90  # an entry other than 0; one over it is the largest


class Strategy(Section):
    """A matrix C: what is released is C times the stacked contributions of all steps, plus independent noise."""

    @abstractmethod
    def first_column(self, steps: int) -> Array | None:
        """The first column of a lower triangular Toeplitz matrix, or None where the matrix is not one."""

    def gram(self, steps: int, *, absolute: bool = False) -> Array:
        """C' C, a row and a column for every step; or the same of the absolute values of C."""
        places = np.arange(steps)
        lag, column = places[:, None] - places, np.asarray(self.first_column(steps))
        matrix = np.where(lag >= 0, (np.abs(column) if absolute else column)[np.maximum(lag, 0)], 0.0)
        return matrix.T @ matrix

    def reach(self, steps: int) -> int:
        """How many steps a contribution is seen in: two that are so far apart share no row."""
        column = self.first_column(steps)
        return steps if column is None else int(np.flatnonzero(column)[-1]) + 1

    def squares(self, steps: int) -> Array:
        """The diagonal of the Gram matrix: squared lengths of the columns."""
        return np.cumsum(np.asarray(self.first_column(steps)) ** 2)[::-1]

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        return iter(())


def _sizes(name: str, entries: Iterable[float]) -> Iterator[Contradiction]:
    """Squares of entries have to be floats: one that is lost would make a contribution look shorter than it is."""
    for entry in entries:
        if entry != 0.0 and not _SMALLEST <= abs(entry) <= 1.0 / _SMALLEST:
            said = f"to hold 0 or numbers between {_SMALLEST:g} and {1.0 / _SMALLEST:g} in size"
            yield Contradiction(name, said, entry, "multiply entries and noise_multiplier by one number")
            return


@STRATEGIES.register("toeplitz")
class ToeplitzStrategy(Strategy):
    """A lower triangular banded Toeplitz matrix, by the entries of its first column."""

    coefficients: Annotated[tuple[float, ...], Numbers(Number()), "first column; entries after these are 0"]

    def first_column(self, steps: int) -> Array:
        given = np.array(self.coefficients[:steps], dtype=np.float64)
        return np.pad(given, (0, steps - len(given)))

    def contradictions(self) -> Iterator[Contradiction]:
        """A matrix with a zero diagonal has no inverse."""
        if self.coefficients[0] == 0.0:
            yield Contradiction("coefficients", "to begin with a number other than 0", 0.0)
        yield from _sizes("coefficients", self.coefficients)

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        if len(self.coefficients) > steps:
            yield Contradiction("coefficients", f"to be at most the {steps} steps", len(self.coefficients))


@STRATEGIES.register("blt")
class BufferedStrategy(Strategy):
    """Buffered linear Toeplitz: 1 on the diagonal and sum_i weights[i] decays[i]^(lag - 1) below it."""

    weights: Annotated[tuple[float, ...], Numbers(Number())]
    decays: Annotated[tuple[float, ...], Numbers(Number(Interval(0.0, 1.0)))]

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.weights) != len(self.decays):
            yield Contradiction("weights", f"to be {len(self.decays)}, as many as decays", len(self.weights))
        yield from _sizes("weights", self.weights)

    def first_column(self, steps: int) -> Array:
        powers = np.asarray(self.decays)[:, None] ** np.arange(max(steps - 1, 0))[None, :]
        return np.concatenate([[1.0], np.asarray(self.weights) @ powers])


@STRATEGIES.register("bisr")
class BandedInverseRootStrategy(Strategy):
    """The matrix whose inverse is the banded inverse square root of the prefix-sum matrix."""

    bands: Annotated[int, Whole(), "diagonals of the inverse that are kept"]

    def first_column(self, steps: int) -> Array:
        # Imported here: it is slow to load, and few specs need it.
        from scipy import signal  # noqa: PLC0415

        # (1 - x)^(1/2) = 1 - sum of rest_j x^j; the inverse of its first terms follows by recursion.
        kept = min(self.bands, steps)
        rest = np.cumprod(np.concatenate([[0.5], 1 - 1.5 / np.arange(2, max(kept, 2))]))[: kept - 1]
        return np.asarray(signal.lfilter([1.0], np.concatenate([[1.0], -rest]), np.eye(1, steps)[0]))

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        most = _MOST_PRODUCTS // steps
        if min(self.bands, steps) > most:
            yield Contradiction("bands", f"to be at most {most} for {steps} steps", self.bands, "take fewer bands")


@STRATEGIES.register("tree")
class TreeStrategy(Strategy):
    """Sums over the nodes of a binary tree whose leaves are the steps: tree aggregation."""

    def first_column(self, steps: int) -> None:
        return None

    def gram(self, steps: int, *, absolute: bool = False) -> Array:
        places = np.arange(steps)
        # Two steps share the nodes above the highest bit in which they differ.
        return 1 + (steps - 1).bit_length() - np.frexp((places[:, None] ^ places).astype(float))[1].astype(float)

    def squares(self, steps: int) -> Array:
        return np.full(steps, 1.0 + (steps - 1).bit_length())


@STRATEGIES.register("dense")
class DenseStrategy(Strategy):
    """Any lower triangular matrix, row by row."""

    rows: Annotated[tuple[tuple[float, ...], ...], Several(Numbers(Number()), MOST_STEPS)]

    def first_column(self, steps: int) -> None:
        return None

    def gram(self, steps: int, *, absolute: bool = False) -> Array:
        matrix = self._matrix(steps)
        return np.abs(matrix).T @ np.abs(matrix) if absolute else matrix.T @ matrix

    def reach(self, steps: int) -> int:
        rows, columns = np.nonzero(self._matrix(steps))
        return int((rows - columns).max()) + 1

    def _matrix(self, steps: int) -> Array:
        return np.array([(*row, *[0.0] * (steps - len(row))) for row in self.rows], dtype=np.float64)

    def squares(self, steps: int) -> Array:
        return np.diag(self.gram(steps))

    def contradictions(self) -> Iterator[Contradiction]:
        """Entries above the diagonal: noise that depends on later steps cannot be drawn in order."""
        yield from _sizes("rows", (entry for row in self.rows for entry in row))
        for place, row in enumerate(self.rows):
            later = [(column, entry) for column, entry in enumerate(row) if column > place and entry != 0.0]
            if later:
                column, entry = later[0]
                zero = f"to be 0, because column {column} is above the diagonal of row {place}"
                yield Contradiction(f"rows.{place}.{column}", zero, entry, "give a lower triangular matrix")
                return
            if len(row) <= place or row[place] == 0.0:
                yield Contradiction(f"rows.{place}", f"to have a number other than 0 in column {place}", len(row))
                return

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        if len(self.rows) != steps or any(len(row) > steps for row in self.rows):
            yield Contradiction("rows", f"to be {steps} rows of at most {steps} entries", len(self.rows))


class ParticipationScheme(StrEnum):
    """When one unit may contribute."""

    SINGLE = "single"
    EPOCHS = "epochs"
    MIN_SEPARATION = "min-separation"
    POISSON = "poisson"
    BALLS_IN_BINS = "balls-in-bins"
    RANDOM_ALLOCATION = "random-allocation"


# By scheme: the keys that must be given, and those that must be absent.
_KEYS: dict[ParticipationScheme, tuple[tuple[str, ...], tuple[str, ...]]] = {
    ParticipationScheme.SINGLE: ((), ("separation", "rate", "cap")),
    ParticipationScheme.EPOCHS: (("separation",), ("uses", "rate", "cap")),
    ParticipationScheme.MIN_SEPARATION: (("separation",), ("cap",)),
    ParticipationScheme.POISSON: (("rate",), ("uses",)),
    ParticipationScheme.BALLS_IN_BINS: (("separation",), ("uses", "rate", "cap")),
    ParticipationScheme.RANDOM_ALLOCATION: (("separation",), ("uses", "rate", "cap")),
}


@dataclass(frozen=True)
class Participation(Section):
    """How often a unit contributes, and how far apart; fixed by its place or drawn by chance, never by the data."""

    scheme: Annotated[ParticipationScheme, Word(ParticipationScheme)]
    separation: Annotated[
        int | None,
        Whole(),
        "epochs, balls-in-bins: steps of a pass, one place for a unit; random-allocation: of a round, a place drawn "
        "anew; min-separation: between two uses; poisson: between turns of a unit's group, absent: 1",
    ] = None
    uses: Annotated[int | None, Whole(), "uses at most; absent: as many as the separation leaves room for"] = None
    rate: Annotated[float | None, OPEN_UNIT, "poisson, min-separation: secret chance of a unit to contribute"] = None
    cap: Annotated[int | None, Whole(), "poisson: units of a step at most, in the order of the table"] = None
    units: Annotated[int | None, Whole(), "poisson with a cap: units of a group, at most"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        (needed, absent), of = _KEYS[self.scheme], f"for {self.scheme.value} participation"
        for key in (key for key in needed if getattr(self, key) is None):
            yield Contradiction(key, f"to be given {of}", None)
        for key in (key for key in absent if getattr(self, key) is not None):
            yield Contradiction(key, f"to be absent {of}", getattr(self, key))
        if self.scheme is ParticipationScheme.SINGLE and self.uses not in (None, 1):
            yield Contradiction("uses", f"to be absent or 1 {of}", self.uses)
        if (self.cap is None) != (self.units is None):
            lacking, given = ("units", "cap") if self.units is None else ("cap", "units")
            yield Contradiction(lacking, f"to be given with {given}", None)
        if self.scheme is ParticipationScheme.MIN_SEPARATION and self.rate is not None and self.uses is not None:
            yield Contradiction("uses", "to be absent where a rate decides on uses", self.uses)

    def misfits(self, steps: int) -> Iterator[Contradiction]:
        room = self.most_uses(steps)
        if self.separation is not None and self.separation > steps:
            yield Contradiction("separation", f"to be at most the {steps} steps", self.separation)
        elif self.uses is not None and self.uses > room:
            most = f"to be at most {room} = ceil({steps} steps / separation {self.separation or steps})"
            yield Contradiction("uses", most, self.uses)

    def most_uses(self, steps: int) -> int:
        if self.scheme is ParticipationScheme.POISSON:
            return -(-steps // (self.separation or 1))
        return 1 if self.separation is None else -(-steps // self.separation)


@RUNS.register("matrix-mechanism", kw_only=True)
class MatrixMechanism(Mechanism):
    """Noise correlated over the steps of a run: contributions times a matrix, plus independent Gaussian noise."""

    steps: Annotated[int, Interval(1, 10_000_000)]
    strategy: Annotated[Strategy, STRATEGIES]
    contribution: Annotated[float, POSITIVE, "bound on one unit's contribution; twice that under replace-one"]
    noise_multiplier: Annotated[float, POSITIVE, "noise standard deviation over the contribution bound"]
    participation: Annotated[Participation, Nested(Participation)]

    @property
    def once(self) -> str:
        kind, how = STRATEGIES.word_of(self.strategy), self.participation.scheme.value
        rate = self.participation.rate
        chance = "" if rate is None else f" at a secret rate of {rate:.6g}"
        chance += "" if self.participation.cap is None else f", {self.participation.cap} units a step at most"
        return f"{self.steps} steps with {kind} correlated noise, {how} participation{chance}"

    def contradictions(self) -> Iterator[Contradiction]:
        yield from (misfit.under("strategy") for misfit in self.strategy.misfits(self.steps))
        yield from (misfit.under("participation") for misfit in self.participation.misfits(self.steps))
