"""Files that disagree about a column are refused before a debit, and none changes how another is read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino
from sordino import InputError, Ledger
from sordino.data import declared_lines, encode_features, read_table
from sordino.fitting.fit import fit_table

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def files(folder, *cells):
    """A folder of Parquet files, each with its own cells in column c."""
    folder.mkdir()
    for place, own in enumerate(cells):
        g = np.random.default_rng(place)
        table = {"a": g.uniform(0, 1, 300), "y": g.uniform(0, 1, 300)} | ({} if own is None else {"c": own})
        pq.write_table(pa.table(table), folder / f"{place}.parquet")
    return folder


NUMBER, WORDS = "c: 0..1 [missing=0]", "c: true|false [unseen=other, missing=true]"
DISAGREE = {
    "numbers and nothing": (NUMBER, pa.array([1.0] * 300), pa.nulls(300)),
    "numbers and text": (NUMBER, pa.array([1.0] * 300), pa.array(["1"] * 300)),
    "truth and numbers": (WORDS, pa.array([True] * 300), pa.array([1] * 300)),
    "a file without the column": (NUMBER, pa.array([1.0] * 300), None),
}


@pytest.mark.parametrize("engine", [None, "streamed"])
@pytest.mark.parametrize(("line", "first", "second"), DISAGREE.values(), ids=DISAGREE)
def test_files_that_disagree_are_refused_before_the_debit(line, first, second, engine, tmp_path):
    """In memory they were refused after it; true became the word 1 where another file held numbers."""
    rows = files(tmp_path / "rows", first, second)
    schema = declared_lines(f"records = 600\na: 0..1\n{line}\ny: 0..1 [target]")
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "add-remove", 50.0, 1e-4)
    asked = {"schema": schema, "relation": "add-remove", "ledger": ledger, "engine": engine, **BUDGET}
    with pytest.raises(InputError):
        fit_table("linear", rows, **asked)
    with pytest.raises(InputError):
        sordino.explore.look(rows, ["histogram: c"], **asked)
    assert not ledger.entries()


def test_the_type_of_one_file_does_not_change_how_another_is_read(tmp_path):
    """Whole numbers beside floats became floats: those beyond 2^53 lost their words."""
    keys = pa.array([2**60 + 1, 2**60 + 3] * 150)
    schema = declared_lines(
        f"records = 600\nc: {2**60 + 1}|{2**60 + 3} [unseen=other, missing=indicator]\ny: 0..1 [target]"
    )
    whole = encode_features(schema, read_table(files(tmp_path / "one", keys), ("c", "y")))
    others = {"floats": pa.array([1.0, None] * 150), "unsigned": pa.array([2**63] * 300, pa.uint64())}
    for name, other in others.items():
        both = encode_features(schema, read_table(files(tmp_path / name, keys, other), ("c", "y")))
        np.testing.assert_array_equal(both[:300], whole)
