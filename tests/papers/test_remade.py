"""The committed results are what the items write: cheap ones are run in full again and compared, file by file."""

import time
from pathlib import Path

import pytest

from papers.framework.item import Options, every_item
from papers.framework.writing import run_item

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# In full under about five seconds of CPU each; none draws random numbers on an accelerator.
CHEAP = (
    "bertazzi-commentary",
    "bertazzi-langevin",
    "bertazzi-ratios",
    "bertazzi-transfer",
    "heller-fetaya-attack",
    "heller-fetaya-claims",
    "heller-fetaya-construction",
    "heller-fetaya-pts",
    "simsekli-assumption3",
    "simsekli-constants",
    "simsekli-data-bound",
    "simsekli-renyi",
    "ye-shokri-baselines",
    "ye-shokri-clipping",
    "ye-shokri-full",
    "ye-shokri-ryffel",
    "private-regression",
    "vinaroz-park-clipping",
    "vinaroz-park-table1",
)


def check(name: str, out: Path) -> None:
    """Names, pages and tables byte for byte; pictures too, but where another version of matplotlib drew them."""
    run_item(name, Options(quick=False, data_dir=None, seed=0), out)
    made, kept = ({path.name: path.read_bytes() for path in (at / name).iterdir()} for at in (out, RESULTS))
    assert set(made) == set(kept)
    words = [file for file in made if not file.endswith((".png", ".svg"))]
    assert [file for file in words if made[file] != kept[file]] == []


@pytest.mark.parametrize("name", ["simsekli-assumption3", "ye-shokri-full"])
def test_two_items_are_remade(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_cheap_items_are_remade_byte_for_byte_on_this_kind_of_processor(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.slow
def test_all_quick_items_together_take_less_than_a_minute_of_computing(tmp_path):
    """CPU time of this process and its threads, compilation and figures included."""
    begun = time.process_time()
    for one in every_item():
        if not one.needs:
            run_item(one.name, Options(quick=True, data_dir=None, seed=0), tmp_path)
    assert time.process_time() - begun < 60
