"""Real disks on a bad day: full ones and read-only ones, for everything that is kept. One sentence, nothing lost.

The disks are small memory file systems, mounted for the test; where that is not allowed, `tests/ledger/test_damage.py`,
`tests/ledger/release/test_folder.py` and `tests/mechanisms/chain/test_checkpoint.py` inject the same errors.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, read_spec
from sordino.accounting.evaluate import explain
from sordino.core.atomic_write import write_file
from sordino.ledger import Ledger, LedgerError
from sordino.ledger.release import StoredRelease, read_release, write_release
from sordino.mechanisms import CheckpointError
from sordino.mechanisms.checkpoint import Record, read_record, write_record
from tests.ledger.conftest import make_gaussian_release

SPEC = read_spec(Path(__file__).parents[2] / "examples" / "specs" / "full-last-iterate.json")
SIZE = 400 * 1024


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A disk of 400 kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "tmpfs", str(folder)]
    allowed = sys.platform == "linux" and os.geteuid() == 0
    if not allowed or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk takes Linux and its administrator")
    yield folder
    busy = subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode
    if busy:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert not busy, "something on the disk was left open"


def fill(disk: Path, leave: int = 0) -> None:
    """Write until nothing more fits, then free about `leave` bytes."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - leave))


def lock(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def unlock(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def release() -> StoredRelease:
    bound = explain(SPEC, 1e-5).tightest
    assert bound is not None
    return StoredRelease("last-iterate", SPEC, bound, 1e-5, True, {"draws": np.zeros((1, 1, SPEC.dim))})


def record(step: int) -> Record:
    values = {"identity": {"spec": SPEC.to_dict()}, "step": step, "steps": 9, "salt": "", "moment": {}}
    return Record(values, {"theta": np.arange(20_000.0)})


def sentence(kind: type[InputError], action: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        action()
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_a_full_disk_refuses_debits_and_keeps_every_entry(disk):
    ledger = Ledger.open(disk / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    ledger.debit(*make_gaussian_release(0.01))
    fill(disk)
    said = sentence(LedgerError, lambda: [ledger.debit(*make_gaussian_release(0.01)) for _ in range(100)])
    assert "disk" in said
    (disk / "ballast").unlink()
    kept = ledger.balance().releases
    assert [entry.sequence for entry in ledger.entries()] == list(range(1, kept + 1))
    assert ledger.debit(*make_gaussian_release(0.01)).sequence == kept + 1
    assert ledger.verify().sound


def test_a_full_disk_opens_no_ledger_and_leaves_nothing(disk):
    fill(disk)
    before = sorted(disk.iterdir())
    sentence(LedgerError, lambda: Ledger.open(disk / "ledger", "clinic", "replace-one", 1.0, 1e-5))
    assert sorted(disk.iterdir()) == before


@pytest.mark.parametrize("kilobytes", range(0, 44, 4))
def test_a_nearly_full_disk_opens_a_ledger_that_works_or_none(disk, kilobytes):
    fill(disk, leave=1024 * kilobytes)
    before, path = sorted(disk.iterdir()), disk / "ledger"
    said = ""
    try:
        Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    except LedgerError as error:
        said = str(error)
    if said:
        assert "No space left" in said or "disk is full" in said
        assert sorted(disk.iterdir()) == before
    else:
        (disk / "ballast").unlink()
        assert Ledger.at(path).balance().releases == 0
        assert Ledger.at(path).debit(*make_gaussian_release(0.1)).sequence == 1
        assert len(Ledger.at(path).entries()) == 1


def test_a_read_only_disk_shows_the_ledger_and_refuses_debits(disk):
    ledger = Ledger.open(disk / "ledger", "clinic", "replace-one", 1.0, 1e-5)
    ledger.debit(*make_gaussian_release(0.1))
    before = ledger.balance()
    lock(disk)
    try:
        assert ledger.balance() == before
        assert "cannot be" in sentence(LedgerError, lambda: ledger.debit(*make_gaussian_release(0.1)))
        sentence(LedgerError, lambda: Ledger.open(disk / "other", "clinic", "replace-one", 1.0, 1e-5))
    finally:
        unlock(disk)
    assert ledger.debit(*make_gaussian_release(0.1)).sequence == 2


def test_a_full_or_read_only_disk_gets_a_whole_release_or_none(disk):
    write_release(disk / "first", release())
    fill(disk)
    before = sorted(disk.iterdir())
    assert "nothing was changed" in sentence(InputError, lambda: write_release(disk / "second", release()))
    assert "No space left" in sentence(InputError, lambda: write_file(disk / "file", b"x" * 10_000))
    assert sorted(disk.iterdir()) == before
    lock(disk)
    try:
        assert "Read-only" in sentence(InputError, lambda: write_release(disk / "third", release()))
        assert read_release(disk / "first").delta == 1e-5
    finally:
        unlock(disk)
    (disk / "ballast").unlink()
    assert read_release(write_release(disk / "second", release())).delta == 1e-5


def test_a_full_or_read_only_disk_keeps_the_checkpoint_before(disk):
    path = disk / "run.checkpoint"
    write_record(path, record(1))
    fill(disk, leave=8192)
    before = sorted(disk.iterdir())
    assert "No space left" in sentence(CheckpointError, lambda: write_record(path, record(2)))
    assert sorted(disk.iterdir()) == before
    lock(disk)
    try:
        assert "Read-only" in sentence(CheckpointError, lambda: write_record(path, record(2)))
        assert read_record(path).values["step"] == 1
    finally:
        unlock(disk)
    (disk / "ballast").unlink()
    write_record(path, record(2))
    assert np.array_equal(read_record(path).arrays["theta"], np.arange(20_000.0))
    assert read_record(path).values["step"] == 2
