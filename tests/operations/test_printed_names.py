"""File names come from outside: what a terminal would obey is spelled out wherever a command prints one."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from sordino import Ledger, write_release
from sordino.cli.main import main
from sordino.core.validate import printable
from sordino.data import Category, Feature, Number, Schema, Target, write_schema
from tests.ledger.release.test_folder import example

EVIL = "a\x1b[2J\x07\u202eb"


def said(capsys) -> str:
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert all(line.isprintable() for line in text.splitlines()), ascii(text)
    return text


def test_fit_spells_out_the_folder_it_made(tmp_path, capsys):
    table = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    (tmp_path / "rows.csv").write_text("x,y\n" + "\n".join(f"{a},{b}" for a, b in table))
    schema = Schema(
        records=300, features=(Feature("x", Number(-1.0, 1.0)),), target=Target("y", Number(-1.0, 1.0)), intercept=True
    )
    write_schema(schema, tmp_path / "schema.json")
    common = [
        *("fit", "linear", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.json"), "--epsilon", "2"),
        *("--delta", "1e-6", "--relation", "replace-one", "--method", "ridge", "--out"),
    ]
    assert main([*common, str(tmp_path / EVIL)]) == 0
    text = said(capsys)
    assert printable(EVIL) in text
    assert "rounding  proved: noise drawn from fair bits" in text
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


# What a terminal obeys, in two spellings, and what turns the direction of text around.
WORD = f"{EVIL}\x9b2J\u2066"
BUDGET = ["--epsilon", "8", "--delta", "1e-6", "--relation", "replace-one"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory) -> Path:
    """A table, a schema and releases of it in which every name and every word is hostile."""
    place, generator = tmp_path_factory.mktemp("clinic"), np.random.default_rng(0)
    age, ward, ill = (f"{name}{WORD}" for name in ("age", "ward", "ill"))
    words = {name: tuple(f"{word}{WORD}" for word in two) for name, two in {"ward": "AB", "ill": "ny"}.items()}
    with (place / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([age, ward, ill])
        for value in generator.uniform(0, 1, 2000):
            at, sick = int(generator.integers(2)), int(generator.random() < value)
            writer.writerow([value, words["ward"][at], words["ill"][sick]])
    features = (Feature(age, Number(0, 1)), Feature(ward, Category(words["ward"])))
    write_schema(Schema(2000, features, Target(ill, Category(words["ill"])), True), place / "schema.json")
    budget = [*BUDGET, "--schema", str(place / "schema.json")]
    rows = str(place / "rows.csv")
    assert main(["fit", "logistic", rows, *budget, "--out", str(place / "fit")]) == 0
    assert main(["explore", "check", str(place / "fit"), rows, *BUDGET[:4], "--out", str(place / "check")]) == 0
    return place


FORMATS = [["--format", word] for word in ("text", "csv", "latex", "html", "json")]


@pytest.mark.parametrize(
    "command",
    [
        *(["show", "fit", *form] for form in FORMATS),
        *(["show", "fit", "--margins", "all", *form] for form in FORMATS),
        *(["show", "fit", "--effects", *form] for form in FORMATS[:2]),
        *(["show", "check", *form] for form in FORMATS[:2]),
        ["show", "fit", "--draws", "3"],
        ["show", "fit", "--contrast", f"age{WORD}=1", "--wald", f"age{WORD}"],
        ["show", "fit", "--contrast", "other=1"],
        ["show", "fit", "--effects", "--at", "other=1"],
        ["predict", "fit", "rows.csv"],
        ["predict", "fit", "rows.csv", "--json"],
        ["predict", "fit", "schema.json"],
        ["schema", "new", "rows.csv", "--target", f"ill{WORD}"],
        ["schema", "new", "rows.csv", "--target", "other"],
        ["schema", "check", "schema.json", "rows.csv"],
        ["plan", "logistic", "--schema", "schema.json", *BUDGET],
        ["audit", "fit", "--method", "exact"],
    ],
    ids=lambda words: ascii(" ".join(words))[1:60],
)
def test_names_and_labels_of_a_table_never_reach_the_terminal_as_they_are(clinic, monkeypatch, capsys, command):
    monkeypatch.chdir(clinic)
    capsys.readouterr()
    assert main(command) in (0, 2)
    assert said(capsys)


def test_a_schema_on_the_terminal_reads_back_the_same(clinic, monkeypatch, capsys):
    monkeypatch.chdir(clinic)
    command = ["schema", "new", "rows.csv", "--target", f"ill{WORD}"]
    assert main([*command, "--out", "again.txt"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    shown = [json.loads(f'"{line}"') for line in capsys.readouterr().out.split("\n")]
    assert shown == Path("again.txt").read_text().split("\n")
