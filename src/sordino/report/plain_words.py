"""A certificate in words: what is protected against whom, and what epsilon and delta mean in odds."""

import math
from dataclasses import dataclass

from sordino.core.bound import Relation, View
from sordino.core.gaussian import show_up, up
from sordino.core.guarantee import Guarantee
from sordino.core.spec import AnyUnit, Unit

TABLES = {
    Relation.REPLACE_ONE: "two tables of one size that differ in one record: this one, or any other in its place",
    Relation.ADD_REMOVE: "two tables, one with a certain record and one without it",
}
QUESTION = {
    Relation.REPLACE_ONE: "which of the two records is in the table",
    Relation.ADD_REMOVE: "whether that record was in the table at all",
}
_TABLES_OF_UNITS = {
    Relation.REPLACE_ONE: "two tables with as many units that differ in one unit: its records, or any others instead",
    Relation.ADD_REMOVE: "two tables, one with all records of a certain unit and one without them",
}
_QUESTION_OF_UNITS = {
    Relation.REPLACE_ONE: "which of the two units is in the table",
    Relation.ADD_REMOVE: "whether that unit was in the table at all",
}
SEEN = {
    View.LAST_ITERATE: "the last iterate of each chain and nothing of the way there",
    View.ALL_ITERATES: "every iterate that was kept",
    View.AVERAGE: "the noised average along the chain and nothing else",
    View.POSTERIOR_PARAMETERS: "the parameters of the fitted posterior, after every round if need be",
    View.ONE_SAMPLE: "the posterior draws that were released",
}
EVIDENCE = {
    "proved": "follows from a proof, whatever the data are",
    "by-construction": "true because the program makes it true, for example by clipping",
    "declared": "taken on trust: the certificate is only as good as this number",
    "estimated": "estimated, not known: the certificate may fail if it is off",
    "assumed": "nobody has shown it: the certificate holds only where it is true",
}


def tables(relation: Relation, unit: AnyUnit) -> str:
    """The two tables that an attacker tries to tell apart."""
    return TABLES[relation] if isinstance(unit, Unit) else _TABLES_OF_UNITS[relation]


def question(relation: Relation, unit: AnyUnit) -> str:
    """What the attacker wants to know."""
    return QUESTION[relation] if isinstance(unit, Unit) else _QUESTION_OF_UNITS[relation]


# Outcomes rarer than this are covered by delta alone, so the worked example leaves them out and says so.
RARE = 0.01
_SUSPICIONS = ((0.5, "an even chance"), (0.1, "1 in 10"), (0.01, "1 in 100"), (0.001, "1 in 1,000"))


@dataclass(frozen=True)
class Odds:
    """A suspicion before the release and the most it can become."""

    before: str
    prior: str
    after: str


@dataclass(frozen=True)
class WorkedOdds:
    """The largest factor on the odds, suspicions before and after, and the best rate of right guesses."""

    factor: str
    rows: tuple[Odds, ...]
    guesses: str


def worked_odds(guarantee: Guarantee, epsilon: float, delta: float) -> WorkedOdds:
    """What an attacker who knows every other record can gain, in odds; every number rounded up.

    For an outcome that happens with probability q or more under the other table, (epsilon, delta) gives
    P(outcome) <= exp(epsilon) Q(outcome) + delta, so the odds grow by exp(epsilon) + delta / q at most. A coin that
    decides between the tables is guessed with probability (1 + delta(0)) / 2 at most, and, by the two errors of
    Kairouz, Oh & Viswanath 2017, Theorem 2.1, with 1 - (1 - delta) / (1 + exp(epsilon)) at most.
    """
    factor = up(_exponential(epsilon) + delta / RARE, 4)
    rows = tuple(Odds(words, f"{100 * prior:g} %", _percent(_after(prior, factor))) for prior, words in _SUSPICIONS)
    by_errors = up(1.0 - (1.0 - delta) / (1.0 + _exponential(epsilon)), 4)
    guesses = min(by_errors, up(0.5 + 0.5 * guarantee.delta(0.0)))
    return WorkedOdds("without limit" if math.isinf(factor) else show_up(factor, 3), rows, _percent(min(1.0, guesses)))


def _exponential(value: float) -> float:
    try:
        return up(math.exp(value), 2)
    except OverflowError:
        return math.inf


def _after(prior: float, factor: float) -> float:
    return 1.0 if math.isinf(factor) else min(1.0, up(prior * factor / (1.0 - prior + prior * factor), 8))


def _percent(share: float) -> str:
    return f"{show_up(100.0 * share, 3)} %"
