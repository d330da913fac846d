"""Reads CSV files strictly: distinct names, rows of equal length, one encoding; every cell stays text.

The dialect is declared, or inferred from the header and the first bytes alone: rows are private, so none of them is
looked at to guess. A header does not show the decimal mark, so it is a point unless declared. Bytes of a cell that are
not of the encoding are spelled out: such a cell is a word that nobody declared, and no other cell changes.
"""

import codecs
import csv
import io
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from sordino.core.spec.fields import Contradiction, Section, Text, Word
from sordino.core.validate import InputError, raise_alone
from sordino.data.columns.base import TextLine
from sordino.data.raw_columns import arrow, parsed_number, stored
from sordino.data.sources import registry
from sordino.data.table import Table, native_file

# A row must fit into one block; sixteen mebibytes hold a row of 10^5 columns with room to spare.
_BLOCK_BYTES = 16 * 2**20

DELIMITERS = (",", ";", "\t", "|")
_NAMED = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
# In these a few letters of one cell change what all bytes behind it mean, or stand for the end of a line.
_STATEFUL = ("hz", "iso2022", "utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape")


@dataclass(frozen=True, kw_only=True)
class Dialect(Section):
    """How a CSV file is written; what is absent is inferred from the header."""

    delimiter: Annotated[str | None, TextLine(), "one character between cells; absent: detected from the header"] = None
    decimal: Annotated[str, Word({".": ".", ",": ","}), "mark in front of the decimals of a number"] = "."
    encoding: Annotated[str | None, Text(), "such as windows-1252; absent: by the byte order mark, else UTF-8"] = None

    @property
    def words(self) -> str:
        mark = "detected from the header" if self.delimiter is None else _NAMED.get(self.delimiter, self.delimiter)
        decimal = "comma" if self.decimal == "," else "point"
        return f"delimiter {mark}, decimal {decimal}, encoding {self.encoding or 'UTF-8 or by its mark'}"

    def contradictions(self) -> Iterator[Contradiction]:
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0'):
            yield Contradiction("delimiter", "to be one ASCII character", mark, "try ',' or ';'")
        elif mark == self.decimal:
            yield Contradiction("decimal", "to differ from the delimiter", mark, "correct one of the two")
        if self.encoding is not None and not _is_encoding(self.encoding):
            known = "to be one that Python knows, in which no line changes how the next is read"
            yield Contradiction("encoding", known, self.encoding, "try 'windows-1252'")


@dataclass(frozen=True)
class CsvFile:
    r"""A CSV file, or a family of files with one header, and how they are written.

    Cells stay text (also ``=1+1`` or ``007``) until a schema says what they are.

    Rows with more or fewer cells than the header, and quotes that are not closed, are refused before a debit. A header
    without rows is a table without records, because how many there are may be private.

    Attributes:
        path: of the file; a pattern such as ``visits-*.csv`` for a family read one after the other.
        dialect: what is known of how it is written.

    Examples:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "stays.csv"
        >>> _ = path.write_text("age;cost\n47;1,5\n")
        >>> CsvFile(path, Dialect(decimal=",")).names()
        ('age', 'cost')
    """

    path: str | Path
    dialect: Dialect = Dialect()

    def files(self) -> tuple[Path, ...]:
        """The files of the family, in the order of their names."""
        family = has_magic(str(self.path)) and not os.path.exists(self.path)
        paths = sorted(glob(str(self.path))) if family else [self.path]
        if not paths:
            raise InputError(f"No file matches {str(self.path)!r}. Check the pattern.")
        return tuple(map(registry.existing_file, paths))

    def names(self) -> tuple[str, ...]:
        """The column names; all files of a family have the same."""
        return self.headers()[0].names

    def headers(self) -> "list[_Header]":
        """What the first line of each file says, the delimiter included; no row is read."""
        headers = [_header(file, self.dialect) for file in self.files()]
        odd = [str(header.file) for header in headers if header.names != headers[0].names]
        if odd:
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            raise InputError(f"All files of a family must have the same header; {odd[0]!r}{more} has a different one.")
        return headers


@dataclass(frozen=True)
class CsvPart(registry.FilePart):
    """One CSV file, a block at a time where it is plain UTF-8, and whole where it has to be unpacked or decoded."""

    dialect: Dialect

    def names(self) -> tuple[str, ...]:
        return _header(registry.existing_file(self.path), self.dialect).names

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        header = _header(registry.existing_file(self.path), self.dialect)
        if not header.more:
            yield registry.joined([], columns)
            return
        pa, reader, text, names = arrow(), arrow("csv"), _checked_text(header), list(header.names)
        sizes = {"block_size": _BLOCK_BYTES, "use_threads": False}  # rows are counted where one thread reads
        read = reader.ReadOptions(column_names=names, skip_rows_after_names=1, **sizes)
        # In a file of one column a blank line is a missing value, not decoration.
        many = {"newlines_in_values": True, "ignore_empty_lines": len(names) > 1}
        parse = reader.ParseOptions(delimiter=header.delimiter, **many)
        # Text is checked by `valid_text`, cell by cell.
        types = {"column_types": dict.fromkeys(columns, pa.string()), "include_columns": list(columns)}
        convert = reader.ConvertOptions(check_utf8=False, strings_can_be_null=False, **types)
        try:
            for batch in reader.open_csv(text, read, parse, convert):
                yield Table({name: stored(batch.column(name), self.dialect.decimal) for name in columns})
        except (pa.ArrowException, OSError, ValueError) as error:
            # Alone, because Arrow's error quotes a row.
            raise_alone(InputError(f"Expected equally long rows in {str(header.file)!r}, got {_complaint(error)}."))

    def check_rows(self) -> None:
        """Every row has the cells of the header, and every quote is closed: an open one swallows other rows."""
        for _ in self.tables(self.names()[:1]):
            pass


class _Header(NamedTuple):
    """What the first line says, and how the rest is to be read."""

    file: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str
    packed: str | None
    more: bool


def _header(file: Path, dialect: Dialect) -> _Header:
    with file.open("rb") as raw:
        first = raw.read(6)
    if first.startswith(b"PK"):
        raise InputError(f"{str(file)!r} is a zip or an Excel file. Save its table as CSV.")
    packed = next((word for mark, word in _PACKED.items() if first.startswith(mark)), None)
    text, encoding, more = _first_line(file, packed, dialect.encoding)
    delimiter, names = _chosen(file, text, DELIMITERS if dialect.delimiter is None else (dialect.delimiter,))
    if not names:
        raise InputError(f"The first line of {str(file)!r} is blank. Add a header with column names.")
    if all(parsed_number(name.strip()) is not None for name in names):
        remedy = "Add a header with column names."
        raise InputError(f"The first line of {str(file)!r} has only numbers, like a record. {remedy}")
    return _Header(file, registry.unique_names(names), delimiter, encoding, packed, more)


def _first_line(file: Path, packed: str | None, declared: str | None) -> tuple[str, str, bool]:
    """The header as text, or several lines of it where a quoted name goes on; the encoding; whether rows follow."""
    encoding = declared or "utf-8"
    try:
        with _opened(file, packed) as stream:
            begin = bytes(stream.read(4))  # a mark behind a compression shows in the unpacked bytes only
        encoding = declared or next((word for mark, word in _MARKS if begin.startswith(mark)), "utf-8")
        with io.TextIOWrapper(_opened(file, packed), encoding=encoding, errors="replace", newline="") as lines:
            text = line = lines.readline(_BLOCK_BYTES)
            while line and text.count('"') % 2 and len(text) < _BLOCK_BYTES:
                line = lines.readline(_BLOCK_BYTES)
                text += line
            more = lines.read(1) != ""
    except UnicodeError:
        raise OtherBytes(file, encoding) from None
    except (OSError, arrow().ArrowException):
        raise_alone(InputError(f"The compressed file {str(file)!r} is damaged."))
    if len(text) >= _BLOCK_BYTES:
        raise InputError(f"The header of {str(file)!r} is longer than {_BLOCK_BYTES} characters.")
    # What could not be decoded, or two bytes for each character and no mark that says so.
    if "\ufffd" in text or "\0" in text:
        raise OtherBytes(file, encoding)
    return text, encoding, more


def _chosen(file: Path, text: str, marks: Sequence[str]) -> tuple[str, list[str]]:
    """The delimiter that splits the header most often, a comma where none splits it; and the names."""
    split: dict[str, list[str]] = {}
    complaint = ""
    for mark in marks:
        try:
            split[mark] = next(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True), [])
        except csv.Error as error:
            complaint = str(error)
    if not split:
        raise InputError(f"The header of {str(file)!r} cannot be read: {complaint}.")
    # What cuts a quoted name in two leaves its quotation marks in the pieces.
    whole = {mark: names for mark, names in split.items() if not any('"' in name for name in names)} or split
    most = max(map(len, whole.values()))
    best = [mark for mark, names in whole.items() if len(names) == most]
    if most > 1 and len(best) > 1:
        words = " and ".join(_NAMED[mark] for mark in best)
        raise InputError(f"The header of {str(file)!r} is split equally often by {words}; say which (--delimiter).")
    return best[0], whole[best[0]]


def _opened(file: Path, packed: str | None) -> Any:
    return file.open("rb") if packed is None else arrow().CompressedInputStream(native_file(file), packed)


def _checked_text(header: _Header) -> Any:
    """The text in UTF-8, in which every quote is closed, such that Arrow's threads read it without calling Python."""
    if header.packed is None and header.encoding in ("utf-8", "utf-8-sig"):
        with header.file.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            _check_quotes(header, text)
        return native_file(header.file)
    pieces, size, stored_bytes = [], 0, header.file.stat().st_size
    try:
        with _opened(header.file, header.packed) as stream:
            while piece := bytes(stream.read(_BLOCK_BYTES)):
                pieces.append(piece)
                size += len(piece)
                registry.check_expansion(repr(str(header.file)), size, stored_bytes)
        text = b"".join(pieces)
        if header.encoding not in ("utf-8", "utf-8-sig"):
            text = text.decode(header.encoding, "backslashreplace").encode("utf-8", "backslashreplace")
    except MemoryError:
        raise_alone(InputError(f"The rows of {str(header.file)!r} do not fit into memory. Split the file."))
    except (OSError, arrow().ArrowException):
        raise_alone(InputError(f"The compressed file {str(header.file)!r} is damaged."))
    _check_quotes(header, text)
    return arrow().BufferReader(text)


def _check_quotes(header: _Header, text: object) -> None:
    """Refuse a quote that is open at the end of the file: Arrow reads all rows behind it as one cell."""
    # A quote opens a cell only where the cell begins; elsewhere it is a letter.
    begins = rb"(?:(?<=[\r\n%b])|\A)" % re.escape(header.delimiter.encode())
    closed = re.compile(rb'(?:[^"]++|%b"[^"]*+(?:""[^"]*+)*+"|(?!%b)")*+' % (begins, begins))
    if text.find(b'"') >= 0 and closed.match(text).end() < len(text):  # type: ignore[union-attr]
        raise InputError(f"A quoted cell of {str(header.file)!r} does not end. Close its quote, or double inner ones.")


def _complaint(error: Exception) -> str:
    """What Arrow found, without the row it quotes: error messages end up in logs, and rows are private."""
    if isinstance(error, MemoryError):
        return "more of them than fit into memory; use Parquet and read it in pieces"
    uneven = re.match(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", str(error))
    if uneven is None:
        return "a file that does not parse; look for an open quote, or a row longer than 16 MiB"
    row, expected, got = uneven.groups()
    where = "one row" if row is None else f"row {int(row) - 1}"  # Arrow counts the header as a line
    return f"{where} with {got} cells where the header has {expected}; quote cells that hold the delimiter"


class OtherBytes(InputError):
    """A file that is written in another encoding than the one it was read with."""

    def __init__(self, file: Path, encoding: str) -> None:
        super().__init__(
            f"{str(file)!r} is not {'UTF-8' if encoding.startswith('utf-8') else encoding} text. Save the file as "
            "UTF-8, or give its encoding, such as `schema new --encoding windows-1252` for a file that Excel wrote in "
            "Western Europe."
        )


def _is_encoding(word: str) -> bool:
    try:
        "".encode(word)
        return not codecs.lookup(word).name.startswith(_STATEFUL)
    except (LookupError, ValueError, UnicodeError):
        return False


# Paths, or patterns of paths, of CSV files, compressed or not.
is_csv_path = registry.is_path_ending(".csv", ".tsv", packed=(".gz", ".bz2", ".zst"))


def _parts(source: Any) -> list[CsvPart]:
    family = source if isinstance(source, CsvFile) else CsvFile(source)
    return [CsvPart(str(header.file), family.dialect) for header in family.headers()]


registry.register_source("a path ending in .csv, or a CsvFile", is_csv_path, _parts, CsvFile)
