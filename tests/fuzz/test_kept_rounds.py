"""Files of `--keep` with a digest that agrees and content that lies: the fit resumes, or is refused in one line."""

import shutil

import numpy as np
import pytest

from sordino import Ledger, SordinoError
from sordino.mechanisms.checkpoint import Record, read_record, write_record
from tests.engines.conftest import folder
from tests.engines.test_fit_with_an_engine import fitted, schema
from tests.engines.test_resume import Stopped
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_bytes, changed_json

__all__ = ["folder"]  # a fixture


@pytest.fixture
def kept(folder, tmp_path):
    """A ledger that was debited, and the file of a fit that was stopped in its fourth round."""
    ledger = Ledger.open(tmp_path / "ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5)
    with pytest.raises(KeyboardInterrupt):
        fitted(folder, schema(), engine="streamed", told=Stopped(4), keep=tmp_path / "rounds", ledger=ledger)
    return ledger, tmp_path / "rounds"


def gone_on(rows, ledger, keep, copy):
    """Whether a release was made; for nothing but the entry that is there."""
    book = shutil.copy(ledger.path, copy)
    try:
        made = fitted(rows, schema(), engine="streamed", keep=keep, ledger=ledger)
    except SordinoError:
        return False
    finally:
        entries = ledger.entries()
        shutil.copy(book, ledger.path)  # as it was: no release is named
        assert len(entries) == 1
    assert all(np.isfinite(array).all() for array in made.arrays.values())
    return True


@tried(20, 500)
def test_changed_bytes_are_refused(kept, folder, tmp_path, examples):
    ledger, keep = kept
    whole = keep.read_bytes()

    def check(content: bytes) -> None:
        keep.write_bytes(content)
        keep.chmod(0o600)
        assert gone_on(folder, ledger, keep, tmp_path / "book") == (content == whole)

    explore(examples, changed_bytes(whole), check)


@tried(10, 500)
def test_values_that_lie_are_gone_on_from_or_refused(kept, folder, tmp_path, examples):
    ledger, keep = kept
    record = read_record(keep)

    def check(values) -> None:
        try:
            write_record(keep, Record(values, record.arrays))
        except (TypeError, ValueError, SordinoError):  # no file says that
            return
        gone_on(folder, ledger, keep, tmp_path / "book")

    explore(examples, changed_json(dict(record.values)), check)


def test_rounds_that_no_entry_pays_for_are_refused_before_a_debit(kept, folder, tmp_path):
    """Under another name the run was charged a second time."""
    ledger, keep = kept
    record = read_record(keep)
    for arrays in (record.arrays, {}):
        write_record(keep, Record(dict(record.values) | {"name": 64 * "0"}, arrays))
        assert not gone_on(folder, ledger, keep, tmp_path / "book")


ARRAYS = {
    "another shape": lambda array: array.ravel()[:-1],
    "one number": lambda array: np.zeros(()),
    "nothing": lambda array: array[:0],
    "no numbers": lambda array: np.full(array.shape, np.nan),
    "infinity": lambda array: np.full(array.shape, np.inf),
    "huge": lambda array: np.full(array.shape, 1e308),
    "whole numbers": lambda array: np.zeros(array.shape, np.int64),
    "more axes": lambda array: array[None],
}


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS)
def test_answers_that_lie_are_gone_on_from_or_refused(kept, folder, tmp_path, change):
    ledger, keep = kept
    record = read_record(keep)
    for name in record.arrays:
        write_record(keep, Record(record.values, dict(record.arrays) | {name: change(record.arrays[name])}))
        gone_on(folder, ledger, keep, tmp_path / "book")
