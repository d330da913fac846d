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

BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--relation", "replace-one")
MODELS = ("linear", "robust", "logistic", "network-regressor", "network-classifier", "mixture")
CLASSIFIERS = ("logistic", "network-classifier")
WIDE = 100_000


def number(name, low=0, high=100):
    return {"name": name, "kind": "number", "low": low, "high": high}


def category(name, *values):
    return {"name": name, "kind": "category", "values": list(values)}


ILL = {"name": "y", "kind": "boolean", "true_values": ["yes"], "false_values": ["no"]}


def written(folder, text, columns, target, records, extra="ignore"):
    schema = {"format": "sordino-schema", "version": 1, "records": records, "intercept": True, "columns": columns}
    (folder / "data.csv").write_text(text, encoding="utf-8")
    (folder / "schema.json").write_text(json.dumps(schema | {"target": target, "extra_columns": extra}))


def fit(folder, model, *more, budget=BUDGET):
    places = (str(folder / "data.csv"), "--schema", str(folder / "schema.json"))
    return main(["fit", model, *places, *budget, "--out", str(folder / "release"), *more])


def refused(capsys, folder, model, *more, budget=BUDGET):
    capsys.readouterr()
    assert fit(folder, model, *more, budget=budget) == 2
    streams = capsys.readouterr()
    assert (streams.out, streams.err.count("\n")) == ("", 1)
    assert not (folder / "release").exists()
    return streams.err


def tiny(folder, model, records):
    classes = model in CLASSIFIERS
    rows = "".join(f"{k},{('no', 'yes')[k % 2] if classes else k}\n" for k in range(records))
    written(folder, f"a,y\n{rows}", [number("a")], ILL if classes else number("y"), records)


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
    release = read_release(tmp_path / "release")
    assert model == "mixture" or release.settings["method"] == "constant"


def test_without_being_asked_for_no_constant_is_learned(capsys, tmp_path):
    """A budget that is too small is refused from the declaration alone, with the epsilon that would do."""
    tiny(tmp_path, "linear", 5)
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    said = refused(capsys, tmp_path, "linear", "--ledger", str(tmp_path / "ledger"))
    assert "nothing was spent" in said
    assert "--or-constant" in said
    assert ledger.balance().releases == 0


def test_how_much_more_would_do_is_enough(capsys, tmp_path):
    """What a refusal names is an epsilon that is accepted, and not much more than needed."""
    text = "a,y\n" + "".join(f"{k % 100},{k % 100}\n" for k in range(300))
    written(tmp_path, text, [number("a")], number("y"), 300)
    said = refused(capsys, tmp_path, "linear", budget=("--epsilon", "0.05", *BUDGET[2:]))
    enough = float(said.split("about epsilon ")[1].split(" ")[0])
    assert fit(tmp_path, "linear", budget=("--epsilon", str(enough), *BUDGET[2:])) == 0
    assert capsys.readouterr().err == ""
    os.rename(tmp_path / "release", tmp_path / "first")
    assert "too small" in refused(capsys, tmp_path, "linear", budget=("--epsilon", str(enough / 2.5), *BUDGET[2:]))


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-4"])
def test_an_epsilon_next_to_nothing_is_said_in_numbers(capsys, tmp_path, epsilon):
    tiny(tmp_path, "logistic", 200)
    said = refused(capsys, tmp_path, "logistic", budget=("--epsilon", epsilon, *BUDGET[2:]))
    assert "too small" in said
    assert "nan" not in said
    assert fit(tmp_path, "logistic", "--or-constant", budget=("--epsilon", epsilon, *BUDGET[2:])) == 0
    assert "nan" not in capsys.readouterr().err


def test_no_records_are_refused(capsys, tmp_path):
    written(tmp_path, "a,y\n", [number("a")], number("y"), 0)
    assert "records in [1, inf)" in refused(capsys, tmp_path, "linear")
    written(tmp_path, "a,y\n", [number("a")], number("y"), 1)
    assert "Expected 1 records as the schema declares, got 0" in refused(capsys, tmp_path, "linear", "--or-constant")


def test_a_target_with_one_value_is_fitted_like_any_other(tmp_path):
    """Whether the rows agree is private, so nothing may be said about it; a class that nobody declared is refused."""
    written(tmp_path, "a,y\n" + "5,7\n" * 500, [number("a")], number("y"), 500)
    assert fit(tmp_path, "linear") == 0
    os.rename(tmp_path / "release", tmp_path / "number")
    written(tmp_path, "a,y\n" + "5,yes\n" * 500, [number("a")], ILL, 500)
    assert fit(tmp_path, "logistic") == 0


def test_one_declared_class_is_refused(capsys, tmp_path):
    written(tmp_path, "a,y\n1,yes\n", [number("a")], category("y", "yes"), 1)
    assert "at least two classes" in refused(capsys, tmp_path, "logistic")


def test_a_refusal_by_rows_says_that_the_debit_stands(capsys, tmp_path):
    written(tmp_path, "a,y\n" + "1,2\n" * 400 + ",3\n", [number("a")], number("y"), 401)
    said = refused(capsys, tmp_path, "linear")
    assert "in every row of column 'a'" in said
    assert "debited" not in said
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    said = refused(capsys, tmp_path, "linear", "--ledger", str(tmp_path / "ledger"))
    assert "in every row of column 'a'" in said
    assert "debited before a row was read (entry 1)" in said
    assert "schema check" in said
    assert ledger.balance().releases == 1


def test_what_a_release_needs_is_looked_for_before_the_debit(capsys, monkeypatch, tmp_path):
    """A missing package, or a folder that cannot be written to, must not cost any budget."""
    tiny(tmp_path, "linear", 300)
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    debit = ("--ledger", str(tmp_path / "ledger"))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "randomgen", None)
        assert "install sordino[secure]" in refused(capsys, tmp_path, "linear", *debit)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda _path, wanted: wanted != os.W_OK)
        assert "can be written to" in refused(capsys, tmp_path, "linear", *debit)
    assert ledger.balance().releases == 0


@pytest.mark.parametrize("model", ["linear", "mixture"])
def test_names_are_checked_before_the_debit(capsys, tmp_path, model):
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    debit = ("--ledger", str(tmp_path / "ledger"))
    written(tmp_path, "b,y\n1,2\n", [number("a")], number("y"), 1)
    assert "declared columns 'a'" in refused(capsys, tmp_path, model, *debit)
    written(tmp_path, "a,y,z\n1,2,3\n", [number("a")], number("y"), 1, extra="refuse")
    if model == "linear":
        assert "only declared columns, got 'z' as well" in refused(capsys, tmp_path, model, *debit)
    assert ledger.balance().releases == 0


def test_a_delta_that_allows_a_whole_record_is_a_warning(capsys, tmp_path):
    tiny(tmp_path, "linear", 100)
    assert fit(tmp_path, "linear", budget=("--epsilon", "50", "--delta", "0.01", *BUDGET[4:])) == 0
    assert "delta 0.01 is not below 1 / 100" in capsys.readouterr().err
    os.rename(tmp_path / "release", tmp_path / "first")
    assert fit(tmp_path, "linear", budget=("--epsilon", "50", "--delta", "0.0099", *BUDGET[4:])) == 0
    assert "delta" not in capsys.readouterr().err


def test_formulas_are_text_in_and_never_formulas_out(capsys, tmp_path):
    """Names and labels that a spreadsheet would run: read as text, and written with an apostrophe before them."""
    rows = "".join(f"{('=1+1', '@x')[k % 2]},{('+yes', '-1')[k % 2]}\n" for k in range(500))
    written(tmp_path, f"=cmd(),y\n{rows}", [category("=cmd()", "=1+1", "@x")], category("y", "+yes", "-1"), 500)
    assert fit(tmp_path, "logistic", "--seed", "1") == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "release"), str(tmp_path / "data.csv"), "--draws", "2"]) == 0
    table = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    cells = {cell for row in table for cell in row}
    assert {"'+yes", "-1"} <= cells
    numbers = {cell for cell in cells if cell.lstrip("-").replace(".", "").replace("e-", "").isdigit()}
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells - numbers)
    assert main(["predict", str(tmp_path / "release"), str(tmp_path / "data.csv"), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["prediction"]) <= {"+yes", "-1"}


def _in_little_memory(*arguments):
    """Run the command line where it may take no more than 3 GiB of addresses; its code and what it said."""
    line = ["sh", "-c", 'ulimit -v 3145728 && exec "$@"', "sh", sys.executable, "-m", "sordino", *map(str, arguments)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment, check=False)
    return ran.returncode, ran.stderr


def test_a_hundred_thousand_declared_columns_are_refused_at_once(tmp_path):
    names = [f"c{k}" for k in range(WIDE - 1)]
    written(tmp_path, ",".join([*names, "y"]) + "\n" + "0," * len(names) + "1\n", list(map(number, names)), ILL, 1)
    places = (tmp_path / "data.csv", "--schema", tmp_path / "schema.json")
    code, said = _in_little_memory("fit", "logistic", *places, *BUDGET, "--out", tmp_path / "release")
    assert code == 2
    assert said == (
        "sordino: Expected a schema of at most 10000 columns, got 99999; declare those that matter and set "
        "extra_columns to 'ignore'.\n"
    )
    for line in (("schema", "check", tmp_path / "schema.json"), ("schema", "new", tmp_path / "data.csv")):
        code, said = _in_little_memory(*line)
        assert code == 2
        assert "at most 10000 columns" in said


def test_of_a_hundred_thousand_columns_only_the_declared_are_kept(capsys, tmp_path):
    names = [f"c{k}" for k in range(WIDE - 1)]
    rows = ("0," * len(names) + "1\n") * 3
    written(tmp_path, ",".join([*names, "y"]) + "\n" + rows, [number("c7")], number("y"), 3, extra="refuse")
    assert "and 99993 more as well" in refused(capsys, tmp_path, "linear")
    schema = json.loads((tmp_path / "schema.json").read_text()) | {"extra_columns": "ignore"}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    assert fit(tmp_path, "linear", "--or-constant") == 0


@pytest.mark.parametrize("model", ["linear", "logistic", "robust", "mixture"])
def test_more_encoded_columns_than_a_model_takes_are_refused_with_both_numbers(capsys, tmp_path, model):
    words = [f"v{k}" for k in range(2000)]
    target = ILL if model in CLASSIFIERS else number("y")
    written(tmp_path, f"a,y\nv1,{'yes' if target is ILL else 1}\n", [category("a", *words)], target, 1)
    said = refused(capsys, tmp_path, model)
    assert "1024 encoded columns" in said
    assert "200" in said
