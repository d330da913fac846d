"""Signing keys: Ed25519, in files that only their owner reads, never overwritten, sealed by an optional passphrase.

A fingerprint is the SHA-256 of the public key in its standard form (SubjectPublicKeyInfo), which names the algorithm;
`openssl pkey -pubin -in KEY.pub -outform DER | sha256sum` computes it too. It is never shortened: a part of it can be
searched for. `cryptography` is an extra and is loaded where a key is used.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.core.spec.document import check_plain, parse, read_bytes
from sordino.core.validate import InputError

ALGORITHM = "ed25519"
KEY_FORMAT, KEY_VERSION = "sordino-key", 1
SHORTEST_PASSPHRASE = 12
_LARGEST_KEY_FILE = 16 * 1024
# The SubjectPublicKeyInfo of an Ed25519 key is these bytes and then its 32 own (RFC 8410, section 4).
_INFO = bytes.fromhex("302a300506032b6570032100")
_HEX = re.compile(r"[0-9a-f]*")
_FINGERPRINT = re.compile(r"(?:ed25519:)?([0-9a-f]{64})")
# What guessing a passphrase costs: 128 MiB and a third of a second for each guess. Files that ask for other numbers are
# refused, so that no file can make guessing cheap or reading it expensive.
_SCRYPT = {"n": 2**17, "r": 8, "p": 1}
_SEAL = {**_SCRYPT, "kdf": "scrypt"}
_SCRYPT_MEMORY = 2**28


def fingerprint(public: bytes) -> str:
    """The name of a public key, to be compared in full."""
    return f"{ALGORITHM}:{hashlib.sha256(_INFO + public).hexdigest()}"


def read_fingerprint(text: str) -> str:
    """A fingerprint as a person types it; parts of one are refused."""
    found = _FINGERPRINT.fullmatch(text.strip().lower())
    if found is None:
        wanted = f"a whole fingerprint ({ALGORITHM}: and 64 hexadecimal digits)"
        raise InputError(f"Expected --key to be {wanted}, got {text[:80]!r}; `sordino sign fingerprint KEY` prints it.")
    return f"{ALGORITHM}:{found[1]}"


@dataclass(frozen=True)
class SigningKey:
    """A private key in memory, never shown, and the 32 bytes of its public half."""

    public: bytes
    _secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    def sign(self, message: bytes) -> bytes:
        return need_cryptography().Ed25519PrivateKey.from_private_bytes(self._secret).sign(message)


def signature_holds(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the private half signed exactly this message."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        need_cryptography().Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def need_cryptography() -> Any:
    """The algorithm, or a refusal where signatures can be neither made nor checked."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError:
        raise InputError("Signatures need the package cryptography: pip install 'sordino[sign]'.") from None
    return ed25519


def new_key(path: str | Path, passphrase: str | None = None) -> SigningKey:
    """Make a key: a private file at `path`, for its owner only, sealed if a passphrase is given, and `path`.pub."""
    private = Path(path)
    public = private.with_name(private.name + ".pub")
    for place in filter(os.path.lexists, (private, public)):
        raise _taken(place)
    if passphrase is not None and len(passphrase) < SHORTEST_PASSPHRASE:
        wanted = f"a passphrase of at least {SHORTEST_PASSPHRASE} characters"
        raise InputError(f"Expected {wanted}, got {len(passphrase)}; several words are best.")
    made = need_cryptography().Ed25519PrivateKey.generate()
    key = SigningKey(made.public_key().public_bytes_raw(), made.private_bytes_raw())
    head = {"format": KEY_FORMAT, "version": KEY_VERSION, "algorithm": ALGORITHM, "public_key": key.public.hex()}
    held: dict[str, object] = {"private_key": key._secret.hex()}
    if passphrase is not None:
        salt, nonce = os.urandom(16), os.urandom(12)
        sealed = _cipher(passphrase, salt).encrypt(nonce, key._secret, _text(head))
        held = {"sealed": _SEAL | {"salt": salt.hex(), "nonce": nonce.hex(), "text": sealed.hex()}}
    _write_new(private, _text(head | held), 0o600)
    try:
        _write_new(public, _public_text(key.public), 0o644)
    except InputError:
        with suppress(OSError):  # made above, by this call
            private.unlink()
        raise
    return key


def _public_text(public: bytes) -> bytes:
    """A public key as other programs read it (PEM)."""
    body = base64.b64encode(_INFO + public).decode()
    return f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n".encode()


def _cipher(passphrase: str, salt: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    derived = hashlib.scrypt(passphrase.encode(), salt=salt, **_SCRYPT, maxmem=_SCRYPT_MEMORY, dklen=32)
    return ChaCha20Poly1305(derived)


def _text(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def is_sealed(path: str | Path) -> bool:
    """Whether a private key file asks for a passphrase."""
    return "sealed" in _document(Path(path))


def read_key(path: str | Path, passphrase: str | None = None) -> SigningKey:
    """Read a private key; a file that others could read is refused, as is one for which the passphrase is wrong."""
    place = Path(path)
    document = _document(place)
    public = _bytes(place, document, "public_key", 32)
    if "sealed" in document:
        if passphrase is None:
            raise InputError(f"{str(place)!r} is encrypted with a passphrase. Give --passphrase-file.")
        need_cryptography()
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        head = {name: document[name] for name in ("format", "version", "algorithm", "public_key")}
        sealed = document["sealed"]
        if not isinstance(sealed, dict) or {name: sealed.get(name) for name in _SEAL} != _SEAL:
            raise _no_key(place)
        salt, nonce, text = (_bytes(place, sealed, *part) for part in (("salt", 16), ("nonce", 12), ("text", 48)))
        try:
            secret = _cipher(passphrase, salt).decrypt(nonce, text, _text(head))
        except InvalidTag:
            raise InputError(f"Wrong passphrase for {str(place)!r}, or the file was changed.") from None
    elif passphrase is not None:
        raise InputError(f"{str(place)!r} is not encrypted. Omit the passphrase.")
    else:
        secret = _bytes(place, document, "private_key", 32)
    if need_cryptography().Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw() != public:
        raise InputError(f"The two halves in {str(place)!r} do not belong to one key; the file was changed.")
    return SigningKey(public, secret)


def public_of(path: str | Path) -> bytes:
    """The public half of a private key file, which needs no passphrase, or of a file ending in .pub."""
    place = Path(path)
    if place.suffix != ".pub":
        return _bytes(place, _document(place), "public_key", 32)
    content = read_bytes(place, _LARGEST_KEY_FILE)
    try:
        public = base64.b64decode(b"".join(content.split(b"\n")[1:2]))[len(_INFO) :]
    except ValueError:
        public = b""
    if _public_text(public) != content:
        raise InputError(f"{str(place)!r} is not an Ed25519 public key. `sordino sign key` makes one.")
    return public


def _document(place: Path) -> dict[str, object]:
    """The document of a private key file, its head checked."""
    content = read_bytes(place, _LARGEST_KEY_FILE, owner_only=True)
    try:
        document = parse(content.decode("ascii"))
        check_plain(document)
    except (UnicodeDecodeError, InputError):
        raise _no_key(place) from None
    if not isinstance(document, dict) or document.get("format") != KEY_FORMAT:
        raise _no_key(place)
    if document.get("version") != KEY_VERSION or document.get("algorithm") != ALGORITHM:
        raise InputError(f"{str(place)!r} is not a key for {ALGORITHM} of this version of Sordino.")
    return document


def _bytes(place: Path, document: Mapping[str, object], name: str, size: int) -> bytes:
    value = document.get(name)
    if not isinstance(value, str) or len(value) != 2 * size or not _HEX.fullmatch(value):
        raise _no_key(place)
    return bytes.fromhex(value)


def _no_key(place: Path) -> InputError:
    return InputError(f"{str(place)!r} is not a private key file. `sordino sign key` makes one.")


def _taken(place: Path) -> InputError:
    return InputError(f"{str(place)!r} exists already. Keys are never overwritten.")


def _write_new(place: Path, content: bytes, mode: int) -> None:
    """A new file with its mode from the first moment; one that is there is refused by the system itself."""
    begun = False
    try:
        with open(place, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            begun = True
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise _taken(place) from None
    except (OSError, ValueError) as error:
        if begun:
            with suppress(OSError):
                place.unlink()
        reason = getattr(error, "strerror", None) or "not a file name"
        raise InputError(f"Expected to write {str(place)!r}, got: {reason}; no key was written.") from None
