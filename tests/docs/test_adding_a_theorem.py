"""The page on adding a theorem shows one that works: it registers, conforms, and passes its own test."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sordino.accounting.evaluate import theorems, unregister
from sordino.accounting.scope import CheckedBy
from tests.conformance.checks import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "developer" / "adding-a-theorem.md"
NAME = "example.order-two"


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Any]]:
    """The names the page's code defines, while its theorem is registered."""
    before = {theorem.id for theorem in theorems()}
    namespace: dict[str, Any] = {"__name__": "new_theorem"}
    for block in code_blocks():
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert {theorem.id for theorem in theorems()} == before | {NAME}
    yield namespace
    unregister(NAME)
    assert {theorem.id for theorem in theorems()} == before


@pytest.mark.parametrize("check", CHECKS)
def test_the_shown_theorem_conforms(shown: dict[str, Any], check: str) -> None:
    CHECKS[check](shown["order_two"])


def test_the_shown_test_passes(shown: dict[str, Any]) -> None:
    (test,) = [value for name, value in shown.items() if name.startswith("test_")]
    test()


def test_the_shown_theorem_lists_what_only_the_caller_can_check(shown: dict[str, Any]) -> None:
    by_caller = [found for found in shown["order_two"].assumptions if found.checked_by is CheckedBy.CALLER]
    assert [found.name for found in by_caller] == ["unpredictable noise"]


def test_the_page_names_files_that_exist() -> None:
    root = PAGE.parents[2]
    named = re.findall(r"`((?:src|tests|examples)/[\w/.]+)`", PAGE.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (root / path).exists()] == []
