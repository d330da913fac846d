"""What a page is about: a release folder read back, its certificate computed again, an audit and a balance."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sordino.accounting.evaluate import Explanation, explain
from sordino.audit.lower_bound import LowerBound
from sordino.audit.verdict import Verdict, verdict
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.floating_point import floating_point_line, with_floating_point
from sordino.core.rounding import show_up
from sordino.ledger.balance import Balance
from sordino.ledger.release import StoredRelease, read_release
from sordino.ledger.release.coverage import ONLY_A_CONSTANT, is_constant
from sordino.report.audit_file import AUDIT_FILE, read_audit, reads_rows

# Two runs of the same theorem on one machine agree to the last bits; on another one, to a little less.
_SAME = 1e-9


@dataclass(frozen=True)
class Subject:
    """One release and everything that may be said about it.

    Attributes:
        name: the folder's own name; no other part of a path is shown.
        release: as stored.
        found: what every theorem of this version says of the stored spec.
        audit: a lower bound, if there is one.
        balance: of the ledger that was named, if one was.
    """

    name: str
    release: StoredRelease
    found: Explanation
    audit: LowerBound | None = None
    balance: Balance | None = None

    @property
    def understated(self) -> bool:
        """Whether the folder claims less privacy loss than its spec can be shown to have."""
        return self.release.epsilon < self.found.epsilon * (1 - _SAME)

    @property
    def bound(self) -> Bound | None:
        """The bound the page states: what this version certifies, with what the folder says about floating point."""
        bound = self.found.tightest
        return None if bound is None else with_floating_point(bound, floating_point_line(self.release.bound))

    @property
    def epsilon(self) -> float:
        """The epsilon the page states; infinite where nothing is certified."""
        return math.inf if self.bound is None else self.bound.guarantee.epsilon(self.release.delta)

    @property
    def discrepancy(self) -> str:
        """The warning that belongs on the page, or nothing."""
        if not self.understated:
            return ""
        proved = "no finite epsilon" if math.isinf(self.found.epsilon) else f"epsilon {show_up(self.found.epsilon)}"
        return (
            f"The folder claims epsilon {show_up(self.release.epsilon)} at delta {self.release.delta:g}, and the "
            f"theorems of this version certify {proved} for the run it describes. This page states what is certified."
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader must know before any number, the first one first."""
        said = self.release.cautions
        return (ONLY_A_CONSTANT, *said) if is_constant(self.release) and ONLY_A_CONSTANT not in said else said

    @property
    def reasons_not_to_leave(self) -> tuple[str, ...]:
        """Why the release itself must stay; nothing where it may leave."""
        reasons = []
        if not self.release.private:
            reasons.append("it was made with reproducible randomness: whoever knows the seed can subtract the noise")
        if self.release.schema is not None and self.release.schema.reads_private_data:
            reasons.append("its schema was inferred from private rows, so its bounds and categories are not public")
        if any(certificate.reads_private_data for certificate in self.release.bound.certificates):
            reasons.append("its certificate rests on a constant that was read off private rows")
        return tuple(reasons)

    @property
    def may_leave(self) -> bool:
        """Whether the release is for anybody's eyes."""
        return not self.reasons_not_to_leave

    @property
    def audit_may_leave(self) -> bool:
        """Whether the audit, if there is one, was made without private rows."""
        return self.audit is None or not reads_rows(self.audit, self.release.spec)

    @cached_property
    def verdict(self) -> Verdict | None:
        """Certificate against audit, compared again here."""
        return None if self.audit is None else verdict(self.bound, self.audit)


def open_subject(folder: Path, audit: Path | None = None, balance: Balance | None = None) -> Subject:
    """Read a release folder, the audit given or the `audit.json` beside it, and certify its spec again."""
    release = read_release(folder)
    _check_ledger(release, balance)
    beside = folder / AUDIT_FILE
    source = audit if audit is not None else (beside if beside.is_file() else None)
    return Subject(
        folder.resolve().name,
        release,
        explain(release.spec, release.delta),
        None if source is None else read_audit(source),
        balance,
    )


def _check_ledger(release: StoredRelease, balance: Balance | None) -> None:
    """The balance shown is that of the dataset the release was charged to."""
    charged = None if release.ledger is None else release.ledger.get("dataset")
    if balance is not None and charged is not None and charged != balance.budget.dataset:
        raise InputError(
            f"Expected the ledger of {str(charged)[:80]!r}, to which the release was charged, got that of "
            f"{balance.budget.dataset!r}; name the other file."
        )
