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
    names = ("accounting-width-1e-3-dp-accounting", "accounting-upper-bound-dp-accounting", "fit-cpu-diffprivlib")
    narrow, above, fit = (_ratio(rows, name) for name in names)
    pages = "bench/pages/bench.md"
    upper, slower = float(above.replace(",", "")), 1 / float(fit.replace(",", ""))
    return (
        f"- **Against others**: [{len(compared)} comparisons]({pages}) cover speed, tightness, error, audits and size "
        f"of installation. Sordino leads in {counts['Sordino']}, ties in {counts['even']} and trails in "
        f"{counts['peer']}. In one of them it computes an upper and a lower bound on epsilon 0.1 % apart "
        f"[{narrow} times]({pages}#{names[0]}) faster than dp-accounting; for an upper bound alone within 0.1 % it is "
        f"[{upper:.1f} times]({pages}#{names[1]}) faster. Fitting a private classifier takes "
        f"[{slower:.1f} times as long]({pages}#{names[2]}) as with diffprivlib, whose guarantee has delta 0."
    )


def _utility(rows: dict[str, Row]) -> str:
    found = [row for row in rows.values() if row.area == "utility" and row.ratio is not None]
    words = Counter(row.ahead if row.ahead in {"Sordino", "even"} else "peer" for row in found)
    one = rows["utility-adult-opacus-add-remove"]
    ours, theirs = (f"{spread.median:.3f}" for spread in (one.ours, one.theirs) if spread is not None)
    return (
        f"- **Prediction**: at epsilon 1 its method `ridge` reaches a [log-loss](bench/pages/utility.md) of {ours} on "
        f"the Adult data; DP-SGD (opacus) reaches {theirs} at the same privacy. {len(found)} of the comparisons above "
        f"are of test errors: Sordino leads in {words['Sordino']} and trails in {words['peer']}."
    )


def _scaling(figures: dict[str, Any]) -> str:
    axis = "records, full gradients"
    largest = max(figures["seconds"][axis], key=float)
    taken = sorted(figures["seconds"][axis][largest])
    slope = figures["upper exponents"][axis]["slope"]
    return (
        f"- **Scale**: a full-batch gradient without clipping, over {int(float(largest)):,} records with 20 columns, "
        f"takes {taken[len(taken) // 2]:.2g} CPU-seconds. The time [grows](bench/pages/scaling.md) like n^{slope:.2f} "
        f"with the number of records n."
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
