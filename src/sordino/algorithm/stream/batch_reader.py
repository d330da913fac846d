"""Batches of streamed rows: the rows that a block of steps uses are fetched, and the kernel sees no others."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.feed import Fed
from sordino.algorithm.kernel import Constants, Program, advance
from sordino.algorithm.parts.batches import BatchBlock
from sordino.algorithm.records import on_device
from sordino.algorithm.rows import Reader, Reading
from sordino.algorithm.stream.piece import Piece, PieceSource
from sordino.core.errors import InputError


class BatchReader(Reader):
    """Puts the rows of a block's batches side by side, in the order in which the block names them."""

    def __init__(self, source: PieceSource, reading: Reading) -> None:
        self._source, self._reading = source, reading

    def advance(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        if fed.batches is None:
            raise InputError("Expected batches for streamed rows, got a block without any.")
        steps = int(fed.block.steps)
        places = _used_places(fed.batches, steps)
        fetched = self._source.at(fed.batches.records[places])
        listed = len(fed.batches.records)
        records = on_device(*_spread(fetched, places, listed), listed, *self._reading)
        block = fed.block._replace(records=jnp.arange(listed, dtype=jnp.int32))
        return advance(program, records, constants, theta, block)


def _used_places(batches: BatchBlock, steps: int) -> NDArray[np.int64]:
    """The places of the flat list that belong to a batch of the first `steps` steps; the rest of it is padding."""
    starts, counts = batches.starts[:steps].ravel().astype(np.int64), batches.counts[:steps].ravel()
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


def _spread(fetched: Piece, places: NDArray[np.int64], listed: int) -> Piece:
    features = np.zeros((listed, fetched.features.shape[1]), fetched.features.dtype)
    target = np.zeros(listed, fetched.target.dtype)
    features[places], target[places] = fetched
    return Piece(features, target)
