"""The inventory of the papers: every entry names items that exist or says why none does, and no item is forgotten."""

from pathlib import Path

import pytest

from papers.framework.inventory import INVENTORY, Entry
from papers.framework.item import every_item
from papers.framework.writing import found_pages, index_page
from sordino.core.bound import bibliography
from sordino.core.validate import SordinoError

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NAMES = {one.name for one in every_item()}


@pytest.mark.parametrize("entry", INVENTORY, ids=lambda entry: f"{entry.paper}: {entry.what}")
def test_an_entry_names_items_that_exist_or_a_reason(entry):
    assert entry.paper in bibliography()
    assert set(entry.items) <= NAMES
    assert entry.items or len(entry.reason.split()) >= 4


def test_every_item_of_a_paper_is_in_the_inventory():
    listed = {name for entry in INVENTORY for name in entry.items}
    assert {one.name for one in every_item() if one.paper is not None} <= listed


def test_an_item_stands_with_its_own_paper():
    papers = {one.name: one.paper for one in every_item()}
    for entry in INVENTORY:
        assert {papers[name] for name in entry.items} <= {entry.paper, None}


def test_no_entry_is_listed_twice():
    assert len({(entry.paper, entry.what) for entry in INVENTORY}) == len(INVENTORY)


def test_an_entry_has_items_or_a_reason_but_not_both():
    with pytest.raises(SordinoError, match="not both"):
        Entry("heller2023can", "Figure 9")
    with pytest.raises(SordinoError, match="not both"):
        Entry("heller2023can", "Figure 9", ("heller-fetaya-fig1",), "no reason needed here")


def test_every_figure_and_table_of_the_papers_is_listed():
    """Counted from the papers' captions: Figures 1-3 and 1-2, Figure 1 and Tables 1-9."""
    wanted = {
        "heller2023can": ("Figure 1", "Figure 2", "Figure 3", "Algorithm 1"),
        "simsekli2024differential": ("Figure 1", "Figure 2"),
        "ye2022differentially": ("Figure 1", "Algorithm 2"),
        "vinaroz2022differentially": ("Figure 1", "Table 1", "Table 2", "Table 3", "Table 4", "Table 5"),
    }
    for paper, places in wanted.items():
        texts = " ".join(entry.what for entry in INVENTORY if entry.paper == paper)
        assert all(place in texts for place in places)
    tables = [entry.what for entry in INVENTORY if entry.what.startswith("Tables")]
    assert [text.split(",")[0] for text in tables] == ["Tables 6 and 7", "Tables 8 and 9"]


def test_the_committed_results_hold_every_item_and_the_page_is_up_to_date():
    assert set(found_pages(RESULTS)) >= {name for entry in INVENTORY for name in entry.items}
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert page == index_page(RESULTS)
    assert "## Inventory" in page
    assert page.count("\n| Heller & Fetaya 2023 |") == sum(entry.paper == "heller2023can" for entry in INVENTORY)


def test_the_committed_results_are_those_of_full_runs():
    for page in RESULTS.glob("*/README.md"):
        assert "Quick mode" not in page.read_text(encoding="utf-8"), page.parent.name


def test_a_folder_with_a_few_items_has_no_inventory(tmp_path):
    (tmp_path / "heller-fetaya-fig1").mkdir()
    source = RESULTS / "heller-fetaya-fig1" / "README.md"
    (tmp_path / "heller-fetaya-fig1" / "README.md").write_bytes(source.read_bytes())
    assert "## Inventory" not in index_page(tmp_path)
    assert "heller-fetaya-fig1" in index_page(tmp_path)
