"""`sordino key`, `sign`, `verify` and `fit --key`: what they answer, and what they refuse before anything is spent."""

import hashlib
import os
import pty
import subprocess
import sys
from pathlib import Path

from sordino.cli import main
from sordino.data import declared_lines, schema_to_text
from sordino.ledger import Ledger
from tests.cli.console import answer, refusal
from tests.report.example_releases import last_iterate, written
from tests.report.handed_over import DECLARED, patients

WORDS = "correct horse battery"


def test_make_a_key_sign_verify_and_sign_again(tmp_path, capsys):
    made = answer(capsys, "sign", "key", tmp_path / "a.key")
    assert made["sealed"] is False
    for name in ("a.key", "a.key.pub"):
        assert answer(capsys, "sign", "fingerprint", tmp_path / name)["fingerprint"] == made["fingerprint"]
    folder = written(tmp_path, "release", last_iterate())
    assert "it has no manifest.json" in refusal(capsys, "sign", "verify", folder)
    assert answer(capsys, "sign", "release", folder, "--key", tmp_path / "a.key")["signer"] == made["fingerprint"]
    assert answer(capsys, "sign", "verify", folder, "--key", made["fingerprint"])["checked"] == "signer and integrity"
    (folder / "notes.json").write_text("{}")
    assert "'notes.json' was added" in refusal(capsys, "sign", "verify", folder)
    assert "--replace" in refusal(capsys, "sign", "release", folder, "--key", tmp_path / "a.key")
    assert answer(capsys, "sign", "release", folder, "--key", tmp_path / "a.key", "--replace")["files"] == 3
    assert main(["sign", "verify", str(folder)]) == 0


def owned(path: Path, text: str) -> None:
    """A file that its owner alone may read."""
    path.touch(0o600)
    path.write_text(text)


def test_a_sealed_key_asks_for_its_passphrase_which_others_may_not_read(tmp_path, capsys):
    owned(tmp_path / "words", f"{WORDS}\nmore\n")
    owned(tmp_path / "other", "something else entirely\n")
    owned(tmp_path / "empty", "\n")
    assert answer(capsys, "sign", "key", tmp_path / "a.key", "--passphrase-file", tmp_path / "words")["sealed"] is True
    folder = written(tmp_path, "release", last_iterate())
    sign = ("sign", "release", folder, "--key", tmp_path / "a.key")
    assert "Give --passphrase-file" in refusal(capsys, *sign)
    assert "Wrong passphrase" in refusal(capsys, *sign, "--passphrase-file", tmp_path / "other")
    assert "is empty" in refusal(capsys, *sign, "--passphrase-file", tmp_path / "empty")
    for mode in (0o640, 0o604, 0o644, 0o660):
        (tmp_path / "words").chmod(mode)
        for command in (("sign", "key", tmp_path / "b.key"), sign):
            said = refusal(capsys, *command, "--passphrase-file", tmp_path / "words")
            assert f"readable by its owner only, got mode {mode:04o}" in said
            assert WORDS not in said
    (tmp_path / "words").chmod(0o600)
    assert not (folder / "signature.json").exists()
    assert answer(capsys, *sign, "--passphrase-file", tmp_path / "words")["files"] == 2
    assert "There is no terminal" in refusal(capsys, "sign", "key", tmp_path / "b.key", "--passphrase")
    assert not (tmp_path / "b.key").exists()


BAD = {
    "a part of a fingerprint": ("sign", "verify", "{folder}", "--key", "ed25519:3f84"),
    "a fingerprint of nothing": ("sign", "verify", "{folder}", "--key", ""),
    "a fingerprint of another kind": ("sign", "verify", "{folder}", "--key", "rsa:" + "0" * 64),
    "a folder that is none": ("sign", "verify", "{place}/nothing"),
    "a file": ("sign", "verify", "{place}/a.key"),
    "a public key to sign with": ("sign", "release", "{folder}", "--key", "{place}/a.key.pub"),
    "no key": ("sign", "release", "{folder}", "--key", "{place}/b.key"),
    "what is no release": ("sign", "release", "{place}", "--key", "{place}/a.key"),
    "a key where one is": ("sign", "key", "{place}/a.key"),
    "a key in no folder": ("sign", "key", "{place}/no/b.key"),
    "a key without a name": ("sign", "key", "{place}"),
    "a short passphrase": ("sign", "key", "{place}/c.key", "--passphrase-file", "{place}/short"),
    "a fingerprint of a folder": ("sign", "fingerprint", "{place}"),
    "a fingerprint of a table": ("sign", "fingerprint", "{place}/short"),
}


def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path, capsys):
    assert main(["sign", "key", str(tmp_path / "a.key")]) == 0
    folder = written(tmp_path, "release", last_iterate())
    owned(tmp_path / "short", "short\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for words in BAD.values():
        refusal(capsys, *(word.format(place=tmp_path, folder=folder) for word in words))
        assert sorted(path.name for path in tmp_path.rglob("*")) == before, words


def test_fit_reads_the_key_before_anything_is_spent_and_signs_what_it_writes(tmp_path, capsys):
    patients(tmp_path / "patients.csv")
    schema, book = tmp_path / "schema.json", tmp_path / "clinic.ledger"
    schema.write_text(schema_to_text(declared_lines(DECLARED)))
    ledger = Ledger.open(book, "clinic", "replace-one", 3.0, 1e-5)
    made = answer(capsys, "sign", "key", tmp_path / "a.key")
    fit = ("fit", "logistic", tmp_path / "patients.csv", "--schema", schema, "--epsilon", 1, "--delta", 1e-6,
           "--relation", "replace-one", "--ledger", book, "--out", tmp_path / "release")  # fmt: skip
    assert "readable key file" in refusal(capsys, *fit, "--key", tmp_path / "none.key")
    assert ledger.balance().releases == 0
    assert main([*map(str, fit), "--key", str(tmp_path / "a.key")]) == 0
    assert answer(capsys, "sign", "verify", tmp_path / "release", "--key", made["fingerprint"])["about"] == "release"
    (entry,) = ledger.entries()
    assert entry.release == hashlib.sha256((tmp_path / "release" / "release.json").read_bytes()).hexdigest()
    # The name stands in what may be published of a ledger, and older fingerprints of rows are kept beside it.
    assert ledger.export()["entries"][0]["release"] == entry.release


_AT_A_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)


def test_at_a_terminal_the_passphrase_is_asked_for_twice_and_not_shown(tmp_path):
    ours, theirs = pty.openpty()
    key = ("sign", "key", str(tmp_path / "a.key"), "--passphrase")
    child = subprocess.Popen(
        [sys.executable, "-c", _AT_A_TERMINAL, sys.executable, "-m", "sordino", *key],
        **{"stdin": theirs, "stdout": subprocess.PIPE, "stderr": theirs, "start_new_session": True, "text": True},
    )
    os.close(theirs)
    shown = b""
    for _ in range(2):
        while not shown.endswith(b": "):
            shown += os.read(ours, 1024)
        os.write(ours, WORDS.encode() + b"\n")
        shown += b"|"
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert "encrypted with a passphrase" in out
    assert WORDS.encode() not in shown
    assert Path(tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    os.close(ours)
