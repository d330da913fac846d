"""What an audit proves for its compute, against jax-privacy's auditor: the same scores, the same confidence.

    python bench/audit.py [--full]

One Gaussian release whose epsilon is known (9.997 at delta 1e-5), 1000 models or one run with 1000 canaries, 100 seeds
(bench/peers/audit_task.py). A larger lower bound is better, as long as it holds.
"""

import statistics
from typing import Any

import area
from rounds import OURS, Answers, Contender, in_rounds, versions_in
from rows import Question, Row

PEER = "jax-privacy"
_ABOUT = (
    "One release N(x, 1), x = 0 or 2: epsilon is 9.997 at delta 1e-5. Confidence 95 %, 100 seeds, the same scores for "
    "all; one core"
)
# Name, what it is, our way, and the peer's ways with their names in the table.
COMPARED = (
    (
        "all thresholds",
        "all thresholds at once, 1000 models",
        "all thresholds",
        {PEER: "all thresholds"},
        "Sordino: limits that hold for all thresholds. jax-privacy: Clopper-Pearson with Bonferroni, both sides",
    ),
    (
        "chosen threshold",
        "a threshold chosen by a quarter of 1000 models",
        "chosen threshold",
        {PEER: "chosen threshold"},
        "The other three quarters are counted",
    ),
    (
        "gaussian pair",
        "1000 models, the pair known to be Gaussian",
        "gaussian pair",
        {PEER: "gaussian pair"},
        "Sordino: difference of means, noise of known size. jax-privacy: errors read as a lower bound on mu",
    ),
    (
        "one run",
        "one run with 1000 canaries",
        "one run",
        {PEER: "one run, all thresholds", f"{PEER} (chosen threshold)": "one run"},
        "Any mechanism. Sordino: the number of guesses is planned from the certificate before the run",
    ),
    (
        "one run known noise",
        "one run with 1000 canaries, Gaussian noise of known size",
        "one run, known noise",
        {PEER: "one run, Gaussian"},
        "Sordino: difference of mean scores, equal baselines. jax-privacy has nothing that uses this; its best is here",
    ),
)


def _rows(answers: dict[str, Answers]) -> list[Row]:
    own, other = answers[OURS], answers[PEER]
    reason = own.reason or other.reason
    rows = []
    for name, text, ours, ways, how in COMPARED:
        bound = Question("audit", name, f"lower bound: {text}", "epsilon", f"{_ABOUT}. {how}")
        power = Question(
            "audit",
            f"{name} compute",
            f"lower bound per compute: {text}",
            "epsilon per CPU-second",
            f"{_ABOUT}, models not counted. {how}",
        )
        if reason is not None:
            rows += [asked.missing(peer, reason) for asked in (bound, power) for peer in ways]
            continue
        first, first_seconds = _found(own, ours)
        others = {peer: _found(other, theirs) for peer, theirs in ways.items()}
        rows += [bound.row(peer, first, second) for peer, (second, _) in others.items()]
        rows += [power.row(peer, _per(first, first_seconds), _per(*second)) for peer, second in others.items()]
    return rows


def _found(answers: Answers, way: str) -> tuple[list[float], list[float]]:
    """Bounds, the same in every round, and the median of the rounds' seconds, seed by seed."""
    bounds = [max(bound, 1e-9) for bound in answers.given[0]["bounds"][way]]
    seconds = zip(*(answer["seconds"][way] for answer in answers.given), strict=True)
    return bounds, [statistics.median(taken) for taken in seconds]


def _per(bounds: list[float], seconds: list[float]) -> list[float]:
    return [bound / taken for bound, taken in zip(bounds, seconds, strict=True)]


def measure(full: bool) -> area.Measured:
    answers = in_rounds(
        {OURS: Contender("sordino_audit.py"), PEER: Contender("jax_privacy_audit.py", "jax-privacy")},
        7 if full else 3,
    )
    figures: dict[str, Any] = {
        name: {way: statistics.median(bounds) for way, bounds in found.given[0]["bounds"].items()}
        for name, found in answers.items()
        if found.given
    }
    return area.Measured(_rows(answers), {"median lower bounds": figures}, versions_in(answers))


if __name__ == "__main__":
    area.main("audit", measure, __doc__)
