"""pyarrow, loaded when a table is read and not before, so that importing Sordino stays quick."""

import os
from functools import cache
from importlib import import_module
from pathlib import Path
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


def native_file(path: Path) -> Any:
    """A file for Arrow's readers that its threads can read without Python.

    Arrow reads ahead on threads of its own, which may still run when a file was refused and the interpreter ends. A
    thread that then calls into Python, as it does for the file objects of Python, aborts the process. It is not closed
    here: the last thread that reads it does.
    """
    return arrow().OSFile(os.fsencode(path), "r")
