"""Keyed digests: they tie the entries into a chain, so that damage is noticed.

The key is random, made at opening, and kept inside the ledger: whoever can read the ledger can recompute the digests,
so they protect against accidents and not against the owner of the file.
"""

import hashlib
import hmac
import secrets

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
