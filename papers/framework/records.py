"""Runs that take minutes to hours, kept as files that pages are made from, and made again when that is asked for.

A page is made from its records within seconds, on every machine alike. A record is made by `sordino reproduce NAME
--afresh`, on a machine that has what it needs; `--check --afresh` makes it in a folder of its own and compares.
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from papers.framework.differences import apart
from papers.framework.item import Item, every_item
from papers.framework.kinds import Kind, made_on, this_kind, write_made_on
from sordino.core.atomic_write import write_file
from sordino.core.validate import SordinoError

# The files' names, and the file that says on what they were made, are relative to this folder.
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Record:
    """Files that one long run writes.

    Attributes:
        name: The first file, below the folder of the papers.
        others: Files that the same run writes beside it.
        items: The items whose pages are made from it.
        make: Runs everything again: it is given the folder of benchmark data and one to write the files into.
        reads: Benchmark files that it needs.
        gpu: Whether it takes a GPU; without one it would take days.
    """

    name: str
    items: tuple[str, ...]
    make: Callable[[Path | None, Path], None]
    others: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    gpu: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """Where its files are kept."""
        return tuple((ROOT / self.name).with_name(Path(name).name) for name in (self.name, *self.others))

    def missing(self, data_dir: Path | None) -> str:
        """What this machine or this command has not got for it; empty where it can be made."""
        if self.reads and data_dir is None:
            return f"{', '.join(self.reads)}; pass --data-dir"
        return "a GPU" if self.gpu and device() is None else ""


_RECORDS: dict[str, Record] = {}


def keep(record: Record) -> Record:
    """Register a record."""
    if record.name in _RECORDS and _RECORDS[record.name].items != record.items:
        raise SordinoError(f"Two records are registered as {record.name!r}; names must be unique.")
    _RECORDS[record.name] = record
    return record


def records_of(items: Iterable[Item]) -> tuple[Record, ...]:
    """The records behind some items, in the order in which one may depend on another."""
    every_item()
    names = {one.name for one in items}
    return tuple(one for one in _RECORDS.values() if names & set(one.items))


def recorded_on(name: str) -> str:
    """The processor or device that a record was made on, in words."""
    return made_on(ROOT)[name]["processor"]


def device() -> str | None:
    """The name of the GPU that JAX computes on, if there is one."""
    import jax  # noqa: PLC0415  (only where a record is made: naming one does not start a backend)

    return jax.devices()[0].device_kind if jax.default_backend() == "gpu" else None


@dataclass(frozen=True)
class Again:
    """A record that was made again.

    Attributes:
        record: Which.
        seconds: How long it took.
        apart: The largest relative difference of a number from what was kept; infinite where more than that differs.
        kept: The kind that the kept one was made on.
        made: The kind of this run.
        failed: What went wrong; empty where nothing did.
    """

    record: Record
    seconds: float
    apart: float
    kept: Kind
    made: Kind
    failed: str = ""


def make_again(record: Record, data_dir: Path | None, write: bool) -> Again:
    """Make a record in a folder of its own, compare it, and put it in the place of the kept one where that is asked."""
    begun, kind = time.perf_counter(), this_kind(device() if record.gpu else None)
    before = made_on(ROOT).get(record.name, {})
    with tempfile.TemporaryDirectory(prefix="sordino-records-") as name:
        folder = Path(name)
        try:
            record.make(data_dir, folder)
            made = [(folder / path.name).read_bytes() for path in record.files]
        except Exception as error:  # the other records and pages are not to be lost with it
            failed = " ".join(f"{type(error).__name__}: {error}".split())
            return Again(record, time.perf_counter() - begun, float("inf"), before, kind, failed)
    gap = max(
        apart(path.name, path.read_bytes() if path.is_file() else b"", content)
        for path, content in zip(record.files, made, strict=True)
    )
    if write:
        for path, content in zip(record.files, made, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        write_made_on(ROOT, (record.name,), kind)
    return Again(record, time.perf_counter() - begun, gap, before, kind)
