"""The page of the bug hunter, bench/pages/hunter.md."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

_INTRODUCTION = """# Bugs found blind

Written by `python bench/hunter.py page`; do not edit. How the hunter is used:
[From a claim to a counterexample](../../docs/tutorials/counterexample.md).

- For each library one file under `bench/claims` says what its functions claim (epsilon, delta, relation, domain),
  and calls them; the same file serves versions with a bug and without. It was committed before the library was
  hunted. What was added or changed after a hunt is marked there, and in the history.
- *Found* means refuted with confidence 99.9 %, joint over all that a hunt tries, in at most 60 s on two cores. The
  machine was shared, and busy: so CPU time is stated, and 60 s on two cores are 120 s of it; the hunts themselves
  were allowed {seconds:g} s of a clock on the wall.
- A *fixed* version is a later release or, where there is none, one line changed at run time
  (`bench/claims/patches.py`).
- A hunt that finds nothing proves nothing.
- {again}
"""
_AGAIN = """The hunter was extended once after a first hunt of all rows: values among outputs of one type, values that
  come up again and again, tables that are read in pieces, and records with one field unlike the others. Rows that it
  had missed were then hunted again, with the same claims and the same seed: dpl-k-means, opacus-fixed-batches and
  sparse-vector-3 (twice)."""
# Only what is known; the figures of the hunt are added to each.
_REASONS = {
    "opacus-batch-divisor": "with one step on everything the same divisor is found (next row)",
    "dpl-objective": "with the scikit-learn of this environment, whose loss is a mean, 0.6.5 adds its noise to the "
    "mean as if it were the sum: n times the noise that is needed, so that accuracy is lost and the claim holds",
    "dpl-regression-centring": "means of X and y and three sums together spend 1.5 of 1, and of these five noised "
    "numbers two leave, as a quotient and a difference",
    "opendp-float-gaussian": "the Gaussian of this release is rounded once, after the sum: of 4,000 answers each for "
    "the sums 0 and 1, 360 and 336 have a bit of 2^-54 or below, where its Laplace mechanism has 1,037 and 0",
    "sparse-vector-3": "an event that refutes it is there and rare: without records and with one of (1, 1, 1, -1), "
    "three refusals and then an answer of at most 1.5 have the rates 0.0130 and 0.0021, epsilon 1.81 by quadrature; "
    "the search does not come upon it",
    "opendp-noisy-max": "this release answers with the frequencies of the exponential mechanism (next row)",
    "opendp-noisy-max-two": "the released 0.15.1 answers (0.73, 0.27) for scores 2 apart, as the exponential "
    "mechanism, for which the map is right; permute-and-flip would answer (0.82, 0.18)",
    "opendp-theil-sen": "not known; the report uses 20 points, tables here have 9 at most",
}


def page(bugs: Sequence[Any], new: Sequence[Any], hunts: list[dict[str, Any]], fixed: list[dict[str, Any]]) -> str:
    """The whole page."""
    by_name = {line["name"]: line for line in hunts}
    seconds = max((line["seconds"] for line in hunts), default=60.0)
    tried = [bug for bug in bugs if bug.name in by_name]
    found = [bug for bug in tried if _is_found(by_name[bug.name]) and not bug.other_leak]
    reports = sorted({bug.published for bug in found})
    lines = [_INTRODUCTION.format(seconds=seconds, again=_AGAIN), _summary(found, tried, reports), ""]
    lines += ["## Published bugs", "", *_table(tried, by_name), ""]
    missed = [bug for bug in tried if bug not in found]
    if missed:
        lines += ["## Not found", "", "| bug | why |", "| --- | --- |"]
        lines += [f"| {bug.name} | {_reason(bug, by_name[bug.name])} |" for bug in missed] + [""]
    lines += ["## Fixed versions", "", *_fixed(fixed), ""]
    fresh = [bug for bug in new if bug.name in by_name]
    if fresh:
        lines += [
            "## Not published before, as far as a search of issue threads shows",
            "",
            *_table(fresh, by_name),
            "",
            *(line for bug in fresh for line in _written_up(bug, by_name[bug.name])),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _summary(found: Sequence[Any], tried: Sequence[Any], reports: Sequence[str]) -> str:
    return (
        f"**{len(found)} of {len(tried)} rows found**, which are {len(reports)} reports or papers counted once each: "
        f"{'; '.join(reports)}."
    )


def _is_found(line: dict[str, Any]) -> bool:
    return bool(line.get("violated")) and line["cpu"] <= 120.0


def _reason(bug: Any, line: dict[str, Any]) -> str:
    if line.get("refused"):
        return f"refused: {line['refused']}"
    if bug.other_leak:
        return f"the claim is refuted by another leak: {bug.other_leak}"
    if line["violated"]:
        return f"refuted, but after {line['cpu']:g} s of CPU time"
    known = _REASONS.get(bug.name, "not known")
    proved = max(line["epsilon"] - 5e-3, 0.0)
    return f"{known}; best event tested: epsilon {proved:.2f} of {line['claimed']:g} claimed, in {line['calls']} calls"


def _table(bugs: Sequence[Any], by_name: dict[str, Any]) -> Iterator[str]:
    yield "| bug | library, version | published | claimed epsilon (delta) | proved | CPU s | verdict | what told |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for bug in bugs:
        line = by_name[bug.name]
        version = line["version"].split(" with ")[0] + (" (other bugs patched)" if " with " in line["version"] else "")
        front = f"| {bug.name}: {bug.words} | {bug.library} {version} | {bug.published}"
        if line.get("refused"):
            yield f"{front} | | | | refused | |"
            continue
        delta = f" ({line['delta']:g})" if line["delta"] else ""
        counts = f"; {line['counts'][0]} and {line['counts'][1]} of {line['counts'][2]}" if line["violated"] else ""
        verdict = "**found**" if _is_found(line) else "not found"
        verdict = f"refuted by another leak: {bug.other_leak}" if bug.other_leak and line["violated"] else verdict
        proved = f"{line['epsilon'] - 5e-3:.2f}" if line["violated"] else ""
        event = _short(line["event"]) + counts
        yield f"{front} | {line['claimed']:g}{delta} | {proved} | {line['cpu']:g} | {verdict} | {event} |"


def _short(event: str) -> str:
    plain = event.replace("|", "/").replace("`", "'").replace("](", "] (")  # no table cells, code or links by accident
    return plain if len(plain) < 110 else plain[:107] + "..."


def _fixed(lines: list[dict[str, Any]]) -> Iterator[str]:
    if not lines:
        yield "No hunts of fixed versions are recorded."
        return
    hunts = [line for line in lines if "violated" in line]
    raised = [line for line in hunts if line["violated"]]
    repeated = [name for name, count in Counter(line["name"] for line in raised).items() if count > 1]
    most = max(line["limit"] for line in hunts)
    calls, tests = (sum(line[what] for line in hunts) for what in ("calls", "tests"))
    yield (
        f"{len(hunts)} hunts of fixed versions (at most {most} calls each, {calls} calls "
        f"and {tests} tests of an event on fresh runs in all, seeds of their own): {len(raised)} alarms, "
        f"{len(repeated)} of them repeating. At 99.9 % one in a thousand is expected at most. More, and longer: "
        "`python bench/hunter.py fixed --runs N --calls C`. Such short hunts seldom find anything: with as many calls "
        "one of seven versions with a bug was refuted (dpl-regression-bounds; not dpl-laplace, dpl-gaussian, "
        "dpl-gaussian-analytic, dpl-wishart-pca, opacus-divisor, opendp-float-laplace), so they say little about hunts "
        "of a minute."
    )
    yield ""
    yield "| bug | fixed version | hunts | calls | tests | alarms |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        grouped[line["name"], line["version"]].append(line)
    for (name, version), group in grouped.items():
        refused = sum("refused" in line for line in group)
        note = f" ({refused} refused)" if refused else ""
        made, tests = (sum(line.get(what, 0) for line in group) for what in ("calls", "tests"))
        alarms = sum(bool(line.get("violated")) for line in group)
        yield f"| {name} | {version} | {len(group)}{note} | {made} | {tests} | {alarms} |"


def _written_up(bug: Any, line: dict[str, Any]) -> Iterator[str]:
    yield f"### {bug.name}"
    yield ""
    yield f"{bug.library} {line['version']}: {bug.words}."
    if line.get("violated"):
        yield ""
        yield f"`bench/claims/{bug.claims}.py`, `{bug.function}`, on these neighbours, {line['counts'][2]} runs each:"
        yield ""
        for table, count in zip(line["tables"], _in_order(line), strict=True):
            yield f"    {table}  # {count}"
        yield ""
        yield f"Event: {_short(line['event'])}. The script: `sordino audit` with `--script`, or:"
        yield ""
        yield f"    python bench/hunter.py hunt --only {bug.name}"
    yield ""


def _in_order(line: dict[str, Any]) -> list[str]:
    counts = [f"{count} times" for count in line["counts"][:2]]
    return counts[::-1] if line.get("likelier") else counts
