"""A folder and its signature: a manifest of every file, and one signature over it.

`manifest.json` lists name, size and SHA-256 of every file but itself and `signature.json`. The signature is over five
lines: a title with the version of this scheme, the algorithm, the fingerprint of the key, the purpose, and the SHA-256
of the manifest. Both files must be, byte for byte, the one canonical form of what they say; any other difference of a
file or its name is refused. With the fingerprint of a key that the reader knows, it shows that its holder signed
exactly these files; without, that nothing changed since someone made the manifest.
"""

import dataclasses
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sordino.core import __version__
from sordino.core.atomic_write import write_file
from sordino.core.spec.document import check_plain, parse
from sordino.core.validate import InputError
from sordino.ledger.signing_keys import ALGORITHM, SigningKey, fingerprint, need_cryptography, signature_holds

MANIFEST, SIGNATURE = "manifest.json", "signature.json"
VERSION = 1
RELEASE, DOSSIER = "release", "dossier"
# What a folder must hold to be what its manifest says it is.
NEEDED = {RELEASE: ("arrays.safetensors", "release.json"), DOSSIER: ("answers.json", "index.html", "release.json")}
MOST_FILES, LARGEST_FILE = 64, 2**30
_LARGEST_LIST = 64 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(\.[a-z0-9]{1,16}){0,2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_SOFTWARE = re.compile(r"[0-9A-Za-z.+-]{1,64}")


class ManifestEntry(NamedTuple):
    """One file of a manifest."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class SignedFolder:
    """A folder whose files are those of its manifest, signed by the key whose fingerprint is `signer`."""

    about: str
    files: tuple[ManifestEntry, ...]
    made: str  # by the signer's clock: a claim
    software: str
    signer: str
    known: bool  # the verifier named this fingerprint; otherwise only integrity was checked


def canonical(value: object) -> bytes:
    """The one form in which a value is written: sorted keys, ASCII, a line for each."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def now() -> str:
    """The time in UTC, by this machine's clock."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def signed_files(about: str, files: Mapping[str, bytes], key: SigningKey, made: str | None = None) -> dict[str, bytes]:
    """The files with manifest and signature beside them, to be written as one folder."""
    listed = [ManifestEntry(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()]
    return dict(files) | _signature_files(about, listed, key, made)


def sign_folder(folder: str | Path, about: str, key: SigningKey, *, replace: bool = False) -> SignedFolder:
    """Sign a folder as it stands; a signature that is there stays, unless it is to be replaced."""
    place = Path(folder)
    with _opened(place) as handle:
        names = _names(place, handle)
        if not replace and names & {MANIFEST, SIGNATURE}:
            raise InputError(f"{str(place)!r} is signed already. Use --replace to sign it anew.")
        listed = [_listed(place, handle, name) for name in names - {MANIFEST, SIGNATURE}]
    # Killed between the two, the folder has a manifest without its signature, which is refused.
    for name, content in _signature_files(about, listed, key, None).items():
        write_file(place / name, content)
    return verify_folder(place, key.fingerprint)


def _signature_files(about: str, listed: list[ManifestEntry], key: SigningKey, made: str | None) -> dict[str, bytes]:
    names = {one.name for one in listed}
    for name in sorted(names):
        _check_name(name)
    missing = sorted(set(NEEDED[about]) - names)
    if missing or names & {MANIFEST, SIGNATURE}:
        raise InputError(f"A {about} must contain {', '.join(NEEDED[about])}. This one lacks {', '.join(missing)}.")
    if len(listed) > MOST_FILES:
        raise InputError(f"Expected at most {MOST_FILES} files to sign, got {len(listed)}.")
    manifest = _manifest(about, made or now(), __version__, listed)
    return {MANIFEST: manifest, SIGNATURE: _signature(key.public, key.sign(_message(about, key.fingerprint, manifest)))}


def _manifest(about: str, made: str, software: str, listed: list[ManifestEntry]) -> bytes:
    files = [one._asdict() for one in sorted(listed)]
    head = {"format": "sordino-manifest", "version": VERSION, "about": about, "made": made, "software": software}
    return canonical(head | {"files": files})


def _signature(public: bytes, signature: bytes) -> bytes:
    head = {"format": "sordino-signature", "version": VERSION, "algorithm": ALGORITHM}
    return canonical(head | {"public_key": public.hex(), "signature": signature.hex()})


def _message(about: str, signer: str, manifest: bytes) -> bytes:
    """What is signed, in words of fixed alphabets with a line for each."""
    digest = hashlib.sha256(manifest).hexdigest()
    return f"Sordino signature {VERSION}\n{ALGORITHM}\n{signer}\n{about}\n{digest}\n".encode("ascii")


def is_signed(folder: str | Path) -> bool:
    """Whether a folder says that it is signed; nothing is checked."""
    return any(os.path.lexists(Path(folder) / name) for name in (MANIFEST, SIGNATURE))


def broken_signature(folder: str | Path) -> str:
    """Why the signature of a folder does not hold; empty where it does, by whomever, or where there is none."""
    try:
        if is_signed(folder):
            verify_folder(folder)
    except InputError as error:
        return str(error)
    return ""


def verify_folder(folder: str | Path, expected: str | None = None) -> SignedFolder:
    """Check every byte of a signed folder, and that the key with the `expected` fingerprint signed it, if given."""
    place = Path(folder)
    with _opened(place) as handle:
        names = _names(place, handle)
        for name in (MANIFEST, SIGNATURE):
            if name not in names:
                ask = "Ask for a signed folder and the key's fingerprint, or sign your own: `sordino sign release`"
                raise InputError(f"{str(place)!r} is not signed: it has no {name}, so anyone may have made it. {ask}.")
        need_cryptography()
        manifest = _read(place, handle, MANIFEST)
        found = _read_manifest(place, manifest)
        public, signed = _read_signature(place, _read(place, handle, SIGNATURE))
        signer = fingerprint(public)
        # The key first: what a stranger signed is of no interest, however well it holds.
        if expected is not None and signer != expected:
            raise InputError(f"Expected {str(place)!r} to be signed by {expected}, got {signer}; do not trust it.")
        if not signature_holds(public, signed, _message(found.about, signer, manifest)):
            raise InputError(f"The signature of {MANIFEST} in {str(place)!r} does not hold.")
        stated = {one.name: one for one in found.files}
        problems = [f"{name[:80]!r} was added" for name in sorted(names - stated.keys() - {MANIFEST, SIGNATURE})]
        for name, one in stated.items():
            if name not in names:
                problems.append(f"{name} is missing")
            elif _listed(place, handle, name) != one:
                problems.append(f"{name} was changed")
    if problems:
        more = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
        raise InputError(f"Expected {str(place)!r} as it was signed, got: {'; '.join(problems[:6])}{more}.")
    return dataclasses.replace(found, signer=signer, known=expected is not None)


def _read_manifest(place: Path, content: bytes) -> SignedFolder:
    """What a manifest says, if it is byte for byte what would be written of it; nobody has signed it yet."""
    document = _document(place, MANIFEST, content)
    with suppress(KeyError, TypeError, AttributeError):
        about, made, software = (document[name] for name in ("about", "made", "software"))
        listed = [ManifestEntry(one["name"], one["size"], one["sha256"]) for one in document["files"]]
        names = [one.name for one in listed]
        for name in names:
            _check_name(name)
        plain = _TIME.fullmatch(made) and _SOFTWARE.fullmatch(software) and 0 < len(listed) <= MOST_FILES
        plain = plain and all(type(one.size) is int and 0 <= one.size <= LARGEST_FILE for one in listed)
        plain = plain and all(_DIGEST.fullmatch(one.sha256) for one in listed)
        # Without repetition: a file is listed once.
        once = len(set(names)) == len(names) and not set(names) & {MANIFEST, SIGNATURE}
        if plain and once and set(NEEDED[about]) <= set(names) and _manifest(about, made, software, listed) == content:
            return SignedFolder(about, tuple(listed), made, software, "", known=False)
    raise _odd(place, MANIFEST)


def _read_signature(place: Path, content: bytes) -> tuple[bytes, bytes]:
    document = _document(place, SIGNATURE, content)
    stated = document.get("algorithm")
    if stated != ALGORITHM:
        got = f"{str(stated)[:40]!r}, which this version does not know; nothing was checked"
        raise InputError(f"Expected {str(place)!r} to be signed with {ALGORITHM}, got {got}.")
    with suppress(KeyError, TypeError, ValueError):
        public, signature = bytes.fromhex(document["public_key"]), bytes.fromhex(document["signature"])
        if (len(public), len(signature)) == (32, 64) and _signature(public, signature) == content:
            return public, signature
    raise _odd(place, SIGNATURE)


def _document(place: Path, name: str, content: bytes) -> dict[str, Any]:
    """The object in a file of this version."""
    try:
        document = parse(content.decode("ascii"))
        check_plain(document)
    except (InputError, ValueError):
        raise _odd(place, name) from None
    if not isinstance(document, dict) or type(document.get("version")) is not int:
        raise _odd(place, name)
    if document["version"] != VERSION:
        raise InputError(f"{name} in {str(place)!r} is not of version {VERSION}; use a newer Sordino.")
    return document


def _odd(place: Path, name: str) -> InputError:
    return InputError(f"{name} in {str(place)!r} is not as Sordino writes it. It was changed.")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        plain = "plain names (lower case letters, digits, - and _)"
        raise InputError(f"Expected files with {plain}, got {name[:80]!r}; rename or move it.")


@contextmanager
def _opened(place: Path) -> Iterator[int]:
    """The folder itself, so that no part of its path can be exchanged while its files are read."""
    try:
        handle = os.open(place, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a folder name"
        raise InputError(f"Expected {str(place)!r} to be a folder, got: {reason}.") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _names(place: Path, handle: int) -> set[str]:
    """The names in a folder; anything that is no file is refused."""
    found: set[str] = set()
    with os.scandir(handle) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                odd = f"{entry.name[:80]!r}: a folder, link, pipe or device."
                raise InputError(f"Expected nothing but files in {str(place)!r}, got {odd}")
            found.add(entry.name)
            if len(found) > 4 * MOST_FILES:
                raise InputError(f"There are more than {MOST_FILES} files in {str(place)!r}.")
    return found


def _file(place: Path, handle: int, name: str) -> int:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        found = os.open(name, flags, dir_fd=handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise InputError(f"Expected {name[:80]!r} in {str(place)!r} to be a readable file, got: {reason}.") from None
    status = os.fstat(found)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        os.close(found)
        raise InputError(f"{name[:80]!r} in {str(place)!r} is not a file of at most {LARGEST_FILE} bytes.")
    return found


def _listed(place: Path, handle: int, name: str) -> ManifestEntry:
    """A file as it is, read once: at most as long as it was when it was opened."""
    with os.fdopen(_file(place, handle, name), "rb") as file:
        left, size, digest = os.fstat(file.fileno()).st_size, 0, hashlib.sha256()
        while left > 0 and (piece := file.read(min(left, 2**20))):
            digest.update(piece)
            size, left = size + len(piece), left - len(piece)
    return ManifestEntry(name, size, digest.hexdigest())


def _read(place: Path, handle: int, name: str) -> bytes:
    with os.fdopen(_file(place, handle, name), "rb") as file:
        content = file.read(_LARGEST_LIST + 1)
    if len(content) > _LARGEST_LIST:
        raise InputError(f"{name} in {str(place)!r} is larger than {_LARGEST_LIST} bytes.")
    return content
