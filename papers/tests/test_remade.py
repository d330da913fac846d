"""The committed results are what the items write: they are run in full again and compared, file by file."""

import time
from pathlib import Path

import pytest

from papers.framework.item import Options, every_item, item_named
from papers.framework.writing import run_item

RESULTS = Path(__file__).parents[2] / "papers"
# Run again with the slow tests, data or not; the expensive ones take a minute or more of computing.
REMADE = (
    "bertazzi-commentary",
    "bertazzi-estimator",
    "bertazzi-langevin",
    "bertazzi-ratios",
    "bertazzi-sde",
    "bertazzi-sgd",
    "bertazzi-transfer",
    "heller-fetaya-attack",
    "heller-fetaya-claims",
    "heller-fetaya-construction",
    "heller-fetaya-fig1",
    "heller-fetaya-mnist",
    "heller-fetaya-pts",
    "heller-fetaya-random-order",
    "private-regression",
    "simsekli-assumption3",
    "simsekli-constants",
    "simsekli-data-bound",
    "simsekli-fig1",
    "simsekli-fig2",
    "simsekli-mixed",
    "simsekli-renyi",
    "vinaroz-park-clipping",
    "vinaroz-park-regression",
    "vinaroz-park-table1",
    "vinaroz-park-theory",
    "which-theorem-wins",
    "ye-shokri-baselines",
    "ye-shokri-clipping",
    "ye-shokri-convex",
    "ye-shokri-dynamics",
    "ye-shokri-full",
    "ye-shokri-pseudocode",
    "ye-shokri-ryffel",
)
# Other numbers without the data: `sordino reproduce NAME --check --data-dir DIR` is for these.
WITH_DATA = ("ye-shokri-logistic", "ye-shokri-normalisation")


def check(name: str, out: Path) -> None:
    """Names, pages and tables byte for byte; pictures too, but where another version of matplotlib drew them."""
    run_item(name, Options(quick=False, data_dir=None, seed=0), out)
    folders = (at / item_named(name).folder for at in (out, RESULTS))
    made, kept = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert set(made) == set(kept)
    # The pages are committed as the one command for all writes them, which names the data.
    kept["README.md"] = kept["README.md"].replace(b" --data-dir DIR", b"")
    words = [file for file in made if not file.endswith((".png", ".svg"))]
    assert [file for file in words if made[file] != kept[file]] == []


def test_an_item_is_remade(tmp_path):
    check("simsekli-assumption3", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", REMADE)
def test_items_are_remade_byte_for_byte_on_this_kind_of_processor(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.slow
def test_every_item_is_remade_somewhere():
    assert {one.name for one in every_item()} == {*REMADE, *WITH_DATA}


@pytest.mark.slow
def test_all_quick_items_together_take_less_than_a_minute_of_computing(tmp_path):
    """CPU time of this process and its threads, compilation and figures included."""
    begun = time.process_time()
    for one in every_item():
        if not one.needs:
            run_item(one.name, Options(quick=True, data_dir=None, seed=0), tmp_path)
    assert time.process_time() - begun < 60
