"""Twenty questions that a reviewer of a privacy guarantee asks, and what answers them.

The questions are our own, in the spirit of public guidance on evaluating differential privacy guarantees. They follow
no numbering and claim conformance with nothing. Each answer has words, facts for a machine, and links to what shows it.
The site that hands the dossier over answers what no program can know; without an answer the question stays open.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sordino.accounting.evaluate import caller_checks
from sordino.core.bound import Bound, floating_point_line
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import column_of
from sordino.fitting.tasks import EXPECTED_ERROR
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.coverage import is_constant
from sordino.ledger.release.document import BY_SCHEMA
from sordino.report import decision
from sordino.report.subject import Subject

if TYPE_CHECKING:
    from sordino.report.dossier import DossierChecks

NOT_STATED = "Not stated. The site that hands this over has to answer it here:"
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
    target: str | None = None


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
        return {
            "id": self.ident, "topic": self.topic, "question": self.question, "answer": list(self.words),
            "facts": dict(self.facts), "evidence": [asdict(one) for one in self.links], "open": self.open,
        }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Everything that answers are made of."""

    subject: Subject
    bound: Bound
    checks: "DossierChecks"
    source: str
    statements: Mapping[str, str]
    signer: str

    @property
    def release(self) -> StoredRelease:
        return self.subject.release

    def stated(self, name: str) -> str:
        return self.statements.get(name) or f"{NOT_STATED} {STATEMENTS[name]}."


AnswerParts = tuple[list[str], dict[str, Any], list[Link]]
Answerer = Callable[[Case], AnswerParts]
_QUESTIONS: list[tuple[str, str, str, Answerer]] = []
# By question, the test files that show what its answer claims of the program; paths of the repository.
TESTS: dict[str, tuple[str, ...]] = {}


def _asked(ident: str, topic: str, question: str, *tests: str) -> Callable[[Answerer], Answerer]:
    def register(answer: Answerer) -> Answerer:
        _QUESTIONS.append((ident, topic, question, answer))
        if tests:
            TESTS[ident] = tuple(f"tests/{name}.py" for name in tests)
        return answer

    return register


def answers(case: Case) -> tuple[Answer, ...]:
    """Every question with its answer, in order."""
    found = []
    for ident, topic, question, answer in _QUESTIONS:
        words, facts, links = answer(case)
        tests = [Link("test", name) for name in TESTS.get(ident, ())]
        is_open = any(word.startswith(NOT_STATED) for word in words)
        found.append(Answer(ident, topic, question, tuple(words), facts, (*links, *tests), is_open))
    return tuple(found)


def _report(place: str, words: str) -> Link:
    return Link("certificate", words, f"report.html#r1-{place}")


def _file(kind: str, words: str, name: str = "release") -> Link:
    return Link(kind, words, f"{name}.json")


@_asked("unit", "Unit", "Who is protected, and how is a person with several records?", "estimators/test_unit_fits")
def _unit(case: Case) -> AnswerParts:
    hidden = case.release.protected
    words = [f"{decision.capital(hidden.words)}. {hidden.several}"]
    return words, hidden.to_dict(), [_report("certificate", "the unit and its limits"), _file("release", "unit")]


@_asked("relation", "Unit", "Which two tables can an observer not distinguish?")
def _relation(case: Case) -> AnswerParts:
    spec, hidden = case.release.spec, case.release.protected
    words = (
        f"{spec.relation}: {decision.tables(spec.relation, hidden.unit)}. The observer sees "
        f"{decision.SEEN[spec.view]}, and may know everything else."
    )
    facts = {"relation": spec.relation.value, "view": spec.view.value}
    return [words], facts, [_report("certificate", "the certificate"), _file("release", "spec")]


@_asked("parameters", "Parameters", "What are epsilon and delta, what do they mean for a person, and why accept them?",
        "report/test_plain_words")  # fmt: skip
def _parameters(case: Case) -> AnswerParts:
    subject, delta = case.subject, case.release.delta
    odds = decision.worked_odds(case.bound.guarantee, subject.epsilon, delta)
    words = [
        f"Epsilon is at most {show_up(subject.epsilon)} at delta {delta:g}, computed again as this dossier was made.",
        f"An attacker who knows every other record and is half sure of something about one "
        f"{case.release.protected.name} becomes at most {odds.rows[0].after} sure. From a suspicion of "
        f"{odds.rows[2].before} it becomes at most {odds.rows[2].after}. Asked which of the two tables was used, the "
        f"attacker guesses right at most {odds.guesses} of the time; blind guessing gives 50 %.",
        "Epsilon is reasonable if these numbers are acceptable for the most sensitive column and the people concerned.",
    ]
    links = [_report("certificate", "worked odds"), _file("check", "certificate computed again", "checks")]
    return words, {"epsilon": subject.epsilon, "delta": delta}, links


@_asked("delta", "Parameters", "Is delta small against the number of people?")
def _delta(case: Case) -> AnswerParts:
    schema, delta = case.release.schema, case.release.delta
    links = [_report("certificate", "delta")]
    if schema is None:
        words = [f"Delta is {delta:g}. No schema declares the number of records: compare delta with one over it."]
        return words, {"delta": delta, "delta_times_records": None}, links
    product = delta * schema.records
    judged = "well below 1" if product <= 0.01 else "NOT far below 1: think of publishing one record in full"
    words = [f"Delta times the {schema.records:,} declared {schema.counted} is {show_up(product)}, {judged}."]
    facts = {"delta": delta, "records": schema.records, "delta_times_records": product}
    return words, facts, [*links, _file("release", "declared records")]


@_asked("theorem", "Parameters", "Which theorem proves it, and is it the published statement?",
        "conformance/test_theorems", "frozen/test_certified")  # fmt: skip
def _theorem(case: Case) -> AnswerParts:
    bound, explanation = case.bound, case.subject.explanation
    words = [
        f"Theorem {bound.theorem}, {bound.status.value.replace('-', ' ')}: {bound.citation.reference}",
        f"{len(explanation.bounds)} theorems of this version answer for this run, and the tightest counts; "
        f"{len(explanation.inapplicable)} are about other runs.",
    ]
    checks = caller_checks(bound.theorem, case.release.spec)
    words += [f"No program can check this; a person has to: {' '.join(checks)}"] if checks else []
    facts = {"theorem": bound.theorem, "status": bound.status.value, "citation": str(bound.citation)}
    return words, facts, [_report("theorems", "what every theorem said"), _report("assumptions", "assumptions")]


@_asked("evidence", "Parameters", "What has to be believed without a proof?")
def _evidence(case: Case) -> AnswerParts:
    bound = case.bound
    constants = [
        {"constant": one.constant.name, "value": one.value, "evidence": one.evidence.word, "reason": one.reason}
        for one in bound.certificates
    ]
    trusted = [one for one in constants if one["evidence"] not in ("proved", "by-construction")]
    word = bound.evidence.word
    words = [f"The weakest evidence of any constant is {word!r}: {decision.EVIDENCE[word]}."]
    words += [f"{one['constant']} is {one['evidence']}: {one['reason']}." for one in trusted] or [
        "Every constant is proved or true by construction of the program."
    ]
    return words, {"weakest": word, "constants": constants}, [_report("assumptions", "every constant")]


@_asked("variant", "Variant", "Which variant of differential privacy is it, and who is trusted?")
def _variant(case: Case) -> AnswerParts:
    kind = case.bound.guarantee.kind
    words = (
        f"Proved as {VARIANTS.get(kind, kind)} and converted to epsilon at the stated delta, rounded up. The model is "
        "central: the operator of the program sees the rows, and readers of the release do not."
    )
    return [words], {"variant": kind, "model": "central"}, [_report("theorems", "the winning bound")]


@_asked("composition", "Composition", "What else was released about the same people, and how is it added up?",
        "ledger/test_filter")  # fmt: skip
def _composition(case: Case) -> AnswerParts:
    subject, stated = case.subject, case.release.ledger
    if stated is None:
        return ["Not known: no ledger was charged, so nothing counts what else is released."], {"ledger": None}, []
    entry, dataset = stated.get("entry"), stated.get("dataset")
    facts: dict[str, Any] = {"dataset": dataset, "entry": entry, "compared": False}
    links = [_report("budget", "draws and budget")]
    words = [f"The ledger of {dataset!r} charged it as entry {entry} before a row was read."]
    if subject.balance is None:
        return [*words, "The folder says so: the ledger was not named and not compared."], facts, links
    facts |= {"compared": True, "releases": subject.balance.releases, "names_this_release": subject.named_by_ledger}
    words.append(
        f"The ledger holds {subject.balance.releases} release(s). A privacy filter adds their losses; it is valid "
        f"however later releases are chosen in view of earlier ones. The entry was recomputed: {case.checks.entry}."
    )
    words.append(f"The entry names {'this release by its digest' if subject.named_by_ledger else 'no release'}.")
    return words, facts, [*links, _file("ledger", "balance and entry", "ledger")]


@_asked("budget", "Composition", "How much may still be released, and what refuses more?",
        "ledger/test_ledger", "ledger/test_processes")  # fmt: skip
def _budget(case: Case) -> AnswerParts:
    balance = case.subject.balance
    if balance is None:
        return ["Not known here: no ledger was compared."], {"budget": None}, []
    refused = f"{balance.sentence}. The ledger refuses a release beyond it before a row is read."
    facts = {
        "epsilon": balance.budget.epsilon, "delta": balance.budget.delta, "spent": balance.spent_epsilon,
        "fits": balance.largest_epsilon,
    }  # fmt: skip
    words = [word for word in (refused, decision.why_budgets_do_not_add(case.subject)) if word]
    return words, facts, [_file("ledger", "balance", "ledger")]


@_asked("mechanism", "Mechanism", "What was computed on the rows, and where is noise added?",
        "replay/test_estimators", "mutations/test_mutations")  # fmt: skip
def _mechanism(case: Case) -> AnswerParts:
    ran = list(case.release.spec.ran)
    words = ["Everything that read rows, in order. The release is computed from these noised numbers alone.", *ran]
    return words, {"ran": ran}, [_report("certificate", "what ran"), _file("release", "spec")]


@_asked("bounds", "Mechanism", "Where do bounds and categories come from, and what was done to rows before?",
        "data/test_encode")  # fmt: skip
def _bounds(case: Case) -> AnswerParts:
    schema = case.release.schema
    if schema is None:
        words = ["No schema: the bounds are those of the description, and rows came as arrays."]
        return words, {"columns": []}, [_report("assumptions", "constants")]
    words = ["They were declared before a row was read, from what is publicly known."]
    if schema.charged:
        words = [f"Bounds of {', '.join(schema.charged)} come from a charged look; the others were declared."]
    by_schema = case.release.preprocessing == BY_SCHEMA
    words.append(
        "Rows were read through them alone."
        if by_schema
        else "Rows came as arrays: only the caller knows what was learned from them before."
    )
    rows = decision.declared_rows(schema)
    words += [f"{name}: {values}; a missing value {missing}." for name, values, missing in rows]
    facts = {"columns": [list(row) for row in rows], "preprocessing": case.release.preprocessing}
    return words, facts, [_report("released", "declared columns"), _file("release", "schema")]


@_asked("randomness", "Mechanism", "Was the randomness secret?",
        "noise/test_secure_randomness", "estimators/test_secure_mode")  # fmt: skip
def _randomness(case: Case) -> AnswerParts:
    yes = "Yes: no seed was given, and the operating system keyed the generator of the noise."
    private = case.release.private
    return [yes if private else "No."], {"private": private}, [_file("release", "private")]


@_asked("learned", "Bias", "What was learned, and do its intervals hold?", "estimators/test_coverage")
def _learned(case: Case) -> AnswerParts:
    held, learned = decision.coverage(case.release), decision.learned(case.release)
    words = [f"{learned}.", *([f"{decision.capital(held)}."] if held else [])]
    return words, {"learned": learned, "coverage": held or None}, [_report("released", "what was released")]


@_asked("bias", "Bias", "What do clipping, noise and prior do to the numbers?")
def _bias(case: Case) -> AnswerParts:
    settings = case.release.settings
    words = ["Values outside declared bounds are clipped to them, so effects beyond are not seen."]
    expected = settings.get(EXPECTED_ERROR)
    if isinstance(expected, float):
        words.append(f"The expected error was {expected:.0%} of that of the best constant.")
    if is_constant(case.release):
        words.append("Only a constant was learned: nothing is known about any column.")
    words += list(case.release.cautions)
    if settings.get("method") == "bounded-influence":
        words.append("The report says for each coefficient which share of its width is sampling, privacy and prior.")
    facts = {EXPECTED_ERROR: expected, "cautions": list(case.release.cautions)}
    return words, facts, [_report("released", "what each width is made of")]


@_asked("implementation", "Implementation", "How is it known that the program does what the certificate says?",
        "replay/test_estimators", "mutations/test_mutations")  # fmt: skip
def _implementation(case: Case) -> AnswerParts:
    found, links = case.checks.replayed, [_file("check", "replay as this dossier was made", "checks")]
    if found is None:
        return [f"It was not replayed: {case.checks.not_replayed}"], {"verdict": None}, links
    words = (
        "The code of this version ran again on tables drawn from the schema; no private row was read. "
        f"{decision.capital(found.verdict.kind.words)}: {found.verdict.evidence} Other pairs may move further, and "
        "this does not show that this code made the release."
    )
    return [words], {"verdict": found.verdict.kind.value, "pairs": found.pairs}, links


@_asked("floating-point", "Implementation", "Does the arithmetic of the computer keep the promise?",
        "noise/test_gaussians", "noise/test_noised")  # fmt: skip
def _floating(case: Case) -> AnswerParts:
    line = floating_point_line(case.release.bound)
    words = f"{decision.capital(line.evidence.word)}: {line.reason}."
    return [words], {"evidence": line.evidence.word}, [_report("assumptions", "floating point")]


@_asked("audit", "Implementation", "Has anything tried to prove the certificate wrong?")
def _audit(case: Case) -> AnswerParts:
    lower = case.checks.lower
    if lower is None:
        words = ["No lower bound is known for this kind of run."]
        return words, {"lower_bound": None, "method": None}, []
    sure = "" if lower.confidence == 1.0 else f", with confidence {100 * lower.confidence:g} %"
    words = [
        f"{lower.evidence} Lower bound: epsilon {show_down(lower.epsilon)}. {lower.examined.sentence}",
        f"So epsilon of the run as described lies between {show_down(lower.epsilon)} and "
        f"{show_up(case.subject.epsilon)}{sure}.",
    ]
    links = [_file("audit", "lower bound", "audit"), _report("sandwich", "upper and lower bound")]
    return words, {"lower_bound": lower.epsilon, "method": lower.method}, links


@_asked("side-channels", "Side channels", "What can be learned otherwise: from time, memory, messages?",
        "data/test_private_messages")  # fmt: skip
def _channels(_case: Case) -> AnswerParts:
    words = [
        "Not covered: the duration of the run, memory, swap and core dumps of the machine, and what its operator saw "
        "on the terminal. Error messages quote no cell. Do not offer fits as a service that answers at once."
    ]
    return words, {"covered": ["error messages"], "not_covered": ["time", "memory", "terminal"]}, []


@_asked("security", "Security", "Who could have changed this, and how would it be found?",
        "ledger/test_signing", "report/test_dossier")  # fmt: skip
def _security(case: Case) -> AnswerParts:
    words = [
        "manifest.json lists every file here with its SHA-256 and is signed. `sordino sign verify` finds a file that "
        "is changed, missing, added or renamed. Ask the signer for the fingerprint; do not take it from here."
        if case.signer
        else "This dossier is NOT signed: anyone who held it can have changed it."
    ]
    signed_by = case.checks.release_signer
    words += [f"The release folder was signed by {signed_by} before; that signature held."] if signed_by else []
    links = [_file("check", "manifest of every file", "manifest")] if case.signer else []
    facts = {"signed": bool(case.signer), "release_signed_by": signed_by or None}
    return [*words, case.stated("access")], facts, [*links, _file("statement", "by the site", "registry")]


@_asked("collection", "Collection", "How were the data collected, for what, and who answers for it?")
def _collection(case: Case) -> AnswerParts:
    names = ("purpose", "collection", "contact")
    facts = {name: case.statements.get(name) for name in names}
    return [case.stated(name) for name in names], facts, [_file("statement", "by the site", "registry")]


def registry_entry(case: Case) -> dict[str, Any]:
    """What public registries of deployments ask for, in our own words; null where the site said nothing."""
    subject, release, balance = case.subject, case.release, case.subject.balance
    return {
        "format": "sordino-registry-entry",
        "version": 1,
        "dataset": None if release.ledger is None else release.ledger.get("dataset"),
        **{name: case.statements.get(name) for name in STATEMENTS},
        "released": decision.learned(release),
        "model": "central",
        "variant": case.bound.guarantee.kind,
        "unit": column_of(release.spec.unit) or "record",
        "relation": release.spec.relation.value,
        "epsilon": subject.epsilon,
        "delta": release.delta,
        "mechanism": list(release.spec.ran),
        "composition": None if balance is None else {
            "budget_epsilon": balance.budget.epsilon, "budget_delta": balance.budget.delta,
            "spent_epsilon": balance.spent_epsilon, "releases": balance.releases,
        },
        "implementation": f"Sordino {release.software}",
        "debited": subject.time or None,
        "release_sha256": release.digest,
    }  # fmt: skip
