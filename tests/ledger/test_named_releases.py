"""An entry names the release that was made on it: once, for good, and without hiding anything from earlier readers."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.ledger import ContentWarning, Ledger, LedgerError, book, log
from tests.report.example_releases import last_iterate

ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger.open(tmp_path / "clinic.ledger", "clinic", "replace-one", 90.0, 1e-5)


def debit(ledger: Ledger):
    release = last_iterate()
    return ledger.debit(release.bound, release.spec)


def test_each_entry_names_its_own_release_whenever_it_is_told(ledger):
    first, second = debit(ledger), debit(ledger)
    ledger.name_release(second, TWO)  # the last record
    third = debit(ledger)
    ledger.name_release(first, ONE)  # one that others followed
    assert [entry.release for entry in ledger.entries()] == [ONE, TWO, None]
    assert third.release is None
    assert ledger.balance().releases == 3
    assert ledger.verify().sound


def test_names_of_other_ledgers_and_of_nothing_are_refused(ledger, tmp_path):
    other = Ledger.open(tmp_path / "other.ledger", "clinic", "replace-one", 90.0, 1e-5)
    stranger = debit(other)
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.name_release(stranger, ONE)
    debit(ledger)
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.name_release(stranger, ONE)
    for bad in ("", "1" * 63, "G" * 64, "1" * 65):
        with pytest.raises(InputError, match="64 hexadecimal digits"):
            ledger.name_release(stranger, bad)


def test_fingerprints_of_rows_are_kept_and_earlier_readers_know_every_kind_of_record(ledger):
    entry = debit(ledger)
    ledger.check_content(entry, {"age": np.array([31.0, 45.0])})
    ledger.name_release(entry, ONE)
    after = debit(ledger)
    with pytest.warns(ContentWarning, match="not those of earlier"):
        ledger.check_content(after, {"age": np.array([31.0, 46.0])})
    ledger.name_release(after, TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = debit(ledger)
    assert [one.release for one in ledger.entries()] == [ONE, TWO, None]
    assert again.sequence == 3
    with log.reading(ledger.path) as file:
        assert {record["kind"] for _, record in file.records()} <= {"entry", "rows", "release"}


def test_an_odd_name_is_damage(ledger):
    """Written with the ledger's own key, so that the digests agree."""
    debit(ledger)
    content = ledger.path.read_bytes()
    for odd in ([1], [2, ONE], ["1", ONE], [1, "x"], [1, None], "no", [True, ONE]):
        ledger.path.write_bytes(content)
        with log.writing(ledger.path, 5.0) as file:
            file.append(book._record(file, book.RELEASE, book.standing(file), release=odd))
        with pytest.raises(LedgerError, match="damaged"):
            ledger.entries()


def test_a_release_is_named_in_the_same_time_however_long_the_ledger_is(ledger, monkeypatch):
    """Nothing before the entry is read: with 10,000 entries reading all of them took seconds."""
    for _ in range(3):
        debit(ledger)
    entry = debit(ledger)
    ledger.check_content(entry, {"age": np.array([31.0, 45.0])})
    read = []
    record_at = log.Log.record_at

    def counted(self, start):
        read.append(start)
        return record_at(self, start)

    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "record_at", counted)
        patch.setattr(log.Log, "records", lambda self: pytest.fail("read from the beginning"))
        ledger.name_release(entry, ONE)
        size = ledger.path.stat().st_size
        ledger.name_release(entry, ONE)
        assert ledger.path.stat().st_size == size  # nothing new
        with pytest.raises(LedgerError, match="already names a release"):
            ledger.name_release(entry, TWO)
    assert min(read) > entry.place
    assert [one.release for one in ledger.entries()] == [None, None, None, ONE]
    assert ledger.entries()[3] == replace(entry, release=ONE)


def test_an_entry_whose_place_or_digest_is_another_is_refused(ledger):
    first, second = debit(ledger), debit(ledger)
    for odd in (
        replace(second, place=first.place),
        replace(second, place=second.place + 1),
        replace(second, place=0),
        replace(second, place=2**40),
        replace(second, digest=first.digest),
    ):
        with pytest.raises(LedgerError, match="another ledger"):
            ledger.name_release(odd, ONE)
    assert [one.release for one in ledger.entries()] == [None, None]


def test_a_void_record_names_nothing(ledger):
    """Two records that follow the same one: the first in the file counts, and the other was never granted."""
    first, second = debit(ledger), debit(ledger)
    with log.writing(ledger.path, 5.0) as file:
        content = file.record_at(second.place)
        line = log._line(file.key, bytes.fromhex(first.digest), content | {"time": "2026-01-01T00:00:00+00:00"})
    place = ledger.path.stat().st_size - log.BLOCK
    with ledger.path.open("ab") as file:
        file.write(line)
    void = replace(second, place=place, digest=line[log._HEAD - 65 : log._HEAD - 1].decode())
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.name_release(void, ONE)
    ledger.name_release(second, TWO)
    assert [one.release for one in ledger.entries()] == [None, TWO]
