"""The folder of a dossier: answers for people and machines, the report, the release, and a signature over all."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sordino.core.spec import Spec
from sordino.core.spec.document import check_plain, parse, read_text
from sordino.core.validate import InputError, refuse
from sordino.core.whole_files import write_new_folder
from sordino.ledger import Ledger
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.folder import ARRAYS, DOCUMENT
from sordino.ledger.signing import SigningKey, signed_files
from sordino.ledger.signing.folder import DOSSIER, is_signed, now
from sordino.report.decision import decide
from sordino.report.dossier.evidence import Checks, run_checks, source_digest
from sordino.report.dossier.questions import STATEMENTS, Answer, Case, answers, registry_entry
from sordino.report.page import content_policy, environment, private_page, style_sheet
from sordino.report.subject import AUDIT_FILE, Account, Subject, open_subject, read_audit, reads_rows

PAGE, PDF, ANSWERS, REGISTRY, CHECKS, LEDGER = (
    "index.html", "dossier.pdf", "answers.json", "registry.json", "checks.json", "ledger.json",
)  # fmt: skip
REPORT = "report.html"
_LONGEST_STATEMENT = 4000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 120.0
Begin = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """A dossier that was written."""

    folder: Path
    answers: tuple[Answer, ...]
    signer: str
    pdf: str  # empty where there is one; otherwise why there is none


def write_dossier(
    release: Path,
    out: Path,
    *,
    audit: Path | None = None,
    ledger: Ledger | None = None,
    statements: Mapping[str, str] | None = None,
    key: SigningKey | None = None,
    pdf: bool = True,
    begin: Begin = lambda _name: None,
) -> Made:
    """Check a release in every way that reads no rows, and write a new folder that answers for it.

    Refused where the release must not leave, where nothing is certified, where the stored certificate does not hold,
    and where a check contradicts it: a dossier is what is handed over.
    """
    begin("certifying again")
    account = None if ledger is None else Account.of(ledger)
    subject = open_subject(release, audit, account)
    _check(subject, audit)
    checks = run_checks(release, subject, ledger, begin)
    begin("writing answers and report")
    bound = subject.bound
    if bound is None:
        raise InputError("Expected a release with a certificate, got one that no theorem is about.")
    # The page shows the lower bound of the checks, with a verdict of its own.
    shown = replace(subject, audit=checks.lower)
    case = Case(shown, bound, checks, source_digest(), statements or {}, "" if key is None else key.fingerprint)
    found = answers(case)
    files = {
        **_as_read(release, subject),
        REPORT: private_page([shown]).encode(),
        PAGE: dossier_page(case, found).encode(),
        ANSWERS: _json(_answers_document(case, found)),
        REGISTRY: _json(registry_entry(case)),
        CHECKS: _json(checks.as_json(shown)),
        **_further(case, checks, account, release),
    }
    begin("printing")
    reason = "not asked for"
    if pdf:
        printed, reason = printed_page(files[PAGE])
        files |= {} if printed is None else {PDF: printed}
    write_new_folder(out, files if key is None else signed_files(DOSSIER, files, key))
    return Made(out, found, case.signer, reason)


def _check(subject: Subject, audit: Path | None) -> None:
    if subject.reasons_not_to_leave:
        reasons = "; ".join(subject.reasons_not_to_leave)
        raise InputError(f"Expected a release that may leave, got one that must not: {reasons}. {subject.discrepancy}")
    if audit is not None and reads_rows(read_audit(audit), subject.release.spec):
        raise InputError("Expected an audit that read no private row, got one that did; it stays with the auditor.")


def _further(case: Case, checks: Checks, account: Account | None, release: Path) -> dict[str, bytes]:
    """What is there only sometimes."""
    files = {}
    if checks.lower is not None:
        lower = checks.lower.as_json()
        answer = {name: lower[name] for name in lower if name not in {"epsilon", "evidence", "curve"}}
        answer["lower_bound"] = {name: lower[name] for name in ("epsilon", "evidence", "curve")}
        files[AUDIT_FILE] = _json(answer)
    if account is not None and case.subject.entry is not None:
        entry = next(one for one in account.entries if one.sequence == case.subject.entry)
        files[LEDGER] = _json({"balance": account.balance.to_dict(), "entry": entry.to_dict()})
    if is_signed(release):
        files |= {f"release-{name}": _content(release / name) for name in ("manifest.json", "signature.json")}
    return files


def _as_read(release: Path, subject: Subject) -> dict[str, bytes]:
    """The files of the release, which must still be those that were checked."""
    files = {name: _content(release / name) for name in (DOCUMENT, ARRAYS)}
    listed = parse(files[DOCUMENT].decode("utf-8-sig", "replace")).get("arrays_sha256")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if (digests[DOCUMENT], digests[ARRAYS]) != (subject.release.digest, listed):
        raise InputError(f"Expected {str(release)!r} to stay as it is while it is checked, got a change; try again.")
    return files


def check_entry(folder: Path, release: StoredRelease) -> str:
    """Refuse a dossier whose ledger entry is not that of its release; what was compared with, if there is an entry."""
    if not (folder / LEDGER).is_file():
        return ""
    document = parse(read_text(folder / LEDGER))
    entry = document.get("entry") if isinstance(document, dict) else None
    stated = dict(release.ledger or {})
    try:
        same = (
            isinstance(entry, dict)
            and (entry["sequence"], entry["digest"]) == (stated.get("entry"), stated.get("digest"))
            and Spec.from_dict(entry["spec"]).to_dict() == release.spec.to_dict()
            and entry["release"] in (None, release.digest)
        )
    except (KeyError, InputError):
        same = False
    if not same:
        raise InputError(f"Expected {LEDGER} in {str(folder)!r} to hold the entry of its release, got another.")
    return f"{LEDGER} of the dossier"


def _answers_document(case: Case, found: tuple[Answer, ...]) -> dict[str, Any]:
    return {
        "format": "sordino-dossier",
        "version": 1,
        "release": case.subject.name,
        "made": now(),
        "may_leave": case.subject.may_leave,
        "why": list(decide(case.subject).why),
        "answers": [one.as_json() for one in found],
        "source_sha256": case.source,
    }


def dossier_page(case: Case, found: tuple[Answer, ...]) -> str:
    """The page of a dossier."""
    topics: dict[str, list[tuple[int, Answer]]] = {}
    for number, answer in enumerate(found, 1):
        topics.setdefault(answer.topic, []).append((number, answer))
    template = environment().get_template("dossier.html")
    return template.render(
        style=Markup(style_sheet()),
        policy=content_policy(),
        subject=case.subject,
        decision=decide(case.subject),
        topics=topics,
        open_questions=[one for one in found if one.open],
        signer=case.signer,
        source=case.source,
        made=now(),
    )


def read_statements(path: Path) -> dict[str, str]:
    """What the site says about purpose, collection, access and contact: a JSON object of texts."""
    document = parse(read_text(path))
    check_plain(document)
    if not isinstance(document, dict):
        raise refuse("--statements", f"to be an object with {', '.join(STATEMENTS)}", document)
    for name, value in document.items():
        if name not in STATEMENTS:
            raise InputError(f"Expected --statements to have {', '.join(STATEMENTS)}, got {name[:60]!r}.")
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_STATEMENT:
            raise InputError(f"Expected the statement {name!r} to be a text of at most {_LONGEST_STATEMENT} letters.")
    return {name: value.strip() for name, value in document.items()}


def browser() -> str | None:
    """A Chromium of this machine."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def printed_page(page: bytes) -> tuple[bytes | None, str]:
    """The page as PDF, or why there is none; the page fetches and runs nothing, and the browser may not either."""
    program = browser()
    if program is None:
        return None, "no Chromium on this machine; print index.html from any browser"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        source, target = Path(place) / "page.html", Path(place) / "page.pdf"
        source.write_bytes(page)
        command = [
            program, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={place}/profile", "--no-pdf-header-footer",
            # Chromium's sandbox refuses to start for root.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            f"--print-to-pdf={target}", source.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False, stdin=subprocess.DEVNULL)
            content = target.read_bytes()
        except (OSError, subprocess.TimeoutExpired):
            return None, "Chromium did not print; print index.html from any browser"
    return (content, "") if content.startswith(b"%PDF") else (None, "Chromium printed something else")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"Expected {str(path)!r} to be a readable file, got: {error.strerror}.") from None


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"
