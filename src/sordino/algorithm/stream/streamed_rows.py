"""Rows outside memory: what every such source answers, and how a run is cut so that only pieces are inside."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.parts.batches import Batches
from sordino.algorithm.rows import Reader, Reading, Rows
from sordino.algorithm.stream.batch_reader import BatchReader
from sordino.algorithm.stream.full_reader import FullReader
from sordino.algorithm.stream.piece import PIECE_BYTES, Piece
from sordino.algorithm.workload import Workload
from sordino.core.validate import refuse


@dataclass(frozen=True)
class Stored:
    """How many rows there are, and how wide they are."""

    count: int
    width: int


class StreamedRows(Rows):
    """Rows that are read piece by piece; `anywhere` says whether single rows can be reached.

    Where gradients are bounded their sums are whole numbers, the same as in memory (`exact_sums`).
    """

    anywhere: ClassVar[bool]

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    @property
    def count(self) -> int:
        return self._stored.count

    @property
    def width(self) -> int:
        return self._stored.width

    @abstractmethod
    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""

    @abstractmethod
    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        if batches is None:
            return FullReader(self, workload, reading)
        if not (self.anywhere or batches.shared):
            raise refuse(
                "algorithm.batch.scheme",
                "to be full or cyclic for rows read from Parquet",
                "random batches",
                "write the rows to a memory map first, with MappedRows.write",
            )
        return BatchReader(self, reading)

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        planned = workload.steps_per_block(steps, batches)
        if batches is None:
            return planned
        step_bytes = batches.groups * batches.capacity * self.width * workload.itemsize
        return max(1, min(planned, PIECE_BYTES // step_bytes))

    def identity(self, salt: bytes) -> dict[str, Any]:
        return {"rows": [self.count, self.width], "content": self._content(salt), "placement": "streamed"}

    @abstractmethod
    def _content(self, salt: bytes) -> str:
        """A keyed digest that changes when the rows do."""
