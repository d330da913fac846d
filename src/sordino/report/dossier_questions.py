"""Twenty questions that a reviewer of a privacy guarantee asks, with their answers and evidence.

The questions are our own and claim no conformance with any standard. The site that hands the dossier over answers what
no program can know; without an answer the question stays open.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sordino.accounting.evaluate import caller_checks
from sordino.core.bound import Bound, floating_point_line
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import column_of
from sordino.fitting.tasks.base import EXPECTED_ERROR
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.coverage import is_constant
from sordino.ledger.release.document import BY_SCHEMA
from sordino.report import decision
from sordino.report.subject import Subject

if TYPE_CHECKING:
    from sordino.report.dossier import DossierChecks

NOT_STATED = "Not stated. The site that hands this over must say here:"
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
    "purpose": "the purpose of the release, and who asked for it",
    "collection": "how the data were collected, the legal basis or consent, and how long they are kept",
    "access": "who can read rows, keys and ledger, and how the machine is protected",
    "contact": "who answers questions",
}


class Link(NamedTuple):
    """The evidence for an answer: its kind, words, and a file of the dossier with a place in it; tests have no file."""

    kind: str
    words: str
    target: str | None = None


class Answer(NamedTuple):
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
            "facts": dict(self.facts), "evidence": [one._asdict() for one in self.links], "open": self.open,
        }  # fmt: skip


class Case(NamedTuple):
    """Everything that the answers use."""

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
        said = self.statements.get(name)
        return f"{name.capitalize()}: {said}" if said else f"{NOT_STATED} {STATEMENTS[name]}."


AnswerParts = tuple[list[str], dict[str, Any], list[Link]]
Answerer = Callable[[Case], AnswerParts]
_QUESTIONS: list[tuple[str, str, str, Answerer]] = []
# For each question, the test files that support its answer; paths in the repository.
TESTS: dict[str, tuple[str, ...]] = {}


def _asked(ident: str, topic: str, question: str, *tests: str) -> Callable[[Answerer], Answerer]:
    def register(answer: Answerer) -> Answerer:
        _QUESTIONS.append((ident, topic, question, answer))
        TESTS[ident] = tuple(f"tests/{name}.py" for name in tests)
        return answer

    return register


def answers(case: Case) -> tuple[Answer, ...]:
    """Every question with its answer, in order."""
    found = []
    for ident, topic, question, answer in _QUESTIONS:
        words, facts, links = answer(case)
        links += [Link("test", name) for name in TESTS[ident]]
        is_open = any(word.startswith(NOT_STATED) for word in words)
        found.append(Answer(ident, topic, question, tuple(words), facts, tuple(links), is_open))
    return tuple(found)


def _report(place: str, words: str) -> Link:
    return Link("certificate", words, f"report.html#r1-{place}")


def _file(kind: str, words: str, name: str = "release") -> Link:
    return Link(kind, words, f"{name}.json")


@_asked("unit", "Unit", "Who is protected, and what about a person with several records?", "estimators/test_unit_fits")
def _unit(case: Case) -> AnswerParts:
    hidden = case.release.protected
    words = [f"{decision.capital(hidden.words)}. {hidden.several}"]
    return words, hidden.to_dict(), [_report("certificate", "the unit and its limits"), _file("release", "unit")]


@_asked("relation", "Unit", "Which two tables must an attacker be unable to distinguish?")
def _relation(case: Case) -> AnswerParts:
    spec, hidden = case.release.spec, case.release.protected
    words = (
        f"Under {spec.relation}, {decision.tables(spec.relation, hidden.unit)}. The attacker sees "
        f"{decision.SEEN[spec.view]}. The attacker may know everything else."
    )
    facts = {"relation": spec.relation.value, "view": spec.view.value}
    return [words], facts, [_report("certificate", "the certificate"), _file("release", "spec")]


@_asked("parameters", "Parameters", "What do epsilon and delta mean for a person, and why are they reasonable?",
        "report/test_plain_words")  # fmt: skip
def _parameters(case: Case) -> AnswerParts:
    subject, delta = case.subject, case.release.delta
    odds = decision.worked_odds(case.bound.guarantee, subject.epsilon, delta)
    words = [
        f"Epsilon is at most {show_up(subject.epsilon)} at delta {delta:g}, recomputed for this dossier.",
        f"Suppose an attacker knows every other record and is half sure of something about one "
        f"{case.release.protected.name}. The release makes the attacker at most {odds.rows[0].after} sure. A suspicion "
        f"of {odds.rows[2].before} becomes at most {odds.rows[2].after}.",
        f"If a coin decides which of the two tables is used, the best attack is right at most {odds.guesses} of the "
        "time; blind guessing is right 50 % of the time. If an attack may wrongly report 1 in 100 of those who are not "
        f"in the table, it finds at most {odds.detected} of those who are.",
        "Epsilon is reasonable if these limits are acceptable for the most sensitive column and to those concerned.",
    ]
    links = [_report("certificate", "worked example"), _file("check", "recomputed certificate", "checks")]
    return words, {"epsilon": subject.epsilon, "delta": delta}, links


@_asked("delta", "Parameters", "Is delta small against the number of people?")
def _delta(case: Case) -> AnswerParts:
    schema, delta = case.release.schema, case.release.delta
    links = [_report("certificate", "delta")]
    if schema is None:
        words = f"Delta is {delta:g}. No schema declares the number of records. Compare delta with one over it."
        return [words], {"delta": delta, "delta_times_records": None}, links
    product = delta * schema.records
    large = "NOT far below 1: this allows as much harm as publishing one record in full"
    judged = "well below 1" if product <= 0.01 else large
    counted = f"the declared number of {schema.counted} ({schema.records:,})"
    words = [f"Delta times {counted} is at most {show_up(product)}. That is {judged}."]
    facts = {"delta": delta, "records": schema.records, "delta_times_records": product}
    return words, facts, [*links, _file("release", "declared records")]


@_asked("theorem", "Parameters", "Which theorem proves it, and is it the published statement?",
        "conformance/test_theorems", "frozen/test_certified")  # fmt: skip
def _theorem(case: Case) -> AnswerParts:
    bound, explanation = case.bound, case.subject.explanation
    words = [
        f"Theorem {bound.theorem}, {bound.status.value.replace('-', ' ')}: {bound.citation.reference}",
        f"Theorems that apply to this run: {len(explanation.bounds)}; the tightest bound counts. "
        f"Theorems about other runs: {len(explanation.inapplicable)}.",
    ]
    checks = caller_checks(bound.theorem, case.release.spec)
    words += [f"A person must check this, because no program can: {' '.join(checks)}"] if checks else []
    facts = {"theorem": bound.theorem, "status": bound.status.value, "citation": str(bound.citation)}
    return words, facts, [_report("theorems", "bounds of all theorems"), _report("assumptions", "assumptions")]


@_asked("evidence", "Parameters", "What must be believed without a proof?")
def _evidence(case: Case) -> AnswerParts:
    bound = case.bound
    constants = [
        {"constant": one.constant.name, "value": one.value, "evidence": one.evidence.word, "reason": one.reason}
        for one in bound.certificates
    ]
    trusted = [one for one in constants if one["evidence"] not in ("proved", "by-construction")]
    word = bound.evidence.word
    believed = [f"{one['constant']} is {one['evidence']}: {one['reason']}." for one in trusted]
    words = [
        f"The weakest evidence for any constant is {word!r} ({decision.EVIDENCE[word]}).",
        *(believed or ["Every constant is proved or enforced by the program."]),
    ]
    return words, {"weakest": word, "constants": constants}, [_report("assumptions", "every constant")]


@_asked("variant", "Variant", "Which variant of differential privacy is it, and who is trusted?")
def _variant(case: Case) -> AnswerParts:
    kind = case.bound.guarantee.kind
    words = (
        f"The guarantee is proved as {VARIANTS.get(kind, kind)}, converted to epsilon at the stated delta and "
        "rounded up. The model is central: the operator of the program sees the rows; readers of the release do not."
    )
    return [words], {"variant": kind, "model": "central"}, [_report("theorems", "the winning bound")]


@_asked("composition", "Composition", "What else was released about the same people, and how do the losses accumulate?",
        "ledger/test_filter")  # fmt: skip
def _composition(case: Case) -> AnswerParts:
    subject, stated = case.subject, case.release.ledger
    if stated is None:
        return ["Not known. No ledger was charged, so other releases are not counted."], {"ledger": None}, []
    entry, dataset = stated.get("entry"), stated.get("dataset")
    facts: dict[str, Any] = {"dataset": dataset, "entry": entry, "compared": False}
    links = [_report("budget", "budget")]
    words = [f"The ledger of {dataset!r} charged it as entry {entry} before the rows' values were used."]
    if subject.balance is None:
        return [*words, "This is what the folder claims; no ledger was given to compare it with."], facts, links
    facts |= {"compared": True, "releases": subject.balance.releases, "names_this_release": subject.named_by_ledger}
    named = "this release by its digest" if subject.named_by_ledger else "no release"
    words += [
        f"The ledger records {subject.balance.releases} release(s). A privacy filter accumulates their losses. The "
        f"total is valid even if later releases depend on earlier ones. Check of the entry: {case.checks.entry}.",
        f"The entry identifies {named}.",
    ]
    return words, facts, [*links, _file("ledger", "balance and entry", "ledger")]


@_asked("budget", "Composition", "How much budget is left, and what enforces it?",
        "ledger/test_ledger", "ledger/test_processes")  # fmt: skip
def _budget(case: Case) -> AnswerParts:
    balance = case.subject.balance
    if balance is None:
        return ["Not known: no ledger was given."], {"budget": None}, []
    refused = f"{balance.sentence}. The ledger refuses a larger release before the rows' values are used."
    facts = {
        "epsilon": balance.budget.epsilon, "delta": balance.budget.delta, "spent": balance.spent_epsilon,
        "fits": balance.largest_epsilon,
    }  # fmt: skip
    words = [word for word in (refused, decision.why_budgets_do_not_add(case.subject)) if word]
    return words, facts, [_file("ledger", "balance", "ledger")]


@_asked("mechanism", "Mechanism", "What was computed on the rows, and where is noise added?",
        "replay/test_estimators", "mutations/test_mutations")  # fmt: skip
def _mechanism(case: Case) -> AnswerParts:
    ran = list(decision.what_ran(case.release.spec))
    all_of_it = "Everything computed from rows, in order: a technical name, what one record can add, and the noise."
    words = [f"{all_of_it} The release uses only these noised numbers.", *ran]
    return words, {"ran": ran}, [_report("certificate", "what ran"), _file("release", "spec")]


@_asked("bounds", "Mechanism", "Where do bounds and categories come from, and how were rows prepared?",
        "data/test_encode")  # fmt: skip
def _bounds(case: Case) -> AnswerParts:
    schema = case.release.schema
    if schema is None:
        words = ["There is no schema. The bounds are those of the description, and rows came as arrays."]
        return words, {"columns": []}, [_report("assumptions", "constants")]
    words = ["They were declared from public knowledge before any row was read."]
    if schema.charged:
        charged = ", ".join(schema.charged)
        words = [f"Bounds of {charged} come from a charged look at the data; the others were declared."]
    arrays = "Rows came as arrays. Only the caller knows whether private rows shaped them."
    words.append("Rows were read only through them." if case.release.preprocessing == BY_SCHEMA else arrays)
    rows = decision.declared_rows(schema)
    words += [f"{name}: {values}; a missing value {missing}." for name, values, missing in rows]
    facts = {"columns": [list(row) for row in rows], "preprocessing": case.release.preprocessing}
    return words, facts, [_report("released", "declared columns"), _file("release", "schema")]


@_asked("randomness", "Mechanism", "Was the randomness secret?",
        "noise/test_secure_randomness", "estimators/test_secure_mode")  # fmt: skip
def _randomness(case: Case) -> AnswerParts:
    yes = "Yes. No seed was given; the operating system supplied the key of the random generator."
    private = case.release.private
    return [yes if private else "No."], {"private": private}, [_file("release", "private")]


@_asked("learned", "Bias", "What was learned, and how reliable are its intervals?", "estimators/test_coverage")
def _learned(case: Case) -> AnswerParts:
    held, learned = decision.coverage(case.release), decision.learned(case.release)
    words = [f"{learned}.", *([f"{decision.capital(held)}."] if held else [])]
    return words, {"learned": learned, "coverage": held or None}, [_report("released", "what was released")]


@_asked("bias", "Bias", "What do clipping, noise and prior do to the numbers?")
def _bias(case: Case) -> AnswerParts:
    settings = case.release.settings
    words = ["Values outside declared bounds are clipped to them, so effects outside the bounds are lost."]
    expected = settings.get(EXPECTED_ERROR)
    if isinstance(expected, float):
        words.append(f"Expected before the fit: {100 * expected:.0f} % of the error of the best constant prediction.")
    if is_constant(case.release):
        words.append("Only a constant was learned, nothing about any column.")
    words += list(case.release.cautions)
    if settings.get("method") == "bounded-influence":
        words.append("The report splits the width of each interval into sampling, privacy and prior.")
    facts = {EXPECTED_ERROR: expected, "cautions": list(case.release.cautions)}
    return words, facts, [_report("released", "parts of each width")]


@_asked("implementation", "Implementation", "How do we know that the program does what the certificate says?",
        "replay/test_estimators", "mutations/test_mutations")  # fmt: skip
def _implementation(case: Case) -> AnswerParts:
    found, links = case.checks.replayed, [_file("check", "replay for this dossier", "checks")]
    if found is None:
        return [f"It was not replayed: {case.checks.not_replayed}"], {"verdict": None}, links
    words = (
        "The installed code ran on tables drawn from the schema; no private row was read. "
        f"{decision.capital(found.verdict.kind.words)}: {found.verdict.evidence} This tests these pairs only, and it "
        "does not show that this code made the release."
    )
    return [words], {"verdict": found.verdict.kind.value, "pairs": found.pairs}, links


@_asked("floating-point", "Implementation", "Does floating-point arithmetic break the guarantee?",
        "noise/test_gaussians", "noise/test_noised")  # fmt: skip
def _floating(case: Case) -> AnswerParts:
    line = floating_point_line(case.release.bound)
    words = f"{decision.capital(line.evidence.word)}: {line.reason}."
    return [words], {"evidence": line.evidence.word}, [_report("assumptions", "floating point")]


@_asked("audit", "Implementation", "Has anyone tried to refute the certificate?")
def _audit(case: Case) -> AnswerParts:
    lower = case.checks.lower
    if lower is None:
        return ["No lower bound is known for this kind of run."], {"lower_bound": None, "method": None}, []
    sure = "" if lower.confidence == 1.0 else f", with confidence {100 * lower.confidence:g} %"
    words = [
        f"{lower.evidence} Lower bound: epsilon {show_down(lower.epsilon)}. {lower.examined.sentence}",
        f"So the true epsilon of the described run lies between {show_down(lower.epsilon)} and "
        f"{show_up(case.subject.epsilon)}{sure}.",
    ]
    links = [_file("audit", "lower bound", "audit"), _report("bounds", "upper and lower bound")]
    return words, {"lower_bound": lower.epsilon, "method": lower.method}, links


@_asked("side-channels", "Side channels", "What can be learned in other ways: from time, memory or messages?",
        "data/test_private_messages")  # fmt: skip
def _channels(_case: Case) -> AnswerParts:
    words = [
        "Not covered: the duration of the run; memory, swap and core dumps of the machine; and what its operator saw "
        "on the terminal. Error messages quote no cell. Do not let outsiders start fits and measure the time."
    ]
    return words, {"covered": ["error messages"], "not_covered": ["time", "memory", "terminal"]}, []


@_asked("security", "Security", "Who could have changed this, and how would you notice?",
        "ledger/test_signing", "report/test_dossier")  # fmt: skip
def _security(case: Case) -> AnswerParts:
    words = [
        "The file manifest.json lists each file of the dossier with its SHA-256, and is signed. sordino sign verify "
        "finds any file that was changed, removed, added or renamed. Ask the signer for the fingerprint; do not take "
        "it from this folder."
        if case.signer
        else "This dossier is NOT signed. Anyone who had it may have changed it."
    ]
    signed_by = case.checks.release_signer
    words += [f"The release folder had been signed by {signed_by}; that signature is valid."] if signed_by else []
    links = [_file("check", "manifest of every file", "manifest")] if case.signer else []
    facts = {"signed": bool(case.signer), "release_signed_by": signed_by or None}
    return [*words, case.stated("access")], facts, [*links, _file("statement", "by the site", "registry")]


@_asked("collection", "Collection", "How were the data collected, for what purpose, and who is responsible?")
def _collection(case: Case) -> AnswerParts:
    names = ("purpose", "collection", "contact")
    facts = {name: case.statements.get(name) for name in names}
    return [case.stated(name) for name in names], facts, [_file("statement", "by the site", "registry")]


def registry_entry(case: Case) -> dict[str, Any]:
    """What public registries of deployments ask for; null where the site said nothing."""
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
