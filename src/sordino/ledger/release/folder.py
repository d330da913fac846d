"""Release folders: written whole, and read with limits because they may be damaged or hostile."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sordino.core.atomic_write import write_new_folder
from sordino.core.spec.document import check_plain, parse, read_bytes, read_text
from sordino.core.validate import InputError, SordinoError
from sordino.ledger.release.document import StoredRelease, from_document, to_document
from sordino.ledger.signed_folder import RELEASE, broken_signature, signed_files
from sordino.ledger.signing_keys import SigningKey

DOCUMENT, ARRAYS = "release.json", "arrays.safetensors"
LARGEST_FILE = 2**30
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KINDS = frozenset({"float32", "float64", "int32", "int64"})


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file that holds these arrays."""
    from safetensors.numpy import save  # noqa: PLC0415  (loaded only where arrays are written)

    for name, values in arrays.items():
        if not _NAME.fullmatch(name) or str(values.dtype) not in _KINDS:
            raise SordinoError(f"Expected an array with a plain name and numbers, got {name!r} of {values.dtype}.")
    return save({name: np.ascontiguousarray(values) for name, values in arrays.items()})


def from_bytes(where: str, content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a file; damage, other kinds of numbers and NaN are refused."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load  # noqa: PLC0415

    try:
        found = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"Expected {where} to be a safetensors file, got: {str(error)[:120]}.") from None
    for name, values in found.items():
        if not _NAME.fullmatch(name) or str(values.dtype) not in _KINDS:
            raise InputError(f"Expected {where} to hold named numbers, got {name[:64]!r} of {values.dtype}.")
        if not np.isfinite(values).all():
            raise InputError(f"{where} must contain finite numbers, and {name!r} does not.")
        values.setflags(write=False)
    return found


def write_release(path: str | Path, release: StoredRelease, key: SigningKey | None = None) -> Path:
    """Write a new folder with `release.json` and `arrays.safetensors`; an existing one is never touched.

    Args:
        path: of the new folder.
        release: of an estimator, as `release_`, or of `sordino.fit`.
        key: signs the folder; absent: it is not signed.

    Returns:
        The folder.

    Raises:
        InputError: for a folder that exists, or something that is no release.

    Examples:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import sordino
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> model = sordino.PrivateLinearRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=sordino.ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,
        ... ).fit(X, X[:, 0])
        >>> folder = sordino.write_release(pathlib.Path(tempfile.mkdtemp()) / "release", model.release_)
        >>> sorted(path.name for path in folder.iterdir())
        ['arrays.safetensors', 'release.json']
    """
    folder = _folder("write_release(path, release)", path)
    if not isinstance(release, StoredRelease):
        wanted = "a release as the second argument of write_release(path, release)"
        raise InputError(f"Expected {wanted}, got a {type(release).__name__}; an estimator has it as release_.")
    files = release_files(release)
    write_new_folder(folder, files if key is None else signed_files(RELEASE, files, key))
    return folder


def release_files(release: StoredRelease) -> dict[str, bytes]:
    """The files of a release's folder; the same release is always the same bytes."""
    content = to_bytes(release.arrays)
    document = to_document(release, hashlib.sha256(content).hexdigest())
    check_plain(document)
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    return {DOCUMENT: text.encode(), ARRAYS: content}


def release_digest(release: StoredRelease) -> str:
    """The SHA-256 of its release.json, which names that of its arrays."""
    return hashlib.sha256(release_files(release)[DOCUMENT]).hexdigest()


def read_release(path: str | Path) -> StoredRelease:
    """Read a folder; what is missing, damaged, too large, of another version or not as signed is refused."""
    folder = _folder("read_release(path)", path)
    broken = broken_signature(folder)
    if broken:
        raise InputError(broken)
    return stored_at(folder)


def stored_at(folder: Path) -> StoredRelease:
    """The release in a folder, whose signature is not looked at."""
    text, where = read_text(folder / DOCUMENT), str(folder / DOCUMENT)
    document = parse(text)
    check_plain(document)
    content = read_bytes(folder / ARRAYS, LARGEST_FILE)
    release, digest = from_document(where, document, from_bytes(str(folder / ARRAYS), content))
    if digest != hashlib.sha256(content).hexdigest():
        raise InputError(f"The arrays are not those that {where} was written with; the folder was changed.")
    return replace(release, digest=hashlib.sha256(text.encode()).hexdigest(), document=document)


def _folder(call: str, path: object) -> Path:
    """The folder that the first argument of `call` names; anything else, swapped arguments above all, is refused."""
    if isinstance(path, str | os.PathLike):
        return Path(path)
    swapped = "a release there" if isinstance(path, StoredRelease) else f"a {type(path).__name__}"
    raise InputError(f"Expected a path as the first argument of {call}, got {swapped}; name the folder first.")
