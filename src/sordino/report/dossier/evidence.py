"""What a dossier rests on: checks that run as it is made, and tests, by name, of the source files that are running.

That tests passed is not claimed: whoever wants to know runs them on files with the same digest.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sordino.auditing.lower_bound import AuditOptions, LowerBound, VerdictKind, audit, verdict
from sordino.auditing.replay.examine import CONFIDENCE, Implementation
from sordino.core.gaussian import show_down, show_up
from sordino.core.validate import InputError
from sordino.core.version import __version__
from sordino.estimators.replayed import replay_release
from sordino.ledger import Ledger
from sordino.ledger.signing import verify_folder
from sordino.ledger.signing.folder import is_signed
from sordino.report.subject import Subject

_SOURCES = {".py", ".json", ".bib", ".html", ".css"}
# The JSON Schemas that a wheel holds and a checkout does not.
_MADE = ".schema.json"
_PACKAGE = Path(__file__).parents[2]

# By question, the test files that show what its answer claims of the program; paths of the repository.
TESTS: Mapping[str, tuple[str, ...]] = {
    "unit": ("tests/estimators/test_unit_fits.py",),
    "parameters": ("tests/report/test_plain_words.py",),
    "theorem": ("tests/conformance/test_theorems.py", "tests/frozen/test_certified.py"),
    "composition": ("tests/ledger/test_filters.py",),
    "budget": ("tests/ledger/test_ledger.py", "tests/ledger/test_processes.py"),
    "mechanism": ("tests/replay/test_estimators.py", "tests/mutations/test_mutations.py"),
    "bounds": ("tests/data/test_encode.py",),
    "randomness": ("tests/algorithm/test_secure_randomness.py", "tests/estimators/test_secure_mode.py"),
    "learned": ("tests/estimators/test_coverage.py",),
    "implementation": ("tests/replay/test_estimators.py", "tests/mutations/test_mutations.py"),
    "floating-point": ("tests/algorithm/exact_noise/test_gaussians.py", "tests/algorithm/exact_noise/test_noised.py"),
    "side-channels": ("tests/data/test_private_messages.py",),
    "security": ("tests/ledger/test_signing.py", "tests/report/test_dossier.py"),
}


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


@dataclass(frozen=True)
class Checks:
    """What ran while the dossier was made.

    Attributes:
        lower: a lower bound that may be shown, given or worked out from the description.
        replayed: the test of the implementation, where the release can be replayed.
        not_replayed: why not, where it cannot.
        entry: what recomputing the ledger's entry found; empty where no ledger was named.
        release_signer: the fingerprint of the key that signed the release folder; empty where none did.
    """

    lower: LowerBound | None
    replayed: Implementation | None
    not_replayed: str
    entry: str
    release_signer: str

    def as_json(self, subject: Subject) -> dict[str, Any]:
        """For a machine; the lower bound stands in audit.json."""
        return {
            "certificate": {
                "epsilon": subject.epsilon,
                "stated": subject.release.epsilon,
                "theorem": None if subject.bound is None else subject.bound.theorem,
                "by": __version__,
            },
            "lower_bound": None if self.lower is None else self.lower.as_json(),
            "implementation": {"not_replayable": self.not_replayed}
            if self.replayed is None
            else self.replayed.as_json(),
            "ledger_entry": self.entry or None,
            "release_signed_by": self.release_signer or None,
        }

    @property
    def lower_words(self) -> str:
        """The lower bound in a sentence."""
        if self.lower is None:
            return "No lower bound is known for this kind of run."
        found = f"Lower bound: epsilon {show_down(self.lower.epsilon)}."
        return f"{self.lower.evidence} {found} {self.lower.examined.sentence}"


def run_checks(folder: Path, subject: Subject, ledger: Ledger | None, begin: Callable[[str], None]) -> Checks:
    """Audit the description, replay the code, recompute the debit, verify the folder; contradictions are refused."""
    begin("auditing the description")
    lower = subject.audit if subject.audit is not None and subject.audit_may_leave else _exact(subject)
    if lower is not None and verdict(subject.bound, lower).kind is VerdictKind.VIOLATED:
        raise InputError(
            "Expected a release whose certificate withstands its audit, got a lower bound of "
            f"{show_down(lower.epsilon)} "
            f"above the certified {show_up(subject.epsilon)}; hand nothing over."
        )
    begin("replaying the implementation")
    replayed, reason = _replayed(subject)
    if replayed is not None and replayed.verdict.kind is VerdictKind.VIOLATED:
        raise InputError(
            "Expected an implementation that does what the certificate says, got a replay that contradicts it: "
            f"{replayed.verdict.evidence[:300]} Hand nothing over."
        )
    begin("checking ledger and signature")
    signer = verify_folder(folder).signer if is_signed(folder) else ""
    return Checks(lower, replayed, reason, _recomputed(subject, ledger), signer)


def _exact(subject: Subject) -> LowerBound | None:
    if subject.release.spec.instance is not None:
        return None
    try:
        return audit(subject.release.spec, "exact", AuditOptions(delta=subject.release.delta))
    except InputError:
        return None


def _replayed(subject: Subject) -> tuple[Implementation | None, str]:
    release = subject.release
    if "task" not in release.settings or release.schema is None:
        return None, "this release was not made by an estimator, so there is no fit to run again"
    try:
        return replay_release(release, confidence=CONFIDENCE, seed=secrets.randbits(32)), ""
    except InputError as error:
        return None, str(error)


def _recomputed(subject: Subject, ledger: Ledger | None) -> str:
    if ledger is None or subject.entry is None:
        return ""
    verification = ledger.verify()
    found = next(one for one in verification.findings if one.sequence == subject.entry)
    if not verification.sound:
        raise InputError(
            "Expected a ledger whose every entry is charged in full, got another; see `sordino ledger verify`, and "
            "hand "
            "nothing over."
        )
    return f"{found.verdict}: {found.reason}"
