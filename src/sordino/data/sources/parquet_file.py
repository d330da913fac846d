"""Parquet files in."""

from pathlib import Path

from sordino.core.errors import InputError
from sordino.data.lazy_arrow import arrow, arrow_parquet
from sordino.data.sources.arrow_table import from_arrow
from sordino.data.sources.registry import existing_file, is_path_ending, register_source
from sordino.data.table import Table


def read_parquet(path: str | Path) -> Table:
    """Read a Parquet file; column types are those of the file."""
    pa = arrow()
    file = existing_file(path)
    try:
        with file.open("rb") as handle:
            table = arrow_parquet().ParquetFile(handle).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        detail = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"Expected a Parquet file at {str(path)!r}, got one that cannot be read: {detail[:200]}."
        ) from None
    return from_arrow(table)


register_source("a path ending in .parquet", is_path_ending(".parquet"), read_parquet)
