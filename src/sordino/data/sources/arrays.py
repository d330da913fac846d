"""NumPy arrays in: a mapping of names to one-dimensional arrays, a structured array, or a matrix with names."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.arrow_tables import arrow_column
from sordino.data.sources.registry import register_source, unique_names
from sordino.data.table import Booleans, Column, Numbers, Opaque, Table, arrow


def from_arrays(arrays: Mapping[str, Any]) -> Table:
    """Turn named one-dimensional arrays (or lists) into a `Table`; NaN and None are missing."""
    names = unique_names(arrays)
    return Table({name: _column(name, arrays[name]) for name in names})


def from_matrix(matrix: Any, names: Sequence[str]) -> Table:
    """Turn a two-dimensional array and one name per column into a `Table`."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InputError(
            f"Expected a matrix with one column for each of the {len(names)} names, got shape {values.shape}; "
            "give as many names as columns."
        )
    checked = unique_names(names)
    return Table({name: _column(name, values[:, index]) for index, name in enumerate(checked)})


def from_structured(array: Any) -> Table:
    """Turn a one-dimensional structured array into a `Table`."""
    return from_arrays({name: array[name] for name in array.dtype.names})


def _column(name: str, given: Any) -> Column:
    try:
        values = np.asarray(given).view()
    except Exception:  # what an object in a cell raises may quote the cell
        raise_alone(InputError(f"Expected column {name!r} to be one list of values, got lists of unequal length."))
    if values.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got shape {values.shape}; split it.")
    values.flags.writeable = False
    kind = values.dtype.kind
    if kind == "b":
        return Booleans(values)
    if kind in "iuf":
        return Numbers(values.astype(np.float64) if kind == "f" and values.dtype != np.float64 else values)
    if kind not in "UO":
        return Opaque(f"{values.dtype} values", len(values))
    try:
        return arrow_column(arrow().array(values.tolist(), from_pandas=True))
    except Exception:  # an object in a cell may raise anything
        return Opaque("mixed Python objects", len(values))


def _is_structured(source: Any) -> bool:
    return isinstance(source, np.ndarray) and source.dtype.names is not None and source.ndim == 1


register_source(
    "a mapping of names to NumPy arrays", lambda source: isinstance(source, Mapping), from_arrays, unique_names
)
register_source(
    "a structured NumPy array", _is_structured, from_structured, lambda source: unique_names(source.dtype.names)
)
register_source("a Table", lambda source: isinstance(source, Table), lambda source: source, lambda source: source.names)
