"""What is claimed: relation, view (neither has a default) and citation, certificates of constants, and bounds."""

import re
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import cache
from importlib import resources
from operator import attrgetter
from typing import Literal

from sordino.core import validate
from sordino.core.guarantee import Guarantee, guarantee_from_dict
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, PROBABILITY, SHARE, InputError, Interval, Json


class Relation(StrEnum):
    """Neighbouring relation of two datasets.

    ``replace-one``: equal size, one record differs. ``add-remove``: one dataset has one record more.
    An add-remove guarantee gives a replace-one guarantee by two-fold group privacy; the converse does not hold.

    >>> from sordino import Relation
    >>> Relation("replace-one") is Relation.REPLACE_ONE
    True
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


RelationWord = Literal["replace-one", "add-remove"] | Relation


class View(StrEnum):
    """What an attacker sees of the run.

    >>> from sordino import View
    >>> View("last-iterate") is View.LAST_ITERATE
    True
    """

    LAST_ITERATE = "last-iterate"
    ALL_ITERATES = "all-iterates"
    AVERAGE = "average"
    POSTERIOR_PARAMETERS = "posterior-parameters"
    ONE_SAMPLE = "one-sample"


_ENTRY = re.compile(r"@(\w+)\s*\{\s*([^,\s]+)\s*,(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*[{\"](.*?)[}\"]\s*,?\s*(?=\n|$)", re.DOTALL)


@dataclass(frozen=True)
class Citation:
    """Where a statement is proved: the `key` of an entry in references.bib, and a `locator` such as a theorem or page.

    >>> from sordino.accounting import Citation
    >>> Citation("mironov2017renyi", "Proposition 1").locator
    'Proposition 1'
    """

    key: str
    locator: str

    def __post_init__(self) -> None:
        if not self.locator.strip():
            raise InputError(f"Citation({self.key!r}) needs a locator such as 'Theorem 3'.")
        if self.key not in bibliography():
            raise InputError(f"Expected a key of references.bib, got {self.key!r}; add the entry there first.")

    def __str__(self) -> str:
        entry = bibliography()[self.key]
        families = [name.split(",")[0].strip() for name in entry["author"].split(" and ")]
        authors = f"{families[0]} et al." if len(families) > 2 else " & ".join(families)
        return f"{authors} {entry['year']}, {self.locator}"

    @property
    def reference(self) -> str:
        """The full reference as one line of text."""
        entry = bibliography()[self.key]
        venue = entry.get("journal") or entry.get("booktitle") or entry.get("publisher") or entry.get("note", "")
        return f"{entry['author'].replace(' and ', '; ')} ({entry['year']}). {entry['title']}. {venue}."


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """The packaged references.bib, parsed: key -> field -> text."""
    text = resources.files("sordino").joinpath("references.bib").read_text(encoding="utf-8")
    return {
        key: {"type": kind.lower()} | {name.lower(): _plain(value) for name, value in _FIELD.findall(body)}
        for kind, key, body in _ENTRY.findall(text)
    }


def _plain(value: str) -> str:
    return re.sub(r"\s+", " ", value.replace("{", "").replace("}", "")).strip()


class Direction(StrEnum):
    """Whether the true constant is at most (`UPPER`) or at least (`LOWER`) the certified value."""

    UPPER = "upper"
    LOWER = "lower"


class Evidence(IntEnum):
    """How a constant is known, weakest first, so that `min` gives the evidence of a whole bound.

    `ASSUMED` is what a release says of what nobody has shown; a spec cannot state it.

    >>> from sordino.accounting import Evidence
    >>> min(Evidence.PROVED, Evidence.DECLARED).word
    'declared'
    """

    ASSUMED = -1
    ESTIMATED = 0
    DECLARED = 1
    BY_CONSTRUCTION = 2
    PROVED = 3

    @property
    def word(self) -> str:
        """The spelling used in SPEC.json and in reports."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def from_word(cls, name: str, word: object) -> "Evidence":
        """Read the SPEC.json spelling."""
        words = {evidence.word: evidence for evidence in cls}
        return words[validate.one_of(name, word, words)]


@dataclass(frozen=True)
class Constant:
    """The name of a constant; the name fixes its direction and its range."""

    name: str
    direction: Direction
    meaning: str
    allowed: Interval = validate.NON_NEGATIVE


@dataclass(frozen=True)
class Certificate:
    """A `value` for a `constant`, which says on which side of the truth it is, with its `evidence` and a `reason`.

    A theorem refuses one whose `reads_private_data` is true: a constant computed from private rows is a release.

    >>> from sordino.core.spec import Problem
    >>> Problem(n=10, dim=1, gradient_bound=1.0).gradient_bound.evidence.word
    'declared'
    """

    constant: Constant
    value: float
    evidence: Evidence
    reason: str
    reads_private_data: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", validate.number(self.constant.name, self.value, self.constant.allowed))
        for name, kind in (("evidence", Evidence), ("reason", str), ("reads_private_data", bool)):
            validate.instance_of(f"{self.constant.name}.{name}", getattr(self, name), kind)

    def to_dict(self) -> dict[str, object]:
        """The JSON form used in bounds and releases."""
        claim = {"constant": self.constant.name, "direction": self.constant.direction.value, "value": self.value}
        known = {"evidence": self.evidence.word, "reason": self.reason, "reads_private_data": self.reads_private_data}
        return claim | known

    @classmethod
    def from_dict(cls, data: Json) -> "Certificate":
        """Read the JSON form."""
        constant = _CONSTANTS[validate.one_of("constant", data["constant"], _CONSTANTS)]
        evidence = Evidence.from_word("evidence", data["evidence"])
        return cls(constant, data["value"], evidence, data["reason"], data["reads_private_data"])


# The constants a SPEC.json may certify, each with its direction and range; models issue certificates of some of them.

_UP, _LOW = Direction.UPPER, Direction.LOWER

GRADIENT_SENSITIVITY = Constant(
    "gradient_sensitivity",
    _UP,
    "sup |g(theta, x) - g(theta, x')| over any two records x and x' there may be, per example, as run (after clipping)",
)
GRADIENT_BOUND = Constant("gradient_bound", _UP, "sup |g(theta, x)| per example, as run (after clipping)")
STRONG_CONVEXITY = Constant("strong_convexity", _LOW, "strong convexity of the update as run, regulariser included")
SMOOTHNESS = Constant("smoothness", _UP, "smoothness of the update as run, regulariser included")
UNCLIPPED_SMOOTHNESS = Constant("unclipped_smoothness", _UP, "smoothness of the per-example loss before clipping")
DRIFT_BOUND = Constant("drift_bound", _UP, "sup |grad V_D|, the data part of the drift")
LIPSCHITZ = Constant("lipschitz", _UP, "Lipschitz constant of the difference of two neighbours' potentials")
DIAMETER = Constant("diameter", _UP, "diameter of the set the parameters live in", POSITIVE)
OSCILLATION = Constant("oscillation", _UP, "the potential lies between 0 and this everywhere, whatever the records")
DISTANCE = Constant(
    "distance", _UP, "W-infinity distance of the law of a draw from the posterior, whatever the records"
)
REGULARISER_STRONG_CONVEXITY = Constant("regulariser.strong_convexity", _LOW, "strong convexity of the regulariser")
REGULARISER_SMOOTHNESS = Constant("regulariser.smoothness", _UP, "smoothness of the regulariser")
GROWTH_G0, GROWTH_G1 = (
    Constant(f"gradient_growth.{name}", _UP, f"|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|: {name}")
    for name in ("g0", "g1")
)
HOELDER_CONSTANT = Constant("hoelder.constant", _UP, "|g(theta, x) - g(theta', x)| <= L |theta - theta'|^a: L")
HOELDER_EXPONENT = Constant("hoelder.exponent", _LOW, "|g(theta, x) - g(theta', x)| <= L |theta - theta'|^a: a", SHARE)
GROWTH_AT_ZERO = Constant("gradient_growth.at_zero", _UP, "sup |grad f(0, x)|")
CONVERGENCE_ZETA = Constant("convergence.zeta", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: zeta")
CONVERGENCE_RATE = Constant(
    "convergence.rate", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: rate", Interval(0.0, 1.0, high_open=True)
)
CONVERGENCE_BIAS = Constant("convergence.bias", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: bias")
ERGODICITY_C = Constant("ergodicity.C", _UP, "V-uniform ergodicity: factor C", POSITIVE)
ERGODICITY_RHO = Constant("ergodicity.rho", _UP, "V-uniform ergodicity: rate rho", OPEN_UNIT)
DISSIPATIVITY = {
    name: Constant(f"dissipativity.{name}", _LOW if name == "m" else _UP, f"{name} of Simsekli et al., Assumptions 1-3")
    for name in ("K1", "K2", "m", "K", "B", "D")
}
AVERAGE_LIPSCHITZ = Constant("average.lipschitz", _UP, "Lipschitz constant of the averaged function f", NON_NEGATIVE)
ROW_NORM = Constant("row_norm", _UP, "sup |x| of an encoded record, intercept included", POSITIVE)
TARGET_BOUND = Constant("target_bound", _UP, "sup |y| of an encoded target")
FLOATING_POINT = Constant(
    "floating_point", _UP, "largest difference that rounding makes to any probability", PROBABILITY
)
TARGET_WIDTH = Constant("target_width", _UP, "sup |y - y'| of two encoded targets")
_CONSTANTS = {one.name: one for one in (*vars().values(), *DISSIPATIVITY.values()) if isinstance(one, Constant)}


class Status(StrEnum):
    """How a theorem relates to the paper it comes from.

    >>> from sordino.accounting import Status
    >>> [status.value for status in Status]
    ['as-stated', 'corrected', 'ours']
    """

    AS_STATED = "as-stated"
    CORRECTED = "corrected"
    OURS = "ours"


@dataclass(frozen=True)
class Bound:
    """A `guarantee` with its `relation` and `view`; without these no number is printed.

    It names the `theorem` by its id, with its `citation` and `status`, and the `certificates` that the theorem used.

    >>> from sordino import accounting
    >>> bound = accounting.gaussian(noise_multiplier=2.0, relation="add-remove").bound(1e-5)
    >>> bound.theorem, bound.relation.value, bound.view.value
    ('mechanism.gaussian', 'add-remove', 'all-iterates')
    """

    guarantee: Guarantee
    relation: Relation
    view: View
    certificates: tuple[Certificate, ...]
    theorem: str
    citation: Citation
    status: Status

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence among the certificates used."""
        return min((certificate.evidence for certificate in self.certificates), default=Evidence.PROVED)

    def to_dict(self) -> dict[str, object]:
        """JSON form; `Bound.from_dict` reads it back exactly."""
        claim = {"guarantee": self.guarantee.to_dict(), "relation": self.relation.value, "view": self.view.value}
        certificates = [certificate.to_dict() for certificate in self.certificates]
        source = {"key": self.citation.key, "locator": self.citation.locator}
        named = {"theorem": self.theorem, "citation": source, "status": self.status.value}
        return claim | {"certificates": certificates} | named

    @classmethod
    def from_dict(cls, data: Json) -> "Bound":
        """Read the JSON form."""
        certificates = tuple(map(Certificate.from_dict, data["certificates"]))
        guarantee, citation = guarantee_from_dict(data["guarantee"]), data["citation"]
        claim = Relation(data["relation"]), View(data["view"]), certificates, data["theorem"]
        return cls(guarantee, *claim, Citation(citation["key"], citation["locator"]), Status(data["status"]))


@dataclass(frozen=True)
class Inapplicable:
    """Why the `theorem` of this id says nothing about a run; the `reason` has both sides of the inequality that fails.

    >>> from sordino import accounting
    >>> run = accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    >>> run.explanation(1e-5).inapplicable[0].reason
    'is about noisy-gradient runs, and this is a noised-answer run'
    """

    theorem: str
    reason: str


_UNCOVERED = "not covered: the theorems are about real numbers, and this run was computed in floating point"
NOT_COVERED = Certificate(FLOATING_POINT, 0.0, Evidence.ASSUMED, _UNCOVERED)


def exactly_computed(reason: str) -> Certificate:
    """The line of a mechanism that is computed without error: what is released has the certified law."""
    return Certificate(FLOATING_POINT, 0.0, Evidence.PROVED, reason)


def floating_point_line(bound: Bound) -> Certificate:
    """What a bound says about floating point; a bound that says nothing does not cover it."""
    lines = (certificate for certificate in bound.certificates if certificate.constant == FLOATING_POINT)
    return min(lines, key=attrgetter("evidence"), default=NOT_COVERED)


def floating_point_answer(bound: Bound) -> dict[str, object]:
    """The line as JSON values: what it costs, how that is known, and why."""
    line = floating_point_line(bound)
    return {"total_variation": line.value, "evidence": line.evidence.word, "reason": line.reason}


def with_floating_point(bound: Bound, *line: Certificate) -> Bound:
    """The bound with this line, in place of one it may have; without any as its theorem gives it."""
    kept = (certificate for certificate in bound.certificates if certificate.constant != FLOATING_POINT)
    return replace(bound, certificates=(*kept, *line))
