"""The page of the bench, bench/pages/bench.md: a summary, and an anchor for every row."""

from collections.abc import Iterator
from typing import Any

from rows import Row, Spread

TITLES = {
    "accounting": "Accounting",
    "chains": "Chains",
    "fleet": "Fleets",
    "message_passing": "Message passing and variational inference",
    "utility": "Utility at equal privacy",
    "audit": "Audit power",
    "fit": "End to end",
    "noise": "Exact noise",
    "install": "Import and installation",
    "operations": "Operations",
    "scaling": "Scaling",
}
_INTRODUCTION = """# Measured against others

Written by `make bench`; do not edit. The figures as JSON are in [recorded/areas](../recorded/areas), how cost grows
is on the page [Scaling](scaling.md).

- Everyone answers the same question on the same machine in the same run, in turns, each library in an environment of
  its own with its usual settings. A figure is a median, with quartiles over repetitions in brackets.
- Time is CPU time of one core where it says CPU, because a shared machine stretches wall time but hardly CPU time.
- **ratio** is taken repetition by repetition; above 1 Sordino is ahead, below 1 the peer is. **ahead** is decided by
  the quartiles of the ratio: *even* when one of them is within 2 % of 1, or on the other side of it (within 0.5 % for
  errors of predictions, 0.2 % for accuracies, 0.05 % for upper bounds).
- A peer that could not be run has a row that says why.
- *recorded* rows were measured once, in an earlier run or, on a GPU, on another machine.
- Sordino's chains and rounds (variational, messages) add up whole numbers, so that sums are exact whatever the order of
  the records, and draw exact noise where a row says private; the peers' sums and noise are in single precision.
"""
SUMMARY = "## In short"
_SUMMARY = """\
Ratios above 1: Sordino is ahead by that factor; below 1: the peer is. Every ratio leads to its row with figures,
quartiles and how it was measured.

| what | ratio to | ahead |
| --- | --- | --- |
"""


def rows_in(recorded: dict[str, Any]) -> list[Row]:
    """Every row that was recorded, areas in the order of the page."""
    ordered = [name for name in TITLES if name in recorded]
    return [Row.from_dict(row) for name in ordered for row in recorded[name]["rows"]]


def page(recorded: dict[str, Any]) -> str:
    """bench/pages/bench.md."""
    lines = [_INTRODUCTION, *_machine(recorded), SUMMARY, "", _SUMMARY + summary_table(recorded), ""]
    for name in (name for name in TITLES if name in recorded):
        rows = [Row.from_dict(row) for row in recorded[name]["rows"]]
        promises = recorded[name]["figures"].get("targets", [])
        if not rows and not promises:
            continue
        lines += [f"## {TITLES[name]}", "", *_table(rows), *_promises(promises)]
    lines += ["## Every row", ""]
    lines += [line for row in rows_in(recorded) for line in _details(row)]
    lines += ["## Versions", "", *_versions(recorded)]
    return "\n".join(lines).rstrip() + "\n"


def summary_table(recorded: dict[str, Any]) -> str:
    """One line for each question, the peers side by side, whoever is ahead."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows_in(recorded):
        groups.setdefault((row.area, row.question, row.unit), []).append(row)
    lines = []
    for rows in groups.values():
        ratios = "; ".join(f"{row.peer} {_linked(row)}" for row in rows)
        kept = ", recorded" if any(row.recorded for row in rows) else ""
        lines.append(f"| {rows[0].question} ({rows[0].unit}{kept}) | {ratios} | {_ahead(rows)} |")
    return "\n".join(lines)


def _linked(row: Row) -> str:
    shown = "could not be run" if row.ratio is None else _number(row.ratio.median)
    return f"[{shown}](#{row.id})"


def _ahead(rows: list[Row]) -> str:
    """One word where all rows agree, otherwise the peers by name and who is ahead of the others."""
    words = {row.ahead for row in rows}
    if len(words) == 1:
        return words.pop()
    neither = {"even", "could not be run"}
    peers = [row.peer for row in rows if row.ahead == row.peer]
    others = [f"{word}: {', '.join(row.peer for row in rows if row.ahead == word)}" for word in neither & words]
    return "; ".join([*peers, *sorted(others), *(["otherwise Sordino"] if "Sordino" in words else [])])


def _table(rows: list[Row]) -> Iterator[str]:
    if not rows:
        return
    yield "| what | unit | Sordino | peer | its figure | ratio | ahead |"
    yield "| --- | --- | ---: | --- | ---: | ---: | --- |"
    for row in rows:
        where = f"[{row.question}](#{row.id})" + (" *recorded*" if row.recorded else "")
        if row.ratio is None:
            yield f"| {where} | {row.unit} | - | {row.peer} | - | - | could not be run: {_cell(row.reason)} |"
        else:
            figures = (_spread(row.ours), row.peer, _spread(row.theirs), _spread(row.ratio))
            yield f"| {where} | {row.unit} | {' | '.join(figures)} | {row.ahead} |"
    yield ""


def _promises(targets: list[dict[str, Any]]) -> Iterator[str]:
    if not targets:
        return
    yield "| of Sordino alone | measured | promised | kept |"
    yield "| --- | ---: | ---: | --- |"
    for target in targets:
        wanted = target["wanted"]
        promised = "-" if wanted is None else f"{'at least' if target['at_least'] else 'at most'} {wanted:g}"
        kept = {True: "yes", False: "no", None: "-"}[target["met"]]
        yield f"| {target['name']} | {_number(target['ratio'])} | {promised} | {kept} |"
    yield ""


def _details(row: Row) -> Iterator[str]:
    yield f"### {row.id}"
    yield ""
    yield f"{row.question}, in {row.unit}, against {row.peer}."
    yield ""
    if row.ratio is None:
        yield f"- Could not be run: {row.reason}"
    else:
        yield f"- Sordino: {_spread(row.ours)}; {row.peer}: {_spread(row.theirs)}; {_repeated(row.ratio)}"
        yield f"- ratio: {_spread(row.ratio)}; ahead: {row.ahead}" + (" (recorded)" if row.recorded else "")
    yield f"- {row.how}." if row.how else "- No more is known."
    yield ""


def _repeated(spread: Spread) -> str:
    return "one repetition" if spread.repetitions == 1 else f"{spread.repetitions} repetitions"


def _machine(recorded: dict[str, Any]) -> Iterator[str]:
    known = [found for found in recorded.values() if found["machine"]]
    if known:
        machine = known[0]["machine"]
        loads = [found["machine"]["load"] for found in known]
        yield f"Code of commit {' and '.join(f'`{code}`' for code in codes(recorded))}."
        yield ""
        yield (
            f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB of memory, "
            f"{machine['system']}, Python {machine['python']}; load between {min(loads):g} and {max(loads):g} when an "
            f"area began; {sum(found['seconds'] for found in recorded.values()) / 60:.0f} minutes in all."
        )
        yield ""


def codes(recorded: dict[str, Any]) -> list[str]:
    """The commits whose code was measured: one, unless areas were measured at different times."""
    return sorted({found.get("code", "unknown") for found in recorded.values()})


def _versions(recorded: dict[str, Any]) -> Iterator[str]:
    found: dict[str, dict[str, str]] = {}
    for area in recorded.values():
        for name, versions in area["versions"].items():
            found.setdefault(name.lower(), {}).update(versions)
    yield "| environment | versions |"
    yield "| --- | --- |"
    for name, versions in sorted(found.items()):
        yield f"| {name} | {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))} |"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.repetitions == 1:
        return _number(spread.median)
    return f"{_number(spread.median)} ({_number(spread.low)} to {_number(spread.high)})"


def _number(value: float) -> str:
    """Three digits, four close to one, or as many as a count has."""
    if 0.9 <= abs(value) < 1.1:
        return f"{value:.4g}"
    if abs(value) >= 999_500:
        return f"{value / 1e6:.3g} million"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "/").replace("\n", " ")
