"""pyarrow, loaded when a table is read and not before, so that importing Sordino stays quick."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def arrow() -> Any:
    """The module `pyarrow`."""
    return import_module("pyarrow")


@cache
def arrow_compute() -> Any:
    """The module `pyarrow.compute`."""
    return import_module("pyarrow.compute")


@cache
def arrow_csv() -> Any:
    """The module `pyarrow.csv`."""
    return import_module("pyarrow.csv")


@cache
def arrow_parquet() -> Any:
    """The module `pyarrow.parquet`."""
    return import_module("pyarrow.parquet")
