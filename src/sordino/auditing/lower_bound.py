"""The answer of an audit, the list of audits, and the verdict of an answer on a certificate.

A test between two neighbours has two errors, and they prove an epsilon (`TradeOffPoint`). An audit is a function from a
described run and options to a lower bound, in a file of `auditing/methods/` with its name, imported on first use.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from types import ModuleType
from typing import Annotated, Any

import numpy as np
from scipy import special

from sordino.accounting.evaluate import finite
from sordino.core import gaussian
from sordino.core.bound import Bound, Relation, View
from sordino.core.gaussian import down, show_down, show_up, up
from sordino.core.guarantee import check_delta
from sordino.core.results import Result, ResultTable, figure_axes
from sordino.core.spec import AnyUnit, ColumnUnit, Spec, Unit
from sordino.core.spec.problem import UNIT
from sordino.core.validate import (
    NON_NEGATIVE,
    OPEN_UNIT,
    PROBABILITY,
    SHARE,
    Declared,
    Interval,
    instance_of,
    number,
    one_of,
    refuse,
    whole_number,
)


@dataclass(frozen=True)
class TradeOffPoint(Declared):
    """A test that exists: it says "second" of the first dataset, or the converse, with at most these probabilities."""

    false_positive: Annotated[float, PROBABILITY]
    false_negative: Annotated[float, PROBABILITY]

    def epsilon(self, delta: float) -> float:
        """max{0, ln((1 - delta - FP) / FN), ln((1 - delta - FN) / FP)}, rounded down; infinite when an error is 0.

        An (epsilon, delta)-private mechanism satisfies FP + exp(epsilon) FN >= 1 - delta and the same with the errors
        exchanged (Kairouz, Oh & Viswanath 2017, Theorem 2.1), so upper bounds on the errors give a lower bound.
        """
        delta, errors = number("delta", delta, OPEN_UNIT), (self.false_positive, self.false_negative)
        return max(log_ratio(delta, *errors), log_ratio(delta, *errors[::-1]))


def log_ratio(delta: float, subtracted: float, divisor: float) -> float:
    """ln((1 - delta - subtracted) / divisor), rounded down; 0 where that is negative."""
    power = down(1.0 - up(delta + subtracted))
    if power <= 0.0 or power <= divisor:
        return 0.0
    if divisor == 0.0:
        return math.inf
    # Two logarithms, each within a unit in the last place; their difference cannot overflow as the quotient might.
    top, bottom = math.log(power), math.log(divisor)
    return max(0.0, down(down(top, 2) - up(bottom, 2), 2))


CURVE_POINTS = 81
_ERROR = 1e-13  # relative accuracy of a normal tail at an argument rounded to double precision


@dataclass(frozen=True)
class GaussianShift(Declared):
    """`mu` is a lower bound on the true distance; everything follows from it in closed form.

    >>> round(GaussianShift(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: Annotated[float, NON_NEGATIVE]

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon_lower(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        return float(gaussian.delta_range(self.mu, epsilon)[0])

    def curve(self) -> tuple[TradeOffPoint, ...]:
        thresholds = np.linspace(-4.5, self.mu + 4.5, CURVE_POINTS)
        slack = _ERROR * (1 + thresholds * thresholds + self.mu * self.mu)
        false_positive = np.minimum(1.0, special.ndtr(-thresholds) * (1 + slack))
        false_negative = np.minimum(1.0, special.ndtr(thresholds - self.mu) * (1 + slack))
        return tuple(TradeOffPoint(float(a), float(b)) for a, b in zip(false_positive, false_negative, strict=True))


class Examined(StrEnum):
    """What a lower bound was found out from; the two are not the same, and neither is the code that made a release."""

    words: str  # what to call such a lower bound
    sentence: str  # what it does not show

    def __new__(cls, value: str, words: str, sentence: str) -> "Examined":
        made = str.__new__(cls, value)
        made._value_, made.words, made.sentence = value, words, sentence
        return made

    DESCRIPTION = (
        "description",
        "tightness of the description",
        "Both bounds are computed from the description. No code was run for them, so a program that leaves noise out "
        "would not be noticed here.",
    )
    RUN = (
        "run",
        "attack on a run by this code",
        "The attack tested the run described above, by the installed code. It tested no other run and no other part "
        "of the program.",
    )


@dataclass(frozen=True, kw_only=True)
class LowerBound(Result, Declared):
    """The run loses at least this much privacy: no smaller epsilon is true at this delta, with this confidence.

    `epsilon` is rounded down; 0 when nothing was found, infinite when no epsilon is enough. `confidence` is joint,
    1 when nothing was sampled; named `counts` are what it depends on. `cap` is the largest epsilon that the audit could
    have reported whatever the run did. `seed_policy` and `evidence` say in a sentence where randomness came from, and
    which datasets and test were used. `curve` has the tests that were found, with upper bounds on their two errors.
    `examined` says whether something was run; a caller who does not say claims less.
    """

    epsilon: float
    delta: Annotated[float, OPEN_UNIT]
    relation: Relation
    view: View
    method: str
    confidence: Annotated[float, SHARE]
    counts: tuple[tuple[str, int], ...]
    cap: float | None
    seed_policy: str
    evidence: str
    curve: tuple[TradeOffPoint, ...] = ()
    examined: Examined = Examined.DESCRIPTION

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon != math.inf:
            number("epsilon", self.epsilon, NON_NEGATIVE)
        for name, kind in (("relation", Relation), ("view", View), ("examined", Examined)):
            instance_of(name, getattr(self, name), kind)
        for name in ("method", "seed_policy", "evidence"):
            if not instance_of(name, getattr(self, name), str):
                raise refuse(name, "to say something", "")
        for name, count in self.counts:
            whole_number(name, count, Interval(0))
        if self.cap is not None and not self.epsilon <= self.cap:
            raise refuse("epsilon", f"to be at most the cap {self.cap!r} of the audit", self.epsilon)

    def as_json(self) -> dict[str, Any]:
        """The file of an audit, as `report` reads it; an infinite epsilon is null."""
        curve = [[point.false_positive, point.false_negative] for point in self.curve]
        return {
            "relation": self.relation.value,
            "view": self.view.value,
            "delta": self.delta,
            "method": self.method,
            "examined": self.examined.value,
            "confidence": self.confidence,
            "counts": dict(self.counts),
            "lower_bound": {"epsilon": finite(self.epsilon), "evidence": self.evidence, "curve": curve},
            "seed_policy": self.seed_policy,
            "cap": None if self.cap is None else finite(self.cap),
        }

    @property
    def certainty(self) -> str:
        """The confidence in words."""
        return "certain, nothing was sampled" if self.confidence == 1.0 else f"{100 * self.confidence:g} %"

    @property
    def shown(self) -> ResultTable:
        """The bound, and what makes it checkable."""
        label = "described" if self.examined is Examined.DESCRIPTION else "attacked"
        leaked = "unbounded" if math.isinf(self.epsilon) else f"at least {show_down(self.epsilon)}"
        facts = (
            ("Relation", self.relation.value),
            ("View", self.view.value),
            ("Delta", f"{self.delta:g}"),
            ("Confidence", self.certainty),
            ("Largest it could report", "no limit" if self.cap is None else show_down(self.cap)),
            *((f"{name[:1].upper()}{name[1:]}", f"{count:,}") for name, count in self.counts),
        )
        table = (("bound", "epsilon", "by"), ((label, leaked, self.method),))
        columns = {"bound": [label], "epsilon": [self.epsilon], "by": [self.method]}
        remarks = (self.evidence, self.seed_policy, self.examined.sentence)
        return ResultTable(f"{self.examined.words}: epsilon {leaked}.", (table,), columns, facts, (), remarks)

    def beside(self, bound: Bound | None, unit: AnyUnit = Unit.RECORD) -> ResultTable:
        """The certificate above the lower bound, and the verdict."""
        own, answer = self.shown, verdict(bound, self)
        certified = math.inf if bound is None else bound.guarantee.epsilon(self.delta)
        words = "no finite bound" if bound is None or math.isinf(certified) else f"at most {show_up(certified)}"
        ((header, rows),) = own.tables
        return replace(
            own,
            title=f"{answer.kind.words}: {answer.evidence}",
            tables=((header, (("certified", words, "" if bound is None else bound.theorem), *rows)),),
            facts=(*((("Unit", unit.words),) if isinstance(unit, ColumnUnit) else ()), *own.facts),
        )

    def answer(self, bound: Bound | None, unit: AnyUnit = Unit.RECORD) -> dict[str, Any]:
        """The contract of `audit --json`: both bounds and the verdict; the unit where it is not a record."""
        certified = None if bound is None else {
            "theorem": bound.theorem,
            "epsilon": finite(bound.guarantee.epsilon(self.delta)),
            "citation": str(bound.citation),
            "status": bound.status.value,
            "evidence": bound.evidence.word,
        }  # fmt: skip
        both = {"bound": certified, "verdict": verdict(bound, self).as_json()}
        return ({} if unit is Unit.RECORD else {"unit": UNIT.write(unit)}) | self.as_json() | both

    def plot(self, ax: Any = None) -> Any:
        """The errors of the tests that were found, on matplotlib axes."""
        axes = figure_axes(ax)
        axes.plot([point.false_positive for point in self.curve], [point.false_negative for point in self.curve], "o-")
        axes.plot([0.0, 1.0], [1.0, 0.0], ":", color="grey")
        axes.set(xlabel="false positives", ylabel="false negatives", title=self.shown.title)
        return axes


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Declared):
    """What a person may ask of any audit; a method ignores what it has no use for.

    `models` is how many may be trained, all sides together; `fit_sides` fits those of both datasets, as on a cluster.
    """

    delta: float
    confidence: Annotated[float, OPEN_UNIT] = 0.95
    models: Annotated[int, Interval(2)] = 1000
    seed: Annotated[int | None, Interval(0, 2**128 - 1)] = None
    fit_sides: Callable[..., list[Any]] | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        super().__post_init__()

    @property
    def origin(self) -> str:
        """Where the randomness of an audit was drawn from."""
        return "drawn afresh from the operating system" if self.seed is None else f"drawn from the seed {self.seed}"

    def bound(self, about: Any, method: str, epsilon: float, evidence: str, **stated: Any) -> LowerBound:
        """What an audit of a run found: `about` has its relation and view; unless stated otherwise code was run."""
        usual = {"delta": self.delta, "confidence": self.confidence, "cap": None, "examined": Examined.RUN} | stated
        if "seed_policy" not in usual:
            usual["seed_policy"] = f"Coins and run are {self.origin} of the audit."
        return LowerBound(
            epsilon=epsilon, relation=about.relation, view=about.view, method=method, evidence=evidence, **usual
        )


_METHODS_HOME = "sordino.auditing.methods"


def method_names() -> tuple[str, ...]:
    """The names of all audits, by their files; nothing is imported."""
    home = importlib.import_module(_METHODS_HOME).__path__
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(home)))


def fits_models(method: str) -> bool:
    """Whether an audit fits many models by `AuditOptions.fit_sides`, which it can do on a cluster and keep."""
    return getattr(_module(method), "FITS_MODELS", False)


def audit(spec: Spec, method: str, options: AuditOptions) -> LowerBound:
    """Audit a described run with the named method; one that it cannot audit is refused with the reason."""
    return getattr(_module(method), method.replace("-", "_"))(spec, options)


def _module(method: str) -> ModuleType:
    name = one_of("method", method, method_names()).replace("-", "_")
    return importlib.import_module(f"{_METHODS_HOME}.{name}")


class VerdictKind(StrEnum):
    """What a lower bound says about a certificate; `words` are for people."""

    words: str

    def __init__(self, value: str) -> None:
        described = value == "tightness-of-description"
        self.words = Examined.DESCRIPTION.words if described else value.replace("-", " ")

    TIGHTNESS = "tightness-of-description"
    CONSISTENT = "consistent"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not-comparable"


@dataclass(frozen=True)
class Verdict:
    """The kind, and one sentence with both numbers or with what keeps them from being compared."""

    kind: VerdictKind
    evidence: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "evidence": self.evidence}


def verdict(bound: Bound | None, lower: LowerBound) -> Verdict:
    """Compare a certificate with a lower bound of the same run, at the delta of the latter.

    | kind | when |
    | --- | --- |
    | violated | the lower bound is above the certified epsilon |
    | tightness-of-description | it is not, and the description alone was read: no code was tested |
    | consistent | it is not, a run was attacked, and the attack could have found a violation |
    | inconclusive | it is not, but the attack's cap does not exceed the certified epsilon |
    | not-comparable | no bound, or one about another relation, view or delta |
    """
    if bound is None:
        return Verdict(
            VerdictKind.NOT_COMPARABLE,
            f"No theorem gives a finite epsilon for this run at delta {lower.delta:g}: there is nothing to contradict.",
        )
    certified, mismatch = bound.guarantee.epsilon(lower.delta), ""
    if bound.relation is not lower.relation:
        mismatch = f"is about {bound.relation}, and the audit used neighbours under {lower.relation}."
    elif bound.view is not lower.view:
        mismatch = f"is about the view {bound.view}, and the audit saw {lower.view}."
    elif math.isinf(certified):
        mismatch = f"gives no finite epsilon at the audit's delta {lower.delta:g}."
    if mismatch:
        return Verdict(VerdictKind.NOT_COMPARABLE, f"{bound.theorem} {mismatch}")
    described = lower.examined is Examined.DESCRIPTION
    pair = "for some pair of neighbouring tables that the description allows, the run has a privacy loss of"
    finder = pair if described else f"the {lower.method} audit finds"
    sure = "" if lower.confidence == 1.0 else f" with confidence {100 * lower.confidence:g} %"
    loss = f"{finder} epsilon at least {show_down(lower.epsilon)}{sure}"
    claim = f"{bound.theorem} certifies at most {show_up(certified)} at delta {lower.delta:g}"
    if lower.epsilon > certified:
        refuted = f"the certificate does not hold for {'the run described' if described else 'this run'}"
        if not described and lower.confidence < 1.0:
            chance = f"{100 * (1 - lower.confidence):.3g} %"
            refuted += f", or this is one of the at most {chance} false alarms; repeat with a higher --confidence"
        return Verdict(VerdictKind.VIOLATED, f"{loss}, and {claim}: {refuted}.")
    if described:
        return Verdict(VerdictKind.TIGHTNESS, f"{loss}, and {claim}. No code was run for this.")
    if lower.cap is not None and lower.cap <= certified:
        limit = f"this attack cannot report more than {show_down(lower.cap)}"
        words = f"{loss}, and {claim}: {limit}, so it could not have contradicted the certificate."
        return Verdict(VerdictKind.INCONCLUSIVE, words)
    return Verdict(VerdictKind.CONSISTENT, f"{loss}, and {claim}.")
