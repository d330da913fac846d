"""Fitting the models of an attack in blocks on a cluster: the releases that fitting them here gives, bit for bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sordino.audit.attack.fitting import FitMany, Releases, Seeds, blocks_of, fitted
from sordino.audit.cluster.connection import ClusterOptions
from sordino.audit.cluster.units import UnitsDone, all_done
from sordino.audit.fleet.checkpoint import Checkpoints, Saved, fingerprint


class Block(NamedTuple):
    """Models of one of the datasets, by its place, and their seeds."""

    side: int
    seeds: Seeds


@dataclass(frozen=True, eq=False)
class FitWork:
    """A mechanism, and the datasets it is run on."""

    fit_many: FitMany
    datasets: tuple[Any, ...]

    def done(self, unit: Block) -> Saved:
        """Fit the models of a block."""
        return Saved(1, fitted(self.fit_many, self.datasets[unit.side], unit.seeds), {})


@dataclass(frozen=True)
class FitOnCluster:
    """How `AuditOptions.fit_sides` fits on a cluster, or here where `options` is absent.

    With `partial_results` every finished block is kept in that folder, for its owner only, until all are: an audit
    that was killed and is started again with the same seed takes up where it was.
    """

    options: ClusterOptions | None
    partial_results: Path | None = None
    progress: UnitsDone | None = None

    def __call__(self, fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
        """The releases of each dataset's models, one row for each seed."""
        work = FitWork(fit_many, tuple(datasets))
        units = [Block(side, block) for side, own in enumerate(seeds) for block in blocks_of(fit_many, own)]
        parts = all_done(work, units, self.options, self._kept(work, units), self.progress)
        return [
            np.concatenate([part.theta for part, unit in zip(parts, units, strict=True) if unit.side == side])
            for side in range(len(work.datasets))
        ]

    def _kept(self, work: FitWork, units: Sequence[Block]) -> Checkpoints | None:
        if self.partial_results is None:
            return None
        sides = [(np.asarray(data.features), np.asarray(data.target)) for data in work.datasets]
        seeds = [unit.seeds for unit in units]
        return Checkpoints(self.partial_results, fingerprint({"mechanism": work.fit_many}, (sides, seeds)))
