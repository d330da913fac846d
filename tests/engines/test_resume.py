"""A fit that was stopped goes on where it was: the same release, one debit, no answer asked twice."""

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sordino import InputError, Ledger, LedgerRefusal
from sordino.cli import main
from sordino.core import atomic_write as whole_files
from sordino.core.guarantee import GaussianDP
from sordino.data import write_schema
from sordino.engines.local import Streamed
from sordino.ledger.release import read_release, write_release
from sordino.ledger.release.folder import release_digest
from sordino.mechanisms.checkpoint import Record, read_record, write_record
from tests.engines.test_fit_with_an_engine import fitted, schema


class Stopped:
    """Stops the fit in the middle of its n-th round, and remembers which rounds were begun."""

    def __init__(self, after: int) -> None:
        self.after, self.rounds = after, []

    def __call__(self, name, done, parts):
        if done == 0:
            self.rounds.append(name)
        if len(self.rounds) == self.after and done == min(2, parts):
            raise KeyboardInterrupt


@pytest.mark.every(2)
@pytest.mark.parametrize("unit", [True, False])
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
    with pytest.raises(InputError, match=r"part-2.*changed between two rounds"):
        fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_rounds_of_another_fit_are_refused(folder, tmp_path, ledger):
    keep = tmp_path / "rounds.json"
    stopped(folder, keep)
    # Without the seed, what the seed's noise hides would go into a release that says it is private.
    for others in ({"epsilon": 9.0}, {"ledger": ledger}, {"engine": Streamed(2)}, {"seed": None}):
        with pytest.raises(InputError, match="belong to another fit"):
            fitted(folder, schema(), **({"engine": "streamed", "keep": keep} | others))
    assert not ledger.entries()
    keep.write_text("{}")
    with pytest.raises(InputError, match="cut short or changed"):
        fitted(folder, schema(), engine="streamed", keep=keep)
    with pytest.raises(InputError, match="`--keep` needs `--engine`"):
        fitted(folder, schema(), keep=tmp_path / "new.json")


def test_an_entry_whose_release_was_made_pays_for_no_second_one(folder, tmp_path, ledger):
    """Copies of the file do not make two releases of one debit."""
    keep, copy = tmp_path / "rounds.json", tmp_path / "copy.json"
    stopped(folder, keep, ledger=ledger)
    copy.write_bytes(keep.read_bytes())
    copy.chmod(0o600)
    fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    with pytest.raises(InputError, match="This fit is finished"):
        fitted(folder, schema(), engine="streamed", keep=copy, ledger=ledger)


def test_copies_that_are_gone_on_with_at_once_make_one_release(folder, tmp_path, ledger):
    """The second fit begins before the first has ended, so that it finds an entry that names nothing yet."""
    keep, copy = tmp_path / "rounds.json", tmp_path / "copy.json"
    stopped(folder, keep, ledger=ledger, seed=4)
    copy.write_bytes(keep.read_bytes())
    copy.chmod(0o600)
    made = []

    def meanwhile(_name, done, _parts):
        if done == 0 and not made:
            made.append("begun")
            made.append(fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger, seed=4))

    with pytest.raises(InputError, match="Nothing is released"):
        fitted(folder, schema(), engine="streamed", keep=copy, ledger=ledger, seed=5, told=meanwhile)
    assert len(made) == 2
    assert ledger.entries()[0].release is not None


def test_the_file_is_there_before_the_debit_and_until_the_release_is_written_and_named(folder, tmp_path, ledger):
    keep, seen = tmp_path / "rounds", []

    def store(release):
        seen.append((keep.exists(), ledger.entries()[0].release, len(read_record(keep).arrays)))
        return write_release(tmp_path / "release", release)

    plain = Ledger.debit

    def debit(self, *given, **named):
        seen.append((keep.exists(), len(self.entries())))
        return plain(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "debit", debit)
        found = fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger, store=store)
    assert seen[0] == (True, 0)
    assert seen[1][:2] == (True, None)
    assert seen[1][2] > 3  # every answer
    assert ledger.entries()[0].release == release_digest(found)
    assert not keep.exists()


def test_no_place_for_the_file_and_a_refusal_of_the_ledger_cost_nothing(folder, tmp_path, ledger):
    with pytest.raises(InputError, match="write the checkpoint"):
        fitted(folder, schema(), engine="streamed", keep=tmp_path / "nowhere" / "rounds", ledger=ledger)
    assert not ledger.entries()
    poor = Ledger.open(tmp_path / "poor.ledger", dataset="visits", relation="replace-one", epsilon=0.5, delta=1e-5)
    with pytest.raises(LedgerRefusal):
        fitted(folder, schema(), engine="streamed", keep=tmp_path / "rounds", ledger=poor)
    assert not (tmp_path / "rounds").exists()


def test_an_entry_of_another_fit_does_not_pay(folder, tmp_path, ledger):
    """Not a cheaper run, and not the same run with a bound that is not its own."""
    keep = tmp_path / "rounds"
    stopped(folder, keep, ledger=ledger)
    spec, record = ledger.entries()[0].spec, read_record(keep)
    cheap = replace(ledger.entries()[0].bound, guarantee=GaussianDP(0.001))
    smaller = fitted(folder, schema(), engine="streamed", epsilon=0.5).spec
    for place, other in enumerate((spec, smaller)):
        ledger.debit(cheap, other, run=f"run {place}")
        write_record(keep, Record(dict(record.values) | {"name": f"run {place}"}, record.arrays))
        with pytest.raises(InputError, match="was charged for another run"):
            fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    write_record(keep, record)
    fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger)
    assert len(ledger.entries()) == 3


def test_a_whole_file_makes_the_same_release_again(folder, tmp_path, ledger):
    """A command that was killed before its last step: the release was named, and the file is still there."""
    keep, copy = tmp_path / "rounds", tmp_path / "copy"

    def store(release):
        copy.write_bytes(keep.read_bytes())
        copy.chmod(0o600)
        return write_release(tmp_path / "release", release)

    first = fitted(folder, schema(), engine="streamed", keep=keep, ledger=ledger, store=store, seed=None)
    second = fitted(folder, schema(), engine="streamed", keep=copy, ledger=ledger, seed=None)
    assert release_digest(first) == release_digest(second)
    assert len(ledger.entries()) == 1
    assert not copy.exists()


def words_of(folder, tmp_path, ledger, *more):
    """The command of a fit."""
    write_schema(schema(), tmp_path / "schema.json")
    words = ["fit", "logistic", str(folder), "--schema", str(tmp_path / "schema.json"), "--epsilon", "8", "--delta"]
    words += ["1e-6", "--relation", "replace-one", "--seed", "4", "--ledger", str(ledger.path)]
    return [*words, "--out", str(tmp_path / "release"), "--engine", "streamed", *more]


@pytest.mark.parametrize("kept", [True, False])
def test_a_full_disk_loses_nothing_that_was_paid_for(folder, tmp_path, ledger, kept, monkeypatch, capsys):
    keep, out, plain = tmp_path / "rounds", tmp_path / "release", whole_files._flushed
    more = ("--keep", str(keep)) if kept else ()

    def full(file, content):
        if isinstance(file.name, str) and Path(file.name).parents[1] == tmp_path:
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(file, content)

    monkeypatch.setattr(whole_files, "_flushed", full)
    assert main(words_of(folder, tmp_path, ledger, *more)) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert not out.exists()
    monkeypatch.setattr(whole_files, "_flushed", plain)
    if kept:
        assert "Nothing is lost" in said
        assert main(words_of(folder, tmp_path, ledger, *more)) == 0
    else:
        out = Path(re.search(r"paid release is in '([^']+)'", said)[1])
    assert read_release(out).digest == ledger.entries()[0].release
    assert len(ledger.entries()) == 1
    assert not keep.exists()
    shutil.rmtree(out)


def lost(place, phases, timeout):
    """Fits that were killed at system calls, by phase, and those that the same command did not bring to their end."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.engines.killed_fits", str(place), json.dumps({"phases": phases})],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kills need ptrace")


@LINUX
def test_a_fit_that_is_killed_at_a_system_call_is_not_lost(tmp_path):
    told = lost(tmp_path, [[1, 120, 1], [3, 50, 1]], 300)
    assert told["lost"] == []
    assert min(told["kills"].values()) >= 2


@LINUX
@pytest.mark.slow
def test_five_hundred_kills_lose_no_fit(tmp_path):
    told = lost(tmp_path, [[1, 1, 1], [2, 50, 1], [3, 1, 1]], 3600)
    assert told["lost"] == []
    assert sum(told["kills"].values()) >= 500


@pytest.mark.slow
def test_a_process_that_is_killed_is_gone_on_with_by_the_same_command(folder, tmp_path, ledger):
    keep = tmp_path / "rounds.json"
    words = words_of(folder, tmp_path, ledger, "--keep", str(keep))
    # Every part takes a moment, so that the kill comes between two rounds.
    slow = """
        import sys, time
        import sordino.engines.totals as work
        plain = work.Work.answer
        work.Work.answer = lambda self, part, key: (time.sleep(0.1), plain(self, part, key))[1]
        from sordino.__main__ import program
        sys.argv = ["sordino", *sys.argv[1:]]
        program()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(slow), *words])
    while not (keep.exists() and len(read_record(keep).arrays) >= 3):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "release").exists()
    subprocess.run([sys.executable, "-m", "sordino", *words], check=True, capture_output=True)
    right = fitted(folder, schema())
    found = read_release(tmp_path / "release")
    assert all(found.arrays[name].tobytes() == right.arrays[name].tobytes() for name in right.arrays)
    assert len(ledger.entries()) == 1
