"""The ledger of a dataset: opened once, debited before anything is computed from the rows' values, never overspent."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import cast

from numpy.typing import NDArray

from sordino.accounting.evaluate import evaluate, explain, theorem_named, theorems
from sordino.core import validate
from sordino.core.bound import Bound, Inapplicable, Relation
from sordino.core.gaussian import down, show_down, show_up
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec, Unit
from sordino.core.validate import InputError
from sordino.ledger import access, book, log
from sordino.ledger.book import Entry, Page, Standing, fingerprint
from sordino.ledger.budget import RESERVE, Budget, ContentWarning, LedgerError, LedgerRefusal, LedgerUnit, charged
from sordino.ledger.privacy_filter import Charge, PrivacyFilter, epsilon_alone

_SAME = 1e-9  # a later NumPy may round differently; a privacy curve that differs by less than this is the same curve


class EntryVerdict(StrEnum):
    """What recomputing an entry from its spec, with the theorems of this version, showed."""

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
        entries = [asdict(finding) for finding in self.findings]
        return {"sound": self.sound, "overspent": self.overspent, "entries": entries}


VALIDITY = {
    "spent_epsilon": (
        "Everything released so far is (spent_epsilon, delta)-differentially private if the ledger is left at this "
        "level, decided in advance; it never passes the budget's epsilon."
    ),
    "odometer_epsilon": (
        "Holds at any moment one chooses to stop, in view of what was released: P(S) <= E_Q[exp(odometer_epsilon); S] "
        "+ delta for every set S of transcripts. It may pass the budget's epsilon."
    ),
}


@dataclass(frozen=True)
class Balance:
    """The state of a budget: what is spent is rounded up, what is left rounded down; see `VALIDITY` for both epsilons.

    `largest_mu` is the largest Gaussian release that still fits, `largest_epsilon` its epsilon at the budget's delta.
    `spent_mu` is that of the Gaussian that all releases make up together, None where squared mus are not counted.
    """

    budget: Budget
    releases: int
    spent_epsilon: float
    odometer_epsilon: float
    spent_failure: float
    largest_mu: float
    largest_epsilon: float
    failure_left: float
    spent_mu: float | None

    @classmethod
    def of(cls, stands: Standing) -> "Balance":
        """The balance of a ledger where it stands."""
        _, budget, rule, releases, total = stands
        mu, square = rule.largest_mu(total), rule.spent_square(total)
        epsilon, left = GaussianDP(mu).epsilon(budget.delta), budget.failure_delta - total.failure
        left = max(0.0, down(left) if total.failure else left)
        spent, odometer = rule.spent(total), rule.odometer(total)
        spent_mu = None if square is None else square**0.5
        return cls(budget, releases, spent, odometer, total.failure, mu, epsilon, left, spent_mu)

    @property
    def sentence(self) -> str:
        budget = self.budget
        spent = f"epsilon {show_up(self.spent_epsilon)} of {budget.epsilon:g} is spent (at delta {budget.delta:g})"
        if self.spent_failure:
            kept = show_down(budget.failure_delta)
            spent += f", and {show_up(self.spent_failure)} of the {kept} of delta for releases that can fail outright"
        if self.largest_mu == 0:
            return f"{spent}; no further release fits"
        epsilon = show_down(self.largest_epsilon)
        return f"{spent}; left: one more release of up to epsilon {epsilon} (at delta {budget.delta:g})"

    def to_dict(self) -> dict[str, object]:
        largest = {"mu": self.largest_mu, "epsilon": self.largest_epsilon}
        largest |= {"delta": self.budget.delta, "failure": self.failure_left}
        spent = ("releases", "spent_epsilon", "odometer_epsilon", "spent_failure")
        known = {"budget": self.budget.to_dict()} | {name: getattr(self, name) for name in spent}
        return known | {"largest_release": largest, "validity": dict(VALIDITY)}


DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Ledger:
    """A privacy budget in a file, shared by every process that releases something about the dataset.

    A debit is on the disk before the caller uses the rows, so a crash can lose a result and never hide a spend. Debits
    are made one after the other, under a lock on the file; one that would exceed the budget changes nothing and raises
    `LedgerRefusal`.

    Args:
        path: of the file; `Ledger.open` makes one, `Ledger.at` takes an existing one.
        timeout: how many seconds to wait for other processes.

    Examples:
        >>> import pathlib, tempfile
        >>> import sordino
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "clinic.ledger"
        >>> ledger = sordino.Ledger.open(path, "clinic", "replace-one", 2.0, 1e-5)
        >>> ledger.budget.dataset
        'clinic'
    """

    path: Path
    timeout: float = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        validate.number("timeout", self.timeout, validate.Interval(0.0, 86400.0))

    @classmethod
    def open(
        cls,
        path: str | Path,
        dataset: str,
        relation: Relation | str,
        epsilon: float,
        delta: float,
        *,
        reserve: float = RESERVE,
        unit: LedgerUnit | Mapping[str, object] | str = Unit.RECORD,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> "Ledger":
        """Open a budget for a dataset; nothing given here can change later.

        Args:
            path: where the ledger file is made; there must be none yet.
            dataset: declared name of the dataset.
            relation: which datasets are neighbours.
            epsilon: total epsilon.
            delta: total delta.
            reserve: share of delta kept for releases with an additive failure.
            unit: whom the budget protects: "record", or {"column": ..., "most_records": ...} for all records that share
                a value of a column; most_records, the most that a unit has in the table, prices releases about records.
            timeout: seconds to wait for other processes.
        """
        made = cls(Path(path), timeout)
        related = Relation(validate.one_of("relation", relation, tuple(Relation)))
        # The budget reads the unit, whatever it is given as.
        budget = Budget(dataset, related, epsilon, delta, reserve, cast(LedgerUnit, unit))
        rule = PrivacyFilter.opened(budget)
        if rule.largest_mu(rule.total([])) == 0:
            raise InputError(f"No release fits a budget of epsilon {epsilon!r} at delta {delta!r}; raise either.")
        log.create(made.path, book.opening(budget, rule))
        return made

    @classmethod
    def at(cls, path: str | Path, timeout: float = DEFAULT_TIMEOUT) -> "Ledger":
        """The ledger in an existing file, checked."""
        ledger = cls(Path(path), timeout)
        ledger._standing()
        return ledger

    @property
    def budget(self) -> Budget:
        return self._standing().budget

    def debit(self, bound: Bound | Sequence[Bound], spec: Spec, *, run: str | None = None) -> Entry:
        """Charge a release, before anything is computed from the rows' values.

        Args:
            bound: the certified bound of the release, or all that are known: the one that leaves most of the budget is
                debited. One that does not fit, or whose cost is mostly in what may fail, is compared with what the
                other theorems say of the spec.
            spec: the run it is the bound of, from which `verify` recomputes it.
            run: a secret name of a run that can be resumed. The entry that was made for it is returned, and nothing is
                charged again, however often the process is killed.

        Raises:
            LedgerRefusal: the release does not fit; nothing was recorded.
            InputError: for the name of a run that was charged for another spec or another bound.
        """
        bounds = list(bound) if isinstance(bound, Sequence) else [bound]
        if not bounds:
            raise InputError("The release has no bound.")
        for stated in bounds:
            _check_matching(stated, spec)
        stands = self._standing()
        pages = _priced(stands, bounds, spec)
        if len(pages) == 1 and (run is not None or _should_be_compared(stands, pages[0].charge)):
            # What every other theorem says of the run, where the bound itself is what its theorem says of it.
            known = [theorem for theorem in theorems() if theorem.id == bounds[0].theorem]
            if known and evaluate(known[0], spec) == bounds[0]:
                others = [other for other, _ in explain(spec, stands.budget.delta).bounds]
                others = [other for other in others if other.theorem != bounds[0].theorem]
                pages += _priced(stands, others, spec, must=False)
        with log.writing(self.path, self.timeout) as open_log:
            priced, stands = stands, book.standing(open_log)
            if stands.opening != priced.opening:
                raise access.exchanged(self.path)
            for entry in () if run is None else (one for one in book.entries(open_log) if one.run == run):
                if (entry.spec_text, entry.bound_text) in {(one.spec_text, one.bound_text) for one in pages}:
                    return entry
                wrong = f"Entry {entry.sequence} of {str(self.path)!r} was charged for another run"
                raise InputError(f"{wrong}. Name a new file to keep rounds in.")
            # Of the pages that fit, the one that leaves most of the budget; the first of several equal ones.
            rule, after = stands.rule, [stands.rule.total([stands.total, page.charge]) for page in pages]
            fitting = [(total, page) for total, page in zip(after, pages, strict=True) if rule.fits(total)]
            if not fitting:
                balance, wanted = Balance.of(stands), pages[0]
                asked = next(one for one in bounds if one.theorem == wanted.theorem)
                raise LedgerRefusal(_too_small(balance, wanted, asked, spec.delta), balance)
            best = min(fitting, key=lambda pair: rule.used(pair[0])) if len(fitting) > 1 else fitting[0]
            return book.append(open_log, stands, best[1], run)

    def balance(self) -> Balance:
        """What is spent, and the largest release that still fits."""
        return Balance.of(self._standing())

    def entries(self) -> tuple[Entry, ...]:
        """Every debit, oldest first; the whole file is checked."""
        with log.reading(self.path) as file:
            return book.entries(file)

    def verify(self) -> Verification:
        """Add up the whole file again and recompute every entry from its spec with the theorems of this version."""
        stands, entries = self._standing(), self.entries()
        total = stands.rule.total(entry.charge for entry in entries)
        findings = (EntryFinding(entry.sequence, entry.theorem, *_judged(stands, entry)) for entry in entries)
        return Verification(tuple(findings), not stands.rule.fits(total))

    def export(self) -> dict[str, object]:
        """What may be published, as JSON values: no key, no fingerprints."""
        with log.reading(self.path) as file:
            stands, listed = book.standing(file), book.entries(file)
        head: dict[str, object] = {"format": log.FORMAT, "opened": stands.opening["opened"]}
        head |= {"balance": Balance.of(stands).to_dict()}
        rule = {"filter": stands.rule.to_dict(), "citation": str(stands.rule.citation)}
        return head | rule | {"entries": [entry.to_dict() for entry in listed]}

    def check_content(self, entry: Entry, columns: Mapping[str, NDArray]) -> None:
        """Fingerprint the columns of a debited release; warn when an earlier one was computed from other rows.

        The warning is an answer about private rows without noise, so it is marked NON-PRIVATE.
        """
        validate.instance_of("entry", entry, Entry)
        with log.reading(self.path) as file:
            rows = fingerprint(file.key, columns)
        try:
            with log.writing(self.path, self.timeout) as open_log:
                same = book.keep_rows(open_log, rows)
        except LedgerError as error:
            warnings.warn(f"The fingerprint of the rows was not kept: {error}", ContentWarning, stacklevel=2)
            return
        if not same:
            warnings.warn(
                f"NON-PRIVATE: these rows are not those of earlier releases from {self.budget.dataset!r}. That is "
                "expected if the dataset grew or was cleaned. A different dataset needs its own ledger. This message "
                "comes from private rows, and even shows whether one was removed: keep it with them.",
                ContentWarning,
                stacklevel=2,
            )

    def name_release(self, entry: Entry, digest: str) -> None:
        """Write down which release was made on a debit, by the SHA-256 of its release.json; a second one is refused."""
        validate.instance_of("entry", entry, Entry)
        if not re.fullmatch(r"[0-9a-f]{64}", validate.instance_of("digest", digest, str)):
            raise validate.refuse("digest", "to be a SHA-256 in 64 hexadecimal digits", digest[:80])
        with log.writing(self.path, self.timeout) as open_log:
            book.name_release(open_log, entry, digest)

    def _standing(self) -> Standing:
        with log.reading(self.path) as file:
            return book.standing(file)


def _priced(stands: Standing, bounds: Sequence[Bound], spec: Spec, must: bool = True) -> list[Page]:
    """What each bound would cost; bounds that the budget cannot hold are left out as long as one can."""
    pages, refused = [], []
    for bound in bounds:
        try:
            guarantee = charged(bound, spec, stands.budget)
        except InputError as error:
            refused.append(error)
            continue
        charge, alone = stands.rule.charge(guarantee), epsilon_alone(guarantee, stands.budget.delta)
        pages.append(Page(charge, bound.theorem, alone, spec.to_json(), book.text(bound.to_dict())))
    if must and not pages:
        raise refused[0]
    return pages


def _too_small(balance: Balance, wanted: Page, asked: Bound, delta: float | None) -> str:
    """Why a release is refused: what it has at its own delta, what it would cost, and what is left."""
    own = "" if delta is None else f"epsilon {show_up(asked.guarantee.epsilon(delta))} at delta {delta:g}, charged as "
    cost = f"{own}epsilon {show_up(wanted.epsilon)} at the ledger's delta {balance.budget.delta:g}"
    if failure := wanted.charge.failure:
        cost += f", and {show_up(failure)} of delta for failures, of which {show_down(balance.failure_left)} is left"
    return f"The budget of {balance.budget.dataset!r} is too small for this release ({cost}): {balance.sentence}."


def _should_be_compared(stands: Standing, charge: Charge) -> bool:
    """Whether another theorem may serve better: the charge does not fit, or costs more in failures than in loss."""
    rule, after = stands.rule, stands.rule.total([stands.total, charge])
    if not rule.fits(after):
        return True
    lossy = rule.total([stands.total, replace(charge, failure=0.0)])
    return charge.failure > 0 and rule.used(after) > rule.used(lossy)


def _check_matching(bound: Bound, spec: Spec) -> None:
    validate.instance_of("bound", bound, Bound)
    validate.instance_of("spec", spec, Spec)
    if (bound.relation, bound.view) != (spec.relation, spec.view):
        raise InputError(f"The bound is for {bound.relation}, {bound.view}; the spec has {spec.relation}, {spec.view}.")
    private = next((one.constant.name for one in bound.certificates if one.reads_private_data), None)
    if private is not None:
        raise InputError(f"The certificate of {private} was read from private data; use public knowledge.")


def _judged(stands: Standing, entry: Entry) -> tuple[EntryVerdict, str]:
    try:
        theorem = theorem_named(entry.theorem)
    except InputError:
        return EntryVerdict.UNKNOWN, "its theorem is not registered in this version"
    try:
        old, new = entry.bound, evaluate(theorem, entry.spec)
        if isinstance(new, Inapplicable):
            return EntryVerdict.UNSUPPORTED, f"the theorem does not apply to the run: {new.reason}"
        charge = stands.rule.charge(charged(new, entry.spec, stands.budget))
    except InputError as error:
        return EntryVerdict.UNKNOWN, f"it cannot be recomputed: {error}"
    was, now = ((*each.amounts, each.failure, each.alone) for each in (entry.charge, charge))
    pairs = list(zip(was, now, strict=True))
    if any(now > was * (1 + _SAME) for was, now in pairs):
        then, today = (show_up(bound.guarantee.epsilon(stands.budget.delta)) for bound in (old, new))
        return EntryVerdict.UNDERCHARGED, f"epsilon {then} was charged where this version computes {today}"
    if any(not math.isclose(was, now, rel_tol=_SAME) for was, now in pairs):
        return EntryVerdict.CHANGED, "this version computes a smaller privacy loss than was charged"
    if old.certificates != new.certificates:
        return EntryVerdict.CHANGED, "the same privacy loss now depends on other certificates"
    return EntryVerdict.AGREES, "the charge recomputed from its spec is the same"
