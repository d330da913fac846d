"""Ledgers that the first version wrote, SQLite databases, are read as they were and go on in the present format.

`format_1/` holds files of that version: `clinic.ledger` with three releases and a fingerprint, `hot.ledger` with one
release in the file and two more in the log that a killed process left.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.core.guarantee import GaussianDP
from sordino.ledger import ContentWarning, Ledger, LedgerError, access, format_1, log
from sordino.ledger.verification import Verdict
from tests.fuzz.explore import explore, tried

OLD = Path(__file__).with_name("format_1")
PAGE = 4096


@pytest.fixture
def old(tmp_path) -> Ledger:
    return Ledger(placed(tmp_path, "clinic.ledger"))


@pytest.fixture
def hot(tmp_path) -> Ledger:
    return Ledger(placed(tmp_path, "hot.ledger"))


def placed(folder: Path, name: str) -> Path:
    for file in OLD.glob(f"{name}*"):
        shutil.copyfile(file, folder / file.name)
        (folder / file.name).chmod(0o600)
    return folder / name


def refused(action) -> str:
    with pytest.raises(LedgerError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_old_ledger_says_what_it_said_and_reading_it_writes_nothing(old):
    content = old.path.read_bytes()
    balance, entries = old.balance(), old.entries()
    assert (balance.releases, balance.filter_kind, balance.budget.dataset) == (3, "renyi", "clinic")
    # As the version that wrote it printed them.
    assert balance.spent_epsilon == pytest.approx(0.5284591391491611, rel=1e-12)
    assert balance.spent_failure == pytest.approx(1e-8, rel=1e-12)
    assert balance.largest_mu == pytest.approx(0.21435579593227105, rel=1e-9)
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    assert entries[0].bound.guarantee == GaussianDP(entries[0].bound.guarantee.mu)
    found = old.verify()
    # The second was charged by hand, under a theorem that no version knows: nobody can say that it is covered.
    assert [one.verdict for one in found.findings].count(Verdict.UNKNOWN) == 1
    assert not found.overspent
    assert not found.sound
    assert len(old.export()["entries"]) == 3
    assert old.path.read_bytes() == content
    assert [one.name for one in old.path.parent.iterdir()] == ["clinic.ledger"]


def test_the_first_debit_brings_an_old_ledger_over_in_the_same_file(old, gaussian_release):
    before, entries, inode = old.balance(), old.entries(), old.path.stat().st_ino
    entry = old.debit(*gaussian_release(0.01))
    assert entry.sequence == 4
    assert old.entries() == (*entries, entry)
    assert old.path.stat().st_ino == inode
    assert not old.path.read_bytes().startswith(b"SQLite")
    after = old.balance()
    assert before.spent_epsilon < after.spent_epsilon
    assert after.budget == before.budget
    assert after.filter_kind == before.filter_kind
    # The fingerprint came along: these are other rows than those of release 2.
    with pytest.warns(ContentWarning, match="not those of release 2"):
        old.check_content(entry, {"age": np.arange(6.0)})
    assert not old.verify().overspent


def test_a_log_that_a_killed_process_left_is_part_of_the_ledger(hot, gaussian_release):
    assert hot.balance().releases == len(hot.entries()) == 3
    names = sorted(one.name for one in hot.path.parent.iterdir())
    assert names == ["hot.ledger", "hot.ledger-wal"]
    assert hot.debit(*gaussian_release(0.001)).sequence == 4
    assert [one.name for one in hot.path.parent.iterdir()] == ["hot.ledger"]
    assert len(hot.entries()) == 4


@pytest.mark.parametrize("name", ["clinic.ledger", "hot.ledger"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_bringing_over_may_be_cut_anywhere(tmp_path, name, call, gaussian_release, monkeypatch):
    """Two writes and two flushes: whichever fails, the ledger says what it said, and the next debit works."""
    ledger = Ledger(placed(tmp_path, name))
    calls, before = [], ledger.entries()

    def failing(real):
        def use(*arguments):
            calls.append(real)
            if len(calls) == call:
                raise OSError(5, "Input/output error")
            return real(*arguments)

        return use

    monkeypatch.setattr(access, "write_at", failing(access.write_at))
    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    assert "disk refused" in refused(lambda: ledger.debit(*gaussian_release(0.001)))
    monkeypatch.undo()
    assert len(calls) == call
    assert ledger.entries() == before
    assert ledger.debit(*gaussian_release(0.001)).sequence == 4
    assert ledger.entries()[:3] == before


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_part_of_the_new_log_behind_an_old_ledger_is_nothing(old, kept, gaussian_release):
    content = old.path.read_bytes()
    before = old.entries()
    old.debit(*gaussian_release(0.001))
    behind = old.path.read_bytes()[len(content) :]
    old.path.write_bytes(content + behind[: int(kept * len(behind))])
    assert old.entries() == before
    assert old.debit(*gaussian_release(0.001)).sequence == 4


def test_a_process_of_the_old_version_is_waited_for(old, gaussian_release):
    waiting = Ledger(old.path, timeout=0.05)
    holding = (
        "import sqlite3, sys\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.read()\nconnection.close()"
    )
    command = [sys.executable, "-c", holding, str(old.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert "older version has kept it locked for 0.05" in refused(lambda: waiting.debit(*gaussian_release(0.01)))
        other.communicate()
    assert waiting.debit(*gaussian_release(0.01)).sequence == 4


def altered(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET charge = replace(charge, '1', '0') WHERE sequence = 2",
        "DELETE FROM entries WHERE sequence = 3",
        "DELETE FROM entries",
        "UPDATE ledger SET releases = 2",
        "UPDATE ledger SET budget = replace(budget, '1.0', '9.0')",
        "UPDATE ledger SET key = zeroblob(32)",
        "UPDATE ledger SET head = 'text'",
        "UPDATE entries SET sequence = 9 WHERE sequence = 3",
        "UPDATE entries SET digest = 'x' WHERE sequence = 1",
        "UPDATE entries SET bound = '{}'",
        "UPDATE entries SET time = 'then'",
        "DELETE FROM ledger",
        "CREATE TRIGGER undo AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW seen AS SELECT * FROM entries",
        "DROP TABLE fingerprints",
    ],
)
def test_an_old_ledger_whose_rows_or_tables_were_changed_is_refused(old, statement, gaussian_release):
    altered(old.path, statement)
    content = old.path.read_bytes()
    assert "restore" in refused(old.balance)
    refused(old.entries)
    refused(lambda: old.debit(*gaussian_release(0.01)))
    assert old.path.read_bytes() == content


def test_databases_of_others_and_of_the_future_are_refused_and_left_alone(old, tmp_path):
    altered(old.path, "PRAGMA user_version=2")
    assert "newer Sordino" in refused(old.balance)
    path = tmp_path / "foreign"
    altered(path, "CREATE TABLE entries (sequence INTEGER)")
    before = path.read_bytes()
    assert "another program" in refused(lambda: Ledger.at(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("planted", ["journal", "link", "others may write", "folder", "two names"])
def test_a_planted_log_is_refused_by_its_name(old, hot, planted, gaussian_release, monkeypatch):
    """A log of another ledger, whole and well formed, would replace what the file says."""
    monkeypatch.setattr(access, "_group_of_one", lambda *_: False)
    source, beside = Path(f"{hot.path}-wal"), Path(f"{old.path}-wal")
    if planted == "journal":
        beside = Path(f"{old.path}-journal")
        shutil.copyfile(source, beside)
    elif planted == "link":
        beside.symlink_to(source)
    elif planted == "folder":
        beside.mkdir()
    elif planted == "two names":
        os.link(source, beside)
    else:
        shutil.copyfile(source, beside)
        beside.chmod(0o620)
    for use in (old.balance, old.entries, lambda: old.debit(*gaussian_release(0.01))):
        assert f"{beside.name!r}" in refused(use)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="files are given away by root")
def test_a_log_of_another_user_is_refused_by_its_name(hot, gaussian_release):
    os.chown(f"{hot.path}-wal", 65534, -1)
    assert "'hot.ledger-wal'" in refused(hot.balance)
    assert "'hot.ledger-wal'" in refused(lambda: hot.debit(*gaussian_release(0.01)))


def test_the_log_of_another_ledger_does_not_replace_an_old_one(old, hot):
    """Also when it belongs to the same user, holds every page, and would be a whole ledger in the place of this one."""
    shutil.copyfile(f"{hot.path}-wal", f"{old.path}-wal")
    Path(f"{old.path}-wal").chmod(0o600)
    assert "log of another ledger" in refused(old.balance)


def frames(log_bytes: bytes) -> range:
    return range(32, len(log_bytes), 24 + PAGE)


def test_a_log_cut_within_a_transaction_is_refused(hot):
    beside = Path(f"{hot.path}-wal")
    content = beside.read_bytes()
    ends = {place + 24 + PAGE for place in frames(content) if int.from_bytes(content[place + 4 : place + 8], "big")}
    for cut in (1, 31, 32, 33, *(place + more for place in frames(content) for more in (0, 1, 24, 999))):
        beside.write_bytes(content[:cut])
        if cut not in ends:
            assert "'hot.ledger-wal'" in refused(hot.balance), cut


@tried(60, 2000)
def test_no_damage_to_a_log_that_was_left_drops_a_debit(hot, tmp_path, examples):
    """Fuzz: the old version believed the part before the damage: 233 of 280 mutations took debits back unsaid."""
    beside = Path(f"{hot.path}-wal")
    content, entries = beside.read_bytes(), hot.entries()
    flip = st.tuples(st.integers(0, len(content) - 1), st.binary(min_size=1, max_size=8))

    def check(flips) -> None:
        damaged = bytearray(content)
        for place, new in flips:
            damaged[place : place + len(new)] = new[: len(damaged) - place]
        beside.write_bytes(bytes(damaged))
        if bytes(damaged) == content:
            assert hot.entries() == entries
        else:
            assert "'hot.ledger-wal'" in refused(hot.balance)

    explore(examples, st.lists(flip, min_size=1, max_size=3), check)


def test_an_old_ledger_in_a_folder_that_cannot_be_written_is_shown(old):
    old.path.chmod(0o400)
    old.path.parent.chmod(0o500)
    try:
        assert old.balance().releases == 3
    finally:
        old.path.parent.chmod(0o700)


def test_checksums_are_those_of_the_format():
    """As SQLite's documentation defines them, on numbers worked by hand: big and little end first."""
    words = (1).to_bytes(4, "big") + (2).to_bytes(4, "big")
    assert format_1._checksum(">", words, (0, 0)) == (1, 3)
    assert format_1._checksum("<", words, (0, 0)) == (1 << 24, 3 << 24)
    assert format_1._checksum(">", b"\xff" * 8, (1, 1)) == (1, 1)


def test_the_image_of_an_old_ledger_is_a_ledger(old):
    content = old.path.read_bytes()
    opening, further = format_1.contents(old.path, old.path, content)
    image = log.image(opening, further)
    held = log.Log(old.path, lambda offset, size: image[offset : offset + size])
    assert len(list(held.records())) == len(further) == 4
