"""File names come from outside: what a terminal would obey is spelled out wherever a command prints one."""

import json
from pathlib import Path

import numpy as np
import pytest

from sordino.cli.main import main
from sordino.core.validate import printable
from sordino.data import Feature, Number, NumberTarget, Schema, Target, write_schema
from sordino.ledger import Ledger
from sordino.ledger.release import write_release
from tests.ledger.release.test_folder import example

EVIL = "a\x1b[2J\x07\u202eb"


def said(capsys) -> str:
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert all(line.isprintable() for line in text.splitlines()), ascii(text)
    return text


def test_fit_spells_out_the_folder_it_made(tmp_path, capsys):
    generator = np.random.default_rng(0)
    table = generator.uniform(-1, 1, (300, 2))
    (tmp_path / "rows.csv").write_text("x,y\n" + "\n".join(f"{a},{b}" for a, b in table))
    schema = Schema(
        records=300,
        features=(Feature("x", Number(-1.0, 1.0)),),
        target=Target("y", NumberTarget(-1.0, 1.0)),
        intercept=True,
    )
    write_schema(schema, tmp_path / "schema.json")
    common = [
        *("fit", "linear", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.json"), "--epsilon", "2"),
        *("--delta", "1e-6", "--relation", "replace-one", "--method", "statistics", "--out"),
    ]
    assert main([*common, str(tmp_path / EVIL)]) == 0
    text = said(capsys)
    assert printable(EVIL) in text
    assert "floating  proved: noise drawn from fair bits" in text
    assert main([*common, str(tmp_path / "plain"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["floating_point"]["evidence"] == "proved"
    assert answer["floating_point"]["total_variation"] == 0.0


@pytest.mark.parametrize("private", [True, False])
def test_report_spells_out_the_page_it_wrote(tmp_path, capsys, private):
    folder = write_release(tmp_path / EVIL, example(private=private))
    assert main(["report", str(folder), "--out", str(tmp_path / f"{EVIL}.html")]) == 0
    assert printable(EVIL) in said(capsys)


def test_a_ledger_with_an_odd_name_is_opened_shown_and_verified(tmp_path, capsys):
    path = tmp_path / EVIL
    Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    for command in ("show", "verify"):
        assert main(["ledger", command, str(path)]) == 0
        said(capsys)
    assert main(["ledger", "open", str(path), "--dataset", "x", "--relation", "replace-one", "--epsilon", "1"]) == 2
    said(capsys)
    assert main(["ledger", "show", str(Path(tmp_path) / f"none{EVIL}")]) == 2
    said(capsys)
