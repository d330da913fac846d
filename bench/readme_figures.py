"""The three sentences of figures in the README, made of what the bench recorded; each links to its page."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from bench_page import _number, rows_in
from rows import Row

README = Path(__file__).parents[1] / "README.md"
HEADING = "## Measured"


def sentences(recorded: dict[str, Any]) -> list[str]:
    """Against others, utility, and how cost grows."""
    rows = {row.id: row for row in rows_in(recorded)}
    return [_bench(rows), _utility(rows), _scaling(recorded["scaling"]["figures"])]


def _bench(rows: dict[str, Row]) -> str:
    compared = [row for row in rows.values() if row.ratio is not None]
    counts = Counter(row.ahead if row.ahead in {"Sordino", "even"} else "peer" for row in compared)
    narrow, fit = (_ratio(rows, name) for name in ("accounting-width-1e-3-dp-accounting", "fit-cpu-diffprivlib"))
    return (
        f"- Of {len(compared)} [comparisons with others](bench/pages/bench.md) Sordino is ahead in "
        f"{counts['Sordino']}, level in {counts['even']} and behind in {counts['peer']}: epsilon between ends 0.1 % "
        f"apart takes [1/{narrow} of dp-accounting's time](bench/pages/bench.md#accounting-width-1e-3-dp-accounting), "
        "a private classifier end to end "
        f"[{1 / float(fit):.1f} times diffprivlib's](bench/pages/bench.md#fit-cpu-diffprivlib)."
    )


def _utility(rows: dict[str, Row]) -> str:
    found = [row for row in rows.values() if row.area == "utility" and row.ratio is not None]
    words = Counter(row.ahead if row.ahead in {"Sordino", "even"} else "peer" for row in found)
    one = rows["utility-adult-opacus-add-remove"]
    ours, theirs = (f"{spread.median:.3f}" for spread in (one.ours, one.theirs) if spread is not None)
    return (
        f"- At epsilon 1 a private classifier of Adult has a [log-loss](bench/pages/utility.md) of {ours}, DP-SGD by "
        f"opacus {theirs}; of {len(found)} comparisons of errors Sordino is ahead in {words['Sordino']} and behind in "
        f"{words['peer']}."
    )


def _scaling(figures: dict[str, Any]) -> str:
    axis = "records, full gradients"
    largest = max(figures["seconds"][axis], key=float)
    taken = sorted(figures["seconds"][axis][largest])
    slope = figures["upper exponents"][axis]["slope"]
    return (
        f"- A gradient over {int(float(largest)):,} records of 20 columns takes {taken[len(taken) // 2]:.2g} "
        f"CPU-seconds, and [grows](bench/pages/scaling.md) with the power {slope:.2f} of their number."
    )


def _ratio(rows: dict[str, Row], name: str) -> str:
    ratio = rows[name].ratio
    return "?" if ratio is None else _number(ratio.median).replace(",", "")


def write(recorded: dict[str, Any]) -> None:
    """Put the sentences into the README, where they were; they stay where a figure could not be measured."""
    try:
        made = f"{HEADING}\n\n" + "\n".join(sentences(recorded)) + "\n\n"
    except (KeyError, ValueError) as missing:
        print(f"the README's sentences stay as they are: {missing} was not measured", flush=True)
        return
    text = README.read_text(encoding="utf-8")
    README.write_text(re.sub(rf"^{HEADING}\n.*?(?=^## )", lambda _: made, text, flags=re.M | re.S), encoding="utf-8")
