"""Cells that a table may hold and nobody expects, a schema that reads every kind, and tables in every container."""

import datetime as dt
import math
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from sordino.data import Boolean, MissingRule, Target, declared_lines, with_formula

ROWS = 24


class Hostile:
    """A cell that objects to whatever is asked of it."""

    def _say(self, *_):
        raise ValueError("HIV-positive")

    __float__ = __int__ = __bool__ = __lt__ = __eq__ = __hash__ = __array__ = __len__ = __index__ = _say
    __repr__ = __str__ = _say
    shape = property(_say)
    item = property(_say)


TEXTS = [
    "unknown", "", "  ", "1.0", "nan", "inf", "1e400", "0x10", "1_0", "1,5", "2021-02-30", "true", "TRUE", "É", "\0",
]  # fmt: skip
ODD = [
    *TEXTS,
    *(None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.1, -0.0, 2.0**60),
    *(0, 10**30, -(10**400), 10**5000, 2**53 + 1, 2**63, 2**64, True, False),
    *map(Decimal, ("1.5", "NaN", "sNaN", "-Infinity", "1E+999999999", 2**60 + 1)),
    *(b"bytes", b"\xff", "lone \udcff", bytearray(b"x"), 1j, np.complex64(1)),
    *(np.float32(0.1), np.int8(3), np.bool_(True), np.uint64(2**64 - 1), np.longdouble(2)),
    *(np.str_("b"), np.bytes_(b"b")),
    *(np.datetime64("2020-02-02"), np.datetime64("NaT"), np.timedelta64(3, "D"), np.array(2.0), np.array([1.0, 2.0])),
    *(dt.date(2019, 3, 4), dt.datetime(2019, 3, 4, tzinfo=dt.UTC), dt.timedelta(1), dt.time(1)),
    *(pd.NA, pd.NaT, pd.Timestamp("2018-01-01"), pd.Timedelta(1)),
    *({}, [], [1, 2], (1,), {"a": 1}, {1}, range(3), object(), Hostile(), int, len),
]

LINES = f"""records = {ROWS}
missing_tokens = NA|-9
a: 0..1 [missing=0.5]
whole: 0..1000 [missing=indicator]
grade: 1|2|3 [unseen=other, missing=2]
word: p|q [unseen=other, missing=indicator]
flag: true/false [missing=indicator]
stage: I < II < III [missing=II]
day: 2015-01-01..2024-12-31 [missing=indicator]
month: 2015-01-01..2024-12-31 [part=month, missing=2020-01-01]
w: weight 0.2..4 mean 1
who: unit of 2
"""
TARGETS = {
    "number": "y: 0..1 [target, missing=0.5]",
    "category": "y: 1|2|3 [target, unseen=other, missing=1]",
    "boolean": "y: 1/2 [target]",
}
FORMULA = "y ~ a + whole + grade + word + flag + stage + day + month + a:grade + stage:flag + word:stage:day"
# Identifiers above 2^53, which floats cannot tell apart.
FIRST_KEY = 2**60 + 5


def schema(target="number"):
    """Every kind, products among them, with rules that never stop."""
    found = with_formula(declared_lines(LINES + TARGETS[target]), FORMULA)
    if target == "boolean":
        found = found.with_target(Target("y", Boolean(("1",), ("2",), MissingRule("value", True))))
    assert found.can_refuse == ()
    return found


def records(rows=ROWS):
    """Records as a list holds them: every column of one Python type."""
    g = np.random.default_rng(3)
    start = np.datetime64("2015-01-01")
    return {
        "a": g.uniform(-0.2, 1.2, rows).tolist(),
        "whole": g.integers(0, 1100, rows).tolist(),
        "grade": g.choice([1.0, 2.0, 3.0], rows).tolist(),
        "word": g.choice(["p", "q", "r"], rows).tolist(),
        "flag": (g.random(rows) < 0.5).tolist(),
        "stage": g.choice(["I", "II", "III"], rows).tolist(),
        "day": (start + g.integers(0, 3900, rows)).astype(str).tolist(),
        "month": (start + g.integers(0, 3600, rows)).astype(str).tolist(),
        "w": g.uniform(0.1, 5.0, rows).tolist(),
        "who": [FIRST_KEY + place // 2 for place in range(rows)],
        "y": g.choice([1.0, 2.0, 3.0], rows).tolist(),
    }


def with_cells(columns, place, cells):
    """One more record, with a cell for each column."""
    return {name: [*values[:place], cells[name], *values[place:]] for name, values in columns.items()}


def array(cells):
    """An array of Python objects, none of them looked at."""
    found = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def _categories(columns):
    """Categories of pandas whose words are Python objects; what cannot be hashed is no category."""
    frame = {name: pd.Series(array(cells), dtype=object) for name, cells in columns.items()}
    for name in ("grade", "word", "who"):
        try:
            frame[name] = frame[name].astype("category")
        except Exception:
            continue
    return pd.DataFrame(frame)


# Containers whose columns have no type.
UNTYPED = {
    "lists": dict,
    "tuples": lambda columns: {name: tuple(cells) for name, cells in columns.items()},
    "arrays of objects": lambda columns: {name: array(cells) for name, cells in columns.items()},
    "pandas objects": lambda columns: pd.DataFrame(
        {name: pd.Series(array(cells), dtype=object) for name, cells in columns.items()}
    ),
    "pandas categories": _categories,
}

_TEXT = {name: "string" for name in records(1)}
# How columns may be stored: each with cells of its types, and odd cells that these can hold.
STORED = {
    "numbers": _TEXT
    | {"a": "double", "whole": "int64", "grade": "double", "flag": "bool", "w": "double", "who": "int64"},
    "whole": _TEXT
    | {"a": "float", "whole": "decimal128(38, 0)", "grade": "int8", "w": "decimal128(9, 4)", "y": "int64"}
    | {"who": "decimal128(38, 0)", "flag": "bool", "day": "date32", "month": "timestamp[us]"},
    "texts": {**_TEXT, "grade": "dictionary", "word": "dictionary", "who": "large_string"},
}
_TYPES = {
    "decimal128(38, 0)": pa.decimal128(38, 0),
    "decimal128(9, 4)": pa.decimal128(9, 4),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}
_FLOATS = [None, math.nan, math.inf, -math.inf, 1e308, -0.0]
_ODD_OF = {
    "double": _FLOATS,
    "float": [None, math.nan, math.inf, 3e38],
    "int64": [None, 2**63 - 1, -(2**63), -9],
    "int8": [None, 127, -128],
    "bool": [None, True],
    "date32": [None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp[us]": [None, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    "decimal128(38, 0)": [None, Decimal(10**37), -Decimal(10**37)],
    "decimal128(9, 4)": [None, Decimal("-99999.9999")],
}
_ODD_TEXT = [b"\xff", b"caf\xe9", None, *TEXTS]


def odd_stored(stored, utf8):
    """Records of odd cells that a stored table can hold, with bytes that are no UTF-8 where it can."""
    longest = max(len(_ODD_OF.get(kind, _ODD_TEXT)) for kind in stored.values())
    for place in range(longest):
        some = {name: _ODD_OF.get(kind, _ODD_TEXT[2:] if utf8 else _ODD_TEXT) for name, kind in stored.items()}
        yield {name: cells[place % len(cells)] for name, cells in some.items()}


def _cell(kind, cell):
    if cell is None or isinstance(cell, bytes):
        return cell
    if kind.startswith("decimal"):
        return cell if isinstance(cell, Decimal) else Decimal(str(round(cell, 4)))
    if kind in ("date32", "timestamp[us]") and isinstance(cell, str):
        day = dt.date.fromisoformat(cell)
        return day if kind == "date32" else dt.datetime(day.year, day.month, day.day)
    if kind in ("int8", "int64"):
        return int(cell)
    if kind in ("string", "large_string", "dictionary"):
        return spelled(cell)
    return cell


def spelled(cell):
    """A cell as text files hold it."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell) else str(cell)


def _arrow_array(kind, cells):
    if kind in ("string", "large_string", "dictionary"):
        raw = [cell.encode("utf-8") if isinstance(cell, str) else cell for cell in cells]
        wide = kind == "large_string"
        text = pa.array(raw, pa.large_binary() if wide else pa.binary()).view(
            pa.large_string() if wide else pa.string()
        )
        return text.dictionary_encode() if kind == "dictionary" else text
    return pa.array(cells, _TYPES.get(kind) or pa.type_for_alias(kind))


def arrow_table(columns, stored):
    """An Arrow table whose text may hold bytes that are no UTF-8."""
    made = {
        name: _arrow_array(stored[name], [_cell(stored[name], cell) for cell in cells])
        for name, cells in columns.items()
    }
    return pa.table(made)


def _parquet(table, folder):
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


def _parquet_folder(table, folder):
    (folder / "parts").mkdir(exist_ok=True)
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), folder / "parts" / "1.parquet")
    pq.write_table(table.slice(half), folder / "parts" / "2.parquet")
    return folder / "parts"


def _feather(table, folder):
    feather.write_feather(table, str(folder / "table.arrow"))
    return folder / "table.arrow"


def _duckdb(table, folder):
    file = folder / "table.duckdb"
    file.unlink(missing_ok=True)
    with duckdb.connect(str(file)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return f"{file}#rows"


def _numpy(table, _):
    """Arrays of a NumPy type where there is one without a missing cell; text as text."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = column.to_pylist()
        if pa.types.is_floating(column.type):
            found[name] = np.array(cells, np.float64)
        elif pa.types.is_integer(column.type) and not column.null_count:
            found[name] = np.array(cells, np.int64)
        elif pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            found[name] = np.array(cells, "datetime64[us]")
        elif pa.types.is_string(column.type) and not column.null_count:
            found[name] = np.array(cells, "U32")
        else:
            found[name] = cells
    return found


# Containers whose columns have types, from an Arrow table; the last two hold nothing but UTF-8.
TYPED = {
    "arrow": lambda table, _: table,
    "arrow chunks": lambda table, _: pa.concat_tables([table.slice(0, 5), table.slice(5)]),
    "arrow arrays": lambda table, _: dict(zip(table.column_names, table.columns, strict=True)),
    "parquet": _parquet,
    "parquet folder": _parquet_folder,
    "arrow file": _feather,
    "pandas by Arrow types": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars series": lambda table, _: {name: pl.from_arrow(table)[name] for name in table.column_names},
    "pandas": lambda table, _: table.to_pandas(types_mapper=_NULLABLE.get),
    "duckdb": _duckdb,
    "numpy": _numpy,
}
ONLY_UTF8 = ("polars", "polars series", "pandas", "pandas by Arrow types", "duckdb", "numpy")
_NULLABLE = {
    pa.int64(): pd.Int64Dtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(),
    pa.large_string(): pd.StringDtype(),
}
