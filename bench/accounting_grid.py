"""Mechanisms and samplers against the accountants of others: who is tighter, by how much, and at what cost.

    python bench/accounting_grid.py [--only WORD] [--json bench/drafts/accounting-grid.json] [--page FILE]

Every cell is one mechanism or sampler with 10^2, 10^4 or 10^6 uses, delta 1e-5; every library answers it in a process
of its own, on one core, and so do we: once for the ends (0.1 % apart at most) and once at the width of the peer's own
ends, for the time. Finished cells are kept in the JSON file, so that a run may be cut short and go on later.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import machine

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import accounting_cells as cells
import environments

PEERS = ("dp-accounting", "jax-privacy", "PLD-accounting")
SECONDS, MEGABYTES = 240.0, 500.0
WIDTH, WIDEST, NARROWEST, NO_LOWER_END = 1e-3, 0.1, 1e-4, 1e-2
OURS = "Sordino"


def asked(library: str, cell: str, steps: int, width: float, seconds: float = SECONDS) -> dict[str, Any]:
    """One answer, or the reason why there is none."""
    python = sys.executable if library == OURS else environments.python_of(library.lower())
    try:
        return environments.on_one_core(
            python, "accounting_cells.py", library, cell, str(steps), str(width), seconds=seconds
        )
    except environments.CouldNotRunError as failure:
        return {"reason": str(failure).removeprefix("accounting_cells.py failed: ")}


def width_of(found: dict[str, Any]) -> float:
    """The relative width that we are asked for: the peer's own, within limits that only help the peer."""
    if found.get("low") is None:
        return NO_LOWER_END
    return min(WIDEST, max(NARROWEST, found["high"] / found["low"] - 1))


def measured(cell: str, steps: int, seconds: float) -> dict[str, Any]:
    """All answers to one cell."""
    answers: dict[str, Any] = {OURS: asked(OURS, cell, steps, WIDTH, seconds)}
    for peer in PEERS:
        if cell in cells.LIBRARIES[peer]:
            found = asked(peer, cell, steps, WIDTH, seconds)
            if found.get("high") is not None:
                found["asked"] = width_of(found)
                found["ours"] = asked(OURS, cell, steps, found["asked"], seconds)
            answers[peer] = found
    return answers


def verdict(answers: dict[str, Any]) -> str:
    """Who is ahead in epsilon: 1 % counts as even."""
    own = answers[OURS].get("high")
    highs = [found["high"] for peer, found in answers.items() if peer != OURS and found.get("high") is not None]
    if own is None:
        return "peer ahead" if highs else "none"
    if not highs:
        return "no peer"
    best = min(highs)
    return "peer ahead" if own > 1.01 * best else "even" if own > 0.99 * best else "ahead"


def below_a_lower_end(answers: dict[str, Any]) -> list[str]:
    """Peers whose lower end our upper end is below: one of the two would be wrong."""
    own = answers[OURS].get("high")
    return [
        peer
        for peer, found in answers.items()
        if peer != OURS and own is not None and found.get("low") is not None and own < found["low"] * (1 - 1e-9)
    ]


def speeds(found: dict[str, Any]) -> Iterator[float]:
    """Ratios of CPU seconds at equal width, one for every peer and cell."""
    for answers in found.values():
        for peer, answer in answers.items():
            own = answer.get("ours", {}) if peer != OURS else {}
            if own.get("seconds"):
                yield answer["seconds"] / own["seconds"]


def memory(found: dict[str, Any]) -> float:
    """The most megabytes that any of our processes took."""
    own = [answers[OURS] for answers in found.values()]
    own += [answer["ours"] for answers in found.values() for answer in answers.values() if "ours" in answer]
    return max(answer.get("megabytes", 0.0) for answer in own)


_TOP = """# Accounting, cell by cell

Written by `python bench/accounting_grid.py`; do not edit. Every mechanism and sampler that Sordino or a peer describes,
used 10^2, 10^4 and 10^6 times with noise that keeps epsilon between about .4 and 16, delta 1e-5.

Peers: {versions}.

- **Sordino**: both ends of epsilon, at most 0.1 % apart where there is a lower end. **peer**: its own ends on its
  default grid (steps of 1e-4; PLD-accounting refines by itself), or its upper end alone.
- **time**: CPU seconds of the peer over ours at the width of the peer's own ends (at least 0.01 %, at most 10 %; 1 %
  where it has no lower end). The first answer of a fresh process, imports not counted, one run.
- **ahead** is decided by upper ends; within 1 % is *even*. "-" is a library that does not describe the cell.
- jax-privacy's events are answered by dp-accounting's accountant, as its documentation does.

"""


_REMARKS = (
    "What the table does not say:",
    "",
    "- A lower end is that of the pair which our theorem dominates the run by; where that pair is not attained",
    "  (truncated Poisson batches under replace-one, with replacement) a peer's upper end may be below it.",
    "- Tree aggregation and repeat-and-select are Rényi formulas at the peer, and looser there; here every theorem is",
    "  tried on a described run, which takes some thousandths of a second more than one formula.",
    "- jax-privacy's Monte-Carlo estimates for matrix mechanisms with balls in bins are not bounds.",
    "  `matrix.allocated` certifies such runs by comparing covariances, and `sordino audit --method drawn`",
    "  simulates the law that it bounds, at a confidence of 95 %. Four epochs of 100 steps with the matrix of",
    "  examples/specs/banded-toeplitz.json: at least .402, certified .495 (replace-one .801 and .923);",
    "  examples/specs/blt-balls-in-bins.json: .800 and 1.325 (1.657 and 2.770). What is lost: rows that places",
    "  share are counted as if all places shared the most that two of them do, or places are told apart until few",
    "  share any; no tractable law between the two is known to be above.",
    "- Banded matrices sampled in groups are Poisson steps, as jax-privacy counts them: `matrix.sampled`.",
    "- Replace-one of random allocation has no peer.",
    "",
)


def ends(found: dict[str, Any]) -> str:
    if found.get("high") is None:
        return found.get("reason", "infinite")
    if found.get("low") is None:
        return f"{found['high']:.5g}"
    return f"{found['low']:.5g} to {found['high']:.5g}"


def row(name: str, answers: dict[str, Any]) -> str:
    shown = []
    for peer in PEERS:
        found = answers.get(peer)
        if found is None:
            shown.append("-")
            continue
        own = found.get("ours", {}).get("seconds")
        times = f"; {found['seconds'] / own:.3g}x" if own else ""
        shown.append(ends(found) + times)
    own = answers[OURS]
    used = f"{own['seconds']:.2g} s, {own['megabytes']:.0f} MB" if "seconds" in own else ""
    return f"| {name} | {ends(own)} | {used} | {' | '.join(shown)} | {verdict(answers)} |"


def page(found: dict[str, Any]) -> str:
    """bench/pages/accounting.md."""
    versions = {
        peer: answers[peer]["version"]
        for answers in found.values()
        for peer in PEERS
        if "version" in answers.get(peer, {})
    }
    verdicts = {name: verdict(answers) for name, answers in found.items()}
    ratios = sorted(speeds(found))
    wrong = [f"{name} ({', '.join(peers)})" for name in found if (peers := below_a_lower_end(found[name]))]
    behind = [name for name, word in verdicts.items() if word == "peer ahead"]
    counted = ", ".join(
        f"{list(verdicts.values()).count(word)} {word}" for word in ("ahead", "even", "peer ahead", "no peer", "none")
    )
    lines = [
        _TOP.format(versions=", ".join(f"{peer} {number}" for peer, number in versions.items())),
        f"{len(found)} cells: {counted}.",
        f"Cells where a peer is ahead: {'; '.join(behind) if behind else 'none'}.",
        f"Cells where our upper end is below a peer's lower end: {'; '.join(wrong) if wrong else 'none'}.",
        f"Time at equal width, {len(ratios)} comparisons: median {statistics.median(ratios):.3g} times as fast, "
        f"quartiles {ratios[len(ratios) // 4]:.3g} and {ratios[3 * len(ratios) // 4]:.3g}, least {ratios[0]:.3g}.",
        f"Most memory of our processes: {memory(found):.0f} MB, of {MEGABYTES:.0f} allowed.",
        "",
        *_REMARKS,
        f"| cell | Sordino | cost | {' | '.join(PEERS)} | Sordino is |",
        f"| {' | '.join(['---'] * (4 + len(PEERS)))} |",
        *(row(name, answers) for name, answers in found.items()),
        "",
        f"Machine: {json.dumps(machine(), sort_keys=True)}",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="cells whose name holds this word are measured again")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("drafts") / "accounting-grid.json")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="wall time that one answer may take")
    given = parser.parse_args()
    found = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else {}
    named = dict.fromkeys(cell for library in cells.LIBRARIES.values() for cell in library)
    for steps in cells.STEPS:
        for cell in named:
            name = f"{cell}, {steps:.0e}".replace("e+0", "e")
            if name in found and not (given.only and given.only in name):
                continue
            if given.only and given.only not in name:
                continue
            found[name] = measured(cell, steps, given.seconds)
            print(row(name, found[name]), flush=True)
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if given.page:
        order = {cell: place for place, cell in enumerate(named)}
        listed = sorted(
            found, key=lambda name: (order.get(name.rsplit(", ", 1)[0], 99), float(name.rsplit(", ", 1)[1]))
        )
        given.page.write_text(page({name: found[name] for name in listed}), encoding="utf-8")
    if found and not memory(found) <= MEGABYTES:
        sys.exit(f"a process of ours took {memory(found):.0f} MB, more than {MEGABYTES:.0f}")
    if any(math.isnan(ratio) for ratio in speeds(found)):
        sys.exit("a time is not a number")


if __name__ == "__main__":
    main()
