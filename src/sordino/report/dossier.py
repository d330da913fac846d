"""The folder of a dossier: answers for people and machines, the report, the release, and a signature over all."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sordino.auditing.lower_bound import AuditOptions, LowerBound, VerdictKind, audit, verdict
from sordino.auditing.replay.examine import CONFIDENCE, Implementation
from sordino.core import __version__
from sordino.core.atomic_write import write_new_folder
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import Spec
from sordino.core.spec.document import check_plain, parse, read_bytes, read_text
from sordino.core.validate import InputError, refuse
from sordino.estimators.replay import replay_release
from sordino.fitting.tasks.base import Begin, ignore_progress
from sordino.ledger import Ledger
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.folder import ARRAYS, DOCUMENT, LARGEST_FILE
from sordino.ledger.signed_folder import DOSSIER, is_signed, now, signed_files, verify_folder
from sordino.ledger.signing_keys import SigningKey
from sordino.report.decision import decide
from sordino.report.dossier_questions import STATEMENTS, Answer, Case, answers, registry_entry
from sordino.report.page import environment, report_page
from sordino.report.subject import AUDIT_FILE, Subject, open_subject

PAGE, REPORT = "index.html", "report.html"
ANSWERS, REGISTRY, CHECKS, LEDGER = "answers.json", "registry.json", "checks.json", "ledger.json"
_LONGEST_STATEMENT = 4000


def write_dossier(
    release: Path,
    out: Path,
    *,
    audit: Path | None = None,
    ledger: Ledger | None = None,
    statements: Mapping[str, str] | None = None,
    key: SigningKey | None = None,
    begin: Begin = ignore_progress,
) -> tuple[Answer, ...]:
    """Check a release in every way that reads no rows, and write a new folder that answers for it: the answers.

    Refused where the release must not be published, where nothing is certified, where the stored certificate does not
    hold, and where a check contradicts it: a dossier is what is handed over.
    """
    begin("certifying again")
    subject = open_subject(release, audit, ledger)
    bound = subject.bound
    if subject.reasons_not_to_leave:
        reasons = "; ".join(subject.reasons_not_to_leave)
        raise InputError(f"This release must not be published: {reasons}. {subject.discrepancy}")
    if audit is not None and not subject.audit_may_leave:
        raise InputError("This audit read private rows. It is for the auditor only.")
    checks = run_checks(release, subject, ledger, begin)
    begin("writing answers and report")
    if bound is None:
        raise InputError("No theorem covers this release, so there is no certificate to hand over.")
    # The page shows the lower bound of the checks, with a verdict of its own.
    shown = replace(subject, audit=checks.lower, replayed=None if checks.replayed is None else checks.replayed.verdict)
    case = Case(shown, bound, checks, source_digest(), statements or {}, "" if key is None else key.fingerprint)
    found, decided = answers(case), decide(shown)
    answered = {"format": "sordino-dossier", "version": 1, "release": shown.name, "made": now()}
    answered |= {"may_leave": shown.may_leave, "why": list(decided.why), "answers": [one.as_json() for one in found]}
    answered["source_sha256"] = case.source
    topics: dict[str, list[tuple[int, Answer]]] = {}
    for number, answer in enumerate(found, 1):
        topics.setdefault(answer.topic, []).append((number, answer))
    given = {"subject": shown, "decision": decided, "topics": topics, "signer": case.signer, "source": case.source}
    waiting, template = [one for one in found if one.open], environment().get_template("dossier.html")
    page = template.render(**given, open_questions=waiting, made=answered["made"])
    documents = {ANSWERS: answered, REGISTRY: registry_entry(case), CHECKS: checks.as_json(shown)}
    if checks.lower is not None:
        documents[AUDIT_FILE] = checks.lower.as_json()
    if ledger is not None and shown.entry is not None:
        entry = next(one for one in ledger.entries() if one.sequence == shown.entry)
        documents[LEDGER] = {"balance": ledger.balance().to_dict(), "entry": entry.to_dict()}
    files = {name: read_bytes(release / name, LARGEST_FILE) for name in (DOCUMENT, ARRAYS)}
    listed = parse(files[DOCUMENT].decode("utf-8-sig", "replace")).get("arrays_sha256")
    digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
    if digests != [subject.release.digest, listed]:
        raise InputError(f"{str(release)!r} changed while it was checked. Try again.")
    files |= {REPORT: report_page([shown]).encode(), PAGE: page.encode()}
    files |= {name: json.dumps(value, indent=2, allow_nan=False).encode() + b"\n" for name, value in documents.items()}
    for name in ("manifest.json", "signature.json") if is_signed(release) else ():
        files[f"release-{name}"] = read_bytes(release / name, LARGEST_FILE)
    write_new_folder(out, files if key is None else signed_files(DOSSIER, files, key))
    return found


def check_entry(folder: Path, release: StoredRelease) -> str:
    """Refuse a dossier whose ledger entry is not that of its release; what was compared with, if there is an entry."""
    if not (folder / LEDGER).is_file():
        return ""
    document, stated = parse(read_text(folder / LEDGER)), release.ledger or {}
    with suppress(KeyError, TypeError, InputError):
        entry = document["entry"]
        if (
            (entry["sequence"], entry["digest"]) == (stated.get("entry"), stated.get("digest"))
            and Spec.from_dict(entry["spec"]).to_dict() == release.spec.to_dict()
            and entry["release"] in (None, release.digest)
        ):
            return f"{LEDGER} of the dossier"
    raise InputError(f"Expected {LEDGER} in {str(folder)!r} to contain the entry of its release.")


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


_SOURCES = {".py", ".json", ".bib", ".html", ".css"}
_MADE = ".schema.json"  # the JSON Schemas that a wheel holds and a checkout does not
_PACKAGE = Path(__file__).parents[1]


@cache
def source_digest() -> str:
    """The SHA-256 of every file of the package that is running, with their names; not of what is made from them."""
    whole = hashlib.sha256()
    files = [path for path in _PACKAGE.rglob("*") if path.suffix in _SOURCES and not path.name.endswith(_MADE)]
    for path in sorted(files, key=lambda path: path.relative_to(_PACKAGE).as_posix()):
        name = path.relative_to(_PACKAGE).as_posix().encode()
        content = path.read_bytes()
        whole.update(b"%d %s %d\n" % (len(name), name, len(content)) + content)
    return whole.hexdigest()


class DossierChecks(NamedTuple):
    """What ran while the dossier was made."""

    lower: LowerBound | None  # that may be shown, given or worked out from the description
    replayed: Implementation | None
    not_replayed: str  # why not
    entry: str  # what recomputing the ledger's entry found; empty where no ledger was named
    release_signer: str  # the fingerprint of the key that signed the release folder, if one did

    def as_json(self, subject: Subject) -> dict[str, Any]:
        """The checks as JSON; the lower bound is in audit.json."""
        found, release, bound = self.replayed, subject.release, subject.bound
        certificate = {"epsilon": subject.epsilon, "stated": release.epsilon, "by": __version__}
        return {
            "certificate": certificate | {"theorem": None if bound is None else bound.theorem},
            "lower_bound": None if self.lower is None else self.lower.as_json(),
            "implementation": {"not_replayable": self.not_replayed} if found is None else found.as_json(),
            "ledger_entry": self.entry or None,
            "release_signed_by": self.release_signer or None,
        }


def run_checks(folder: Path, subject: Subject, ledger: Ledger | None, begin: Begin) -> DossierChecks:
    """Audit the description, replay the code, recompute the debit, verify the folder; contradictions are refused."""
    begin("auditing the description")
    lower = subject.audit if subject.audit_may_leave else None
    if lower is None and subject.release.spec.instance is None:
        with suppress(InputError):
            lower = audit(subject.release.spec, "exact", AuditOptions(delta=subject.release.delta))
    if lower is not None and verdict(subject.bound, lower).kind is VerdictKind.VIOLATED:
        bounds = f"the lower bound {show_down(lower.epsilon)} is above the certified {show_up(subject.epsilon)}"
        raise InputError(f"An audit contradicts the certificate: {bounds}. Do not hand it over.")
    begin("replaying the implementation")
    release, replayed = subject.release, None
    reason = "this release was not made by an estimator, so there is no fit to run again"
    if "task" in release.settings and release.schema is not None:
        try:
            replayed, reason = replay_release(release, confidence=CONFIDENCE, seed=secrets.randbits(32)), ""
        except InputError as error:
            reason = str(error)
    if replayed is not None and replayed.verdict.kind is VerdictKind.VIOLATED:
        evidence = replayed.verdict.evidence[:300]
        raise InputError(f"A replay contradicts the certificate: {evidence} Do not hand it over.")
    begin("checking ledger and signature")
    signer, entry = verify_folder(folder).signer if is_signed(folder) else "", ""
    if ledger is not None and subject.entry is not None:
        verification = ledger.verify()
        if not verification.sound:
            remedy = "run `sordino ledger verify`, and do not hand it over"
            raise InputError(f"An entry of this ledger is not charged in full; {remedy}.")
        found = next(one for one in verification.findings if one.sequence == subject.entry)
        entry = f"{found.verdict} ({found.reason})"
    return DossierChecks(lower, replayed, reason, entry, signer)
