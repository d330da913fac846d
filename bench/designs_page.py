"""What lines of `bench/design_coverage.py` say of a design, what is recorded of it, and the page of all designs.

`bench/recorded/designs.json` has the rates that the package prints ranges of (`bench/interval_ranges.py`).
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Line = dict[str, Any]
LEVELS = (0.5, 0.9, 0.95)
# A design that holds less than this in its first tables is measured again with new ones, which alone count; and once
# more if it holds less than the second number, with tables for so many intervals: 95 % is then known to about 1 %.
SCREEN, LOW, MANY = 0.945, 0.93, 400
RECORDED = Path(__file__).with_name("recorded") / "designs.json"
PAGE = Path(__file__).with_name("pages") / "designs.md"
ONCE = (
    "Every design has its first tables alone: the lowest rates are partly those of the unluckiest of many small",
    "samples, whose intervals are alike within a table.",
)
AGAIN = (
    "A design that holds less than 94.5 % in its first tables is measured again with more and new",
    "ones, and these alone count; so is one that holds less than 93 % in these. The lowest rate is not the",
    "unluckiest of many small samples.",
)
FEW = 40  # a design with fewer intervals than this says little about its own rate
BUDGETS = ((10, 30), (30, 40), (40, 100), (100, 400), (400, 1600), (1600, float("inf")))


def summary(lines: list[Line], head: Line | None = None) -> dict[str, Any]:
    """A design over all tables of these lines; `head` is the line of its first table."""
    head = lines[0] if head is None else head
    count, tables = sum(line["count"] for line in lines), sum(line["tables"] for line in lines)
    size = sum(line["size"] for line in lines)
    found = {name: head[name] for name in ("seed", "family", "text", "q", "n", "effects") if name in head}
    found |= {
        "told": count / size,
        "coverage": [sum(line["held"][k] for line in lines) / max(count, 1) for k in range(3)],
        "all": [sum(line["all"][k] for line in lines) / size for k in range(3)],
        "count": count,
        "tables": tables,
        "width": float(np.median([one for line in lines for one in line["widths"]])),
        "score": sum(line["score"] for line in lines) / tables,
        "unsettled": max(line["far"] for line in lines),
        "slopes_noise": max(line["slopes_noise"] for line in lines),
    }
    if all("each" in line for line in lines):
        held, told, squares, errors = np.sum([line["each"] for line in lines], axis=0)
        found |= {"each": (held / np.maximum(told, 1)).round(2).tolist()}
        found |= {"z": np.sqrt(squares / tables).round(1).tolist(), "bias": (errors / tables).round(1).tolist()}
    return found | beside_free(lines)


def beside_free(lines: list[Line]) -> dict[str, Any]:
    """The median of widths over those without privacy, of the same rows, and what the latter hold; None if unknown."""
    ratios = [one for line in lines for one in line["ratios"]]
    held, count = np.sum([line["free"] for line in lines], axis=0).tolist()
    return {"ratio": round(float(np.median(ratios)), 3) if ratios else None, "free": [int(held), int(count)]}


def next_block(lines: list[Line], given: argparse.Namespace, stage: int) -> tuple[int, int] | None:
    """First table and number of the tables of a design in a stage; None where there is no such stage."""
    blocks = [(0, given.tables)]
    for tables, enough, limit in ((given.again, 1, SCREEN), (given.most_tables, MANY, LOW))[:stage]:
        own = block_lines(lines, blocks[-1])
        if own is None or "refused" in own[0] or not tables:
            return None
        one = summary(own, own[0])
        if not one["count"] or one["coverage"][2] >= limit:
            return None
        wanted = int(np.ceil(enough * one["tables"] / one["count"]))
        blocks.append((sum(blocks[-1]), min(max(given.again, wanted), tables)))
    return blocks[stage]


def block_lines(lines: list[Line], block: tuple[int, int]) -> list[Line] | None:
    """Lines of these tables, in order; None where some are missing."""
    own = sorted((line for line in lines if block[0] <= line["first"] < sum(block)), key=lambda line: line["first"])
    if own and "refused" in own[0]:
        return own[:1]
    return own if own and sum(line["tables"] for line in own) == block[1] else None


def complete(by_seed: dict[int, list[Line]], given: argparse.Namespace) -> tuple[list[Line], list[Line], int]:
    """Designs all of whose stages are measured, those that are refused, and how many are left."""
    found, refused, left = [], [], 0
    for lines in by_seed.values():
        blocks = [block for stage in range(3) if (block := next_block(lines, given, stage)) is not None]
        own = [block_lines(lines, block) for block in blocks]
        first, last = own[0], own[-1]
        if first is None or last is None:
            left += 1
        elif "refused" in first[0]:
            refused.append({name: first[0][name] for name in ("seed", "family", "q", "n")})
        else:
            found.append(summary(last, first[0]) | beside_free(first))
    return found, refused, left


def record(given: argparse.Namespace, found: list[Line], refused: list[Line], left: int) -> None:
    """Keep the rates that the package prints ranges of, and write the page."""
    command = (
        f"python -m bench.design_coverage --first {given.first} --designs {given.designs} --tables {given.tables} "
        f"--again {given.again} --most-tables {given.most_tables} --most {given.most} --page "
        f"--families {given.families} --out designs.jsonl --record"
    )
    keys = ("seed", "family", "q", "n", "told", "coverage", "count", "tables", "ratio", "free", "text")
    rows = [{key: one[key] for key in keys} for one in found]
    document = {"command": command, "refused": refused, "left": left, "designs": rows}
    RECORDED.write_text(json.dumps(document, indent=0) + "\n")
    PAGE.write_text("\n".join(page(document)) + "\n", "utf-8")


def page(document: dict[str, Any]) -> list[str]:
    """The page: rates by family over all reported intervals, how they spread over designs, widths, and the worst."""
    rows, refused = document["designs"], document["refused"]
    left, enough = document["left"], [one for one in (*rows, *refused) if one["q"] >= 10]
    share = sum(one["q"] >= 10 for one in refused) / max(len(enough), 1)
    large = sorted((one for one in rows if one["count"] >= FEW), key=lambda one: one["coverage"][2])
    return [
        "# Coverage on random designs",
        "",
        "Intervals of coefficients by `bounded-influence` on tables drawn from random hostile designs: zero-inflated,",
        "skew and rare columns, corners of the box, clusters, skew and heavy errors, rare outcomes, effects of up to",
        "five prior standard deviations, units of up to 20 records. Nothing was tuned on these seeds.",
        "",
        f"    {document['command']}",
        "",
        f"Of {len(rows) + len(refused)} designs {len(refused)} are refused before anything is spent: {share:.0%} of",
        f"the {len(enough)} with n mu / p of 10 or more. Counted are intervals that are reported and not marked as",
        "prior-dominated.",
        *(ONCE if "--again 0" in document["command"] else AGAIN),
        f"The last three columns are about designs with {FEW} intervals or more.",
        *([f"Not measured: {left} designs."] if left else []),
        "",
        "| family | designs | intervals | 50 % | 90 % | 95 % | lowest 95 % | below 92 % | below 90 % |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(rates(rows, family) for family in (*sorted({one["family"] for one in rows}), "all")),
        "",
        *spread(large),
        "",
        *widths(rows, refused),
        "",
        f"The ten designs with the lowest coverage at 95 %, of those with {FEW} intervals or more:",
        "",
        "| 95 % | intervals | n mu / p | design |",
        "| ---: | ---: | ---: | --- |",
        *(
            f"| {100 * one['coverage'][2]:.1f} | {one['count']} | {one['q']:.0f} | {one['text'].replace('|', '/')} |"
            for one in large[:10]
        ),
    ]


def rates(rows: list[Line], family: str) -> str:
    """A family's row of the first table."""
    own = [one for one in rows if family in (one["family"], "all") and one["count"]]
    counts = [one["count"] for one in own]
    mean = np.average([one["coverage"] for one in own], axis=0, weights=counts) if own else np.full(3, np.nan)
    large = np.array([one["coverage"][2] for one in own if one["count"] >= FEW])
    below = [f"{np.mean(large < limit):.1%}" if len(large) else "-" for limit in (0.92, 0.9)]
    lowest = f"{100 * large.min():.1f}" if len(large) else "-"
    shown = " | ".join(f"{100 * rate:.1f}" for rate in mean)
    return f"| {family} | {len(own)} | {sum(counts)} | {shown} | {lowest} | {' | '.join(below)} |"


def spread(large: list[Line]) -> list[str]:
    """How many designs hold how often at 95 %."""
    edges = (0.0, 0.9, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 1.01)
    counts = np.histogram([one["coverage"][2] for one in large], edges)[0]
    words = [f"{100 * a:.0f} to {100 * b:.0f}" for a, b in pairwise(edges)]
    head = [f"below {100 * edges[1]:.0f}", *words[1:-1], f"from {100 * edges[-2]:.0f}"]
    return [
        f"How often 95 % intervals hold, in %, over the {len(large)} designs with {FEW} intervals or more:",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join(["---:"] * len(head)) + " |",
        "| " + " | ".join(f"{count}" for count in counts) + " |",
    ]


def widths(rows: list[Line], refused: list[Line]) -> list[str]:
    """Widths of 95 % intervals over those without privacy by n mu / p, family by family."""
    spans = [f"{low:g} to {high:g}" if np.isfinite(high) else f"from {low:g}" for low, high in BUDGETS]
    held, count = np.sum([one["free"] for one in rows], axis=0)
    text = [
        "Widths of 95 % intervals beside those without privacy, by n mu / p: the median over designs of a design's",
        "median over its coefficients and first tables. Without privacy: least squares and Huber's regression with",
        "sandwich errors, maximum likelihood of classes and counts with the same, rows of a person summed, on the same",
        f"rows and for the same coefficients. Of those intervals {100 * held / max(count, 1):.1f} % hold. In brackets:",
        "designs that have such intervals, and those that are refused.",
        "",
        "| family | " + " | ".join(spans) + " |",
        "| --- | " + " | ".join(["---:"] * len(spans)) + " |",
    ]
    for family in (*sorted({one["family"] for one in (*rows, *refused)}), "all"):
        cells = []
        for low, high in BUDGETS:
            own = [one for one in rows if family in (one["family"], "all") and low <= one["q"] < high and one["ratio"]]
            none = sum(family in (one["family"], "all") and low <= one["q"] < high for one in refused)
            middle = f"{np.median([one['ratio'] for one in own]):.2f}" if own else "-"
            cells.append(f"{middle} ({len(own)}, {none})")
        text.append(f"| {family} | " + " | ".join(cells) + " |")
    return text


def print_table(found: list[Line], families: tuple[str, ...]) -> None:
    """Rates of every family by n mu / p, for the terminal."""
    for family in families:
        for low, high in ((0, 40), (40, 100), (100, 400), (400, 1e9), (0, 1e9)):
            own = [one for one in found if one["family"] == family and low <= one["q"] < high]
            if own:
                counts = np.array([one["count"] for one in own])
                mean = 100 * np.average([one["coverage"] for one in own], axis=0, weights=np.maximum(counts, 1e-9))
                every = 100 * np.mean([one["all"] for one in own], axis=0)
                worst = min((one["coverage"][2] for one in own if one["count"] >= 20), default=float("nan"))
                ratios = [one["ratio"] for one in own if one["ratio"]]
                print(
                    f"{family:17s} q {low:4.0f}: {len(own):4d} designs told {np.mean([one['told'] for one in own]):.0%}"
                    f" 50/90/95 hold {mean[0]:.1f} {mean[1]:.1f} {mean[2]:.1f}"
                    f" (all {every[0]:.1f} {every[1]:.1f} {every[2]:.1f}) lowest {worst:.2f}"
                    f" width {np.median([one['width'] for one in own]):.2f}"
                    f" over free {np.median(ratios) if ratios else float('nan'):.2f}"
                )
