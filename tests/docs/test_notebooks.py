"""The notebooks hold the cells of their script, with outputs, and come out the same when they are executed again."""

import json
from pathlib import Path

import pytest

from tests.scripts import script

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


BUILD = script(FOLDER / "build.py")
NAMES = sorted(BUILD.NOTEBOOKS)


def test_there_are_three_notebooks_and_no_other():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
    assert len(NAMES) == 3


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_holds_the_cells_of_the_script_with_their_outputs(name):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells == BUILD.NOTEBOOKS[name]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(one["output_type"] != "error" for cell in code for one in cell["outputs"])
    assert code[-1]["outputs"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def test_a_notebook_comes_out_the_same_when_it_is_executed_again(name):
    assert BUILD.built(name) == (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
