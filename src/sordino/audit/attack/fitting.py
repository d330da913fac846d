"""What an attack may do with a mechanism: run it on a dataset as often as it likes, each time with fresh randomness."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError

Seeds = NDArray[np.uint64]
Releases = NDArray[np.floating]


class FitMany(Protocol):
    """Fit many independent models of one dataset, all at once where the mechanism allows it."""

    def __call__(self, data: Any, seeds: Seeds, /) -> Releases:
        """One release for each seed, shape (seeds, numbers); equal seeds may give equal releases."""
        ...


@runtime_checkable
class InBlocks(Protocol):
    """A mechanism that fits its models in blocks, each of which comes out the same wherever it is fitted."""

    def blocks(self, seeds: Seeds) -> list[Seeds]:
        """The seeds, cut into blocks."""
        ...


# Fits the models of several datasets: the mechanism, the datasets and the seeds of each.
FitSides = Callable[[FitMany, Sequence[Any], Sequence[Seeds]], list[Releases]]


def blocks_of(fit_many: FitMany, seeds: Seeds) -> list[Seeds]:
    """How a mechanism's models are cut into blocks; all in one, unless it says otherwise."""
    return fit_many.blocks(seeds) if isinstance(fit_many, InBlocks) else [seeds]


def fit_here(fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
    """Fit one dataset's models after the other's, in this process."""
    return [fitted(fit_many, data, own) for data, own in zip(datasets, seeds, strict=True)]


def one_by_one(fit: Callable[[Any, int], Any]) -> FitMany:
    """A mechanism that fits one model at a time, as one that fits many: `fit(data, seed)` answers an array."""

    def fit_many(data: Any, seeds: Seeds, /) -> Releases:
        return np.stack([np.asarray(fit(data, int(seed)), float).reshape(-1) for seed in seeds])

    return fit_many


def fitted(fit_many: FitMany, data: Any, seeds: Seeds) -> Releases:
    """The releases of a mechanism, checked to be one row of numbers for each seed."""
    releases = np.asarray(fit_many(data, seeds))
    if releases.ndim < 2 or len(releases) != len(seeds) or releases.dtype.kind != "f":
        raise InputError(
            f"Expected fit_many to answer one row of floats for each of {len(seeds)} seeds, "
            f"got {releases.dtype} of shape {releases.shape}."
        )
    return releases.reshape(len(seeds), -1)
