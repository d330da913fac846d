"""Recomputes every entry of a ledger from its spec, with the theorems of this version."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound, Inapplicable
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError
from sordino.ledger.book import Entry
from sordino.ledger.budget import Budget, charged
from sordino.ledger.privacy_filter import Charge, PrivacyFilter

_SAME = 1e-9  # a later NumPy may round differently; a privacy curve that differs by less than this is the same curve


class EntryVerdict(StrEnum):
    """What recomputing an entry showed."""

    AGREES = "agrees"
    CHANGED = "changed"  # another number, which the recorded charge still covers
    UNDERCHARGED = "undercharged"  # today's number is larger than what was charged
    UNSUPPORTED = "unsupported"  # today's theorem does not apply to the run
    UNKNOWN = "unknown"  # cannot be recomputed here, so nothing is known of its charge


@dataclass(frozen=True)
class EntryFinding:
    """The verdict on one entry, with a reason."""

    sequence: int
    theorem: str
    verdict: EntryVerdict
    reason: str

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Verification:
    """One finding per entry, and whether all of them together are within the budget."""

    findings: tuple[EntryFinding, ...]
    overspent: bool = False

    @property
    def sound(self) -> bool:
        """Whether every entry was recomputed and is covered by its charge, and the budget was kept."""
        covered = {EntryVerdict.AGREES, EntryVerdict.CHANGED}
        return not self.overspent and all(finding.verdict in covered for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        entries = [finding.to_dict() for finding in self.findings]
        return {"sound": self.sound, "overspent": self.overspent, "entries": entries}


def verify(budget: Budget, rule: PrivacyFilter, entries: Sequence[Entry]) -> Verification:
    """Recompute every entry and compare it with what was charged; add all charges up and compare with the budget."""
    total = rule.total(entry.charge for entry in entries)
    findings = (EntryFinding(entry.sequence, entry.theorem, *_judged(budget, rule, entry)) for entry in entries)
    return Verification(tuple(findings), not rule.fits(total))


def _judged(budget: Budget, rule: PrivacyFilter, entry: Entry) -> tuple[EntryVerdict, str]:
    try:
        theorem = theorem_named(entry.theorem)
    except InputError:
        return EntryVerdict.UNKNOWN, "its theorem is not registered in this version"
    try:
        spec, bound = entry.spec, entry.bound
        answer = evaluate(theorem, spec)
        if isinstance(answer, Inapplicable):
            return EntryVerdict.UNSUPPORTED, f"the theorem does not apply to the run: {answer.reason}"
        charge = rule.charge(charged(answer, spec, budget))
    except InputError as error:
        return EntryVerdict.UNKNOWN, f"it cannot be recomputed: {error}"
    return _compared(budget, entry.charge, charge, bound, answer)


def _compared(budget: Budget, recorded: Charge, charge: Charge, old: Bound, new: Bound) -> tuple[EntryVerdict, str]:
    was, now = ((*each.amounts, each.failure, each.alone) for each in (recorded, charge))
    pairs = list(zip(was, now, strict=True))
    if any(now > was * (1 + _SAME) for was, now in pairs):
        then, today = (show_up(bound.guarantee.epsilon(budget.delta)) for bound in (old, new))
        return EntryVerdict.UNDERCHARGED, f"epsilon {then} was charged where this version computes {today}"
    if any(not math.isclose(was, now, rel_tol=_SAME) for was, now in pairs):
        return EntryVerdict.CHANGED, "this version computes a smaller privacy loss than was charged"
    if old.certificates != new.certificates:
        return EntryVerdict.CHANGED, "the same privacy loss now depends on other certificates"
    return EntryVerdict.AGREES, "the charge recomputed from its spec is the same"
