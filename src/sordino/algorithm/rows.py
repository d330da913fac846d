"""Where a run's rows are, and how a block of steps reads them: in memory, on several devices, or from a file."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.checkpoint.identity import content_digest
from sordino.algorithm.feed import Fed
from sordino.algorithm.kernel import Constants, Program, advance
from sordino.algorithm.parts.batches import Batches
from sordino.algorithm.records import Records, RowLimits, checked_rows, load
from sordino.algorithm.workload import Workload


class Reading(NamedTuple):
    """How rows are put on a device: the precision they are stored in, and what each is brought within."""

    dtype: np.dtype
    limits: RowLimits


class Reader(ABC):
    """Makes blocks of steps with the rows it reads."""

    @abstractmethod
    def advance(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        """Make the block's steps from theta, shape (chains, dim); answer the last iterates and the kept ones."""


class Rows(ABC):
    """Private rows of a fixed number and width, one target for each."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of features of a row."""

    @abstractmethod
    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        """What reads these rows during a run; `batches` is None where every step uses every row."""

    @abstractmethod
    def identity(self, salt: bytes) -> dict[str, Any]:
        """What ties a checkpoint to these rows: `rows` (number and width), a keyed `content`, and `placement`."""

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        """How many steps one block has."""
        return workload.steps_per_block(steps, batches)


class Placement(ABC):
    """On which devices rows in memory lie, and which device does what."""

    @abstractmethod
    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        """The rows on the devices."""

    @abstractmethod
    def advance(
        self, program: Program, records: Records, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        """Make the block's steps."""

    @abstractmethod
    def described(self) -> str:
        """A text that is the same exactly where results are, bit for bit."""


class OneDevice(Placement):
    """Everything on the default device."""

    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        return load(X, y, workload.rows_per_block if batches is None else None, *reading)

    def advance(
        self, program: Program, records: Records, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        return advance(program, records, constants, theta, fed.block)

    def described(self) -> str:
        return "one device"


class ArrayRows(Rows):
    """Rows in memory: `features` has one row for each record, `target` one number."""

    def __init__(self, features: Any, target: Any, placement: Placement | None = None) -> None:
        self._X, self._y = checked_rows(features, target)
        self._placement = OneDevice() if placement is None else placement

    @property
    def count(self) -> int:
        return len(self._X)

    @property
    def width(self) -> int:
        return self._X.shape[1]

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        records = self._placement.records(self._X, self._y, workload, batches, reading)
        return _InMemory(self._placement, records)

    def identity(self, salt: bytes) -> dict[str, Any]:
        return {
            "rows": [self.count, self.width],
            "content": content_digest(salt, self._X, self._y),
            "placement": self._placement.described(),
        }


@dataclass(frozen=True, eq=False)
class _InMemory(Reader):
    placement: Placement
    records: Records

    def advance(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        return self.placement.advance(program, self.records, constants, theta, fed)
