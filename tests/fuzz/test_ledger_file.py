"""Ledgers whose digests agree and whose content does not: the key is in the file, so whoever has it can seal one."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from sordino.ledger import Ledger, book, seal
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import TROUBLE, changed_json
from tests.fuzz.watch import read_or_refused
from tests.ledger.conftest import make_gaussian_release

HEADER = ("budget", "filter", "opened")
ENTRY = ("charge", "time", "theorem", "epsilon", "spec", "bound", "versions")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    ledger.debit(*make_gaussian_release(0.1))
    use(path)
    return path


def use(path: Path) -> None:
    """Everything `sordino ledger` does with a file."""
    ledger = Ledger(path, timeout=0.5)
    ledger.balance()
    ledger.verify()
    json.dumps(ledger.export())


def resealed(path: Path, changes: dict[str, Any]) -> None:
    """Write other values into the one entry and the header, with digests that agree with them."""
    connection = sqlite3.connect(path)
    key, *fixed = connection.execute("SELECT key, budget, filter, opened FROM ledger").fetchone()
    (entry,) = connection.execute(f"SELECT {', '.join(ENTRY)} FROM entries").fetchall()
    header = dict(zip(HEADER, fixed, strict=True)) | {name: changes[name] for name in HEADER if name in changes}
    words = dict(zip(ENTRY, entry, strict=True)) | {name: changes[name] for name in ENTRY if name in changes}
    content = book._content(key, tuple(words[name] for name in ENTRY[1:]))
    link = book._linked(key, seal.BEGINNING, 1, words["charge"], content)
    connection.execute(
        f"UPDATE entries SET {', '.join(f'{name} = ?' for name in ENTRY)}, content = ?, digest = ?",
        (*words.values(), content, link),
    )
    sealed = book._sealed(key, header["budget"], header["filter"], header["opened"], 1, link)
    connection.execute(
        "UPDATE ledger SET budget = ?, filter = ?, opened = ?, head = ?, seal = ?", (*header.values(), link, sealed)
    )
    connection.commit()
    connection.close()


@st.composite
def change(draw: st.DrawFn, values: dict[str, Any]) -> dict[str, Any]:
    name = draw(st.sampled_from((*HEADER, *ENTRY)))
    held = values[name]
    if name == "epsilon":
        return {name: draw(st.one_of(st.none(), st.floats(allow_nan=False)))}
    if not isinstance(held, dict) or draw(st.booleans()):
        return {name: draw(st.sampled_from([word for word in TROUBLE if "\0" not in word] + ["[]", "{}", "1", "null"]))}
    return {name: json.dumps(draw(changed_json(held)))}


@tried(60, 1500)
def test_resealed_ledgers_are_read_or_refused_in_one_line(whole, tmp_path, examples):
    connection = sqlite3.connect(whole)
    found = (
        connection.execute("SELECT budget, filter, opened FROM ledger").fetchone()
        + connection.execute(f"SELECT {', '.join(ENTRY)} FROM entries").fetchone()
    )
    connection.close()
    values = {name: plain(held) for name, held in zip((*HEADER, *ENTRY), found, strict=True)}
    path = tmp_path / "ledger"

    def check(changes: dict[str, Any]) -> None:
        shutil.copyfile(whole, path)
        resealed(path, changes)
        read_or_refused(lambda: use(path), tmp_path)

    explore(examples, change(values), check)


def plain(held: Any) -> Any:
    try:
        return json.loads(held)
    except (TypeError, ValueError):
        return held


def test_a_resealed_ledger_without_changes_is_whole(whole, tmp_path):
    shutil.copyfile(whole, tmp_path / "ledger")
    resealed(tmp_path / "ledger", {})
    assert read_or_refused(lambda: use(tmp_path / "ledger"), tmp_path) is None
