"""Ledgers whose digests agree and whose content does not: the key is in the file, so whoever has it can seal one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from sordino.ledger import Ledger, log
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import TROUBLE, changed_json
from tests.fuzz.watch import read_or_refused
from tests.ledger.conftest import make_gaussian_release


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "ledger"
    Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5).debit(*make_gaussian_release(0.1))
    use(path)
    return path


def use(path: Path) -> None:
    """Everything `sordino ledger` does with a file."""
    ledger = Ledger(path, timeout=0.5)
    ledger.balance()
    ledger.verify()
    json.dumps(ledger.export())


def records(path: Path) -> list[dict[str, Any]]:
    with log.reading(path) as held:
        return [held.opening, *(content for _, content in held.records())]


def sealed(path: Path, contents: list[dict[str, Any]]) -> None:
    """Write a ledger with these records, whatever they say, and digests that agree with them."""
    opening, *further = contents
    path.write_bytes(log.PREAMBLE + log.image(opening, further))


def unwrapped(record: dict[str, Any]) -> dict[str, Any]:
    """The texts inside a record as what they say, so that they are changed from within too."""
    return {name: plain(held) for name, held in record.items()}


def wrapped(record: Any, like: dict[str, Any]) -> Any:
    if not isinstance(record, dict):
        return record
    texts = {name for name, held in like.items() if isinstance(held, str)}
    return {name: json.dumps(held) if name in texts and isinstance(held, dict | list) else held
            for name, held in record.items()}  # fmt: skip


@tried(60, 2500)
def test_resealed_ledgers_are_read_or_refused_in_one_line(whole, tmp_path, examples):
    path, before = tmp_path / "ledger", records(whole)
    shutil.copyfile(whole, path)

    def check(changed: list[Any]) -> None:
        contents = [wrapped(new, old) for new, old in zip(changed, before, strict=True)]
        if "key" not in contents[0]:
            contents[0]["key"] = before[0]["key"]
        sealed(path, contents)
        read_or_refused(lambda: use(path), tmp_path)

    one = st.sampled_from(range(len(before))).flatmap(
        lambda place: changed_json(unwrapped(before[place])).map(
            lambda new: [new if at == place and isinstance(new, dict) else unwrapped(held)
                         for at, held in enumerate(before)]
        )
    )  # fmt: skip
    explore(examples, one, check)


@pytest.mark.parametrize("word", [word for word in TROUBLE if word])
def test_trouble_in_any_word_of_an_entry_is_one_line(whole, tmp_path, word):
    path = tmp_path / "ledger"
    shutil.copyfile(whole, path)
    for name in ("theorem", "time", "spec", "bound", "kind", "versions", "charge", "total", "releases", "rows"):
        contents = records(whole)
        contents[1][name] = word
        sealed(path, contents)
        read_or_refused(lambda: use(path), tmp_path)


def test_a_resealed_ledger_without_changes_is_whole(whole, tmp_path):
    sealed(tmp_path / "ledger", records(whole))
    assert read_or_refused(lambda: use(tmp_path / "ledger"), tmp_path) is None


@pytest.mark.parametrize("place", [1, 2])
def test_a_total_that_is_not_the_sum_is_found_when_all_is_read(whole, tmp_path, place):
    """Sealed with digests that agree: what the entries cost is added up again."""
    path = tmp_path / "ledger"
    shutil.copyfile(whole, path)
    Ledger(path).debit(*make_gaussian_release(0.1))
    contents = records(path)
    contents[place]["total"]["amounts"][0] *= 0.5
    sealed(path, contents)
    for read in (Ledger(path).entries, Ledger(path).verify, Ledger(path).export):
        assert "damaged" in str(read_or_refused(read, tmp_path))


def plain(held: Any) -> Any:
    try:
        return json.loads(held)
    except (TypeError, ValueError):
        return held
