"""A signed folder is exactly what was signed, by that key, or it is refused in one sentence."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sordino.core.validate import InputError
from sordino.ledger import signed_folder as signing
from sordino.ledger.signed_folder import MANIFEST, SIGNATURE, sign_folder, signed_files, verify_folder
from sordino.ledger.signing_keys import SigningKey, fingerprint, new_key, public_of, read_fingerprint, read_key

FILES = {"release.json": b'{"epsilon": 1.0}\n', "arrays.safetensors": bytes(range(256)), "audit.json": b"{}\n"}
# The order of the base point of Ed25519 (RFC 8032, section 5.1).
ORDER = 2**252 + 27742317777372353535851937790883648493


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> tuple[SigningKey, SigningKey]:
    place = tmp_path_factory.mktemp("keys")
    return new_key(place / "one.key"), new_key(place / "two.key")


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def signed(tmp_path, keys) -> Path:
    return put(tmp_path / "signed", signed_files("release", FILES, keys[0]))


def refused(folder: Path, expected: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        verify_folder(folder, expected)
    return str(caught.value)


def test_a_folder_as_it_was_signed_is_verified_with_and_without_the_key(signed, keys):
    found = verify_folder(signed, keys[0].fingerprint)
    assert (found.known, found.signer, found.about) == (True, keys[0].fingerprint, "release")
    assert {one.name for one in found.files} == set(FILES)
    assert verify_folder(signed).known is False


def test_every_flipped_bit_of_every_file_is_found(signed, keys):
    for path in sorted(signed.iterdir()):
        content = path.read_bytes()
        # Every byte of the two that are not listed themselves, some of the others.
        places = range(len(content)) if path.name in (MANIFEST, SIGNATURE) else {0, len(content) // 2, len(content) - 1}
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << (place % 8)
            path.write_bytes(bytes(changed))
            assert refused(signed, keys[0].fingerprint if place % 2 else None)
        path.write_bytes(content)
    verify_folder(signed, keys[0].fingerprint)


@pytest.mark.parametrize("name", [*FILES, MANIFEST, SIGNATURE])
def test_a_file_that_is_removed_renamed_cut_or_longer_is_found(signed, name):
    content = (signed / name).read_bytes()
    for change in (content[:-1], content + b"\n", b""):
        (signed / name).write_bytes(change)
        assert refused(signed)
    (signed / name).write_bytes(content)
    (signed / name).rename(signed / "other.json")
    assert refused(signed)
    (signed / "other.json").unlink()
    assert refused(signed)


def test_two_files_that_change_places_are_found(signed):
    first, second = signed / "release.json", signed / "audit.json"
    first.rename(signed / "x")
    second.rename(first)
    (signed / "x").rename(second)
    assert "audit.json was changed; release.json was changed" in refused(signed)


def test_what_is_added_is_found_whatever_it_is(signed, tmp_path):
    (signed / "note.txt").write_text("x")
    assert "'note.txt' was added" in refused(signed)
    (signed / "note.txt").unlink()
    (signed / ".hidden").write_text("x")
    assert "'.hidden' was added" in refused(signed)
    (signed / ".hidden").unlink()
    for make in (Path.mkdir, os.mkfifo, lambda path: path.symlink_to("release.json")):
        make(signed / "more")
        assert "a folder, link, pipe or device" in refused(signed)
        (signed / "more").rmdir() if (signed / "more").is_dir() else (signed / "more").unlink()
    # A link to the very same content, and a pipe that nobody writes to, in the place of a file.
    shutil.move(signed / "audit.json", tmp_path / "audit.json")
    (signed / "audit.json").symlink_to(tmp_path / "audit.json")
    assert "a folder, link, pipe or device" in refused(signed)
    (signed / "audit.json").unlink()
    os.mkfifo(signed / "audit.json")
    assert "a folder, link, pipe or device" in refused(signed)


def test_signature_and_key_of_another_are_found(tmp_path, keys):
    one, two = keys
    ours = put(tmp_path / "ours", signed_files("release", FILES, one, "2026-01-01T00:00:00Z"))
    theirs = put(tmp_path / "theirs", signed_files("release", FILES, two, "2026-01-01T00:00:00Z"))
    other = put(tmp_path / "other", signed_files("release", FILES | {"audit.json": b"[]"}, one))
    # The manifests are the same bytes, the signatures are not: signed again by another, only the key tells.
    assert (ours / MANIFEST).read_bytes() == (theirs / MANIFEST).read_bytes()
    shutil.copy(theirs / SIGNATURE, ours / SIGNATURE)
    assert "do not trust it" in refused(ours, one.fingerprint)
    assert verify_folder(ours).signer == two.fingerprint
    # Their signature under our key, and ours over another manifest.
    document = json.loads((theirs / SIGNATURE).read_text()) | {"public_key": one.public.hex()}
    (ours / SIGNATURE).write_bytes(signing.canonical(document))
    assert "does not hold" in refused(ours, one.fingerprint)
    shutil.copy(other / SIGNATURE, ours / SIGNATURE)
    assert "does not hold" in refused(ours, one.fingerprint)
    shutil.copy(other / MANIFEST, ours / MANIFEST)
    assert "audit.json was changed" in refused(ours, one.fingerprint)


def test_a_signature_for_one_purpose_serves_no_other(tmp_path, keys):
    files = FILES | {"answers.json": b"{}", "index.html": b""}
    folder = put(tmp_path / "one", signed_files("release", files, keys[0]))
    document = json.loads((folder / MANIFEST).read_text()) | {"about": "dossier"}
    (folder / MANIFEST).write_bytes(signing.canonical(document))
    assert "does not hold" in refused(folder)


def resigned(folder: Path, key: SigningKey, change) -> None:
    """A manifest as an attacker with a key would write it, with a signature that holds."""
    document = json.loads((folder / MANIFEST).read_text())
    content = change(document)
    content = signing.canonical(document) if content is None else content
    (folder / MANIFEST).write_bytes(content)
    about = document["about"] if isinstance(document.get("about"), str) else "release"
    signature = json.loads((folder / SIGNATURE).read_text())
    signature["signature"] = key.sign(signing._message(about, key.fingerprint, content)).hex()
    (folder / SIGNATURE).write_bytes(signing.canonical(signature))


BAD_NAMES = [
    "../escape",
    "/etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "A.json",
    "a b",
    "é.json",
    "x" * 70,
    "a\n",
    "con:x",
    ".x",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_not_plain_is_refused_though_its_signature_holds(signed, keys, name):
    resigned(signed, keys[0], lambda document: document["files"][0].update(name=name))
    assert refused(signed, keys[0].fingerprint)


DIGEST = "0" * 64
ODD = {
    "a repeated name": lambda d: d["files"].append(d["files"][0]),
    "an unsorted list": lambda d: d["files"].reverse(),
    "a negative size": lambda d: d["files"][0].update(size=-1),
    "a size that is true": lambda d: d["files"][0].update(size=True),
    "a huge size": lambda d: d["files"][0].update(size=2**40),
    "no digest": lambda d: d["files"][0].update(sha256=None),
    "a digest in capitals": lambda d: d["files"][0].update(sha256=d["files"][0]["sha256"].upper()),
    "a key nobody knows": lambda d: d.update(more=1),
    "a missing key": lambda d: d.pop("made") and None,
    "another version": lambda d: d.update(version=2),
    "version one as a float": lambda d: d.update(version=1.0),
    "another format": lambda d: d.update(format="sordino-signature"),
    "another purpose": lambda d: d.update(about="letter"),
    "itself among the files": lambda d: d["files"].append({"name": MANIFEST, "size": 0, "sha256": DIGEST}),
    "no files": lambda d: d.update(files=[]),
    "too many files": lambda d: d.update(files=[{"name": f"f{i:03}", "size": 0, "sha256": DIGEST} for i in range(65)]),
    "a repeated JSON key": lambda d: signing.canonical(d).replace(b'{\n "about"', b'{\n "about": "dossier",\n "about"'),
    "spaces more": lambda d: signing.canonical(d) + b" ",
    "no JSON": lambda d: b"[" * 50_000,
    "a list": lambda d: b"[]\n",
    "an endless list": lambda d: signing.canonical(d | {"software": "x" * 70_000}),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_an_odd_manifest_is_refused_though_its_signature_holds(signed, keys, case):
    resigned(signed, keys[0], ODD[case])
    assert refused(signed, keys[0].fingerprint)


def test_a_manifest_that_is_changed_in_nothing_and_signed_again_holds(signed, keys):
    """The test above can pass."""
    resigned(signed, keys[0], lambda document: None)
    assert verify_folder(signed, keys[0].fingerprint).known


@pytest.mark.parametrize("algorithm", ["none", "", "ed448", "ED25519", None, ["ed25519"]])
def test_another_algorithm_is_refused_and_never_skipped(signed, algorithm):
    document = json.loads((signed / SIGNATURE).read_text()) | {"algorithm": algorithm}
    (signed / SIGNATURE).write_bytes(signing.canonical(document))
    assert "nothing was checked" in refused(signed)


def test_a_second_form_of_the_same_signature_is_refused(signed):
    """S and S + the group's order satisfy the same equation; only the smaller one is a signature (RFC 8032, 5.1.7)."""
    document = json.loads((signed / SIGNATURE).read_text())
    raw = bytes.fromhex(document["signature"])
    twin = int.from_bytes(raw[32:], "little") + ORDER
    (signed / SIGNATURE).write_bytes(
        signing.canonical(document | {"signature": (raw[:32] + twin.to_bytes(32, "little")).hex()})
    )
    assert "does not hold" in refused(signed)


def test_a_huge_file_is_not_read(signed, monkeypatch):
    with (signed / "audit.json").open("wb") as file:
        file.truncate(signing.LARGEST_FILE + 1)
    assert "is not a file of at most" in refused(signed)


def test_an_unsigned_folder_is_said_to_be_unsigned(tmp_path):
    assert "it has no manifest.json" in refused(put(tmp_path / "bare", FILES))
    assert "to be a folder" in refused(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    assert "to be a folder" in refused(tmp_path / "file")


def test_a_folder_is_signed_again_only_when_asked(tmp_path, keys):
    folder = put(tmp_path / "one", FILES)
    assert sign_folder(folder, "release", keys[0]).known
    with pytest.raises(InputError, match="--replace"):
        sign_folder(folder, "release", keys[1])
    (folder / "later.json").write_text("{}")
    assert sign_folder(folder, "release", keys[1], replace=True).signer == keys[1].fingerprint


def test_a_fingerprint_is_that_of_openssl_and_taken_whole(tmp_path):
    key = new_key(tmp_path / "a.key")
    assert public_of(tmp_path / "a.key.pub") == public_of(tmp_path / "a.key") == key.public
    assert fingerprint(key.public) == key.fingerprint
    openssl = shutil.which("openssl")
    if openssl is not None:
        command = [openssl, "pkey", "-pubin", "-in", str(tmp_path / "a.key.pub"), "-outform", "DER"]
        der = subprocess.run(command, capture_output=True, check=True).stdout
        import hashlib

        assert key.fingerprint == f"ed25519:{hashlib.sha256(der).hexdigest()}"
    digits = key.fingerprint.removeprefix("ed25519:")
    assert read_fingerprint(f" {digits.upper()} ") == key.fingerprint
    for bad in (digits[:-1], digits[:16], "", "rsa:" + digits, "ed25519:ed25519:" + digits, digits + "0"):
        with pytest.raises(InputError, match="whole fingerprint"):
            read_fingerprint(bad)


def test_a_key_is_its_owners_alone_and_never_overwritten(tmp_path):
    key = new_key(tmp_path / "a.key")
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    assert key._secret.hex() not in repr(key)
    assert read_key(tmp_path / "a.key") == key
    content = (tmp_path / "a.key").read_bytes()
    for name in ("a.key", "b.key"):
        if name == "b.key":
            (tmp_path / "b.key.pub").write_text("mine")
        with pytest.raises(InputError, match="never overwritten"):
            new_key(tmp_path / name)
    assert (tmp_path / "a.key").read_bytes() == content
    assert not (tmp_path / "b.key").exists()
    (tmp_path / "link.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="never overwritten"):
        new_key(tmp_path / "link.key")
    for mode in (0o640, 0o604, 0o620):
        (tmp_path / "a.key").chmod(mode)
        with pytest.raises(InputError, match="owner only"):
            read_key(tmp_path / "a.key")


def test_a_sealed_key_opens_with_its_passphrase_alone(tmp_path):
    key = new_key(tmp_path / "a.key", "correct horse battery")
    assert key._secret.hex() not in (tmp_path / "a.key").read_text()
    assert read_key(tmp_path / "a.key", "correct horse battery") == key
    for word, message in (("correct horse batterz", "Wrong passphrase"), (None, "is encrypted with a passphrase")):
        with pytest.raises(InputError, match=message):
            read_key(tmp_path / "a.key", word)
    document = json.loads((tmp_path / "a.key").read_text())
    for change in ({"n": 2}, {"n": 2**30}, {"salt": "00"}, {"kdf": "none"}, {"text": "zz"}):
        (tmp_path / "a.key").write_text(json.dumps(document | {"sealed": document["sealed"] | change}))
        with pytest.raises(InputError):
            read_key(tmp_path / "a.key", "correct horse battery")
    with pytest.raises(InputError, match="at least 12 characters"):
        new_key(tmp_path / "b.key", "short")
    assert not (tmp_path / "b.key").exists()


@pytest.mark.parametrize("text", ["", "x", "{}", '{"format": "sordino-key"}', '{"format":1,"format":2}', "[" * 9999])
def test_what_is_no_key_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "k").write_text(text)
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(InputError, match=r"is not a (private )?key|Expected"):
        read_key(tmp_path / "k")


def test_halves_of_two_keys_are_refused(tmp_path):
    new_key(tmp_path / "a.key")
    other = new_key(tmp_path / "b.key")
    document = json.loads((tmp_path / "a.key").read_text()) | {"public_key": other.public.hex()}
    (tmp_path / "a.key").write_text(json.dumps(document))
    with pytest.raises(InputError, match="two halves"):
        read_key(tmp_path / "a.key")
