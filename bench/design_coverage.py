"""How often intervals hold on random hostile designs (`bench/designs.py`), and how wide they are.

    python -m bench.design_coverage --first 0 --designs 200 --tables 12 --out designs.jsonl --cores 16 --seconds 540

A design is answered where its budget is not refused; coefficients that are not prior-dominated are counted. Lines of
JSON, each for some tables of a design, are added to `--out` as they come; the same command goes on where the file ends.
Ranges of seeds may be measured apart: `--also` reads more such files, and `--record` writes the page of all of them.
Noise is normal as NumPy draws it: the law of the exact noise of a fit, but for its rounding, in a part of the time.
Seeds from 1,000,000 on are for the page and need `--page`.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.designs import PRIOR, RESERVED, TIME_EDGES, Design, Table, design
from bench.designs_page import LEVELS, Line, complete, next_block, print_table, record, summary
from bench.drawn_tables import with_plain_noise
from bench.free_intervals import free
from bench.many_cores import kept, measure, options
from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Plan, Posterior, person_bins, plan, posterior, release, with_bins
from sordino.mechanisms.regression.plan import LEAST_BUDGET, expected
from sordino.mechanisms.regression.posterior import OPEN_SLOPES
from sordino.noise.randomness import SeededRandomness

FREE_TABLES = 6  # so many of every design are fitted without privacy too: a median of widths needs no more
PART = 400_000  # rows: so many are one part, that none takes long


class Asked(NamedTuple):
    """How designs are made of seeds; see `main`."""

    families: tuple[str, ...]
    most: int
    effects: float | None = None
    units: int | None = None

    def design(self, seed: int) -> Design:
        """The seed's design; survival has one record for each unit."""
        made = design(seed, self.families, self.most)
        if self.effects is not None:
            made = dataclasses.replace(made, effects=min(made.effects, self.effects))
        if self.units is not None or made.family == "cox":
            made = dataclasses.replace(made, most_records=min(made.most_records, self.units or 1))
        return made


class Part(NamedTuple):
    """Some tables of a seed's design."""

    asked: Asked
    seed: int
    first: int
    tables: int
    details: bool


class Rows(NamedTuple):
    """A table as it is fitted, with its plan: rows of survival are cut into time bins."""

    plan: Plan
    X: Any
    y: Any
    exposure: Any
    unit: Any


def fitted_rows(made: Design, table: Table) -> Rows:
    declared = Declaration(
        tuple(table.low),
        tuple(table.high),
        table.kinds,
        table.groups,
        target=table.target,
        classes=table.classes,
        exposure=None if table.exposure is None else (0.5, 2.0),
        unit=table.unit is not None,
        most_records=made.most_records,
    )
    given = (table.X, table.y, table.exposure, table.unit)
    if made.family == "cox":
        declared = with_bins(dataclasses.replace(declared, unit=False, most_records=1), TIME_EDGES)
        time_seen: Any = table.time
        cut = person_bins(table.X, time_seen, table.y, TIME_EDGES)
        given = (cut.X, cut.y, cut.exposure, cut.unit)
    planned = plan(made.family, declared, made.units, Relation(made.relation), made.epsilon, made.delta)
    return Rows(planned, *given)


def fitted(rows: Rows, seed: int) -> Posterior:
    found = release(rows.plan, rows.X, rows.y, SeededRandomness(seed), exposure=rows.exposure, unit=rows.unit)
    return posterior(rows.plan, found)


def reported(law: Posterior) -> np.ndarray:
    """Coefficients whose intervals a release reports and does not mark as prior-dominated."""
    return ~law.prior_dominated & (law.plan.budget >= LEAST_BUDGET and law.slopes_noise <= OPEN_SLOPES)


def measured(made: Design, first: int, tables: int, details: bool = True) -> Line:
    """Sums over some tables of a design, from the first on; a design that is refused says so."""
    line: Line = {"seed": made.seed, "first": first, "tables": tables}
    held, counted, errors, widths, scores, ratios, freely = [], [], [], [], [], [], []
    begun, law = time.process_time(), None
    for repetition in range(first, first + tables):
        table = made.table(repetition)
        rows = fitted_rows(made, table)
        if repetition == 0:
            line |= {"family": made.family, "q": round(rows.plan.budget, 2), "n": made.units, "text": str(made)}
            line |= {"effects": made.effects}
        if expected(rows.plan).refused:
            return line | {"refused": True}
        law = fitted(rows, made.seed * 1000 + repetition)
        own = slice(rows.plan.outputs, len(table.truth))
        truth, ends = table.truth[own], [law.interval(level)[own] for level in LEVELS]
        held.append([(low <= truth) & (truth <= high) for low, high in (one.T for one in ends)])
        counted.append(reported(law)[own])
        errors.append((law.mean[own] - truth) / law.deviation[own])
        low, high = ends[2].T
        widths.append(float(np.median(high - low)) / rows.plan.kind.effect_scale)
        scores.append(float(np.mean(high - low + 40 * (np.maximum(low - truth, 0) + np.maximum(truth - high, 0)))))
        if repetition < FREE_TABLES and counted[-1].any():
            middle, width = without_privacy(made, table, rows, own)
            both = counted[-1] & np.isfinite(width)
            if both.any():
                ratios.append(float(np.median(((high - low) / width)[both])))
                freely += list((np.abs(middle - truth) <= width / 2)[both])
    told, law_errors = np.array(counted), np.array(errors)
    line |= {
        "size": told.size,
        "count": int(told.sum()),
        "held": (np.array(held) & told[:, None]).sum((0, 2)).tolist(),
        "all": np.array(held).sum((0, 2)).tolist(),
        "widths": np.round(widths, 4).tolist(),
        "score": round(float(np.sum(scores)), 5),
        "ratios": np.round(ratios, 3).tolist(),
        "free": [int(np.sum(freely)), len(freely)],
        "far": round(law.far, 3) if law else 0.0,
        "slopes_noise": round(law.slopes_noise, 3) if law else 0.0,
        "seconds": round(time.process_time() - begun, 2),
    }
    if details:
        each = (np.array(held)[:, 2] & told).sum(0), told.sum(0), (law_errors**2).sum(0), law_errors.sum(0)
        line |= {"each": np.round(each, 1).tolist()}
    return line


def without_privacy(made: Design, table: Table, rows: Rows, own: slice) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and widths of 95 % intervals of the same rows without privacy; the search begins at the truth."""
    start = np.concatenate([table.truth, np.zeros(rows.plan.coefficients - len(table.truth))])
    scale = PRIOR.get(made.family, 1.0)
    found = free(made.family, rows.X, rows.y, start, scale, rows.exposure, rows.unit, table.classes)
    return found.mean[own], found.width[own]


def judged(made: Design, tables: int, first: int = 0) -> dict[str, Any] | None:
    """Coverage of a design over some tables from the first on; None if it is refused."""
    line = measured(made, first, tables)
    return None if "refused" in line else summary([line])


def part(given: Part) -> Line:
    """What a process of many does."""
    return measured(given.asked.design(given.seed), given.first, given.tables, given.details)


def waiting(lines: list[Line], asked: Asked, given: argparse.Namespace, stage: int) -> list[Part]:
    """Parts of a stage that no line has yet: first tables of every design, then new ones of those that seem low."""
    found, done = [], {(line["seed"], line["first"]) for line in lines}
    by_seed = grouped(lines, given)
    for seed, own in by_seed.items():
        block = next_block(own, given, stage)
        if block is None:
            continue
        made = asked.design(seed)
        records = made.units * (1 + made.most_records) / 2 * (4 if made.family == "cox" else 1)
        size = int(np.clip(PART // records, 1, 12))
        for first in range(block[0], block[0] + block[1], size):
            if (seed, first) not in done:
                tables = min(size, block[0] + block[1] - first)
                found.append(Part(asked, seed, first, tables, not given.page))
    return found


def grouped(lines: list[Line], given: argparse.Namespace) -> dict[int, list[Line]]:
    """Lines of every seed that was asked for, in order."""
    found: dict[int, list[Line]] = {seed: [] for seed in range(given.first, given.first + given.designs)}
    for line in lines:
        if line["seed"] in found:
            found[line["seed"]].append(line)
    return found


def main() -> None:
    parser = options(__doc__, 1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--designs", type=int, default=100)
    again = "new tables of designs that hold less than 94.5 %% at first"
    parser.add_argument("--again", type=int, default=0, help=again)
    most = "as above, at most, of designs that hold less than 93 %% then"
    parser.add_argument("--most-tables", type=int, default=0, help=most)
    parser.add_argument("--most", type=int, default=100_000, help="units of a design")
    parser.add_argument("--families", default="linear,robust,logistic,poisson")
    parser.add_argument("--effects", type=float, default=None, help="no larger effects than this")
    parser.add_argument("--units", type=int, default=None, help="no more records a unit than this")
    parser.add_argument("--worst", type=int, default=12)
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="files of other ranges of seeds")
    parser.add_argument("--record", action="store_true", help="write bench/recorded/designs.json and its page")
    given = parser.parse_args()
    if given.first + given.designs > RESERVED and not given.page:
        raise SystemExit("Seeds from 1,000,000 on are reserved for the page.")
    asked = Asked(tuple(given.families.split(",")), given.most, given.effects, given.units)
    begun = time.monotonic()
    lines = [line for path in (given.out, *given.also) for line in kept(path)]
    for stage in range(3):
        tasks = waiting(lines, asked, given, stage)
        if tasks and time.monotonic() < begun + given.seconds:
            lines += measure(part, tasks, given.out, given.cores, begun + given.seconds, with_plain_noise)
    found, refused, left = complete(grouped(lines, given), given)
    if given.record:
        record(given, found, refused, left)
    for one in sorted((one for one in found if one["count"]), key=lambda one: one["coverage"][2])[: given.worst]:
        print(f"{one['coverage'][2]:.2f} of {one['count']} q={one['q']:.0f} width {one['width']:.2g} {one['text']}")
        if "each" in one:
            print(f"     each {one['each']} z {one['z']} bias {one['bias']} unsettled {one['unsettled']}")
    print(f"{len(refused)} of {given.designs} refused, {left} not measured; {time.monotonic() - begun:.0f} s,")
    print(f"{sum(line.get('seconds', 0.0) for line in lines):.0f} s of processor time")
    print_table(found, asked.families)


if __name__ == "__main__":
    main()
