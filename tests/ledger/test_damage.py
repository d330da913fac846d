"""A bad day: whatever happened to the file, one clear sentence, and nothing is lost silently."""

import os
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.ledger import Balance, ContentWarning, Entry, Ledger, LedgerError, database


@pytest.fixture
def spent(ledger, gaussian_release):
    for _ in range(3):
        ledger.debit(*gaussian_release(0.1))
    return ledger


def sentence(action) -> str:
    with pytest.raises(LedgerError) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("Expected ")
    return text


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"SQLite format 3\x00", bytes(5000), b"\xff" * 100],
    ids=lambda content: content[:6].hex(),
)
def test_a_file_that_is_no_ledger_is_one_sentence(path, content):
    path.write_bytes(content)
    assert "ledger" in sentence(lambda: Ledger.at(path))
    assert path.read_bytes() == content


def test_missing_files_folders_pipes_and_odd_names_are_one_sentence(tmp_path, path):
    assert "open one first" in sentence(lambda: Ledger.at(path))
    assert "not a file" in sentence(lambda: Ledger.at(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in sentence(lambda: Ledger.at(tmp_path / "pipe"))
    assert "file name" in sentence(lambda: Ledger.at("a\0b"))
    assert "writable place" in sentence(lambda: Ledger.open(tmp_path / "no" / "l", "d", "replace-one", 1.0, 1e-5))
    assert "opened once" in sentence(lambda: Ledger.open(tmp_path, "d", "replace-one", 1.0, 1e-5))


def test_a_database_of_another_program_is_refused_and_left_alone(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (sequence INTEGER)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "another program" in sentence(lambda: Ledger.at(path))
    assert path.read_bytes() == before


def test_a_newer_format_is_refused_clearly(spent, path, gaussian_release):
    altered(path, "PRAGMA user_version=2")
    assert "newer Sordino" in sentence(spent.balance)
    assert "newer Sordino" in sentence(lambda: spent.debit(*gaussian_release(0.1)))


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
        "DELETE FROM ledger",
        "CREATE TRIGGER undo AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW seen AS SELECT * FROM entries",
        "DROP TABLE fingerprints",
    ],
)
def test_a_ledger_whose_rows_or_tables_were_changed_is_refused(spent, path, statement, gaussian_release):
    altered(path, statement)
    assert "restore" in sentence(spent.balance)
    sentence(spent.entries)
    sentence(lambda: spent.debit(*gaussian_release(0.01)))


@pytest.mark.parametrize("statement", ["UPDATE entries SET bound = '{}'", "UPDATE entries SET time = 'then'"])
def test_changed_words_do_not_change_the_balance_and_are_noticed_when_read(spent, path, statement):
    before = spent.balance()
    altered(path, statement)
    assert spent.balance() == before
    assert "damaged" in sentence(spent.entries)
    assert "damaged" in sentence(spent.verify)


def altered(path, statement):
    connection = sqlite3.connect(path)
    try:
        connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


@pytest.mark.parametrize("kept", [0.05, 0.5, 0.8])
def test_a_truncated_ledger_is_refused(spent, path, kept, gaussian_release):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    sentence(lambda: Ledger.at(path))
    sentence(lambda: spent.debit(*gaussian_release(0.01)))


def test_a_locked_ledger_says_so_and_loses_nothing(spent, path, gaussian_release):
    waiting = Ledger(path, timeout=0.05)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    assert "locked for 0.05 seconds" in sentence(lambda: waiting.debit(*gaussian_release(0.01)))
    assert waiting.balance().releases == 3  # readers need not wait for a writer
    connection.execute("ROLLBACK")
    connection.close()
    assert waiting.debit(*gaussian_release(0.01)).sequence == 4


def test_a_full_disk_says_so_and_loses_nothing(spent, path, gaussian_release, monkeypatch):
    connect = database._connect

    def small(*arguments):
        connection = connect(*arguments)
        connection.execute("PRAGMA max_page_count=1")  # SQLite keeps what is there and refuses any page more
        return connection

    before = spent.balance()
    monkeypatch.setattr(database, "_connect", small)
    assert "disk is full" in sentence(lambda: [spent.debit(*gaussian_release(0.001)) for _ in range(20)])
    monkeypatch.undo()
    after = spent.balance()
    assert after.releases == len(spent.entries()) >= before.releases
    assert spent.debit(*gaussian_release(0.001)).sequence == after.releases + 1


@pytest.fixture
def as_somebody():
    """Act as a user whom permissions stop, which they do not for root; a folder that this user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        shutil.chown(folder, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_ledger_can_be_shown_and_not_debited(as_somebody, gaussian_release):
    path = as_somebody / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    entry = ledger.debit(*gaussian_release(0.1))
    path.chmod(0o400)
    as_somebody.chmod(0o555)
    assert ledger.balance().releases == 1
    assert "cannot be" in sentence(lambda: ledger.debit(*gaussian_release(0.1)))
    with pytest.warns(ContentWarning, match="not kept"):
        ledger.check_content(entry, {"age": np.arange(3)})
    assert ledger.balance().releases == 1
    assert "writable place" in sentence(lambda: Ledger.open(as_somebody / "n", "d", "replace-one", 1.0, 1e-5))
    path.chmod(0o000)
    assert "permissions" in sentence(ledger.balance)


def test_a_log_left_by_a_deleted_database_is_not_replayed_into_a_new_one(path):
    Path(f"{path}-wal").write_bytes(b"old")
    assert "left by another database" in sentence(lambda: Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5))
    assert not path.exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, gaussian_release):
    path = tmp_path_factory.mktemp("whole") / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    for _ in range(2):
        ledger.debit(*gaussian_release(0.1))
    return Whole(path.read_bytes(), ledger.balance(), ledger.entries())


@dataclass(frozen=True)
class Whole:
    """A ledger file and what it says."""

    content: bytes
    balance: Balance
    entries: tuple[Entry, ...]

    def __repr__(self) -> str:
        return "a whole ledger"


MUTATION = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 2**20), st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("cut"), st.integers(0, 2**20), st.binary(min_size=1, max_size=1)),
    st.tuples(st.just("put"), st.integers(0, 2**20), st.binary(min_size=1, max_size=40)),
)


def mutated(content: bytes, mutations) -> bytes:
    for kind, place, new in mutations:
        at = place % len(content)
        ends = {"flip": at + len(new), "cut": at + 1 + new[0], "put": at}
        content = content[:at] + (b"" if kind == "cut" else new) + content[ends[kind] :] or b"\0"
    return content


@settings(max_examples=150, deadline=None)
@given(mutations=st.lists(MUTATION, min_size=1, max_size=4))
def test_any_changed_bytes_are_refused_or_change_nothing(whole, gaussian_release, tmp_path_factory, mutations):
    """Fuzz: only our own errors, and never a ledger that says it spent something else than it did."""
    path = tmp_path_factory.mktemp("fuzz") / "ledger"
    path.write_bytes(mutated(whole.content, mutations))
    ledger = Ledger(path, timeout=0.5)
    assert truth_or_sentence(ledger.balance) in {whole.balance, None}
    assert truth_or_sentence(ledger.entries) in {whole.entries, None}
    added = truth_or_sentence(lambda: ledger.debit(*gaussian_release(0.01)))
    assert added is None or added.sequence == whole.balance.releases + 1
    shutil.rmtree(path.parent)


def truth_or_sentence(ask):
    """The answer, or None where the ledger was refused in one sentence; anything else is raised."""
    try:
        return ask()
    except LedgerError as error:
        if "\n" in str(error):
            raise
        return None
