"""`sordino certify SPEC.json --plot out.svg`."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sordino.cli import main
from sordino.core.spec import read_spec

SPEC = str(Path(__file__).parents[2] / "examples" / "specs" / "full-last-iterate.json")


def test_it_writes_the_figure_and_names_the_crossings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.svg"
    assert main(["certify", SPEC, "--plot", str(target)]) == 0
    assert ET.fromstring(target.read_text(encoding="utf-8")).tag.endswith("svg")
    shown = capsys.readouterr().out
    assert f"Epsilon against steps: {target}" in shown
    assert "shifted.full beats composition.gaussian from step" in shown


def test_the_json_answer_has_crossings_only_with_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", SPEC, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(["certify", SPEC, "--json", "--plot", str(tmp_path / "out.svg")]) == 0
    drawn = json.loads(capsys.readouterr().out)
    crossings = drawn.pop("crossings")
    assert drawn == plain
    assert crossings
    assert all(set(crossing) == {"steps", "from", "to"} for crossing in crossings)


@pytest.mark.parametrize("name", ["out.png", "out", "out.svg.pdf"])
def test_another_kind_of_file_is_refused_before_anything_is_computed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", SPEC, "--plot", str(tmp_path / name)]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "ends in .svg" in answer.err
    assert not (tmp_path / name).exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", SPEC, "--plot", str(tmp_path / "missing" / "out.svg")]) == 2
    assert "writable place" in capsys.readouterr().err


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_of_few_steps_has_ticks_at_steps_only(steps: int, tmp_path: Path) -> None:
    spec, target = read_spec(Path(SPEC)).with_values({"algorithm.steps": steps}), tmp_path / "out.svg"
    path = tmp_path / "spec.json"
    path.write_text(spec.to_json(), encoding="utf-8")
    assert main(["certify", str(path), "--plot", str(target)]) == 0
    texts = [
        text for text in ET.fromstring(target.read_text(encoding="utf-8")).iter("{http://www.w3.org/2000/svg}text")
    ]
    below = [float(text.text or "") for text in texts if text.get("text-anchor") == "middle" and _is_number(text.text)]
    assert below
    assert all(tick == round(tick) for tick in below)


def _is_number(text: str | None) -> bool:
    return bool(text) and text.replace(".", "", 1).isdigit()
