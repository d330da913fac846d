"""Rounds in which everyone answers in turn, each in a process of its own on one core."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rows import Question, Row

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

OURS = "Sordino"


class Contender(NamedTuple):
    """A script of bench/peers and the environment it runs in; none is the environment of this process."""

    script: str
    environment: str | None = None
    arguments: tuple[str, ...] = ()


class Answers(NamedTuple):
    """What a contender answered, round by round, or why it did not."""

    given: tuple[dict[str, Any], ...]
    reason: str | None = None


def in_rounds(contenders: dict[str, Contender], rounds: int, seconds: float = 300.0) -> dict[str, Answers]:
    """Everyone in turn, `rounds` times; whoever fails once is left out from then on, with the reason."""
    given: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    reasons: dict[str, str] = {}
    for _ in range(environments.rounds_of(rounds)):
        for name, contender in contenders.items():
            if name in reasons:
                continue
            try:
                python = environments.python_of(contender.environment) if contender.environment else sys.executable
                answer = environments.on_one_core(python, contender.script, *contender.arguments, seconds=seconds)
            except environments.CouldNotRunError as failure:
                reasons[name] = str(failure)
            else:
                given[name].append(answer)
    return {name: Answers(tuple(given[name]), reasons.get(name)) for name in contenders}


def best_way(answers: Answers) -> str:
    """The fastest of the ways a contender offers, by the median of its rates."""
    ways = answers.given[0]["rates"]
    return max(ways, key=lambda way: sorted(answer["rates"][way] for answer in answers.given)[len(answers.given) // 2])


def rate_rows(
    question: Question,
    answers: dict[str, Answers],
    ours: Callable[[dict[str, Any]], float],
    ways: Mapping[str, Sequence[str]] | None = None,
) -> list[Row]:
    """A row for each peer: our rate against its fastest way, or against each way of its that `ways` names."""
    own = answers[OURS]
    rows = []
    for peer, found in answers.items():
        if peer == OURS:
            continue
        reason = own.reason or found.reason
        if reason is not None:
            rows.append(question.missing(peer, reason))
            continue
        for way in (ways or {}).get(peer, (best_way(found),)):
            label = peer if (ways or {}).get(peer) is None else f"{peer} ({way})"
            rates = [answer["rates"][way] for answer in found.given]
            rows.append(question.row(label, [ours(answer) for answer in own.given], rates))
    return rows


def versions_in(answers: dict[str, Answers]) -> dict[str, dict[str, str]]:
    """The versions that scripts report."""
    return {name: found.given[0].get("versions", {}) for name, found in answers.items() if found.given}
