"""A bad day: whatever happened to the file, one clear sentence, and nothing is lost silently."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.ledger import Balance, ContentWarning, Entry, Ledger, LedgerError, access, log
from tests.fuzz.explore import explore, tried


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
    assert text.endswith(".")
    return text


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"SQLite format 3\x00", bytes(5000), b"\xff" * 100, log.PREAMBLE, log.PREAMBLE[:64]],
    ids=lambda content: f"{content[:6].hex()}-{len(content)}",
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


def test_a_newer_format_is_refused_clearly(spent, path, gaussian_release):
    path.write_bytes(path.read_bytes().replace(b"format 2", b"format 4", 1))
    assert "newer Sordino" in sentence(spent.balance)
    assert "newer Sordino" in sentence(lambda: spent.debit(*gaussian_release(0.1)))


def spans(path: Path) -> list[slice]:
    """Where in the file the opening and each record after it lie."""
    with log.reading(path) as held:
        marks = [mark for mark, _ in held.records()]
    starts = [log.BLOCK + mark.start for mark in marks]
    return [slice(3 * log.BLOCK, starts[0]), *(slice(log.BLOCK + mark.start, log.BLOCK + mark.end) for mark in marks)]


def rewritten(path: Path, place: int, old: bytes, new: bytes) -> None:
    """Change bytes of one record where they stand, without new digests."""
    content, span = path.read_bytes(), spans(path)[place]
    part = content[span]
    assert old in part
    assert len(old) == len(new)
    path.write_bytes(content[: span.start] + part.replace(old, new, 1) + content[span.stop :])


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (0, b"1.0", b"9.0"),
        (0, b'"key":"', b'"kez":"'),
        (0, b'"opened":"2', b'"opened":"1'),
        (3, b'"total":{"alone":null,"amounts":[0.0', b'"total":{"alone":null,"amounts":[0.1'),
        (3, b'"releases":3', b'"releases":2'),
        (3, b'"charge":{"alone":0', b'"charge":{"alone":1'),
        (3, b"composition", b"compositiom"),
        (3, b'"kind":"entry"', b'"kind":"ontry"'),
        (3, b"\n0", b"\n1"),
    ],
)
def test_a_ledger_whose_opening_or_last_entry_was_changed_is_refused(spent, path, place, old, new, gaussian_release):
    rewritten(path, place, old, new)
    assert "Restore" in sentence(spent.balance)
    sentence(spent.entries)
    sentence(lambda: spent.debit(*gaussian_release(0.01)))


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (1, b'"charge":{"alone":0', b'"charge":{"alone":1'),
        (2, b'"total":{"alone":null,"amounts":[0.0', b'"total":{"alone":null,"amounts":[0.1'),
        (2, b'"time":"2', b'"time":"1'),
        (1, b"composition", b"compositiom"),
        (2, b"\n0", b"\n1"),
        (1, b" ", b"-"),
    ],
)
def test_a_changed_earlier_entry_changes_no_balance_and_is_noticed_when_read(
    spent, path, place, old, new, gaussian_release
):
    before = spent.balance()
    rewritten(path, place, old, new)
    earlier_damage_is_noticed(spent, before, gaussian_release)


def test_entries_in_another_order_are_noticed_when_read(spent, path, gaussian_release):
    before, content, (_, first, second, _) = spent.balance(), path.read_bytes(), spans(path)
    path.write_bytes(content[: first.start] + content[second] + content[first] + content[second.stop :])
    earlier_damage_is_noticed(spent, before, gaussian_release)


def earlier_damage_is_noticed(ledger: Ledger, before: Balance, gaussian_release) -> None:
    assert ledger.balance() == before
    for use in (ledger.entries, ledger.verify, ledger.export):
        assert "damaged" in sentence(use)
    assert ledger.debit(*gaussian_release(0.01)).sequence == 4
    assert "damaged" in sentence(ledger.entries)


@pytest.mark.parametrize("kept", [0.05, 0.5, 0.8])
def test_a_truncated_ledger_is_refused(spent, path, kept, gaussian_release):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    sentence(lambda: Ledger.at(path))
    sentence(lambda: spent.debit(*gaussian_release(0.01)))


def test_a_ledger_cut_between_two_entries_is_refused(spent, path, gaussian_release):
    """Every record that is left is whole, and the chain is unbroken: the marks know that there were more."""
    with log.reading(path) as held:
        ends = [mark.end for mark, _ in held.records()]
    content = path.read_bytes()
    for end in ends[:-1]:
        path.write_bytes(content[: log.BLOCK + end])
        assert "damaged" in sentence(spent.balance)
        sentence(lambda: spent.debit(*gaussian_release(0.01)))


def marks_of(content: bytes) -> list[bytes]:
    return [content[place : place + 181] for place in (log.BLOCK, 2 * log.BLOCK)]


def with_marks(content: bytes, marks: list[bytes]) -> bytes:
    for place, mark in zip((log.BLOCK, 2 * log.BLOCK), marks, strict=True):
        content = content[:place] + mark + content[place + len(mark) :]
    return content


def torn(whole: bytes) -> bytes:
    return whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2)


def test_every_moment_of_a_debit_leaves_the_ledger_as_before_or_with_one_more(spent, path, gaussian_release):
    """A power cut while a debit is made: the record, mark A and mark B may each be there, be torn, or not be there.

    Mark B is written after the rest is on the disk, so where it is new or torn, the rest is there.
    """
    old, before = path.read_bytes(), spent.balance()
    spent.debit(*gaussian_release(0.1))
    new, after = path.read_bytes(), spent.balance()
    record = new[len(old) :]
    records = {"none": b"", "part": record[: len(record) // 2], "torn": torn(record), "whole": record}
    first = {"old": marks_of(old)[0], "torn": torn(marks_of(new)[0]), "new": marks_of(new)[0]}
    second = {"old": marks_of(old)[1], "torn": torn(marks_of(new)[1]), "new": marks_of(new)[1]}
    for has, a, b in product(records, first, second):
        path.write_bytes(with_marks(old, [first[a], second[b]]) + records[has])
        returned = b != "old"  # or was about to
        if returned and (has != "whole" or a != "new"):
            continue
        found = spent.balance()
        assert found == (after if has == "whole" else before), (has, a, b)
        assert len(spent.entries()) == found.releases
        assert spent.debit(*gaussian_release(0.01)).sequence == found.releases + 1
        assert len(spent.entries()) == found.releases + 1


def test_after_a_debit_has_returned_no_damage_to_record_or_marks_takes_it_back(spent, path, gaussian_release):
    """At rest both marks name the last record: either of them may be torn, the record may not."""
    old = path.read_bytes()
    spent.debit(*gaussian_release(0.1))
    new, after = path.read_bytes(), spent.balance()
    record = new[len(old) :]
    kept = 0
    for has, a, b in product(("none", "torn", "whole"), ("torn", "new"), ("torn", "new")):
        marks = [torn(mark) if state == "torn" else mark for mark, state in zip(marks_of(new), (a, b), strict=True)]
        path.write_bytes(with_marks(old, marks) + {"none": b"", "torn": torn(record), "whole": record}[has])
        if has == "whole" and "new" in {a, b}:
            assert spent.balance() == after
            kept += 1
        else:
            assert "damaged" in sentence(spent.balance)
            sentence(lambda: spent.debit(*gaussian_release(0.01)))
    assert kept == 3


def test_what_stands_behind_the_last_record_is_no_part_of_the_ledger(spent, path, gaussian_release):
    """Garbage, a record of another ledger, a record that lost a race: none counts, none is in the way."""
    content, before = path.read_bytes(), spent.balance()
    other = Ledger.open(path.with_name("other"), "clinic", "replace-one", 1.0, 1e-5)
    empty = other.path.stat().st_size
    other.debit(*gaussian_release(0.1))
    foreign = other.path.read_bytes()[empty:]
    with log.reading(path) as held:
        marks = [mark for mark, _ in held.records()]
    late = content[log.BLOCK + marks[1].start : log.BLOCK + marks[1].end]  # follows the first entry, as another does
    for behind in (b"garbage", b"\n" * 7, b"\nffffffff " + b"0" * 200, foreign, late, foreign[:99] + late + b"\n"):
        path.write_bytes(content + behind)
        assert spent.balance() == before
        assert len(spent.entries()) == 3
        assert spent.debit(*gaussian_release(0.01)).sequence == 4
        assert [entry.sequence for entry in spent.entries()] == [1, 2, 3, 4]
        assert spent.verify().sound


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal", ".lock", ".tmp"])
@pytest.mark.parametrize("planted", ["older ledger", "empty ledger", "noise", "nothing"])
def test_nothing_that_lies_beside_a_ledger_changes_it(spent, path, ending, planted, gaussian_release):
    before, content = spent.balance(), path.read_bytes()
    rich = Ledger.open(path.with_name("rich"), "clinic", "replace-one", 1000.0, 1e-5)
    contents = {"older ledger": content[:-2000], "empty ledger": rich.path.read_bytes(), "noise": b"\x37\x7f" * 99}
    Path(f"{path}{ending}").write_bytes(contents.get(planted, b""))
    assert spent.balance() == before
    assert path.read_bytes() == content
    quick = Ledger(path, timeout=0.05)
    if ending == ".lock" and planted != "nothing":  # what such a file says is nobody's whom we know
        assert "'clinic.ledger.lock'" in sentence(lambda: quick.debit(*gaussian_release(0.01)))
        assert path.read_bytes() == content
    else:
        assert quick.debit(*gaussian_release(0.01)).sequence == 4


def test_a_locked_ledger_says_so_and_loses_nothing(spent, path, gaussian_release):
    waiting = Ledger(path, timeout=0.05)
    with log.writing(path, 1.0):
        assert "locked for 0.05 seconds" in sentence(lambda: waiting.debit(*gaussian_release(0.01)))
        assert waiting.balance().releases == 3  # readers need not wait for a writer
    assert waiting.debit(*gaussian_release(0.01)).sequence == 4


@pytest.mark.parametrize("room", [0, 1, 100, 139, 500])
def test_a_full_disk_says_so_and_loses_nothing(spent, path, gaussian_release, monkeypatch, room):
    """The disk takes the first bytes of a record, and no more."""
    write = os.write

    def short(descriptor, content):
        if room < len(content) and content.startswith(b"\n"):
            if not room:
                raise OSError(28, "No space left on device")
            return write(descriptor, content[:room])
        if not content.startswith(b"\n") and b'"kind":"entry"' in content:
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    before = spent.balance()
    monkeypatch.setattr(os, "write", short)
    assert "disk is full" in sentence(lambda: spent.debit(*gaussian_release(0.001)))
    monkeypatch.undo()
    assert spent.balance() == before
    assert len(spent.entries()) == 3
    assert spent.debit(*gaussian_release(0.001)).sequence == 4
    assert len(spent.entries()) == 4


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_disk_that_fails_while_the_marks_are_written_is_told_and_nothing_is_hidden(
    spent, path, gaussian_release, monkeypatch, call
):
    calls = []

    def failing(name, real):
        def use(*arguments):
            calls.append(name)
            if len(calls) == call:
                raise OSError(5, "Input/output error")
            return real(*arguments)

        return use

    monkeypatch.setattr(access, "write_at", failing("mark", access.write_at))
    monkeypatch.setattr(access, "flush", failing("flush", access.flush))
    assert "ledger show` says" in sentence(lambda: spent.debit(*gaussian_release(0.001)))
    monkeypatch.undo()
    assert calls == ["mark", "flush", "mark"][:call]
    assert spent.balance().releases == 4  # not granted, and counted: the safe side
    assert spent.debit(*gaussian_release(0.001)).sequence == 5


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
def test_an_opening_that_fails_leaves_nothing(path, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    assert "No space left" in sentence(lambda: Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5))
    monkeypatch.undo()
    assert list(path.parent.iterdir()) == []


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


@tried(150, 2000)
def test_any_changed_bytes_are_refused_or_change_nothing(whole, gaussian_release, tmp_path, examples):
    """Fuzz: only our own errors, and never a ledger that says it spent something else than it did."""
    path = tmp_path / "ledger"

    def check(mutations) -> None:
        path.write_bytes(mutated(whole.content, mutations))
        ledger = Ledger(path, timeout=0.5)
        assert truth_or_sentence(ledger.balance) in {whole.balance, None}
        assert truth_or_sentence(ledger.entries) in {whole.entries, None}
        added = truth_or_sentence(lambda: ledger.debit(*gaussian_release(0.01)))
        assert added is None or added.sequence == whole.balance.releases + 1

    explore(examples, st.lists(MUTATION, min_size=1, max_size=4), check)


@tried(40, 2000)
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal", ".lock"])
def test_no_file_beside_a_ledger_takes_anything_back(whole, gaussian_release, tmp_path, ending, examples):
    """Fuzz: parts of ledgers and of noise under every name that this version or an older one gives to a side file."""
    path = tmp_path / "ledger"
    path.write_bytes(whole.content)
    content = whole.content

    def check(mutations) -> None:
        path.write_bytes(content)
        Path(f"{path}{ending}").write_bytes(mutated(whole.content[-2000:], mutations))
        ledger = Ledger(path, timeout=0.0)
        assert ledger.balance() == whole.balance
        assert ledger.entries() == whole.entries
        added = truth_or_sentence(lambda: ledger.debit(*gaussian_release(0.01)))
        assert (added is None) if ending == ".lock" else (added.sequence == whole.balance.releases + 1)

    explore(examples, st.lists(MUTATION, min_size=1, max_size=4), check)


def truth_or_sentence(ask):
    """The answer, or None where the ledger was refused in one sentence; anything else is raised."""
    try:
        return ask()
    except LedgerError as error:
        if "\n" in str(error):
            raise
        return None
