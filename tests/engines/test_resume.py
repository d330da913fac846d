"""A fit that was stopped goes on where it was: the same release, one debit, no answer asked twice."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pyarrow.parquet as pq
import pytest

from sordino.core.validate import InputError
from sordino.data import write_schema
from sordino.estimators.fitting import fit_table
from sordino.ledger import Ledger
from sordino.ledger.release import read_release
from tests.engines.tables import written
from tests.engines.test_fit_with_an_engine import fitted, schema


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits").mkdir()
    found = written(tmp_path / "visits", "logistic")
    for path in found.glob("*.parquet"):
        rows = pq.read_table(path)
        ill = [value > 0.5 for value in rows.column("y").to_pylist()]
        pq.write_table(rows.drop_columns(["y"]).append_column("ill", [ill]), path)
    return found


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "clinic.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5)


class Stopped:
    """Stops the fit in the middle of its n-th round, and remembers which rounds were begun."""

    def __init__(self, after: int) -> None:
        self.after, self.rounds = after, []

    def __call__(self, name, done, parts):
        if done == 0:
            self.rounds.append(name)
        if len(self.rounds) == self.after and done == min(2, parts):
            raise KeyboardInterrupt


@pytest.mark.parametrize("unit", [False, True])
def test_a_fit_goes_on_where_it_was_stopped(folder, tmp_path, ledger, unit):
    whole, keep = Stopped(0), tmp_path / "rounds.json"
    right = fitted(folder, schema(unit), engine="streamed", told=whole)
    asked = []
    for after in (4, 3, 0):
        told = Stopped(after)
        given = {"engine": "streamed", "told": told, "keep": keep, "ledger": ledger}
        if after:
            with pytest.raises(KeyboardInterrupt):
                fitted(folder, schema(unit), **given)
            assert stat.S_IMODE(keep.stat().st_mode) == 0o600
            asked += told.rounds[:-1]  # the last one was stopped, and nobody saw its answer
        else:
            found = fitted(folder, schema(unit), **given)
            asked += told.rounds
    assert asked == whole.rounds
    assert all(found.arrays[name].tobytes() == right.arrays[name].tobytes() for name in right.arrays)
    assert len(ledger.entries()) == 1
    assert found.ledger["entry"] == 1
    assert not keep.exists()


def stopped(folder, keep, **others):
    with pytest.raises(KeyboardInterrupt):
        fitted(folder, schema(), engine="streamed", told=Stopped(4), keep=keep, **others)


def test_rows_that_changed_since_are_refused_and_nothing_is_debited_again(folder, tmp_path, ledger):
    keep = tmp_path / "rounds.json"
    stopped(folder, keep, ledger=ledger)
    path = folder / "part-2.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(0, "age", [[1.0] * len(rows)]), path)
    with pytest.raises(InputError, match=r"the same rows in every round.*part-2"):
        fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_rounds_of_another_fit_are_refused(folder, tmp_path, ledger):
    keep = tmp_path / "rounds.json"
    stopped(folder, keep)
    # Without the seed, what the seed's noise hides would go into a release that says it is private.
    for others in ({"epsilon": 9.0}, {"ledger": ledger}, {"engine": "polars"}, {"seed": None}):
        pytest.importorskip("polars")
        with pytest.raises(InputError, match="those of another"):
            fitted(folder, schema(), **({"engine": "streamed", "keep": keep} | others))
    assert not ledger.entries()
    keep.write_text("{}")
    with pytest.raises(InputError, match="another file"):
        fitted(folder, schema(), engine="streamed", keep=keep)
    with pytest.raises(InputError, match="--keep with --engine"):
        fitted(folder, schema(), keep=tmp_path / "new.json")


def test_an_entry_whose_release_was_made_pays_for_no_second_one(folder, tmp_path, ledger):
    """Copies of the file do not make two releases of one debit."""
    keep, copy = tmp_path / "rounds.json", tmp_path / "copy.json"
    stopped(folder, keep, ledger=ledger)
    copy.write_bytes(keep.read_bytes())
    fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    with pytest.raises(InputError, match="was not finished"):
        fitted(folder, schema(), engine="streamed", keep=copy, ledger=ledger)


def test_copies_that_are_gone_on_with_at_once_make_one_release(folder, tmp_path, ledger):
    """The second fit begins before the first has ended, so that it finds an entry that names nothing yet."""
    keep, copy = tmp_path / "rounds.json", tmp_path / "copy.json"
    stopped(folder, keep, ledger=ledger, seed=4)
    copy.write_bytes(keep.read_bytes())
    made = []

    def meanwhile(_name, done, _parts):
        if done == 0 and not made:
            made.append("begun")
            made.append(fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger, seed=4))

    with pytest.raises(InputError, match="nothing is released"):
        fitted(folder, schema(), engine="streamed", keep=copy, ledger=ledger, seed=5, told=meanwhile)
    assert len(made) == 2
    assert ledger.entries()[0].release is not None


@pytest.mark.slow
def test_a_process_that_is_killed_is_gone_on_with_by_the_same_command(folder, tmp_path, ledger):
    write_schema(schema(), tmp_path / "schema.json")
    keep = tmp_path / "rounds.json"
    words = ["fit", "logistic", str(folder), "--schema", str(tmp_path / "schema.json"), "--epsilon", "8", "--delta"]
    words += ["1e-6", "--relation", "replace-one", "--seed", "4", "--engine", "streamed", "--keep", str(keep)]
    words += ["--ledger", str(ledger.path), "--out", str(tmp_path / "release")]
    # Every part takes a moment, so that the kill comes between two rounds.
    slow = """
        import sys, time
        import sordino.algorithm.engines.work as work
        plain = work.Work.answer
        work.Work.answer = lambda self, part, key: (time.sleep(0.1), plain(self, part, key))[1]
        from sordino.__main__ import program
        sys.argv = ["sordino", *sys.argv[1:]]
        program()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(slow), *words])
    while not (keep.exists() and len(json.loads(keep.read_text())["answered"]) >= 3):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "release").exists()
    subprocess.run([sys.executable, "-m", "sordino", *words], check=True, capture_output=True)
    right = fit_table(
        "logistic",
        folder,
        epsilon=8.0,
        delta=1e-6,
        relation="replace-one",
        schema=schema(),
        seed=4,
        method="bounded-influence",
    )
    found = read_release(tmp_path / "release")
    assert all(found.arrays[name].tobytes() == right.arrays[name].tobytes() for name in right.arrays)
    assert len(ledger.entries()) == 1
