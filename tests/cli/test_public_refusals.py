"""What is public is refused before the debit; and `schema check` ends with 2 where `fit` or `look` would refuse."""

import numpy as np
import pandas as pd
import pytest

from sordino.cli import main
from sordino.data import declared_lines, write_schema
from sordino.ledger import Ledger

ROWS = 60
PLAIN = f"records = {ROWS}\na: 0..1\ny: 0..1 [target]"
UNITS = f"records = {ROWS}\na: 0..1\nwho: unit of 2\ny: 0..1 [target]"
WEIGHTS = f"records = {ROWS}\na: 0..1\nw: weight 0.5..2 mean 1\ny: 0..1 [target]"


def frame(rows=ROWS, **others):
    even = np.linspace(0.0, 1.0, rows)
    columns = {"a": even, "y": even[::-1]} | {name: make(even) for name, make in others.items()}
    return pd.DataFrame({name: cells for name, cells in columns.items() if cells is not None})


def keys(even):
    return np.arange(len(even))


# Lines, table, whether a fit refuses it under replace-one and under add-remove, and whether before the debit.
TABLES = {
    "as declared": (PLAIN, frame(), (False, False), True),
    "a record less": (PLAIN, frame(ROWS - 1), (True, False), True),
    "a record more": (PLAIN, frame(ROWS + 1), (True, False), True),
    "nobody": (PLAIN, frame(0), (True, False), True),
    "units as declared": (UNITS, frame(who=keys), (False, False), True),
    "a unit less": (UNITS, frame(who=lambda even: np.maximum(keys(even), 1)), (True, False), True),
    "no column of units": (UNITS, frame(), (True, True), True),
    "no column of weights": (WEIGHTS, frame(), (True, True), True),
    "no target": (PLAIN, frame(y=lambda _: None), (True, True), True),
    "a column that nobody declared": (PLAIN, frame(z=keys), (True, True), True),
    "dates among numbers": (PLAIN, frame(a=lambda x: pd.to_datetime(["2020-01-01"] * len(x))), (True, True), True),
    "keys that are floats": (UNITS, frame(who=lambda even: even), (True, True), True),
    "a missing cell that stops": (PLAIN, frame(a=lambda even: np.where(even > 0.5, np.nan, even)), (True, True), False),
}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("lines", "table", "refused", "public"), TABLES.values(), ids=TABLES)
def test_check_and_fit_and_look_refuse_the_same_tables(lines, table, refused, public, relation, tmp_path, capsys):
    schema, rows = tmp_path / "schema.json", tmp_path / "table.parquet"
    write_schema(declared_lines(lines), schema)
    table.to_parquet(rows)
    ledger = Ledger.open(tmp_path / "ledger", "clinic", relation, 50.0, 1e-4)
    stops = refused[relation == "add-remove"]
    assert main(["schema", "check", str(schema), str(rows), "--relation", relation]) == 2 * stops
    budget = ["--schema", str(schema), "--epsilon", "1", "--delta", "1e-6", "--relation", relation, "--seed", "1"]
    budget += ["--ledger", str(ledger.path)]
    method = "constant" if lines == PLAIN else "bounded-influence"
    fit = ["fit", "linear", str(rows), *budget, "--method", method, "--out"]
    assert main([*fit, str(tmp_path / "release")]) == 2 * stops
    assert len(ledger.entries()) == (not stops or not public)
    if stops and public and lines != WEIGHTS:  # a fit on an engine as well
        assert main([*fit[:-1], "--engine", "streamed", "--method", "bounded-influence", "--out", f"{tmp_path}/r"]) == 2
        assert not ledger.entries()
    if "are declared and the table has" in capsys.readouterr().out:  # numbers are public for a look too
        for engine in ([], ["--engine", "streamed"]):
            look = ["look", str(rows), "--ask", "mean: a", *budget, *engine, "--out", str(tmp_path / f"l{len(engine)}")]
            before = len(ledger.entries())
            assert main(look) == 2 * stops
            assert len(ledger.entries()) == before + (not stops)
