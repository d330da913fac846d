"""Parquet files in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sordino.core.errors import InputError
from sordino.data.lazy_arrow import arrow, arrow_parquet
from sordino.data.sources.arrow_table import from_arrow
from sordino.data.sources.registry import existing_file, is_path_ending, register_source
from sordino.data.table import Table


def read_parquet(path: str | Path) -> Table:
    """Read a Parquet file; column types are those of the file."""
    return from_arrow(_opened(path, lambda file: file.read()))


def read_parquet_names(path: str | Path) -> tuple[str, ...]:
    """The column names in a Parquet file's footer; no row is read."""
    return tuple(_opened(path, lambda file: file.schema_arrow.names))


def _opened(path: str | Path, use: Callable[[Any], Any]) -> Any:
    pa = arrow()
    file = existing_file(path)
    try:
        with file.open("rb") as handle:
            return use(arrow_parquet().ParquetFile(handle))
    except (pa.ArrowException, OSError, ValueError) as error:
        detail = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"Expected a Parquet file at {str(path)!r}, got one that cannot be read: {detail[:200]}."
        ) from None


register_source("a path ending in .parquet", is_path_ending(".parquet"), read_parquet, read_parquet_names)
