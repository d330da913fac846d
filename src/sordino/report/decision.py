"""What a signer needs before anything else: the facts, whether the release may be published, and epsilon in odds."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from sordino.core import __version__
from sordino.core.bound import Evidence, Relation, View, floating_point_line
from sordino.core.gaussian import show_down, show_up, up
from sordino.core.guarantee import Guarantee
from sordino.core.spec import Algorithm, AnyUnit, ColumnUnit, NoisedSums, Scheme, Spec, Unit
from sordino.data import Boolean, Category, Date, Number, Ordered, Schema
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.number import Interaction
from sordino.fitting.tasks.base import task_of
from sordino.inference.summary import LOOK
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.coverage import COEFFICIENTS, is_constant, measured_of
from sordino.ledger.release.document import BY_SCHEMA, protection_of
from sordino.report.charts import label
from sordino.report.subject import Subject

MOST_WORDS = 24  # declared words that a page shows of one column; the whole list is in the folder
# What is weaker than a proof or a construction, and has to be believed.
_ON_TRUST = ("declared", "estimated", "assumed")
FALSE_ALARMS = 0.01  # the false-positive rate of the attack in the worked example
RARE = 0.01  # outcomes rarer than this are covered by delta alone, so the worked example leaves them out and says so
_SUSPICIONS = ((0.5, "an even chance"), (0.1, "1 in 10"), (0.01, "1 in 100"), (0.001, "1 in 1,000"))


class DecisionFact(NamedTuple):
    """One entry of the strip: a name, what it is, and where there is more to say, a remark below."""

    name: str
    value: str
    remark: str = ""


class Decision(NamedTuple):
    """The strip on top of a page; `look_at` is what the signer decides, and this page cannot."""

    may_leave: bool
    why: tuple[str, ...]
    look_at: tuple[str, ...]
    facts: tuple[DecisionFact, ...]


def decide(subject: Subject) -> Decision:
    """What the strip says of a release."""
    release, reasons = subject.release, tuple(f"{capital(reason)}." for reason in subject.reasons_not_to_leave)
    by_schema, charged = release.schema is not None and release.preprocessing == BY_SCHEMA, subject.balance is not None
    in_favour = {
        "The noise was secret, and no constant of the certificate was taken from private rows.": True,
        "Sordino recomputed the certificate from the description and confirms it.": math.isfinite(subject.epsilon),
        "The ledger records its charge, made before anything was computed from the rows' values.": charged,
        "The ledger entry identifies exactly this release by its digest.": subject.named_by_ledger,
        "Rows were read only through declared bounds and categories.": by_schema,
    }
    why = reasons or tuple(words for words, holds in in_favour.items() if holds)
    return Decision(subject.may_leave, why, _look_at(subject), tuple(_facts(subject)))


def _look_at(subject: Subject) -> tuple[str, ...]:
    """What a person must decide, most important first."""
    release, (evidence, _) = subject.release, _weakest(subject)
    claimed = release.ledger is not None and subject.balance is None and not subject.not_as_charged
    schema, as_arrays, unknown = release.schema, release.preprocessing != BY_SCHEMA, subject.unplanned is None
    looked = schema is not None and schema.charged is not None
    group = protection_of(release.spec, schema, subject.bound, release.delta).group
    several = "" if group is None else f"{group.sentence} Is that acceptable?"
    alone = group is None and not isinstance(release.spec.unit, ColumnUnit)
    questions = {
        "No theorem gives a finite epsilon: this release has no privacy guarantee.": math.isinf(subject.epsilon),
        "No ledger was charged. What else was released about the same people is unknown.": release.ledger is None,
        "No ledger was given (--ledger), so the charge is only what the folder claims.": claimed,
        subject.unverified: bool(subject.unverified),
        "Rows came as arrays. Only the caller knows whether private rows shaped them.": as_arrays,
        several: group is not None,
        "The release protects one record. Does each person have only one?": alone,
        f"It uses a constant that is {evidence}. Who can vouch for it?": evidence in _ON_TRUST,
        "Some of its bounds come from an earlier look. Was that charged to the same ledger?": looked,
        "The folder lacks part of what the plan was made from. Only the ledger shows what was run.": unknown,
        "Only a constant was learned. Is that worth the budget?": is_constant(release),
    }
    return tuple(words for words, holds in questions.items() if holds)


def _facts(subject: Subject) -> Iterator[DecisionFact]:
    release, balance = subject.release, subject.balance
    yield DecisionFact("protects", release.protected.words, f"relation {release.spec.relation}")
    finite = math.isfinite(subject.epsilon)
    epsilon = f"at most {show_up(subject.epsilon)}" if finite else "no finite bound"
    yield DecisionFact("epsilon", epsilon, f"at delta {label(release.delta)}, recomputed")
    stated, remark = release.ledger, "as the folder claims" if balance is None else "compared with the ledger"
    if subject.not_as_charged:
        yield DecisionFact("charged", "not as the folder claims", "see the red box")
    elif stated is None:
        yield DecisionFact("charged", "to no ledger")
    else:
        yield DecisionFact("charged", f"entry {stated.get('entry')} of {str(stated.get('dataset'))[:80]}", remark)
    if balance is not None:
        left = show_down(balance.largest_epsilon)
        spent = f"budget {balance.budget.epsilon:g}, spent {show_up(balance.spent_epsilon)}"
        at = f"all three at delta {label(balance.budget.delta)}; the section Budget explains the sum"
        yield DecisionFact("budget left", f"a release of epsilon {left}", f"{spent}; {at}")
    else:
        yield DecisionFact("budget left", "not known here", "no ledger was compared")
    if subject.bound is not None:
        yield DecisionFact("weakest evidence", *_weakest(subject))
    yield DecisionFact("learned", learned(release), coverage(release))
    clock = "date of the charge, by that machine's clock" if subject.time else ""
    yield DecisionFact("made", subject.time[:10] if subject.time else "date not recorded", clock)
    yield DecisionFact("versions", f"Sordino {release.software}", f"checked by {__version__}")


def _weakest(subject: Subject) -> tuple[str, str]:
    """The weakest evidence of a certificate, and for which constants it is."""
    bound = subject.bound
    if bound is None or not bound.certificates:
        return "" if bound is None else bound.evidence.word, ""
    word, weak = bound.evidence.word, [one for one in bound.certificates if one.evidence is bound.evidence]
    about = ", ".join(dict.fromkeys(one.constant.name.replace("_", " ") for one in weak[:3]))
    if bound.evidence is Evidence.ASSUMED and floating_point_line(bound).evidence is bound.evidence:
        about = "for floating point"
    return word, about if word in _ON_TRUST else "for every constant it uses"


def learned(release: StoredRelease) -> str:
    """What the release is, in one line."""
    if release.kind == LOOK:
        asked = len(release.settings.get("answers", ()))
        return f"answers to {asked} question{'' if asked == 1 else 's'} about the table"
    if is_constant(release):
        return "a constant only"
    schema, found = release.schema, task_of(release.settings)
    task = found.title if found else str(release.settings.get("task") or release.kind_words).replace("-", " ")
    if schema is None or schema.target is None:
        return f"{task}: {sum(values.size for values in release.arrays.values()):,} released numbers"
    names = [feature.name for feature in schema.features]
    columns = ", ".join(names if len(names) <= 5 else [*names[:4], f"and {len(names) - 4} more"])
    return f"{task} of {schema.target.name} from {columns}"


def what_ran(spec: Spec) -> tuple[str, ...]:
    """What ran, a line for each part; custom models are called so, whatever a stored query says."""
    stored, shown = "gradients of the evidence bound, own model", "gradients of the objective of a custom model"
    return tuple(capital(_ran(run.algorithm).replace(stored, shown)) for run in spec.runs())


def _ran(run: Algorithm) -> str:
    if not isinstance(run, NoisedSums):
        return run.words
    sums = "one noised sum" if run.rounds == 1 else f"{run.rounds} noised sums"
    over = "over all records" if run.sampling.scheme is Scheme.FULL else f"over batches ({run.sampling.words})"
    who = "unit" if isinstance(run.unit, ColumnUnit) else "record"
    noise = run.noise_multiplier.values(run.rounds)
    first = f"{noise[0]:.6g} times that{' in the first round' if (noise != noise[0]).any() else ''}"
    replaced = f" Replacing a {who} changes the sum by at most {run.replacement or 0.0:.6g}." if run.replacement else ""
    noise_words = f"The standard deviation of the noise is {first}.{replaced}"
    return f"{run.query}: {sums} {over}. A {who} adds at most {run.contribution:.6g}. {noise_words}"


def coverage(release: StoredRelease) -> str:
    """The coverage of such intervals, as measured for the method; empty where there are none."""
    if task_of(release.settings) is None:
        return ""
    found = measured_of(release, COEFFICIENTS, 0.95)
    if found is None:
        return "the coverage of its intervals was not measured"
    tried = f"on simulated tables ({found.cells} settings, at least {found.tables} tables in each)"
    return f"{100 * found.level:g} % intervals of this method contained the truth {found.words} of the time {tried}"


def declared_rows(schema: Schema) -> tuple[tuple[str, str, str], ...]:
    """Name, declared values and what a missing value does, for every column; the target comes last."""
    words, rows = {"refuse": "stops the run", "indicator": "gets its own indicator"}, []
    for one in schema.declared_columns():
        missing = words.get(one.kind.missing.rule, f"counts as {one.kind.missing.value}")
        rows.append((f"{one.name}{' (target)' if one is schema.target else ''}", declared_values(one.kind), missing))
    return tuple(rows)


def declared_values(kind: ColumnKind) -> str:
    """The declared values of a column."""
    match kind:
        case Number():
            outside = "a value outside stops the run" if kind.out_of_range == "refuse" else "values outside are clipped"
            return f"{kind.low:g} to {kind.high:g}; {outside}"
        case Date():
            return f"{kind.first} to {kind.last}, as {kind.part}"
        case Ordered():
            return f"{_words(kind.values)}, in this order"
        case Category():
            other = "other words form one further category" if kind.unseen == "other" else "another word stops the run"
            return f"{_words(kind.values)}; {other}"
        case Boolean():
            return f"{kind.true_values[0]} or {kind.false_values[0]}"
        case Interaction():
            return f"the product of {' and '.join(kind.reads or ())}"
    return "as declared in the folder"


def _words(values: tuple[str, ...]) -> str:
    more = f" and {len(values) - MOST_WORDS} more" if len(values) > MOST_WORDS else ""
    return ", ".join(values[:MOST_WORDS]) + more


def capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def why_budgets_do_not_add(subject: Subject) -> str:
    """Why what is spent and what still fits come to more than the budget; empty where nothing is spent or known."""
    balance = subject.balance
    if balance is None or not balance.releases or balance.largest_mu == 0.0:
        return ""
    spent, left = show_up(balance.spent_epsilon), show_down(balance.largest_epsilon)
    why = f"Spent ({spent}) and left ({left}) add up to more than the budget ({balance.budget.epsilon:g}), because "
    # The same release has less epsilon at the budget's delta than at a smaller one of its own.
    alone = f"epsilon {show_up(subject.epsilon)} at its own delta, {subject.release.delta:g}"
    own = f" These three numbers are at the budget's delta, {balance.budget.delta:g}. This release alone has {alone}."
    own = "" if subject.release.delta == balance.budget.delta else own
    if balance.spent_mu is None:
        return why + f"privacy losses add as curves, order by order, and epsilon is computed from the sum.{own}"
    gone, left = balance.spent_mu, balance.largest_mu
    return why + (
        "the noise of separate releases is independent. Their privacy losses add like standard errors, in squares, on "
        f"a scale called mu: {gone:.4f}² (spent) + {left:.4f}² (left) = {math.hypot(gone, left):.4f}² (budget). "
        f"Epsilon is computed from mu and does not simply add up.{own}"
    )


def not_applying(subject: Subject) -> str:
    """One sentence for the theorems that do not apply."""
    names = [answer.theorem for answer in subject.explanation.inapplicable]
    if not names:
        return "Every theorem of this version applies."
    others = "one theorem is" if len(names) == 1 else f"{len(names)} theorems are"
    need = "about other kinds of runs, relations or views, or need a constant that this one does not have"
    why = "To see the reason for each, run sordino certify --all on the description below."
    return f"The other {others} {need}. {why}"


TABLES = {
    Relation.REPLACE_ONE: "two tables of equal size: one has a certain {0}, the other any other {0} instead",
    Relation.ADD_REMOVE: "two tables, one with {1} and one without {2}",
}
QUESTION = {
    Relation.REPLACE_ONE: "which of the two {0}s is in the table",
    Relation.ADD_REMOVE: "whether that {0} was in the table at all",
}
_RECORD, _UNIT = ("record", "a certain record", "it"), ("unit", "all records of a certain unit", "them")
SEEN = {
    View.LAST_ITERATE: "only the final result of each chain",
    View.ALL_ITERATES: "the result and every intermediate result",
    View.AVERAGE: "only the noised average along the chain",
    View.POSTERIOR_PARAMETERS: "the parameters of the fitted posterior, after every round if necessary",
    View.ONE_SAMPLE: "the released posterior draws",
}
EVIDENCE = {
    "proved": "follows from a proof, whatever the data are",
    "by-construction": "the program enforces it, for example by clipping",
    "declared": "taken on trust: the certificate is only as good as this number",
    "estimated": "estimated: the certificate may fail if the estimate is wrong",
    "assumed": "not proved: the certificate is valid only if it is true",
}


def tables(relation: Relation, unit: AnyUnit) -> str:
    """The two tables that an attacker tries to distinguish."""
    return TABLES[relation].format(*(_RECORD if isinstance(unit, Unit) else _UNIT))


def question(relation: Relation, unit: AnyUnit) -> str:
    """What the attacker wants to know."""
    return QUESTION[relation].format(*(_RECORD if isinstance(unit, Unit) else _UNIT))


class Odds(NamedTuple):
    """A suspicion before the release and the most it can become."""

    before: str
    prior: str
    after: str


class WorkedOdds(NamedTuple):
    """The largest factor on the odds, suspicions before and after, and the best shares of right guesses and finds."""

    factor: str
    rows: tuple[Odds, ...]
    guesses: str
    detected: str


def worked_odds(guarantee: Guarantee, epsilon: float, delta: float) -> WorkedOdds:
    """What an attacker who knows every other record can gain, in odds; every number rounded up.

    For an outcome of probability q or more under the other table, P(outcome) <= exp(epsilon) Q(outcome) + delta, so the
    odds grow by exp(epsilon) + delta / q at most. A coin that decides between the tables is guessed with probability
    (1 + delta(0)) / 2 at most, and, by the two errors of Kairouz, Oh & Viswanath 2017, Theorem 2.1, with
    1 - (1 - delta) / (1 + exp(epsilon)) at most. A test with false-positive rate a has a true-positive rate of at most
    exp(e) a + delta(e), for every e: the least of some e counts.
    """
    factor = up(_exponential(epsilon) + delta / RARE, 4)
    rows = []
    for prior, words in _SUSPICIONS:
        most = 1.0 if math.isinf(factor) else min(1.0, up(prior * factor / (1.0 - prior + prior * factor), 8))
        rows.append(Odds(words, f"{100 * prior:g} %", _percent(most)))
    by_errors = up(1.0 - (1.0 - delta) / (1.0 + _exponential(epsilon)), 4)
    guesses = min(by_errors, up(0.5 + 0.5 * guarantee.delta(0.0)))
    finds = [_exponential(epsilon) * FALSE_ALARMS + delta]
    finds += [_exponential(at) * FALSE_ALARMS + guarantee.delta(at) for at in (epsilon * k / 8 for k in range(8))]
    shown = "without limit" if math.isinf(factor) else show_up(factor, 3)
    return WorkedOdds(shown, tuple(rows), _percent(min(1.0, guesses)), _percent(min(1.0, up(min(finds), 8))))


def _exponential(value: float) -> float:
    try:
        return up(math.exp(value), 2)
    except OverflowError:
        return math.inf


def _percent(share: float) -> str:
    return f"{show_up(100.0 * share, 3)} %"
