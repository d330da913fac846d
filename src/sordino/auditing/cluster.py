"""Blocks of an audit's models on an engine: processes of this machine, or a cluster; each is kept once it is done.

A block comes out as it does here, bit for bit, and a lost worker costs time alone. Anyone who can reach a scheduler
without authentication can run code on its workers, and what workers answer is unpickled by the auditor: client,
scheduler and workers are one trust boundary. Processes of this machine have no address.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sordino.auditing.experiment import FitMany, Releases, Seeds, blocks_of, fitted
from sordino.core.atomic_write import write_file
from sordino.engines.totals import Engine, PartAnswer, each_once


class Block(NamedTuple):
    """Models of one of the datasets, by its place, and their seeds: a part that any process can answer for."""

    name: str
    side: int
    seeds: Seeds
    shared: bool = True


@dataclass(frozen=True, eq=False)
class FitWork:
    """A mechanism, and the datasets it is run on; travels to where blocks are fitted, as `Work` does to rows."""

    adds: ClassVar[bool] = False
    asked: ClassVar[SimpleNamespace] = SimpleNamespace(name="models")

    fit_many: FitMany
    datasets: tuple[Any, ...]

    def answer(self, part: Block, key: str) -> PartAnswer:
        made = io.BytesIO()
        np.save(made, fitted(self.fit_many, self.datasets[part.side], part.seeds), allow_pickle=False)
        return PartAnswer(key, made.getvalue(), len(part.seeds), 0, "")


class Checkpoints:
    """Finished blocks of an audit in a folder, for their owner only; `fingerprint` distinguishes audits."""

    def __init__(self, folder: Path, work: FitWork, blocks: Sequence[Block]) -> None:
        digest = hashlib.sha256(repr(work.fit_many).encode())
        sides = [part for data in work.datasets for part in (data.features, data.target)]
        for array in map(np.ascontiguousarray, (*sides, *(block.seeds for block in blocks))):
            digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
        self.folder, self.fingerprint = folder, digest.hexdigest()

    def save(self, number: int, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._file(number), content, private=True)

    def load(self, number: int) -> Releases | None:
        """What was saved of a block, or None; a torn file counts as none."""
        try:
            return np.load(self._file(number), allow_pickle=False)
        except (FileNotFoundError, EOFError, ValueError):
            return None

    def remove(self, count: int) -> None:
        for number in range(count):
            self._file(number).unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, number: int) -> Path:
        return self.folder / f"fleet-{self.fingerprint[:16]}-{number:05d}.npy"


@dataclass(frozen=True, eq=False)
class FitOnCluster:
    """How `fit_sides` fits: on an `engine`, once; blocks that are kept in `partial_results` let an audit resume."""

    engine: Engine
    partial_results: Path | None = None

    def __call__(self, fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
        """The releases of each dataset's models, one row for each seed."""
        work: Any = FitWork(fit_many, tuple(datasets))
        listed = [(side, block) for side, own in enumerate(seeds) for block in blocks_of(fit_many, own)]
        blocks = [Block(f"block {number + 1} of the models", *one) for number, one in enumerate(listed)]
        kept = None if self.partial_results is None else Checkpoints(self.partial_results, work, blocks)
        loaded = {} if kept is None else {number: kept.load(number) for number in range(len(blocks))}
        results = {number: releases for number, releases in loaded.items() if releases is not None}
        missing: dict[str, Any] = {str(place): one for place, one in enumerate(blocks) if place not in results}
        try:
            for key, content, *_ in each_once(self.engine, work, missing):
                if kept is not None:
                    kept.save(int(key), content)
                results[int(key)] = np.load(io.BytesIO(content), allow_pickle=False)
        finally:
            self.engine.close()
        if kept is not None:
            kept.remove(len(blocks))
        return [
            np.concatenate([results[number] for number, block in enumerate(blocks) if block.side == side])
            for side in range(len(datasets))
        ]
