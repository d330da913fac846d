"""Twenty questions that a reviewer of a privacy guarantee asks, and what answers them.

The questions are our own, in the spirit of public guidance on evaluating differential privacy guarantees: unit,
parameters, variant, composition, mechanism, bias, implementation, side channels, security and collection. They follow
no numbering and claim conformance with nothing. Each answer has words, facts for a machine, and links to what shows it;
what no program can know is asked of whoever hands the dossier over, and says so where nobody answered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sordino.accounting.evaluate import caller_checks
from sordino.core.bound import Bound, floating_point_line
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import column_of
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA
from sordino.ledger.release.folder import is_constant
from sordino.report import plain_words
from sordino.report.decision import coverage, declared_rows, learned, why_budgets_do_not_add
from sordino.report.dossier.evidence import TESTS, Checks
from sordino.report.subject import Subject

CERTIFICATE, AUDIT, CHECK, TEST, LEDGER, RELEASE, STATEMENT = (
    "certificate", "audit", "check", "test", "ledger", "release", "statement",
)  # fmt: skip
NOT_STATED = "Not stated. Whoever hands this over has to answer it here:"
VARIANTS = {
    "pure": "pure differential privacy",
    "approximate": "approximate differential privacy",
    "total-variation": "a bound on total variation",
    "gaussian": "Gaussian differential privacy",
    "renyi": "Rényi differential privacy",
    "bounded-range": "bounded range",
    "loss-distribution": "the distribution of the privacy loss of a dominating pair",
}
# What the site is asked, and what a dossier without an answer shows as open.
STATEMENTS = {
    "purpose": "what the release is for, and who asked for it",
    "collection": "how the data were collected, on which legal basis or consent, and how long they are kept",
    "access": "who can read rows, keys and ledger, and how the machine is protected",
    "contact": "who answers questions",
}


@dataclass(frozen=True)
class Link:
    """What shows an answer: its kind, words, and a file of the dossier with a place in it, or nothing for tests."""

    kind: str
    words: str
    target: str = ""


@dataclass(frozen=True)
class Answer:
    """A question with its answer; `open` where a person still has to answer."""

    ident: str
    topic: str
    question: str
    words: tuple[str, ...]
    facts: Mapping[str, Any]
    links: tuple[Link, ...]
    open: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a machine."""
        links = [{"kind": one.kind, "words": one.words, "target": one.target or None} for one in self.links]
        return {
            "id": self.ident, "topic": self.topic, "question": self.question, "answer": list(self.words),
            "facts": dict(self.facts), "evidence": links, "open": self.open,
        }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Everything that answers are made of."""

    subject: Subject
    bound: Bound
    checks: Checks
    source: str
    statements: Mapping[str, str]
    signer: str

    @property
    def release(self) -> StoredRelease:
        """As stored."""
        return self.subject.release


Found = tuple[list[str], dict[str, Any], list[Link]]
_QUESTIONS: list[tuple[str, str, str, Callable[[Case], Found]]] = []


def _asked(ident: str, topic: str, question: str) -> Callable[[Callable[[Case], Found]], Callable[[Case], Found]]:
    def register(answer: Callable[[Case], Found]) -> Callable[[Case], Found]:
        _QUESTIONS.append((ident, topic, question, answer))
        return answer

    return register


def answers(case: Case) -> tuple[Answer, ...]:
    """Every question with its answer, in order."""
    found = []
    for ident, topic, question, answer in _QUESTIONS:
        words, facts, links = answer(case)
        tests = [Link(TEST, name) for name in TESTS.get(ident, ())]
        is_open = any(word.startswith(NOT_STATED) for word in words)
        found.append(Answer(ident, topic, question, tuple(words), facts, (*links, *tests), is_open))
    return tuple(found)


def _report(place: str, words: str) -> Link:
    return Link(CERTIFICATE, words, f"report.html#r1-{place}")


def _stated(case: Case, name: str) -> str:
    given = case.statements.get(name)
    return given if given else f"{NOT_STATED} {STATEMENTS[name]}."


@_asked("unit", "Unit", "Who or what is protected, and what of somebody with several records?")
def _unit(case: Case) -> Found:
    hidden = case.release.protected
    return [f"{hidden.words[:1].upper()}{hidden.words[1:]}. {hidden.several}"], hidden.to_dict(), [
        _report("certificate", "unit and what it does not say"), Link(RELEASE, "unit", "release.json"),
    ]  # fmt: skip


@_asked("relation", "Unit", "Between which two tables can an observer not tell?")
def _relation(case: Case) -> Found:
    spec, hidden = case.release.spec, case.release.protected
    words = (
        f"{spec.relation}: {plain_words.tables(spec.relation, hidden.unit)}. The observer sees "
        f"{plain_words.SEEN[spec.view]}, and may know everything else."
    )
    facts = {"relation": spec.relation.value, "view": spec.view.value}
    return [words], facts, [_report("certificate", "the certificate"), Link(RELEASE, "spec", "release.json")]


@_asked("parameters", "Parameters", "What are epsilon and delta, and what do they mean for one person?")
def _parameters(case: Case) -> Found:
    subject, delta = case.subject, case.release.delta
    odds = plain_words.worked_odds(case.bound.guarantee, subject.epsilon, delta)
    words = [
        f"Epsilon is at most {show_up(subject.epsilon)} at delta {delta:g}, computed again as this dossier was made.",
        f"Whoever is half sure of something about one {case.release.protected.name} becomes at most "
        f"{odds.rows[0].after} "
        f"sure; a coin between the two tables is guessed right at most {odds.guesses} of the time.",
    ]
    return words, {"epsilon": subject.epsilon, "delta": delta}, [
        _report("certificate", "worked odds"), Link(CHECK, "certificate computed again", "checks.json"),
    ]  # fmt: skip


@_asked("delta", "Parameters", "Is delta small against the number of people?")
def _delta(case: Case) -> Found:
    schema, delta = case.release.schema, case.release.delta
    if schema is None:
        words = [f"Delta is {delta:g}; no schema says how many records there are, so compare it with one over them."]
        return words, {"delta": delta, "delta_times_records": None}, [_report("certificate", "delta")]
    product = delta * schema.records
    judged = "well below 1" if product <= 0.01 else "NOT far below 1: think of publishing one record in full"
    words = [f"Delta times the {schema.records:,} declared {schema.counted} is {show_up(product)}, {judged}."]
    facts = {"delta": delta, "records": schema.records, "delta_times_records": product}
    return words, facts, [_report("certificate", "delta"), Link(RELEASE, "declared records", "release.json")]


@_asked("theorem", "Parameters", "Which theorem says so, and is it the statement that was published?")
def _theorem(case: Case) -> Found:
    bound, explanation = case.bound, case.subject.explanation
    words = [
        f"Theorem {bound.theorem}, {bound.status.value.replace('-', ' ')}: {bound.citation.reference}",
        f"Of the theorems of this version {len(explanation.bounds)} answer for this run, and the tightest counts; "
        f"{len(explanation.inapplicable)} are about others.",
    ]
    checks = caller_checks(bound.theorem, case.release.spec)
    if checks:
        words.append("No program can check, and somebody has to: " + " ".join(checks))
    facts = {"theorem": bound.theorem, "status": bound.status.value, "citation": str(bound.citation)}
    return words, facts, [_report("theorems", "what every theorem said"), _report("assumptions", "assumptions")]


@_asked("evidence", "Parameters", "What has to be believed without a proof?")
def _evidence(case: Case) -> Found:
    bound = case.bound
    constants = [
        {"constant": one.constant.name, "value": one.value, "evidence": one.evidence.word, "reason": one.reason}
        for one in bound.certificates
    ]
    trusted = [one for one in constants if one["evidence"] not in ("proved", "by-construction")]
    words = [
        f"The weakest evidence of any constant is {bound.evidence.word!r}: {plain_words.EVIDENCE[bound.evidence.word]}."
    ]
    words += [f"{one['constant']} is {one['evidence']}: {one['reason']}." for one in trusted]
    if not trusted:
        words.append("Every constant is proved or true by construction of the program.")
    return words, {"weakest": bound.evidence.word, "constants": constants}, [_report("assumptions", "every constant")]


@_asked("variant", "Variant", "Which variant of differential privacy is it, and who is trusted?")
def _variant(case: Case) -> Found:
    bound = case.bound
    kind = bound.guarantee.kind
    words = (
        f"Proved as {VARIANTS.get(kind, kind)} and converted to epsilon at the stated delta, rounded up. The model is "
        "central: whoever runs the program sees the rows, and readers of the release do not."
    )
    return [words], {"variant": kind, "model": "central"}, [_report("theorems", "the winning bound")]


@_asked("composition", "Composition", "What else was released about the same people, and how is it added up?")
def _composition(case: Case) -> Found:
    subject, stated = case.subject, case.release.ledger
    if stated is None:
        return ["Not known: no ledger was charged, so nobody counts what else is released."], {"ledger": None}, []
    facts: dict[str, Any] = {"dataset": stated.get("dataset"), "entry": stated.get("entry"), "compared": False}
    links = [_report("budget", "draws and budget")]
    words = [
        f"It was charged as entry {stated.get('entry')} of the ledger of {stated.get('dataset')!r} before a row was "
        "read."
    ]
    if subject.balance is None:
        words.append("That is what the folder says: the ledger was not named and not compared.")
        return words, facts, links
    facts |= {"compared": True, "releases": subject.balance.releases, "names_this_release": subject.named_by_ledger}
    words.append(
        f"The ledger holds {subject.balance.releases} release(s). Their losses are added by a privacy filter, valid "
        "however "
        f"later releases are chosen in view of earlier ones. The entry was recomputed: {case.checks.entry}."
    )
    words.append(
        "The entry names this release by its digest." if subject.named_by_ledger else "The entry names no release."
    )
    return words, facts, [*links, Link(LEDGER, "balance and entry", "ledger.json")]


@_asked("budget", "Composition", "How much may still be released, and who refuses more?")
def _budget(case: Case) -> Found:
    balance = case.subject.balance
    if balance is None:
        return ["Not known here: no ledger was compared."], {"budget": None}, []
    words = [
        f"{balance.sentence}. A release beyond it is refused before it reads a row.",
        why_budgets_do_not_add(case.subject),
    ]
    facts = {
        "epsilon": balance.budget.epsilon, "delta": balance.budget.delta, "spent": balance.spent_epsilon,
        "fits": balance.largest_epsilon,
    }  # fmt: skip
    return [word for word in words if word], facts, [Link(LEDGER, "balance", "ledger.json")]


@_asked("mechanism", "Mechanism", "What was computed on the rows, and where does noise go in?")
def _mechanism(case: Case) -> Found:
    ran = list(case.release.spec.ran)
    words = ["Everything that read rows, in order; what is released is computed from these noised numbers alone.", *ran]
    return words, {"ran": ran}, [_report("certificate", "what ran"), Link(RELEASE, "spec", "release.json")]


@_asked("bounds", "Mechanism", "Where do bounds and categories come from, and what was done to rows before?")
def _bounds(case: Case) -> Found:
    schema = case.release.schema
    if schema is None:
        return ["No schema: the bounds are those of the description, and rows came as arrays."], {"columns": []}, [
            _report("assumptions", "constants"),
        ]  # fmt: skip
    words = ["They were declared before a row was read, from what is publicly known."]
    if schema.charged:
        words = [f"Bounds of {', '.join(schema.charged)} come from a look that was charged; the others were declared."]
    if case.release.preprocessing == BY_SCHEMA:
        words.append("Rows were read through them alone.")
    else:
        words.append("Rows came as arrays: what was learned from them on the way is the caller's word.")
    rows = declared_rows(schema)
    words += [f"{name}: {values}; a missing value {missing}." for name, values, missing in rows]
    facts = {"columns": [list(row) for row in rows], "preprocessing": case.release.preprocessing}
    return words, facts, [_report("released", "declared columns"), Link(RELEASE, "schema", "release.json")]


@_asked("randomness", "Mechanism", "Was the randomness secret?")
def _randomness(case: Case) -> Found:
    words = (
        "Yes: no seed was given, and the generator of the noise was keyed by the operating system."
        if case.release.private
        else "No."
    )
    return [words], {"private": case.release.private}, [Link(RELEASE, "private", "release.json")]


@_asked("learned", "Bias", "What was learned, and do its intervals hold?")
def _learned(case: Case) -> Found:
    held = coverage(case.release)
    words = [f"{learned(case.release)}.", *([f"{held[:1].upper()}{held[1:]}."] if held else [])]
    return (
        words,
        {"learned": learned(case.release), "coverage": held or None},
        [_report("released", "what was released")],
    )


@_asked("bias", "Bias", "What do clipping, noise and prior do to the numbers?")
def _bias(case: Case) -> Found:
    settings = case.release.settings
    words = ["Values outside declared bounds are clipped to them, so effects beyond are not seen."]
    predicted, constant = settings.get("predicted_error"), settings.get("predicted_error_of_constant")
    if isinstance(predicted, float) and isinstance(constant, float):
        words.append(
            f"Before a row was read the error was predicted to be {predicted:.3g}, against {constant:.3g} of the "
            "best constant."
        )
    if is_constant(case.release):
        words.append("Only a constant was learned: nothing is known about any column.")
    words += list(case.release.cautions)
    if "coefficients" not in case.release.kind and settings.get("method") == "bounded-influence":
        words.append("The report says of each coefficient which share of its width is sampling, privacy and prior.")
    facts = {"predicted_error": predicted, "of_constant": constant, "cautions": list(case.release.cautions)}
    return words, facts, [_report("released", "what each width is made of")]


@_asked("implementation", "Implementation", "How is it known that the program does what the certificate says?")
def _implementation(case: Case) -> Found:
    found = case.checks.replayed
    links = [Link(CHECK, "replay as this dossier was made", "checks.json")]
    if found is None:
        return [f"It was not replayed: {case.checks.not_replayed}"], {"verdict": None}, links
    words = (
        f"The code of this version ran again on tables drawn from the schema, no private row among them. "
        f"{found.verdict.kind.words[:1].upper()}{found.verdict.kind.words[1:]}: {found.verdict.evidence} Other pairs "
        "may "
        "move further, and that this code made the release is not shown by it."
    )
    return [words], {"verdict": found.verdict.kind.value, "pairs": found.pairs}, links


@_asked("floating-point", "Implementation", "Does the arithmetic of the computer keep the promise?")
def _floating(case: Case) -> Found:
    line = floating_point_line(case.release.bound)
    words = f"{line.evidence.word[:1].upper()}{line.evidence.word[1:]}: {line.reason}."
    return [words], {"evidence": line.evidence.word}, [_report("assumptions", "floating point")]


@_asked("audit", "Implementation", "Did anybody try to prove the certificate wrong?")
def _audit(case: Case) -> Found:
    lower = case.checks.lower
    sure = "" if lower is None or lower.confidence == 1.0 else f", with confidence {100 * lower.confidence:g} %"
    facts = {"lower_bound": None if lower is None else lower.epsilon, "method": None if lower is None else lower.method}
    gap = [] if lower is None else [
        f"So epsilon of the run as described lies between {show_down(lower.epsilon)} and "
        f"{show_up(case.subject.epsilon)}{sure}.",
    ]  # fmt: skip
    links = [] if lower is None else [Link(AUDIT, "lower bound", "audit.json"), _report("sandwich", "sandwich")]
    return [case.checks.lower_words, *gap], facts, links


@_asked("side-channels", "Side channels", "What can be learned otherwise: from time, memory, messages?")
def _channels(_case: Case) -> Found:
    words = [
        "Not covered: how long the run took, memory, swap and core dumps of the machine, and what was printed to "
        "whoever "
        "ran it. Error messages quote no cell. Do not offer fits as a service that answers as soon as it is done.",
    ]
    return words, {"covered": ["error messages"], "not_covered": ["time", "memory", "terminal"]}, []


@_asked("security", "Security", "Who could have changed this, and how would it be found?")
def _security(case: Case) -> Found:
    words = []
    if case.signer:
        words.append(
            "Every file here is listed with its SHA-256 in manifest.json, which is signed; sordino sign verify finds a "
            "file "
            "that is changed, missing, added or renamed. Ask the signer for the fingerprint, and do not take it from "
            "here."
        )
    else:
        words.append("This dossier is NOT signed: whoever held it can have changed it.")
    if case.checks.release_signer:
        words.append(f"The release folder was signed by {case.checks.release_signer} before; that signature held.")
    words.append(_stated(case, "access"))
    facts = {"signed": bool(case.signer), "release_signed_by": case.checks.release_signer or None}
    links = [Link(CHECK, "manifest of every file", "manifest.json")] if case.signer else []
    return words, facts, [*links, Link(STATEMENT, "by whoever hands this over", "registry.json")]


@_asked("collection", "Collection", "How were the data collected, for what, and who answers for it?")
def _collection(case: Case) -> Found:
    words = [_stated(case, name) for name in ("purpose", "collection", "contact")]
    facts = {name: case.statements.get(name) for name in ("purpose", "collection", "contact")}
    return words, facts, [Link(STATEMENT, "by whoever hands this over", "registry.json")]


def registry_entry(case: Case) -> dict[str, Any]:
    """What public registries of deployments ask for, in our own words; null where nobody said."""
    subject, release, balance = case.subject, case.release, case.subject.balance
    return {
        "format": "sordino-registry-entry",
        "version": 1,
        "dataset": None if release.ledger is None else release.ledger.get("dataset"),
        "purpose": case.statements.get("purpose"),
        "collection": case.statements.get("collection"),
        "access": case.statements.get("access"),
        "contact": case.statements.get("contact"),
        "released": learned(release),
        "model": "central",
        "variant": case.bound.guarantee.kind,
        "unit": column_of(release.spec.unit) or "record",
        "relation": release.spec.relation.value,
        "epsilon": subject.epsilon,
        "delta": release.delta,
        "mechanism": list(release.spec.ran),
        "composition": None if balance is None else {
            "budget_epsilon": balance.budget.epsilon, "budget_delta": balance.budget.delta,
            "spent_epsilon": balance.spent_epsilon, "releases": balance.releases, "filter": balance.filter_kind,
        },
        "implementation": f"Sordino {release.software}",
        "debited": subject.time or None,
        "release_sha256": release.digest,
    }  # fmt: skip
