"""`sordino sign key|fingerprint|release|dossier|verify`: keys, signatures, and the dossier for a reviewer."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from sordino.cli import library
from sordino.cli.shared import AsJson, ReleaseFolder, answer, check_out, command, group, progress
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.ledger.signing_keys import SigningKey

_LONGEST = 4096
INTEGRITY = "Only integrity was checked. To check who signed, give --key with a fingerprint from the signer."
_SIGNER = "Fingerprint of the key that must have signed. Without it, only integrity is checked."

PassphraseFile = Annotated[Path | None, Option(help="File with the passphrase in line 1. Default: Sordino asks.")]


@command("key", "Make a key; files are never overwritten.", "sordino sign key clinic.key --passphrase")
def key(
    path: Annotated[Path, Argument(metavar="KEY", help="Private key file to create; the public half is KEY.pub.")],
    passphrase: Annotated[bool, Option("--passphrase", help="Ask for a passphrase to encrypt it with.")] = False,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Make an Ed25519 key: a private file that only its owner can read, and the public half beside it.

    Give the fingerprint to those who will verify, by a separate channel such as paper or telephone. Keep the
    private file away from folders that you publish.
    """
    library.need_cryptography()
    word = None if passphrase_file is None else first_line(passphrase_file)
    if word is None and passphrase:
        if not sys.stdin.isatty():
            raise InputError("There is no terminal to ask for the passphrase. Give --passphrase-file.")
        word = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    made = library.new_key(path, word)
    how = "NOT encrypted: every reader can sign" if word is None else "encrypted with a passphrase"
    value = {"private": path, "public": f"{path}.pub", "fingerprint": made.fingerprint, "sealed": word is not None}
    told = (f"private      {path} ({how})", f"public       {path}.pub", f"fingerprint  {made.fingerprint}")
    answer(as_json, value, *told)


_Key = Annotated[Path, Argument(metavar="KEY", help="Private key file, or its public half KEY.pub.")]


@command("fingerprint", "Print the fingerprint of a key.", "sordino sign fingerprint clinic.key.pub")
def show_fingerprint(path: _Key, as_json: AsJson = False) -> None:
    """Print the fingerprint that `sordino sign verify --key` asks for; needs no passphrase."""
    found = library.fingerprint(library.public_of(path))
    answer(as_json, {"key": str(path), "fingerprint": found}, found)


def signing_key(path: Path, passphrase_file: Path | None) -> "SigningKey":
    """The private key at a path; a passphrase comes from a file or, at a terminal, from the person."""
    library.need_cryptography()
    word = None if passphrase_file is None else first_line(passphrase_file)
    if word is None and library.is_sealed(path) and sys.stdin.isatty():
        word = typer.prompt(f"Passphrase of {printable(str(path))}", hide_input=True, err=True)
    return library.read_key(path, word)


def first_line(path: Path) -> str:
    """The first line of a small file, which nobody but its owner may read."""
    try:
        line = library.read_bytes(path, _LONGEST, owner_only=True).decode().split("\n")[0].rstrip("\r")
    except UnicodeDecodeError:
        raise InputError("The file of --passphrase-file is not UTF-8 text.") from None
    if not line:
        raise InputError("The first line of --passphrase-file is empty. It must contain the passphrase.")
    return line


@command("release", "Sign a release folder.", "sordino sign release release --key clinic.key")
def sign_release(
    release: ReleaseFolder,
    key_file: Annotated[Path, Option("--key", metavar="KEY", help="Private key file that `sordino sign key` made.")],
    passphrase_file: PassphraseFile = None,
    replace: Annotated[bool, Option("--replace", help="Replace an existing signature.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign every file of a release folder.

    Writes manifest.json (name, size and SHA-256 of every file) and signature.json into the folder. If you later add
    or change a file, such as an audit, `sordino sign verify` refuses the folder until you sign it again. You can
    sign a seeded release too: a signature says who signed, not that the release may be published.
    """
    signer = signing_key(key_file, passphrase_file)
    library.stored_at(release)  # a folder that is no whole release is not worth a signature
    found = library.sign_folder(release, library.RELEASE, signer, replace=replace)
    value = {"release": str(release), "signer": found.signer, "made": found.made, "files": len(found.files)}
    answer(as_json, value, f"{release}: {len(found.files)} files signed by {found.signer}")


@command(
    "dossier",
    "Write a signed folder that answers a reviewer.",
    "sordino sign dossier release --ledger clinic.ledger --key clinic.key --statements clinic.json --out dossier",
)
def dossier(
    release: ReleaseFolder,
    out: Annotated[Path, Option(help="Folder to create; it must not exist yet.")],
    ledger: Annotated[Path | None, Option(help="Ledger that was charged, to compare with.")] = None,
    key_file: Annotated[Path | None, Option("--key", metavar="KEY", help="Private key to sign with.")] = None,
    passphrase_file: PassphraseFile = None,
    audit: Annotated[Path | None, Option(help="Output of `audit --json`. Default: the folder's audit.json.")] = None,
    statements: Annotated[Path | None, Option(metavar="JSON", help="JSON file with the site's statements.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answer twenty questions about a release, each with its evidence, and sign the folder.

    Sordino recomputes the certificate and the ledger's entry, audits the description, and replays the code on
    tables drawn from the schema; no private row is read. --statements is a JSON object of texts: purpose,
    collection, access and contact; missing ones stay open, with room to write. The command refuses, with code 2, if
    the release must not be published or a check contradicts it. `sordino sign verify` checks the folder offline. Any
    browser prints its page.
    """
    check_out(out)
    signer = None if key_file is None else signing_key(key_file, passphrase_file)
    said = None if statements is None else library.read_statements(statements)
    book = None if ledger is None else library.Ledger.at(ledger)
    checked = {"audit": audit, "ledger": book, "statements": said, "key": signer}
    with progress(5) as begin:
        answers = library.write_dossier(release, out, **checked, begin=begin)
    waiting, page = [one.ident for one in answers if one.open], out / "index.html"
    signed = None if signer is None else signer.fingerprint
    missing = ", ".join(name for name in library.STATEMENTS if name not in (said or {}))
    open_ones = f"open      {', '.join(waiting)}: give {missing} in --statements, or write on the page"
    answer(
        as_json,
        {"dossier": out, "page": page, "signer": signed, "questions": len(answers), "open": waiting},
        f"dossier   {out}, page {page}",
        f"signed    {'NOT: give --key' if signed is None else f'by {signed}'}",
        f"answered  {len(answers) - len(waiting)} of {len(answers)} questions",
        *([open_ones] if waiting else []),
    )


@command("verify", "Check a signed release or dossier, offline.", "sordino sign verify dossier --key FINGERPRINT")
def verify(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Signed release or dossier.")],
    fingerprint: Annotated[str | None, Option("--key", metavar="FINGERPRINT", help=_SIGNER)] = None,
    ledger: Annotated[Path | None, Option(help="Ledger that was charged, to compare with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a folder has exactly the signed files, who signed them, and that its numbers are right.

    The command refuses, with code 2, missing, changed, renamed or extra files, links and folders, and a signature
    by another key. It also refuses a folder if the recomputed certificate, the ledger, or the entry in a dossier
    contradicts it. Take the fingerprint from the signer, not from the folder.
    """
    found = library.verify_folder(folder, None if fingerprint is None else library.read_fingerprint(fingerprint))
    book = None if ledger is None else library.Ledger.at(ledger)
    subject = library.open_subject(folder, ledger=book)
    if subject.discrepancies:
        raise InputError(f"{subject.name} contradicts its certificate or its charge: {subject.discrepancy}")
    paid = "the ledger that was named" if ledger is not None else library.check_entry(folder, subject.release)
    checked, last = "integrity only", INTEGRITY
    if found.known:
        checked, last = "signer and integrity", "The key is the one that you named."
    entry, charged = subject.release.ledger, "to no ledger"
    if entry is not None:
        compared = f"compared with {paid}" if paid else "as the folder claims; --ledger compares"
        charged = f"as entry {entry.get('entry')} of {entry.get('dataset')}, {compared}"
    value = {name: getattr(found, name) for name in ("about", "signer", "made", "software")}
    value |= {"folder": folder, "checked": checked, "files": [one._asdict() for one in found.files]}
    value |= {"epsilon": library.finite(subject.epsilon), "delta": subject.release.delta}
    answer(
        as_json,
        value | {"entry_compared_with": paid or None},
        f"{folder}: {found.about}, {len(found.files)} files as signed",
        f"signed by  {found.signer}",
        f"at         {found.made}, with Sordino {found.software}. The time is the signer's word.",
        f"certified  epsilon {show_up(subject.epsilon)} at delta {subject.release.delta:g}, computed again",
        f"charged    {charged}",
        last,
    )


app = group("Make keys, sign releases, write dossiers.", key, show_fingerprint, sign_release, dossier, verify)
