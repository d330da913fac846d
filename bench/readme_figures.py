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
    pages = "bench/pages/bench.md"
    slower = 1 / float(fit.replace(",", ""))
    return (
        f"- **Against others**: of {len(compared)} [comparisons]({pages}) Sordino leads in {counts['Sordino']}, ties "
        f"in {counts['even']} and trails in {counts['peer']}. It bounds epsilon from both sides to within 0.1 %, "
        f"[{narrow} times]({pages}#accounting-width-1e-3-dp-accounting) faster than dp-accounting. Fitting a private "
        f"classifier takes [{slower:.1f} times as long]({pages}#fit-cpu-diffprivlib) as with diffprivlib."
    )


def _utility(rows: dict[str, Row]) -> str:
    found = [row for row in rows.values() if row.area == "utility" and row.ratio is not None]
    words = Counter(row.ahead if row.ahead in {"Sordino", "even"} else "peer" for row in found)
    one = rows["utility-adult-opacus-add-remove"]
    ours, theirs = (f"{spread.median:.3f}" for spread in (one.ours, one.theirs) if spread is not None)
    return (
        f"- **Prediction**: at epsilon 1 its classifier reaches a [log-loss](bench/pages/utility.md) of {ours} on the "
        f"Adult data; DP-SGD (opacus) reaches {theirs} at the same privacy. Of {len(found)} comparisons of test error "
        f"it leads in {words['Sordino']} and trails in {words['peer']}."
    )


def _scaling(figures: dict[str, Any]) -> str:
    axis = "records, full gradients"
    largest = max(figures["seconds"][axis], key=float)
    taken = sorted(figures["seconds"][axis][largest])
    slope = figures["upper exponents"][axis]["slope"]
    return (
        f"- **Scale**: an exact gradient over {int(float(largest)):,} records with 20 columns takes "
        f"{taken[len(taken) // 2]:.2g} CPU-seconds. The time [grows](bench/pages/scaling.md) like n^{slope:.2f} with "
        f"the number of records n."
    )


def _ratio(rows: dict[str, Row], name: str) -> str:
    ratio = rows[name].ratio
    return "?" if ratio is None else _number(ratio.median)


def write(recorded: dict[str, Any]) -> None:
    """Put the sentences into the README, where they were; they stay where a figure could not be measured."""
    try:
        made = f"{HEADING}\n\n" + "\n".join(sentences(recorded)) + "\n\n"
    except (KeyError, ValueError) as missing:
        print(f"the README's sentences stay as they are: {missing} was not measured", flush=True)
        return
    text = README.read_text(encoding="utf-8")
    README.write_text(re.sub(rf"^{HEADING}\n.*?(?=^## )", lambda _: made, text, flags=re.M | re.S), encoding="utf-8")
