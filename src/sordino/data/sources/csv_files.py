"""CSV in, strictly: a header, different names, equally long rows, one encoding; every cell stays text.

The dialect is declared, or told from the header and the first bytes alone: rows are private, so none of them is looked
at to guess. A delimiter is the one of comma, semicolon, tab and bar that splits the header most often; an encoding is
the byte order mark's, else UTF-8; compression is told by its first bytes. A decimal mark cannot be told from a header,
so it is a point unless declared. Bytes of a cell that are not of the encoding are spelled out: such a
cell is a word that nobody declared, and no other cell is read otherwise for it.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import mmap
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any, ClassVar

from sordino.core.spec.fields import Contradiction, Section, Text, Word
from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import Column, TextColumn, arrow
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import (
    TablePart,
    check_expansion,
    existing_file,
    kept_names,
    register_source,
    unique_names,
)
from sordino.data.table import Table, native_file
from sordino.data.words import TextLine

# A row must fit into one block; sixteen mebibytes hold a row of 10^5 columns with room to spare.
_BLOCK_BYTES = 16 * 2**20

DELIMITERS = (",", ";", "\t", "|")
_NAMED = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_PACKED: tuple[tuple[bytes, str, Callable[..., Any]], ...] = (
    (b"\x1f\x8b", "gzip", gzip.open),
    (b"BZh", "bz2", bz2.open),
    (b"\x28\xb5\x2f\xfd", "zstd", lambda path: arrow().CompressedInputStream(native_file(path), "zstd")),
    (b"\xfd7zXZ", "xz", lzma.open),
)
_ENDINGS = (".csv", ".tsv")
_PACKED_ENDINGS = (".gz", ".bz2", ".zst", ".xz")


@dataclass(frozen=True, kw_only=True)
class Dialect(Section):
    """How a CSV file is written; what is absent is told from the header."""

    delimiter: Annotated[str | None, TextLine(), "one character between cells; absent: detected from the header"] = None
    decimal: Annotated[str, Word({".": ".", ",": ","}), "mark in front of the decimals of a number"] = "."
    encoding: Annotated[str | None, Text(), "such as windows-1252; absent: by the byte order mark, else UTF-8"] = None

    @property
    def words(self) -> str:
        mark = "detected from the header" if self.delimiter is None else _NAMED.get(self.delimiter, self.delimiter)
        decimal = "comma" if self.decimal == "," else "point"
        return f"delimiter {mark}, decimal {decimal}, encoding {self.encoding or 'UTF-8 or by its mark'}"

    def contradictions(self) -> Iterator[Contradiction]:
        """One character that is no quote, an encoding that there is, and marks that differ."""
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0'):
            yield Contradiction("delimiter", "to be one ASCII character", mark, "try ',' or ';'")
        elif mark == self.decimal:
            yield Contradiction("decimal", "to differ from the delimiter", mark, "correct one of the two")
        if self.encoding is not None and not _is_encoding(self.encoding):
            yield Contradiction("encoding", "to be one that Python knows", self.encoding, "try 'windows-1252'")


@dataclass(frozen=True)
class CsvFile:
    r"""A CSV file, or a family of files with one header, and how they are written.

    Cells stay text (also ``=1+1`` or ``007``) until a schema says what they are.

    | case | behaviour |
    | --- | --- |
    | missing file, directory, empty file | `InputError` |
    | first line blank, or made of numbers only | `InputError`: a header is needed |
    | two delimiters that split the header equally often | `InputError`: one has to be given |
    | repeated or blank column name | `InputError` that names it |
    | a row with more or fewer cells than the header | `InputError`, before a debit |
    | a quote that is not closed | `InputError`, before a debit |
    | a header that is not of the encoding | `InputError` |
    | a cell that is not of the encoding | a word with its odd bytes spelled out |
    | header but no rows | a table without records, because how many there are may be private |

    Attributes:
        path: of the file; a pattern such as ``visits-*.csv``, or several paths, for a family read one after the other.
        dialect: what is known of how it is written.

    Examples:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "stays.csv"
        >>> _ = path.write_text("age;cost\n47;1,5\n")
        >>> CsvFile(path, Dialect(decimal=",")).names()
        ('age', 'cost')
    """

    path: str | Path | Sequence[str | Path]
    dialect: Dialect = Dialect()

    def files(self) -> tuple[Path, ...]:
        """The files of the family, in the order of their names where a pattern says which."""
        if not isinstance(self.path, str | Path):
            given = tuple(Path(path) for path in self.path)
        elif has_magic(str(self.path)) and not os.path.exists(self.path):
            given = tuple(map(Path, sorted(glob(str(self.path)))))
        else:
            given = (Path(self.path),)
        if not given:
            raise InputError(f"Expected files that match {str(self.path)!r}, got none; check the pattern.")
        return tuple(map(existing_file, given))

    def names(self) -> tuple[str, ...]:
        """The column names; all files of a family have the same."""
        return self._headers()[0].names

    def delimiter(self) -> str:
        """The declared delimiter, or the one that the header tells."""
        return self._headers()[0].delimiter

    def read(self, only: Collection[str] | None = None) -> Table:
        """The table; with `only`, other columns are checked for their number of cells and dropped."""
        headers = self._headers()
        names = headers[0].names
        kept = kept_names(names, only)
        pa = arrow()
        empty = pa.table({name: pa.array([], pa.string()) for name in kept})
        stored, expanded = sum(header.file.stat().st_size for header in headers), 0

        def count(more: int) -> None:
            nonlocal expanded
            expanded += more
            check_expansion(str(self.path), expanded, stored)

        parts = [_parsed(header, kept, count) for header in headers if header.more]
        table = from_arrow(pa.concat_tables([empty, *parts]) if len(parts) != 1 else parts[0])
        return Table({name: _marked(column, self.dialect) for name, column in table.columns.items()})

    def parts(self) -> "list[TablePart]":
        """One part for each file; headers are read, and no row."""
        headers = self._headers()
        return [CsvPart(str(header.file), self.dialect) for header in headers]

    def _headers(self) -> "list[_Header]":
        headers = [_header(file, self.dialect) for file in self.files()]
        odd = [str(header.file) for header in headers if header.names != headers[0].names]
        if odd:
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            raise InputError(f"All files of a family must have the same header; {odd[0]!r}{more} has a different one.")
        return headers


@dataclass(frozen=True)
class CsvPart(TablePart):
    """One CSV file, a block at a time where it is plain UTF-8, and whole where it has to be unpacked or decoded."""

    path: str
    dialect: Dialect
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return repr(self.path)

    def names(self) -> tuple[str, ...]:
        return CsvFile(self.path, self.dialect).names()

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        header = _header(existing_file(self.path), self.dialect)
        if not header.more or not header.plain:
            yield CsvFile(self.path, self.dialect).read(columns)
            return
        pa, options = arrow(), _options(header, tuple(columns))
        try:
            for batch in arrow("csv").open_csv(native_file(header.file), *options):
                table = from_arrow(batch)
                yield Table({name: _marked(table.columns[name], self.dialect) for name in columns})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise_alone(_uneven(header, error))

    def check_rows(self) -> None:
        """Every row has the cells of the header, and every quote is closed: an open one swallows other rows."""
        header = _header(existing_file(self.path), self.dialect)
        for _ in self.tables(header.names[:1]):
            pass
        if header.more and header.plain:
            _check_plain_quotes(header)


def _marked(column: Column, dialect: Dialect) -> Column:
    return replace(column, decimal=dialect.decimal) if isinstance(column, TextColumn) else column


@dataclass(frozen=True)
class _Header:
    """What the first line says, and how the rest is to be read."""

    file: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str
    packed: str | None
    more: bool

    @property
    def plain(self) -> bool:
        """Whether the file is UTF-8 as it lies."""
        return self.packed is None and self.encoding in ("utf-8", "utf-8-sig")


def _header(file: Path, dialect: Dialect) -> _Header:
    with file.open("rb") as raw:
        first = raw.read(6)
    if first.startswith(b"PK"):
        raise InputError(f"Expected a CSV file at {str(file)!r}, got a zip or Excel file; save its table as CSV.")
    packed = next((word for mark, word, _ in _PACKED if first.startswith(mark)), None)
    # A mark behind a compression shows in the decoded bytes only.
    with _opened(file, packed) as stream:
        try:
            begin = bytes(stream.read(4))
        except _not_unpacked():
            raise_alone(_unpackable(file))
    told = next((word for mark, word in _MARKS if begin.startswith(mark)), "utf-8")
    encoding = dialect.encoding or told
    tried = {
        mark: _split(file, packed, encoding, mark)
        for mark in (DELIMITERS if dialect.delimiter is None else (dialect.delimiter,))
    }
    delimiter, (names, more) = _chosen(file, tried)
    if not names:
        raise InputError(f"Expected column names in the first line of {str(file)!r}, got a blank line; add a header.")
    if all(_is_number(name) for name in names):
        raise InputError(
            f"Expected column names in the first line of {str(file)!r}, got only numbers, which look like a record; "
            "add a header."
        )
    return _Header(file, unique_names(names), delimiter, encoding, packed, more)


def _chosen(file: Path, tried: dict[str, Any]) -> tuple[str, tuple[list[str], bool]]:
    """The delimiter that splits the header most often; a comma where none splits it."""
    read = {mark: found for mark, found in tried.items() if not isinstance(found, InputError)}
    if not read:
        raise_alone(next(iter(tried.values())))
    # What cuts a quoted name in two leaves its quotation marks in the pieces.
    whole = {mark: found for mark, found in read.items() if not any('"' in name for name in found[0])}
    read = whole or read
    most = max(len(names) for names, _ in read.values())
    best = [mark for mark, (names, _) in read.items() if len(names) == most]
    if most > 1 and len(best) > 1:
        words = " and ".join(_NAMED[mark] for mark in best)
        raise InputError(
            f"Expected one delimiter in the header of {str(file)!r}, got {words}, which split it equally often; say "
            "which it is (delimiter, --delimiter)."
        )
    return best[0], read[best[0]]


def _split(file: Path, packed: str | None, encoding: str, delimiter: str) -> Any:
    """The header's cells and whether anything follows, or the reason why this delimiter cannot be it."""
    try:
        with io.TextIOWrapper(_opened(file, packed), encoding=encoding, errors="replace", newline="") as lines:
            names = next(csv.reader(_bounded(lines), delimiter=delimiter, strict=True), [])
            # What could not be decoded, or two bytes for each character and no mark that says so.
            if any("\ufffd" in name or "\0" in name for name in names):
                return _other_bytes(file, encoding)
            return names, lines.read(1) != ""
    except UnicodeError:
        return _other_bytes(file, encoding)
    except csv.Error as error:
        return InputError(f"Expected a CSV header in {str(file)!r}, got a line that cannot be read: {error}.")
    except _not_unpacked():
        return _unpackable(file)


def _opened(file: Path, packed: str | None) -> Any:
    opener = next((opener for _, word, opener in _PACKED if word == packed), None)
    return file.open("rb") if opener is None else opener(file)


def _options(header: _Header, kept: tuple[str, ...]) -> tuple[Any, Any, Any]:
    pa, reader, names = arrow(), arrow("csv"), header.names
    read = reader.ReadOptions(block_size=_BLOCK_BYTES, column_names=list(names), skip_rows_after_names=1)
    # In a file of one column a blank line is a missing value, not decoration.
    parse = reader.ParseOptions(delimiter=header.delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    convert = reader.ConvertOptions(
        check_utf8=False,  # by `valid_text`, cell by cell
        column_types=dict.fromkeys(kept, pa.string()),
        strings_can_be_null=False,
        include_columns=list(kept),
    )
    return read, parse, convert


def _parsed(header: _Header, kept: tuple[str, ...], count: Callable[[int], None]) -> Any:
    pa, reader, options = arrow(), arrow("csv"), _options(header, kept)
    try:
        if header.plain:
            _check_plain_quotes(header)
            return reader.read_csv(native_file(header.file), *options)
        text = _as_utf8(header, count)
        _check_quotes(header, text)
        return reader.read_csv(pa.BufferReader(text), *options)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise_alone(_uneven(header, error))  # alone: Arrow's error quotes a row


def _uneven(header: _Header, error: Exception) -> InputError:
    return InputError(f"Expected equally long rows in {str(header.file)!r}, got {_complaint(error)}.")


def _check_plain_quotes(header: _Header) -> None:
    with header.file.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        _check_quotes(header, text)


def _check_quotes(header: _Header, text: Any) -> None:
    """Refuse a quote that is open at the end of the file: Arrow reads all rows behind it as one cell."""
    # A quote opens a cell only where the cell begins; elsewhere it is a letter.
    delimiter = re.escape(header.delimiter.encode())
    quoted = re.compile(rb'(?:(?<=[\r\n%b])|\A)"[^"]*(?:""[^"]*)*("?)' % delimiter)
    if not all(cell[1] for cell in quoted.finditer(text)):
        raise InputError(
            f"Expected every quoted cell of {str(header.file)!r} to end, got one that is open at the end of the file; "
            "close its quote, or double the quotes inside of cells."
        )


def _as_utf8(header: _Header, count: Callable[[int], None]) -> bytes:
    """The whole text in memory, unpacked and decoded; Arrow's own decoding would call Python from its threads."""
    pieces = []
    try:
        with _opened(header.file, header.packed) as stream:
            while piece := bytes(stream.read(_BLOCK_BYTES)):
                pieces.append(piece)
                count(len(piece))
    except _not_unpacked():
        raise_alone(_unpackable(header.file))
    text = b"".join(pieces)
    if header.encoding in ("utf-8", "utf-8-sig"):
        return text
    return text.decode(header.encoding, "backslashreplace").encode("utf-8", "backslashreplace")


def _not_unpacked() -> tuple[type[Exception], ...]:
    """What the readers of compressed files raise where one is damaged."""
    return (OSError, EOFError, lzma.LZMAError, zlib.error, arrow().ArrowException)


def _bounded(lines: Any) -> Iterator[str]:
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


class OtherBytes(InputError):
    """A file that is written in another encoding than the one it was read with."""


def _other_bytes(file: Path, encoding: str) -> OtherBytes:
    word = "UTF-8" if encoding.startswith("utf-8") else encoding
    return OtherBytes(
        f"Expected {word} text in {str(file)!r}, got other bytes; save the file as UTF-8, or give its encoding, such "
        "as `schema new --encoding windows-1252` for a file that Excel wrote in Western Europe."
    )


def _unpackable(file: Path) -> InputError:
    return InputError(f"Expected a whole compressed file at {str(file)!r}, got one that cannot be unpacked.")


def _is_encoding(word: str) -> bool:
    try:
        "".encode(word)
    except (LookupError, ValueError, UnicodeError):
        return False
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_csv_path(source: Any) -> bool:
    """Whether something is a path, or a pattern of paths, of CSV files, compressed or not."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED_ENDINGS else path
    return inner.suffix.lower() in _ENDINGS


def existing_table(path: str | Path) -> None:
    """Refuse a path, or a pattern of paths, at which no file is."""
    if is_csv_path(path):
        CsvFile(path).files()
    elif not (os.path.isdir(path) or has_magic(str(path)) or "#" in str(path)):
        existing_file(path)


def written_as(source: Any, dialect: Dialect | None) -> Any:
    """The same source with a declared dialect, if it is a CSV path."""
    return CsvFile(source, dialect) if dialect is not None and is_csv_path(source) else source


def _file(source: Any) -> CsvFile:
    return source if isinstance(source, CsvFile) else CsvFile(source)


register_source(
    "a path ending in .csv, or a CsvFile",
    lambda source: isinstance(source, CsvFile) or is_csv_path(source),
    lambda source, only: _file(source).read(only),
    parts=lambda source: _file(source).parts(),
)
