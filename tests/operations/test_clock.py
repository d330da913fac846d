"""A clock that goes backwards changes no decision: order comes from numbers, waiting from a stopwatch."""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import sordino
from sordino.core.spec import read_spec
from sordino.ledger import Ledger, book
from sordino.mechanisms import Checkpoint
from sordino.mechanisms.checkpoint import Keeper, Snapshot
from sordino.noise.randomness import SeededRandomness
from tests.ledger.conftest import make_gaussian_release

ROOT = Path(sordino.__file__).parent
SPEC = read_spec(Path(__file__).parents[2] / "examples" / "specs" / "full-last-iterate.json")
WALL_CLOCKS = frozenset({"time.time", "datetime.now", "datetime.utcnow", "date.today", "time.time_ns"})


def test_debits_keep_their_order_when_each_is_made_an_hour_before_the_last(tmp_path, monkeypatch):
    hours = iter(range(100))
    start = datetime(2030, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(book, "_now", lambda: (start - timedelta(hours=next(hours))).isoformat(timespec="seconds"))
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 1.0, 1e-5)
    spent = []
    for number in (1, 2, 3):
        assert ledger.debit(*make_gaussian_release(0.05)).sequence == number
        spent.append(ledger.balance().spent_epsilon)
    assert spent == sorted(spent)
    times = [entry.time for entry in ledger.entries()]
    assert times == sorted(times, reverse=True)
    assert ledger.verify().sound


def test_checkpoints_are_timed_by_a_stopwatch(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: -1e9)
    keeper = Keeper(Checkpoint(tmp_path / "c", every=3600.0), 10, lambda _: {}, SeededRandomness(0))
    keeper.begin(lambda _: Snapshot(0, {"theta": np.zeros(2)}, {}))
    assert not keeper.due
    monkeypatch.setattr(keeper, "_written", keeper._written - 3601.0)
    assert keeper.due


def wall_clock_reads(tree: ast.AST) -> list[str]:
    return [
        ast.unparse(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ".".join(ast.unparse(node.func).split(".")[-2:]) in WALL_CLOCKS
    ]


@pytest.mark.parametrize(("text", "found"), [("time.time()", 1), ("datetime.now(UTC)", 1), ("time.monotonic()", 0)])
def test_the_walk_finds_wall_clocks(text, found):
    assert len(wall_clock_reads(ast.parse(text))) == found


def test_only_informational_stamps_read_the_wall_clock():
    """In the layers that decide what is private and what is spent, stamps of the ledger and of signatures alone."""
    layers = ("core", "data", "models", "noise", "mechanisms", "accounting", "ledger", "engines", "fitting")
    files = [path for layer in layers for path in sorted((ROOT / layer).rglob("*.py"))]
    found = {
        str(path.relative_to(ROOT)) for path in files if wall_clock_reads(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == {"ledger/book.py", "ledger/signed_folder.py"}
