"""Whether two releases were computed from the same records: a keyed digest for every column of the rows.

Two fits of one table need not read the same columns, nor the same target. They share some, though, and a column that
holds the same values in the same order stands for the same rows. So a fingerprint has one digest for the number of rows
and one for each column by name; rows are others where the number differs, or where there are common columns and not
one of them agrees. A constant column says nothing about who is in the table and is left out.

The key is the ledger's: without it a fingerprint says nothing about rows.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import refuse
from sordino.ledger import seal

_PART = seal.DIGEST_BYTES


def fingerprint(key: bytes, columns: Mapping[str, NDArray]) -> bytes:
    """The digests of named columns of one length: of the number of rows, then of each name and its content."""
    found = {name: np.asarray(column) for name, column in columns.items()}
    lengths = {len(column) if column.ndim else -1 for column in found.values()}
    if len(lengths) != 1 or min(lengths) < 0:
        raise refuse("columns", "to be arrays of one length, at least one", sorted(lengths))
    parts = [seal.digest(key, "number of rows", str(lengths.pop()))]
    for name, column in found.items():
        if column.dtype.hasobject:
            raise refuse("columns", "to be arrays of numbers or text", f"an array of {column.dtype} values")
        if len(column) and (column != column[0]).any():
            form, content = f"{column.dtype.str}{column.shape}", np.ascontiguousarray(column).tobytes()
            parts += [seal.digest(key, "column", name), seal.digest(key, "content", name, form, content)]
    return b"".join(parts)


def other_rows(first: bytes, second: bytes) -> bool:
    """Whether two fingerprints of one ledger are of different rows."""
    if not seal.same(first[:_PART], second[:_PART]):
        return True
    before, after = _columns(first), _columns(second)
    common = before.keys() & after.keys()
    return bool(common) and not any(seal.same(before[name], after[name]) for name in common)


def _columns(found: bytes) -> dict[bytes, bytes]:
    parts = [found[place : place + _PART] for place in range(_PART, len(found), _PART)]
    return dict(zip(parts[::2], parts[1::2], strict=False))
