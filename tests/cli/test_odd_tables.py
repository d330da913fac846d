"""`sordino fit` on odd tables: tiny, constant, wide, with names like formulas; clear words and the right exit code."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from sordino.cli import main
from sordino.ledger import Ledger
from sordino.ledger.release import read_release
from tests.cli.console import answer, refusal, shown

BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--relation", "replace-one")
MODELS = ("linear", "robust", "logistic", "network-regressor", "network-classifier", "mixture")
CLASSIFIERS = ("logistic", "network-classifier")
ILL = {"name": "y", "kind": "boolean", "true_values": ["yes"], "false_values": ["no"]}


def number(name):
    return {"name": name, "kind": "number", "low": 0, "high": 100}


def category(name, *values):
    return {"name": name, "kind": "category", "values": list(values)}


def written(folder, text, columns, target, records, extra="ignore"):
    schema = {"format": "sordino-schema", "version": 1, "records": records, "intercept": True, "columns": columns}
    (folder / "data.csv").write_text(text, encoding="utf-8")
    (folder / "schema.json").write_text(json.dumps(schema | {"target": target, "extra_columns": extra}))


def command(folder, model, *more, epsilon="1", out="release"):
    """A fit; an epsilon that is given again wins."""
    places = (folder / "data.csv", "--schema", folder / "schema.json", *BUDGET, "--epsilon", epsilon)
    return [*map(str, ("fit", model, *places, "--out", folder / out, *more))]


def fit(folder, model, *more, **changes):
    return main(command(folder, model, *more, **changes))


def refused(capsys, folder, model, *more, **changes):
    said = refusal(capsys, *command(folder, model, *more, **changes))
    assert not (folder / "release").exists()
    return said


def tiny(folder, model, records):
    classes = model in CLASSIFIERS
    rows = "".join(f"{k},{('no', 'yes')[k % 2] if classes else k}\n" for k in range(records))
    written(folder, f"a,y\n{rows}", [number("a")], ILL if classes else number("y"), records)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)


@pytest.mark.every(3)
@pytest.mark.parametrize("records", [1, 2, 5])
@pytest.mark.parametrize("model", MODELS)
def test_a_handful_of_records_teaches_a_constant_and_says_so(capsys, tmp_path, model, records):
    tiny(tmp_path, model, records)
    assert fit(tmp_path, model, *(() if model == "mixture" else ("--or-constant",))) == 0
    said = capsys.readouterr().err
    assert f"too small for {records} record{'' if records == 1 else 's'} and" in said
    assert ("no epsilon up to 100 would do" in said) or ("would be enough" in said)
    assert said.count("\n") == 1
    assert model == "mixture" or read_release(tmp_path / "release").settings["method"] == "constant"


def test_a_budget_that_is_too_small_is_refused_with_the_epsilon_that_would_do(capsys, tmp_path, ledger):
    """From the declaration alone; what is named is accepted, and not much more than needed."""
    written(tmp_path, "a,y\n" + "".join(f"{k % 100},{k % 100}\n" for k in range(300)), [number("a")], number("y"), 300)
    said = refused(capsys, tmp_path, "linear", "--ledger", ledger.path, epsilon="0.05")
    assert "nothing was spent" in said
    assert "--or-constant" in said
    assert ledger.balance().releases == 0
    enough = float(said.split("about epsilon ")[1].split(" ")[0])
    assert "too small" in refused(capsys, tmp_path, "linear", epsilon=enough / 2.5)
    assert fit(tmp_path, "linear", epsilon=enough) == 0
    assert capsys.readouterr().err == ""
    for epsilon in ("1e-9", "1e-4"):
        assert "nan" not in refusal(capsys, *command(tmp_path, "linear", epsilon=epsilon, out="other"))
    found = answer(capsys, *command(tmp_path, "linear", "--or-constant", epsilon="1e-9", out="constant"))
    assert found["method"] == "constant"
    assert found["warnings"]


def test_no_records_and_one_class_are_refused(capsys, tmp_path):
    written(tmp_path, "a,y\n", [number("a")], number("y"), 0)
    assert "records in [1, inf)" in refused(capsys, tmp_path, "linear")
    written(tmp_path, "a,y\n", [number("a")], number("y"), 1)
    assert "Expected 1 records as the schema declares, got 0" in refused(capsys, tmp_path, "linear", "--or-constant")
    written(tmp_path, "a,y\n1,yes\n", [number("a")], category("y", "yes"), 1)
    assert "at least two classes" in refused(capsys, tmp_path, "logistic")


def test_a_target_with_one_value_is_fitted_like_any_other(tmp_path):
    """Whether the rows agree is private, so nothing may be said about it; a class that nobody declared is refused."""
    for model, value, target in (("linear", 7, number("y")), ("logistic", "yes", ILL)):
        written(tmp_path, "a,y\n" + f"5,{value}\n" * 500, [number("a")], target, 500)
        assert fit(tmp_path, model, out=model) == 0


def test_a_refusal_by_rows_says_that_the_debit_stands(capsys, tmp_path, ledger):
    written(tmp_path, "a,y\n" + "1,2\n" * 400 + ",3\n", [number("a")], number("y"), 401)
    said = refused(capsys, tmp_path, "linear")
    assert "in every row of column 'a'" in said
    assert "debited" not in said
    said = refused(capsys, tmp_path, "linear", "--ledger", ledger.path)
    for words in (
        "in every row of column 'a'",
        "debited before anything was computed from the rows' values (entry 1)",
        "schema check",
    ):
        assert words in said
    assert ledger.balance().releases == 1


def test_names_packages_and_the_folder_are_looked_at_before_the_debit(capsys, monkeypatch, tmp_path, ledger):
    debit = ("--ledger", ledger.path)
    tiny(tmp_path, "linear", 300)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "randomgen", None)
        assert "Install sordino[secure]" in refused(capsys, tmp_path, "linear", *debit)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda _path, wanted: wanted != os.W_OK)
        assert "can be written to" in refused(capsys, tmp_path, "linear", *debit)
    for model in ("linear", "mixture"):
        written(tmp_path, "b,y\n1,2\n", [number("a")], number("y"), 1)
        assert "declared columns 'a'" in refused(capsys, tmp_path, model, *debit)
    written(tmp_path, "a,y,z\n1,2,3\n", [number("a")], number("y"), 1, extra="refuse")
    assert "only declared columns, got 'z' as well" in refused(capsys, tmp_path, "linear", *debit)
    assert ledger.balance().releases == 0


def test_a_delta_that_allows_a_whole_record_is_a_warning(capsys, tmp_path):
    tiny(tmp_path, "linear", 100)
    assert fit(tmp_path, "linear", "--delta", "0.01", epsilon="50") == 0
    assert "delta 0.01 is not below 1 / 100" in capsys.readouterr().err
    assert fit(tmp_path, "linear", "--delta", "0.0099", epsilon="50", out="second") == 0
    assert "delta" not in capsys.readouterr().err


def test_formulas_are_text_in_and_never_formulas_out(capsys, tmp_path):
    """Names and labels that a spreadsheet would run: read as text, and written with an apostrophe before them."""
    rows = "".join(f"{('=1+1', '@x')[k % 2]},{('+yes', '-1')[k % 2]}\n" for k in range(500))
    written(tmp_path, f"=cmd(),y\n{rows}", [category("=cmd()", "=1+1", "@x")], category("y", "+yes", "-1"), 500)
    assert fit(tmp_path, "logistic", "--seed", "1") == 0
    predict = ("predict", tmp_path / "release", tmp_path / "data.csv")
    table = csv.reader(io.StringIO(shown(capsys, *predict, "--draws", "2")))
    cells = {cell for row in table for cell in row}
    assert {"'+yes", "-1"} <= cells
    numbers = {cell for cell in cells if cell.lstrip("-").replace(".", "").replace("e-", "").isdigit()}
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells - numbers)
    assert set(answer(capsys, *predict)["prediction"]) <= {"+yes", "-1"}


def test_more_declared_columns_than_any_model_takes_are_refused_at_once_in_little_memory(tmp_path):
    names = [f"c{k}" for k in range(20_000)]
    written(tmp_path, ",".join([*names, "y"]) + "\n" + "0," * len(names) + "1\n", list(map(number, names)), ILL, 1)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    schema, data = str(tmp_path / "schema.json"), str(tmp_path / "data.csv")
    for words in (command(tmp_path, "logistic"), ("schema", "check", schema), ("schema", "new", data)):
        # No more than 3 GiB of addresses.
        line = ["sh", "-c", 'ulimit -v 3145728 && exec "$@"', "sh", sys.executable, "-m", "sordino", *words]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment, check=False)
        assert ran.returncode == 2
        assert "at most 10000 columns" in ran.stderr


def test_of_a_hundred_thousand_columns_only_the_declared_are_kept(capsys, tmp_path):
    names = [f"c{k}" for k in range(99_999)]
    rows = ("0," * len(names) + "1\n") * 3
    text = ",".join([*names, "y"]) + "\n" + rows
    written(tmp_path, text, [number("c7")], number("y"), 3, extra="refuse")
    assert "and 99993 more as well" in refused(capsys, tmp_path, "linear")
    written(tmp_path, text, [number("c7")], number("y"), 3)
    assert fit(tmp_path, "linear", "--or-constant") == 0


@pytest.mark.parametrize("model", ["linear", "logistic", "robust", "mixture"])
def test_more_encoded_columns_than_a_model_takes_are_refused_with_both_numbers(capsys, tmp_path, model):
    target = ILL if model in CLASSIFIERS else number("y")
    words = category("a", *(f"v{k}" for k in range(2000)))
    written(tmp_path, f"a,y\nv1,{'yes' if target is ILL else 1}\n", [words], target, 1)
    said = refused(capsys, tmp_path, model)
    assert "1024 encoded columns" in said
    assert "200" in said
