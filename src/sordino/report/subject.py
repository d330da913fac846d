"""What a page is about: a release folder, its certificate computed again, its audit and its debit, read strictly."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sordino.accounting.evaluate import Explanation, as_json, explain
from sordino.auditing.lower_bound import Examined, LowerBound, TradeOffPoint, Verdict, VerdictKind, verdict
from sordino.core import __version__
from sordino.core.bound import Bound, Relation, View, floating_point_line, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.spec import FileDataset, NoisedSums, RepeatAndSelect, Spec
from sordino.core.spec.document import check_plain, parse, read_text
from sordino.core.validate import InputError, one_of, shown_names
from sordino.estimators.replay import unplanned
from sordino.explore.looks import look_cautions
from sordino.explore.selection import CHOSEN, choice_caution
from sordino.fitting.custom_methods import CUSTOM, WEIGHTS, natural_cautions, points_caution
from sordino.fitting.gradient_runs import NETWORK
from sordino.fitting.problem import delta_cautions
from sordino.fitting.tasks.base import ASKED, EXPECTED_ERROR, TASKS, task_of
from sordino.inference.summary import CHECK, COMPARISON, LOOK
from sordino.ledger import Balance, Entry, Ledger
from sordino.ledger.release import StoredRelease, coverage
from sordino.ledger.release.document import changed_keys, has_form
from sordino.ledger.release.folder import stored_at
from sordino.ledger.signed_folder import broken_signature, is_signed, verify_folder
from sordino.mechanisms.regression.posterior import UNSETTLED

AUDIT_FILE = "audit.json"
LONGEST_TEXT = 2000
MOST_POINTS = 10_000
_ROWS = "records of a file"  # how an audit describes the private rows it trained on; see `audit.instance`
_SAME = 1e-9  # two runs of the same theorem on one machine agree to the last bits; on another one, to a little less


_ANSWER = {
    **dict.fromkeys(("relation", "view", "method", "examined", "seed_policy"), str),
    **{"delta": float, "confidence": float, "counts": {}, "cap": (float, None)},
    "lower_bound": {"epsilon": (float, None), "evidence": str, "curve": [[float, float]]},
}


def read_audit(path: Path) -> LowerBound:
    """The lower bound that an audit file states; its verdict is not read, because it can be recomputed."""
    answer = parse(read_text(path))
    check_plain(answer)
    if not has_form(answer, _ANSWER):
        raise InputError(f"{path} is not the answer of sordino audit --json.")
    stated, counts = answer["lower_bound"], answer["counts"]
    texts = (answer["method"], answer["seed_policy"], stated["evidence"], *counts)
    if len(stated["curve"]) > MOST_POINTS or any(len(text) > LONGEST_TEXT for text in texts):
        raise InputError(f"{path} has longer texts, or a longer curve, than an audit writes.")
    examined = Examined(one_of("examined", answer["examined"], tuple(Examined)))
    # The method exact runs nothing, whatever its file says.
    examined = Examined.DESCRIPTION if answer["method"] == "exact" else examined
    return LowerBound(
        **{name: answer[name] for name in ("delta", "method", "confidence", "cap", "seed_policy")},
        epsilon=math.inf if stated["epsilon"] is None else stated["epsilon"],
        relation=Relation(one_of("relation", answer["relation"], tuple(Relation))),
        view=View(one_of("view", answer["view"], tuple(View))),
        counts=tuple(counts.items()),
        evidence=stated["evidence"],
        curve=tuple(TradeOffPoint(*point) for point in stated["curve"]),
        examined=examined,
    )


def replay_verdict(path: Path) -> Verdict | None:
    """What the replay of the installed code in an audit file found; None where there was none."""
    tested = parse(read_text(path)).get("implementation")
    said = tested.get("verdict") if isinstance(tested, dict) else None
    if not isinstance(said, dict) or said.get("kind") not in tuple(VerdictKind):
        return None
    return Verdict(VerdictKind(said["kind"]), str(said.get("evidence"))[:LONGEST_TEXT])


def reads_rows(lower: LowerBound, spec: Spec) -> bool:
    """Whether private rows were read to get this lower bound; then it must not be published with a release."""
    from_file = spec.instance is not None and isinstance(spec.instance.dataset, FileDataset)
    return from_file or _ROWS in lower.evidence


_FIT = (EXPECTED_ERROR, "labels")  # the settings that every release of a kind has, or of a kind with a method
_CUSTOM = ("front_end", "sites", "layout", "rows", "unit", ASKED)
_SETTINGS = {
    LOOK: ("level", "about", "answers"),
    CHECK: ("level", "about", "bands"),
    COMPARISON: ("level", "models"),
    NETWORK: ("leaves",),
    coverage.BOUNDED_INFLUENCE: ("coefficients", coverage.FAR, coverage.SLOPES_NOISE),
    coverage.A_CONSTANT: (coverage.LEARNED,),
    **{f"{word}/{coverage.BOUNDED_INFLUENCE}": task.kept for word, task in TASKS.items()},
    "network-classification/natural": (coverage.RAREST, coverage.RAREST_OVER_SIZE),
    f"{CUSTOM}/natural": ("clip", "doubt", "changed", "share_of_noise"),
    f"{CUSTOM}/variational": ("clip", "guide"),
}


def lacks(release: StoredRelease) -> str:
    """What this version writes of such a release, or its spec asks for, and is not there; empty where all is."""
    head, _, method = release.kind.partition("/")
    chosen = isinstance(release.spec.algorithm, RepeatAndSelect)
    stated = {}
    if head in TASKS:
        needed = (*_FIT, CHOSEN if chosen else ASKED, *_SETTINGS.get(method, ()))
        stated = {"task": head, "method": method}
    elif head == CUSTOM:
        needed, stated = _CUSTOM, {"method": method}
    elif release.kind in (LOOK, CHECK, COMPARISON, NETWORK):
        needed, stated = (), {} if head == NETWORK else {"task": head}
    elif release.kind in ("last-iterate", "kept-iterates", "average") and release.spec.problem is None:
        return "a problem in its spec"
    elif task_of(release.settings) is not None:
        return "the kind of its task"
    else:
        needed = ()  # a kind registered elsewhere
    for name in (*stated, *needed, *_SETTINGS.get(release.kind, ())):
        if name not in release.settings or release.settings[name] != stated.get(name, release.settings[name]):
            return f"the setting {name!r}"
    if (head in TASKS or head in (CHECK, COMPARISON)) and release.schema is None:
        return "a schema"
    if head in TASKS and release.model is None:
        return "a model"
    return "" if set(_required(release)) <= set(release.cautions) else "cautions"


def _required(release: StoredRelease) -> Iterator[str]:
    """The cautions that follow from the kind of a release and from its own noised numbers."""
    (head, _, method), settings = release.kind.partition("/"), release.settings
    if method == coverage.BOUNDED_INFLUENCE:
        far = settings.get(coverage.FAR)
        far = float(far) if isinstance(far, int | float) else math.nan
        yield from () if far <= UNSETTLED else (coverage.UNSETTLED_FIT.format(far),)
    if release.kind == LOOK:
        yield from look_cautions(settings["answers"], release.spec)
    if head == CUSTOM:
        records = [part.algorithm.records for part in release.spec.runs() if isinstance(part.algorithm, NoisedSums)]
        with warnings.catch_warnings(action="ignore"):
            spoken = delta_cautions(max(records, default=0), release.delta, "unit" if settings["unit"] else "record")
        yield from spoken
        if method == "natural":
            doubt, changed = settings["doubt"], settings["changed"]
            known = isinstance(doubt, int | float) and isinstance(changed, int | float)
            yield from natural_cautions(*((doubt, changed) if known else (math.nan, math.nan)))
        if method in ("rounds", "training"):
            yield points_caution(len(release.arrays.get(WEIGHTS, (0,))))
    if isinstance(release.spec.algorithm, RepeatAndSelect):
        chosen = settings.get(CHOSEN)
        listed = chosen.get("candidates") if isinstance(chosen, Mapping) else None
        yield choice_caution(len(listed) if isinstance(listed, list) else 0)


def _agree(stored: Any, again: Any) -> bool:
    """Whether two JSON values are the same, numbers to a little less than the last bits."""
    if isinstance(again, Mapping):
        same = isinstance(stored, Mapping) and stored.keys() == again.keys()
        return same and all(_agree(stored[name], value) for name, value in again.items())
    if isinstance(again, list | tuple):
        same = isinstance(stored, list | tuple) and len(stored) == len(again)
        return same and all(map(_agree, stored, again))
    if isinstance(again, float) and type(stored) in (int, float):
        return math.isclose(stored, again, rel_tol=_SAME, abs_tol=_SAME)
    return type(stored) is type(again) and stored == again


def shown_epsilon(epsilon: float) -> str:
    """A certified epsilon in words."""
    return f"epsilon {show_up(epsilon)}" if math.isfinite(epsilon) else "no finite epsilon"


@dataclass(frozen=True)
class Subject:
    """One release and everything that may be said about it."""

    name: str  # the folder's own name; no other part of a path is shown
    release: StoredRelease  # as stored
    explanation: Explanation  # what every theorem of this version says of the stored spec
    audit: LowerBound | None = None  # a lower bound, if there is one
    balance: Balance | None = None  # of the ledger that was named, if the release was charged to it
    not_as_charged: str = ""  # what the ledger that was named says otherwise, if it does
    entry: int | None = None  # the number of its debit in the ledger that was named
    time: str = ""  # of that debit, by the clock of the machine that made it
    named_by_ledger: bool = False  # whether the debit names this release by its digest
    broken_signature: str = ""  # why the folder is not what was signed; nothing where it is, or is not signed
    signer: str = ""  # the fingerprint of the key that signed it, anybody's; nothing where no signature holds
    unplanned: str | None = None  # why this version would not plan this run; None where it cannot say
    replayed: Verdict | None = None  # what the audit's replay of the installed code found, if it made one

    @property
    def unverified(self) -> str:
        """What nothing vouches for: the description is certified again, and the rest is the folder's word."""
        # The ledger that was named would show a changed folder; a signature only to who knows its key.
        if self.named_by_ledger:
            return ""
        if self.signer:
            held = f"Its results, settings and cautions are as the holder of the key {self.signer} signed them."
            return f"{held} Anybody can make a key: get the fingerprint from the signer, and compare."
        broken = "The signature is not valid" if self.broken_signature else "The folder is not signed"
        unknown = "Its results, settings and cautions are not verified: a change would go unnoticed."
        return f"{broken}, and no given ledger has its digest. {unknown}"

    @property
    def understated(self) -> bool:
        """Whether the folder claims less privacy loss than its spec can be shown to have."""
        return self.release.epsilon < self.explanation.epsilon * (1 - _SAME)

    @property
    def bound(self) -> Bound | None:
        """The bound the page states: what this version certifies, with what the folder says about floating point."""
        bound = self.explanation.tightest
        return None if bound is None else with_floating_point(bound, floating_point_line(self.release.bound))

    @property
    def epsilon(self) -> float:
        """The epsilon the page states; infinite where nothing is certified."""
        return math.inf if self.bound is None else self.bound.guarantee.epsilon(self.release.delta)

    @property
    def discrepancies(self) -> tuple[tuple[str, str], ...]:
        """Whatever contradicts the release: a title and a sentence each, shown in red; with one it is not published."""
        release, schema = self.release, self.release.schema
        # A theorem that a later version adds may give less than the stored one; that contradicts nothing.
        again = {bound.theorem: epsilon for bound, epsilon in self.explanation.bounds}.get(release.bound.theorem)
        wrong = self.understated or again is None or not math.isclose(again, release.epsilon, rel_tol=_SAME)
        run = release.spec.base() if isinstance(release.spec.algorithm, RepeatAndSelect) else release.spec
        stated_records = {part.algorithm.records for part in run.runs() if isinstance(part.algorithm, NoisedSums)}
        records = set() if schema is None else stated_records - {schema.records}
        changed, lacking, answers = changed_keys(release), lacks(release), as_json(self.explanation)
        if not lacking and release.answers.keys() != answers.keys():
            lacking = "answers of every theorem"
        certificate, claim = "", f"epsilon {show_up(release.epsilon)} at delta {release.delta:g}"
        if wrong:
            proved = f"{shown_epsilon(self.explanation.epsilon)} for the run it describes"
            certificate = f"The folder claims {claim}. The theorems of this version certify {proved}. "
            certificate += "This page shows the certified number."
        elif release.software == __version__:
            # Epsilon at the stated delta may agree all the same, and the rest of a curve not.
            stored = with_floating_point(release.bound).to_dict()
            known = any(_agree(stored, bound.to_dict()) for bound, _ in self.explanation.bounds)
            if not known or not _agree(release.answers, answers):
                certificate = "The folder lists other bounds than its description has. The file was changed."
        stated, differs = release.stated_epsilon, ""
        if stated is not None and not math.isclose(stated, release.epsilon, rel_tol=_SAME):
            differs = f"The folder states epsilon {show_up(stated)}, but its own bound gives {claim}."
        both, violated = (self.verdict, self.replayed), VerdictKind.VIOLATED
        contradicted, refuted = (one is not None and one.kind is violated and one.evidence for one in both)
        declared = "" if schema is None else f"Its schema declares {schema.records} records"
        by_kind = f"A release of kind {release.kind_words!r} has {lacking}. This one has none, so it was changed."
        rewritten = f"{shown_names(changed)} is not as this version writes it. The file was changed."
        warnings = (
            ("The signature is not valid.", self.broken_signature),
            ("The ledger contradicts the folder.", self.not_as_charged),
            ("The stored certificate is wrong.", not self.not_as_charged and certificate),
            ("The release contradicts itself.", records and f"{declared}, and its description {min(records)}."),
            ("The release was changed after it was written.", changed and rewritten),
            ("The release is incomplete.", lacking and by_kind),
            ("This version would not plan this run.", not self.not_as_charged and self.unplanned),
            ("The stated epsilon differs from its own bound.", differs and f"{differs} The file was changed."),
            ("An audit contradicts the certificate.", contradicted),
            ("An audit found that the code does not do what is certified.", refuted),
        )
        return tuple((title, str(words)) for title, words in warnings if words)

    @property
    def discrepancy(self) -> str:
        return " ".join(words for _, words in self.discrepancies)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader must know before any number, the first one first."""
        return coverage.cautions_of(self.release)

    @property
    def reasons_not_to_leave(self) -> tuple[str, ...]:
        """Why the release itself must not be published; nothing where it may be published."""
        reasons = [title[:1].lower() + title[1:].removesuffix(".") for title, _ in self.discrepancies]
        if not self.release.private:
            reasons.append("it was made with a seed, and anyone who knows the seed can subtract the noise")
        if self.release.schema is not None and self.release.schema.reads_private_data:
            reasons.append("its schema was taken from private rows, so its bounds and categories are not public")
        if any(certificate.reads_private_data for certificate in self.release.bound.certificates):
            reasons.append("its certificate uses a constant that was read from private rows")
        return tuple(reasons)

    @property
    def may_leave(self) -> bool:
        return not self.reasons_not_to_leave

    @property
    def audit_may_leave(self) -> bool:
        """Whether the audit, if there is one, was made without private rows."""
        return self.audit is None or not reads_rows(self.audit, self.release.spec)

    @cached_property
    def verdict(self) -> Verdict | None:
        """Certificate against audit, compared again here."""
        return None if self.audit is None else verdict(self.bound, self.audit)


def open_subject(folder: Path, audit: Path | None = None, ledger: Ledger | None = None) -> Subject:
    """Read a release folder, the audit given or the `audit.json` beside it, and certify its spec again."""
    release = stored_at(folder)
    problem, entry, balance = "", None, None
    if ledger is not None:
        balance = ledger.balance()
        problem, entry = _charged(release, balance.budget.dataset, ledger.entries())
    if problem and entry is not None:  # the page is about what the ledger was charged for
        release = replace(release, spec=entry.spec)
    signer, broken = "", broken_signature(folder)
    if is_signed(folder) and not broken:
        signer = verify_folder(folder).signer
    beside = folder / AUDIT_FILE
    source = audit if audit is not None else (beside if beside.is_file() else None)
    checked: dict[str, Any] = {"not_as_charged": problem, "broken_signature": broken, "signer": signer}
    checked |= {"entry": None if entry is None else entry.sequence, "unplanned": unplanned(release)}
    subject = Subject(folder.resolve().name, release, explain(release.spec, release.delta), **checked)
    if entry is not None and not problem:
        named = entry.release is not None
        subject = replace(subject, balance=balance, time=entry.time, named_by_ledger=named)
    return subject if source is None else replace(subject, audit=read_audit(source), replayed=replay_verdict(source))


def contradictions(release: StoredRelease) -> tuple[tuple[str, str], ...]:
    """What in a stored release contradicts the rest of it; no audit and no ledger is asked."""
    return Subject("", release, explain(release.spec, release.delta), unplanned=unplanned(release)).discrepancies


def paid_once(subjects: Sequence[Subject]) -> list[Subject]:
    """The same subjects; those that claim an entry which already pays for another release are marked."""
    seen: dict[int, Subject] = {}
    checked = []
    for subject in subjects:
        first = subject if subject.entry is None else seen.setdefault(subject.entry, subject)
        paid, arrays = first.release.arrays, subject.release.arrays
        same = paid.keys() == arrays.keys() and all(np.array_equal(paid[name], arrays[name]) for name in paid)
        words = f"The folder claims entry {subject.entry}, which pays for {first.name}. One debit pays for one release."
        kept = subject.not_as_charged or same
        checked.append(subject if kept else replace(subject, not_as_charged=words, balance=None))
    return checked


def _charged(release: StoredRelease, dataset: str, debits: Sequence[Entry]) -> tuple[str, Entry | None]:
    """What the ledger says against the release, and the entry, if any, whose description counts."""
    if release.ledger is None:
        return f"It was charged neither to the given ledger of {dataset!r} nor to any other.", None
    charged_to, number = release.ledger.get("dataset"), release.ledger.get("entry")
    if charged_to != dataset:
        claimed = f"The folder claims a charge to the ledger of {str(charged_to)[:80]!r}"
        return f"{claimed}, but the given ledger is that of {dataset!r}.", None
    entries = {entry.sequence: entry for entry in debits}
    entry = entries.get(number) if type(number) is int else None
    if entry is None:
        return f"The folder claims entry {str(number)[:20]!r}, but the ledger of {dataset!r} has {len(entries)}.", None
    if release.ledger.get("digest", entry.digest) != entry.digest:
        return f"The folder claims entry {number} of another ledger of {dataset!r}, not of the given one.", None
    if entry.spec.to_dict() != release.spec.to_dict():
        proved = shown_epsilon(explain(entry.spec, release.delta).epsilon)
        other = f"The folder describes a different run from the one charged as entry {number}"
        about = f"the charged run, for which this version certifies {proved} at delta {release.delta:g}"
        return f"{other}. This page is about {about}.", entry
    if None in (entry.release, release.digest) or entry.release == release.digest:
        return "", entry
    other = f"Entry {number} of the ledger of {dataset!r} has the digest of another release"
    return f"{other}. This folder was not made on that debit, or it was changed.", None
