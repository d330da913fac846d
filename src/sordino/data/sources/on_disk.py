"""Files in: CSV, strictly (a header, different names, equally long rows, UTF-8; every cell is text), and Parquet.

A Parquet file that would expand more than a thousandfold is taken for a bomb.
"""

import csv
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import existing_file, is_path_ending, register_source, unique_names
from sordino.data.table import Table, arrow, native_file

# A row must fit into one block; sixteen mebibytes hold a row of 10^5 columns with room to spare.
_BLOCK_BYTES = 16 * 2**20


def read_csv(path: str | Path, *, delimiter: str = ",", only: Collection[str] | None = None) -> Table:
    """Read a CSV file; cells stay text (also ``=1+1`` or ``007``) until a schema says what they are.

    With `only`, other columns are checked for their number of cells and dropped.

    | case | behaviour |
    | --- | --- |
    | missing file, directory, empty file | `InputError` |
    | first line blank, or made of numbers only | `InputError`: a header is needed |
    | repeated or blank column name | `InputError` that names it |
    | a row with more or fewer cells than the header | `InputError` |
    | bytes that are not UTF-8 | `InputError` |
    | header but no rows | a table without records, because how many there are may be private |
    """
    file = existing_file(path)
    names, more = _header(file, delimiter)
    kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
    if not more:
        return from_arrow(arrow().table({name: arrow().array([], arrow().string()) for name in kept}))
    return from_arrow(_parsed(file, names, kept, delimiter))


def read_csv_header(path: str | Path, *, delimiter: str = ",") -> tuple[str, ...]:
    """Only the column names: enough for a schema template, and no private row is used."""
    return _header(existing_file(path), delimiter)[0]


def _header(file: Path, delimiter: str) -> tuple[tuple[str, ...], bool]:
    """The column names, and whether anything follows them."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise InputError(f"Expected delimiter to be one ASCII character, got {delimiter!r}; try ',' or ';'.")
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(_bounded(lines), delimiter=delimiter, strict=True), [])
            more = lines.read(1) != ""
    except UnicodeDecodeError:
        raise _not_utf8(file) from None
    except (csv.Error, OSError) as error:
        raise InputError(f"Expected a CSV header in {str(file)!r}, got a line that cannot be read: {error}.") from None
    if not names:
        raise InputError(f"Expected column names in the first line of {str(file)!r}, got a blank line; add a header.")
    if all(_is_number(name) for name in names):
        raise InputError(
            f"Expected column names in the first line of {str(file)!r}, got only numbers, which look like a record; "
            "add a header."
        )
    return unique_names(names), more


def _parsed(file: Path, names: tuple[str, ...], kept: tuple[str, ...], delimiter: str) -> Any:
    pa, reader = arrow(), arrow("csv")
    read = reader.ReadOptions(block_size=_BLOCK_BYTES, column_names=list(names), skip_rows_after_names=1)
    # In a file of one column a blank line is a missing value, not decoration.
    parse = reader.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    convert = reader.ConvertOptions(
        column_types=dict.fromkeys(kept, pa.string()), strings_can_be_null=False, include_columns=list(kept)
    )
    try:
        return reader.read_csv(native_file(file), read, parse, convert)
    except (pa.ArrowException, OSError, ValueError) as error:
        uneven = InputError(f"Expected equally long rows in {str(file)!r}, got {_complaint(error)}.")
        # Alone: Arrow's error quotes a row.
        raise_alone(_not_utf8(file) if "UTF8" in str(error) else uneven)


def _bounded(lines: TextIO) -> Iterator[str]:
    """The lines of a header, as long as they fit into one block: a file may be one line of a billion characters."""
    left = _BLOCK_BYTES
    while line := lines.readline(left):
        left -= len(line)
        if left <= 0:
            raise csv.Error(f"it is longer than {_BLOCK_BYTES} characters")
        yield line


def _complaint(error: Exception) -> str:
    """What Arrow found, without the row it quotes: error messages end up in logs, and rows are private."""
    if isinstance(error, MemoryError):
        return "more of them than fit into memory; use Parquet and read it in pieces"
    uneven = re.match(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", str(error))
    if uneven is None:
        return "a file that does not parse; look for an open quote, or a row longer than 16 MiB"
    row, expected, got = uneven.groups()
    # Arrow counts the header as a line.
    where = "one row" if row is None else f"row {int(row) - 1}"
    return f"{where} with {got} cells where the header has {expected}; quote cells that hold the delimiter"


def _not_utf8(file: Path) -> InputError:
    return InputError(f"Expected UTF-8 text in {str(file)!r}, got other bytes; save the file as UTF-8.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


register_source(
    "a path ending in .csv",
    is_path_ending(".csv"),
    read_csv,
    read_csv_header,
    lambda path, only: read_csv(path, only=only),
)


# A few bytes can say "this text, a billion times". Tables of people do not repeat themselves a thousandfold.
LARGEST_EXPANSION = 1000
ALWAYS_ALLOWED = 2**30
_TEXT, _DECIMAL = "BYTE_ARRAY", "DECIMAL"


def read_parquet(path: str | Path, only: Collection[str] | None = None) -> Table:
    """Read a Parquet file, or some columns of it; column types are those of the file."""
    return _opened(path, lambda file, size: from_arrow(_read(file, str(path), size, only)))


def read_parquet_names(path: str | Path) -> tuple[str, ...]:
    """The column names in a Parquet file's footer; no row is read."""
    return tuple(_opened(path, lambda file, _: file.schema_arrow.names))


def _opened(path: str | Path, use: Callable[[Any, int], Any]) -> Any:
    pa, parquet = arrow(), arrow("parquet")
    file = existing_file(path)
    try:
        handle = native_file(file)
        footer = parquet.read_metadata(handle)
        # Text stays a list of words and places until its size is known.
        opened = parquet.ParquetFile(handle, metadata=footer, read_dictionary=_texts(footer.schema))
        return use(opened, file.stat().st_size)
    except InputError:
        raise
    except MemoryError:
        raise _expands(str(path), "more than fits into memory") from None
    except (pa.ArrowException, OSError, ValueError) as error:  # Arrow's own words may quote what the file holds
        kind = type(error).__name__
    raise InputError(f"Expected a Parquet file at {str(path)!r}, got one that cannot be read ({kind}); write it again.")


def _texts(schema: Any) -> list[str]:
    columns = (schema.column(place) for place in range(len(schema)))
    return [
        column.path
        for column in columns
        if column.physical_type == _TEXT and column.logical_type.type != _DECIMAL and "." not in column.path
    ]


def _read(file: Any, path: str, size: int, only: Collection[str] | None) -> Any:
    allowed = max(ALWAYS_ALLOWED, LARGEST_EXPANSION * size)
    _check_size(path, _number_bytes(file.metadata), allowed)
    table = file.read(None if only is None else sorted(set(only).intersection(file.schema_arrow.names)))
    _check_size(path, sum(_text_bytes(column) for column in table.columns), allowed)
    return table


def _number_bytes(footer: Any) -> int:
    """What the values take at least once they are decoded, by what the footer says."""
    # Only its totals are asked: pyarrow ends the process when asked about the columns of a damaged row group.
    columns = (footer.schema.column(place) for place in range(len(footer.schema)))
    return footer.num_rows * sum(max(8, column.length or 0) for column in columns)


def _text_bytes(column: Any) -> int:
    """What a column of words and places takes when every place holds its word."""
    pa, compute = arrow(), arrow("compute")
    if not pa.types.is_dictionary(column.type) or pa.types.is_primitive(column.type.value_type):
        return 0
    lengths = (compute.binary_length(chunk.dictionary).cast(pa.int64()).take(chunk.indices) for chunk in column.chunks)
    return sum(compute.sum(length).as_py() or 0 for length in lengths)


def _check_size(path: str, expanded: int, allowed: int) -> None:
    if expanded > allowed:
        raise _expands(path, f"{expanded} bytes from a file that may expand to {allowed}")


def _expands(path: str, what: str) -> InputError:
    return InputError(f"Expected a table of a sensible size in {path!r}, got {what}; split it, or use ParquetRows.")


register_source("a path ending in .parquet", is_path_ending(".parquet"), read_parquet, read_parquet_names, read_parquet)
