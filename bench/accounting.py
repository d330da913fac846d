"""Accounting against other accountants: how fast at equal width, how tight, and how risk is read off.

    python bench/accounting.py [--full]

Everyone answers the same question, epsilon of the Poisson-sampled Gaussian (rate 0.01, multiplier 1, 1000 steps, delta
1e-5), on one core. `--full` adds the stated limits on runs of 10^6 steps and how much of each is used.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import area
from rounds import OURS, Answers, Contender, in_rounds, versions_in
from rows import Question, Row

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import golden
import limits

SECONDS = "CPU seconds"
_ABOUT = "1000 steps, rate 0.01, multiplier 1, delta 1e-5; one core"


def _speed(name: str, text: str, how: str = "") -> Question:
    return Question("accounting", name, text, SECONDS, f"{_ABOUT}. {how}".strip(), more_is_better=False)


def _tight(name: str, text: str, unit: str, how: str) -> Question:
    return Question("accounting", name, text, unit, f"{_ABOUT}. {how}", more_is_better=False, even=5e-4)


_BOTH_SIDES = "Sordino bounds the removal direction, which dominates; dp-accounting computes both directions"
QUESTIONS = {
    f"bracket {golden.WIDE}": _speed("width 1e-2", "epsilon between two ends 1 % apart", _BOTH_SIDES),
    f"bracket {golden.NARROW}": _speed("width 1e-3", "epsilon between two ends 0.1 % apart", _BOTH_SIDES),
    "upper": _speed(
        "upper bound",
        "an upper bound within 0.1 % of epsilon",
        f"dp-accounting on the coarsest grid that reaches it; Sordino gives a lower end as well. {_BOTH_SIDES}",
    ),
}
RENYI = _speed(
    "renyi speed",
    "any upper bound on epsilon, in the least time",
    "The peers' Rényi accountants, which are looser (next rows); Sordino's bracket of 0.1 %",
)
RENYI_TIGHT = _tight(
    "renyi tightness", "epsilon from Rényi curves against the bracket", "epsilon", "Upper ends; smaller is tighter"
)
ADVANTAGE = _speed("advantage speed", "advantage of the best attack", "riskcal on its default grid")
ADVANTAGE_TIGHT = _tight(
    "advantage tightness", "advantage of the best attack", "advantage", "Upper bounds; Sordino's bracket is 0.1 % wide"
)

CONVERTED = Question(
    "accounting",
    "converted",
    "advantage of the best attack, from (epsilon, delta) alone",
    "advantage",
    "epsilon 1, delta 1e-5 and nothing else known: both give the largest advantage that is possible",
    more_is_better=False,
    even=5e-4,
)


def _rows(question: Question, answers: dict[str, Answers], ours: str, theirs: str, key: str) -> list[Row]:
    own = answers[OURS]
    rows = []
    for peer, found in answers.items():
        reason = own.reason or found.reason
        if peer == OURS:
            continue
        if reason is not None:
            rows.append(question.missing(peer, reason))
        elif theirs in found.given[0]["found"]:
            pairs = zip(own.given, found.given, strict=True)
            mine, other = zip(*((a["found"][ours][key], b["found"][theirs][key]) for a, b in pairs), strict=True)
            rows.append(question.row(peer, mine, other))
    return rows


def measure(full: bool) -> area.Measured:
    rounds = 7 if full else 5
    quick = in_rounds(
        {
            OURS: Contender(
                "sordino_accounting.py", None, (f"bracket {golden.WIDE}", "upper", "advantage", "converted")
            ),
            "dp-accounting": Contender(
                "google_accounting.py", "dp-accounting", (f"bracket {golden.WIDE}=1", "upper", "renyi")
            ),
            "prv-accountant": Contender("prv_accounting.py", "prv-accountant", (f"bracket {golden.WIDE}=3",)),
            "autodp": Contender("autodp_accounting.py", "autodp", ("renyi",)),
            "riskcal": Contender("riskcal_accounting.py", "riskcal", ("advantage", "converted")),
        },
        rounds,
    )
    slow = in_rounds(
        {
            OURS: Contender("sordino_accounting.py", None, (f"bracket {golden.NARROW}",)),
            "dp-accounting": Contender("google_accounting.py", "dp-accounting", (f"bracket {golden.NARROW}=1",)),
            "prv-accountant": Contender("prv_accounting.py", "prv-accountant", (f"bracket {golden.NARROW}=1",)),
        },
        5 if full else 3,
    )
    brackets = [(answers, name) for answers in (quick, slow) for name in QUESTIONS]
    rows = [row for answers, name in brackets for row in _asked(answers, name)]
    rows += _rows(RENYI, quick, "upper", "renyi", "seconds")
    rows += _rows(RENYI_TIGHT, quick, "upper", "renyi", "high")
    rows += _rows(ADVANTAGE, quick, "advantage", "advantage", "seconds")
    rows += _rows(ADVANTAGE_TIGHT, quick, "advantage", "advantage", "high")
    rows += _rows(CONVERTED, quick, "converted", "converted", "high")
    figures: dict[str, Any] = {
        "answers": {peer: found.given[0]["found"] for peer, found in quick.items() if found.given},
        "narrow answers": {peer: found.given[0]["found"] for peer, found in slow.items() if found.given},
    }
    if full:
        figures["targets"] = [_kept(row) for row in _limits()]
    return area.Measured(rows, figures, versions_in(quick))


def _limits() -> list[dict[str, Any]]:
    try:
        return limits.measure()
    except subprocess.CalledProcessError as failure:
        print(f"  limits could not be measured: {failure}", flush=True)
        return []


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    name = f"10^6 steps, {row['name']}: share of {row['limit']:g} {row['unit']}"
    return {"name": name, "ratio": row["ratio"], "wanted": 1.0, "at_least": False, "met": row["ratio"] <= 1.0}


def _asked(answers: dict[str, Answers], name: str) -> list[Row]:
    own = answers[OURS]
    if own.given and name not in own.given[0]["found"]:
        return []
    return _rows(QUESTIONS[name], answers, name, name, "seconds")


if __name__ == "__main__":
    area.main("accounting", measure, __doc__)
