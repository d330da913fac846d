"""Keyed digests: they tie the entries into a chain, so that damage is noticed, and fingerprint the rows.

The key is random, made at opening, and kept inside the ledger: whoever can read the ledger can recompute the digests,
so they protect against accidents and not against the owner of the file. Without the key a fingerprint says nothing
about rows.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import refuse

KEY_BYTES = 32
DIGEST_BYTES = 32
BEGINNING = bytes(DIGEST_BYTES)


def new_key() -> bytes:
    """A random key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def digest(key: bytes, purpose: str, *parts: str | bytes) -> bytes:
    """HMAC-SHA256 of parts, each preceded by its length so that no two lists of parts agree."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        content = part.encode("utf-8") if isinstance(part, str) else part
        mac.update(len(content).to_bytes(8, "big"))
        mac.update(content)
    return mac.digest()


def same(left: bytes, right: bytes) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(left, right)


def fingerprint(key: bytes, arrays: Iterable[NDArray]) -> bytes:
    """Keyed digest of the rows, given as arrays or as an iterator over blocks of them."""
    mac = hmac.new(key, b"rows", digestmod=hashlib.sha256)
    for array in arrays:
        block = np.ascontiguousarray(array)
        if block.dtype.hasobject:
            raise refuse("rows", "to be arrays of numbers or text", f"an array of {block.dtype} values")
        mac.update(f"{block.dtype.str}{block.shape}".encode())
        mac.update(block.tobytes())
    return mac.digest()
