"""Writing a release folder whole, and reading one that may be damaged or hostile."""

import hashlib
import json
import os
import stat
from pathlib import Path

from sordino.core.errors import InputError
from sordino.core.spec.json_text import check_plain, parse, read_text
from sordino.core.whole_files import write_new_folder
from sordino.ledger.release.arrays import LARGEST_FILE, from_bytes, to_bytes
from sordino.ledger.release.document import StoredRelease, from_document, to_document

DOCUMENT, ARRAYS = "release.json", "arrays.safetensors"


def write_release(path: str | Path, release: StoredRelease) -> Path:
    """Write a new folder with `release.json` and `arrays.safetensors`; an existing one is never touched."""
    folder = _folder("write_release(path, release)", path)
    if not isinstance(release, StoredRelease):
        raise InputError(
            f"Expected a release as the second argument of write_release(path, release), got a "
            f"{type(release).__name__}; a fitted estimator has its own as release_."
        )
    content = to_bytes(release.arrays)
    document = to_document(release, hashlib.sha256(content).hexdigest())
    check_plain(document)
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_new_folder(folder, {DOCUMENT: text.encode(), ARRAYS: content})
    return folder


def read_release(path: str | Path) -> StoredRelease:
    """Read a folder; what is missing, damaged, too large or of another version is refused in one sentence."""
    folder = _folder("read_release(path)", path)
    document = parse(read_text(folder / DOCUMENT))
    check_plain(document)
    content = _bytes(folder / ARRAYS)
    where = str(folder / DOCUMENT)
    release, digest = from_document(where, document, from_bytes(str(folder / ARRAYS), content))
    if digest != hashlib.sha256(content).hexdigest():
        raise InputError(f"Expected the arrays that {where} was written with, got others; the folder was changed.")
    return release


def _folder(call: str, path: object) -> Path:
    """The folder that the first argument of `call` names; anything else, swapped arguments above all, is refused."""
    if isinstance(path, str | os.PathLike):
        return Path(path)
    swapped = "a release there" if isinstance(path, StoredRelease) else f"a {type(path).__name__}"
    raise InputError(f"Expected a path as the first argument of {call}, got {swapped}; name the folder first.")


def _bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        fits = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE
        content = path.read_bytes() if fits else None
    except MemoryError:
        raise InputError(f"Expected {path} to fit into memory, got more than this machine can hold.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise InputError(f"Expected {path} to be a readable file, got: {reason}.") from None
    if content is None:
        raise InputError(f"Expected {path} to be a file of at most {LARGEST_FILE} bytes, got something else.")
    return content
