"""Every erratum is executed, and the page in the docs is the one that the cases write."""

from pathlib import Path

import pytest

from tests.errata.erratum import Erratum, errata
from tests.errata.page import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errata.md"


@pytest.mark.parametrize("entry", errata(), ids=lambda entry: entry.name)
def test_the_numbers_show_what_the_entry_says(entry: Erratum) -> None:
    assert entry.compute()


def test_every_paper_is_there() -> None:
    papers = {entry.paper for entry in errata()}
    assert papers >= {"heller2023can", "ye2022differentially", "bertazzi2025differential"}
    assert papers >= {"simsekli2024differential", "vinaroz2022differentially"}


def test_no_two_entries_share_a_name() -> None:
    names = [entry.name for entry in errata()]
    assert len(names) == len(set(names))


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
