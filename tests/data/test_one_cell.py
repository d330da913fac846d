"""One cell decides how its own record is read, and no other record."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import InputError, Relation, data
from sordino.data.raw_columns import text_array
from sordino.data.sources.registry import parts_of
from tests.data import odd_cells

PLACES = (0, odd_cells.ROWS // 2 + 1, odd_cells.ROWS)


class Others:
    """What a table is encoded to, and whether it is still when a record is added."""

    def __init__(self, declared, table):
        self.declared, self.before = declared, self._encoded(declared, table)

    @staticmethod
    def _encoded(declared, table):
        return data.encode(declared, table, Relation.ADD_REMOVE)

    def are_read_alike(self, table, place):
        """The record at a place of this table is the only difference; it is encoded too, to finite numbers."""
        first, second = self.before, self._encoded(self.declared, table)
        assert len(second.target) == len(first.target) + 1
        for one, other in zip(_without(first, -1), _without(second, place), strict=True):
            np.testing.assert_array_equal(one, other)
        assert np.isfinite(second.features).all()
        assert np.isfinite(np.asarray(second.target, float)).all()


def _without(found, place):
    """Rows, targets and weights of every record but one, and which of them share a unit."""
    rest = np.arange(len(found.target)) != place
    units = np.arange(len(rest)) if found.units is None else found.units
    weights = np.ones(len(rest)) if found.weights is None else found.weights
    return found.features[rest], found.target[rest], weights[rest], units[rest][:, None] == units[rest]


@pytest.mark.parametrize(
    ("container", "target"),
    [*((name, "number") for name in odd_cells.UNTYPED), ("lists", "category"), ("lists", "boolean")],
)
def test_no_cell_changes_how_others_are_read_or_stops(container, target):
    """Every odd cell in every column of a record, whatever its kind, in containers that have no types."""
    declared, columns = odd_cells.schema(target), odd_cells.records()
    make = odd_cells.UNTYPED[container]
    others = Others(declared, data.read_table(make(columns)))
    for turn, cell in enumerate(odd_cells.ODD):
        place = PLACES[turn % len(PLACES)]
        after = data.read_table(make(odd_cells.with_cells(columns, place, dict.fromkeys(columns, cell))))
        others.are_read_alike(after, place)


@pytest.mark.parametrize("stored", odd_cells.STORED)
@pytest.mark.parametrize("container", odd_cells.TYPED)
def test_no_cell_of_a_stored_column_changes_how_others_are_read_or_stops(container, stored, tmp_path):
    declared, columns, types = odd_cells.schema(), odd_cells.records(), odd_cells.STORED[stored]
    make = odd_cells.TYPED[container]
    others = Others(declared, data.read_table(make(odd_cells.arrow_table(columns, types), tmp_path)))
    odd = list(odd_cells.odd_stored(types, utf8=container in odd_cells.ONLY_UTF8))
    for turn, cells in enumerate(odd[::5] if container == "duckdb" else odd):  # which take longer
        place = PLACES[turn % len(PLACES)]
        after = data.read_table(
            make(odd_cells.arrow_table(odd_cells.with_cells(columns, place, cells), types), tmp_path)
        )
        others.are_read_alike(after, place)


def text_file(path, columns, encoding="utf-8"):
    """A CSV file; bytes stand in it as they are."""
    lines = [",".join(columns).encode(encoding)]
    for cells in zip(*columns.values(), strict=True):
        quoted = (
            cell if isinstance(cell, bytes) else f'"{odd_cells.spelled(cell)}"'.encode(encoding) for cell in cells
        )
        lines.append(b",".join(quoted))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize("encoding", [None, "windows-1252"])
def test_no_cell_of_a_text_file_changes_how_others_are_read_or_stops(tmp_path, encoding):
    declared, columns = odd_cells.schema(), odd_cells.records()
    dialect = data.Dialect(encoding=encoding)
    others = Others(declared, data.read_table(data.CsvFile(text_file(tmp_path / "a.csv", columns), dialect)))
    odd = [
        *(text.replace("É", "E") for text in odd_cells.TEXTS),
        b"\xff\xfe",
        b"caf\x81",
        b'"\x8d,\x90"',
        1e308,
        10**30,
        2**53 + 1,
    ]
    for turn, cell in enumerate(odd):
        place = PLACES[turn % len(PLACES)]
        file = text_file(tmp_path / "b.csv", odd_cells.with_cells(columns, place, dict.fromkeys(columns, cell)))
        after = data.CsvFile(file, dialect)
        others.are_read_alike(data.read_table(after), place)
        (part,) = parts_of(after)
        (streamed,) = part.tables(tuple(columns))
        others.are_read_alike(streamed, place)


def test_a_cell_that_is_not_utf_8_is_another_word(tmp_path):
    """It stopped a fit although the column says that other words count as *other*."""
    (tmp_path / "a.csv").write_bytes(b"ward,y\nmaternity,1\nchirurgie g\xe9n\xe9rale,2\nmaternity,3\n")
    ward = data.Schema(
        3, (data.Feature("ward", data.Category(("maternity",), unseen="other")),), None, False, extra_columns="ignore"
    )
    assert data.encode_features(ward, data.read_table(tmp_path / "a.csv")).tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("make", [odd_cells.array, list], ids=["array", "list"])
def test_no_cell_of_a_matrix_changes_how_others_are_read_or_stops(make):
    """A list of rows was one array: one text made all numbers text."""
    names = ["a", "whole", "grade", "flag"]
    columns = {name: cells for name, cells in odd_cells.records().items() if name in names}
    features = tuple(one for one in odd_cells.schema().features if one.name in names)
    declared = data.Schema(odd_cells.ROWS, features, None, intercept=True)

    def matrix(table):
        rows = [make(list(row)) for row in zip(*table.values(), strict=True)]
        return data.from_matrix(np.stack(rows) if make is odd_cells.array else rows, names)

    before = data.encode_features(declared, matrix(columns))
    for turn, cell in enumerate(odd_cells.ODD):
        place = PLACES[turn % len(PLACES)]
        after = matrix(odd_cells.with_cells(columns, place, dict.fromkeys(columns, cell)))
        np.testing.assert_array_equal(np.delete(data.encode_features(declared, after), place, axis=0), before)


@pytest.mark.parametrize(
    ("cell", "word", "number"),
    [
        (1.0, "1", 1.0),
        (np.float32(0.5), "0.5", 0.5),
        (True, "true", 1.0),
        (np.int8(3), "3", 3.0),
        ("1.0", "1.0", 1.0),
        (2**60 + 1, str(2**60 + 1), 8.0),
        (2.0**60, "1e+18", 8.0),
        ("2020-01-01", "2020-01-01", 0.0),
    ],
)
def test_lists_and_typed_columns_agree_on_what_a_cell_says(cell, word, number):
    """A float beyond 2^53 is no name of a whole number: it may be that of its neighbour."""
    for cells in ([cell], np.array([cell])):
        # Columns of floats are refused where words beyond 2^53 are declared.
        floats = isinstance(cells, np.ndarray) and cells.dtype.kind in "fb"
        others = ("2", "TRUE", "large" if floats else str(2**60))
        kinds = (
            data.Feature("x", data.Category((word, *others), unseen="other")),
            data.Feature("z", data.Number(0, 8, data.UNSCALED, missing=data.MissingRule("value", 0))),
        )
        table = data.from_arrays({"x": cells, "z": cells})
        found = data.encode_features(data.Schema(1, kinds, None, False), table).tolist()
        assert found == [[float(cell != 2.0**60), 0.0, 0.0, 0.0, float(cell == 2.0**60), number]]


PIECES = st.sampled_from(
    ["2020", "-", "01", "99999", "0", "30", " ", "e", "E", "+", ".", "inf", "nan", "é", "\u3000", "\0", "٣"]
)


@settings(deadline=None, derandomize=True)
@given(
    cells=st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=6),
    spelling=st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%y%m%d"]),
)
def test_text_is_parsed_cell_by_cell(cells, spelling):
    """Arrow parses whole columns and stops at the first text that it does not know."""
    together, alone = data.StoredColumn(text_array(cells)), [data.StoredColumn(text_array([cell])) for cell in cells]
    beside = data.ObjectColumn.of([*cells, {}])
    numbers = [one.numbers(("",))[0] for one in alone]
    np.testing.assert_array_equal(together.numbers(("",)), numbers)
    np.testing.assert_array_equal(beside.numbers(("",))[:-1], numbers)
    days = [one.days(spelling, ("",))[0] for one in alone]
    assert together.days(spelling, ("",)).tolist() == beside.days(spelling, ("",))[:-1].tolist() == days


@pytest.mark.parametrize("kind", [data.Category, data.Ordered])
def test_whole_numbers_that_floats_cannot_tell_apart_are_no_words_of_a_column_of_floats(kind):
    """One missing cell makes integers of a data frame floats, and every other record lost its word."""
    words = tuple(str(2**53 + 1 + 2 * place) for place in range(4))
    given = (
        data.Ordered(words, missing=data.MissingRule("value", words[0]))
        if kind is data.Ordered
        else data.Category(words, "other")
    )
    declared = data.Schema(4, (data.Feature("x", given),), None, False)
    cells = [*map(int, words)]
    before = data.encode_features(declared, data.from_arrays({"x": cells}))
    for odd in (0.5, 1e300):
        after = data.encode_features(declared, data.from_arrays({"x": [*cells, odd]}))
        np.testing.assert_array_equal(after[:4], before)
        with pytest.raises(
            InputError, match=r"hold text or integers, which distinguish '9007199254740993' from its neigh"
        ):
            data.encode_features(declared, data.read_table(pd.DataFrame({"x": [*cells, odd]})))
    np.testing.assert_array_equal(data.encode_features(declared, data.read_table(pd.DataFrame({"x": cells}))), before)


TO = data.MissingRule
READ = {
    "number": (
        data.Number(0, 4, missing=TO("value", 1.0)),
        ["2", "many", b"2", [2], 1j, 1e308, 10**400],
        [0, -0.5, -0.5, -0.5, -0.5, 1, 1],
    ),
    "order": (data.Ordered(("I", "II", "III"), TO("value", "III")), ["I", "IV", 1, b"I", None], [-1, 1, 1, 1, 1]),
    "truth": (data.Boolean(missing=TO("value", True)), [False, "no", 2, b"0", None, 0.0], [0, 1, 1, 1, 1, 0]),
    "day": (
        data.Date("2020-01-01", "2020-01-03", missing=TO("value", "2020-01-02")),
        ["2020-01-01", "soon", 18262, dt.date(2020, 1, 3), np.datetime64("2020-01-03T12"), "2020-02-30", None],
        [-1, 0, 0, 1, 1, 0, 0],
    ),
}


@pytest.mark.parametrize(("kind", "cells", "expected"), READ.values(), ids=READ)
def test_a_cell_that_cannot_be_read_counts_as_missing(kind, cells, expected):
    declared = data.Schema(1, (data.Feature("x", kind),), None, False)
    assert data.encode_features(declared, data.from_arrays({"x": cells}))[:, 0].tolist() == expected
    alone = [data.encode_features(declared, data.from_arrays({"x": [cell]}))[0, 0] for cell in cells]
    assert alone == expected


def test_the_last_moment_of_a_day_before_1970_is_of_that_day():
    moment, day = dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), data.Date("1969-12-31", "1970-01-01")
    declared = data.Schema(1, (data.Feature("x", day),), None, False)
    for cells in ([moment], pd.Series([moment]), pa.array([moment]), np.array([moment], "datetime64[us]")):
        assert data.encode_features(declared, data.from_arrays({"x": cells})).tolist() == [[-1]]


STRICT = {
    "a": data.Number(0, 1, out_of_range="refuse"),
    "whole": data.Number(0, 1000),
    "grade": data.Category(("1", "2", "3")),
    "word": data.Category(("p", "q", "r"), unseen="other"),
    "flag": data.Boolean(),
    "stage": data.Ordered(("I", "II", "III")),
    "day": data.Date("2015-01-01", "2024-12-31"),
}


@pytest.mark.parametrize(("name", "kind"), STRICT.items(), ids=STRICT)
def test_what_stops_is_listed_and_named_by_its_row(name, kind):
    """With rules that refuse: the odd record is what stops, and a kind that lists nothing never does (above)."""
    columns = odd_cells.records()[name]
    plain = columns if name != "a" else np.clip(columns, 0, 1).tolist()
    declared = data.Schema(odd_cells.ROWS, (data.Feature(name, kind),), None, False)
    stopped = 0
    for cell in odd_cells.ODD:
        try:
            data.encode_features(declared, data.from_arrays({name: [*plain, cell]}))
        except InputError as error:
            stopped, said = stopped + 1, str(error)
            assert "(the first in row 25)" in said or "'1 outside'" in said, said
    assert len(kind.can_refuse) == 1 + (name in ("a", "grade"))
    assert stopped > 0


def test_a_record_without_a_readable_weight_has_the_mean():
    """It stopped the fit after the debit."""
    columns = odd_cells.records()
    cells = [*columns["w"][:-3], None, "much", b"1"]
    found = data.encode(odd_cells.schema(), data.from_arrays(columns | {"w": cells}), Relation.ADD_REMOVE)
    assert found.weights[-3:].tolist() == [0.25] * 3
