"""Writes docs/explanation/soundness.md: for each theorem, quantiles of its bound over the exact value.

`python -m tests.soundness.quantiles --instances 19 --write docs/explanation/soundness.md` writes it. All 55 instances
of every kind take a few hours of one core: `--workers` spreads them over processes.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from tests.soundness.compare import Comparison, compare, epsilons
from tests.soundness.registry import draw, generator_names
from tests.soundness.suite import EVERY_RUN, MANY
from tests.soundness.thresholds import THRESHOLDS, Threshold

LEVELS = (0.0, 0.1, 0.5, 0.9)
# What is compared: the column's title, and the quantity as `compare` names it.
DELTA = 1e-5
MEASURES = {"epsilon at delta 1e-5": f"epsilon({DELTA:g})", "total variation": "delta(0)", "Rényi, order 2": "renyi(2)"}
# Where the exact value is this small nothing is distinguishable, and a ratio says nothing.
_NEGLIGIBLE = 1e-6

_PAGE = """# Soundness of the bounds

Every theorem is compared with runs whose privacy loss is known exactly. This page says how, and how far above the
exact loss each bound is.

**{instances} instances of {generators} kinds, {comparisons} comparisons, {violations} below the truth.**

## How a theorem is tested

The harness in `tests/soundness` draws random runs whose output has a known distribution: affine gradients with Gaussian
noise, and projected chains by quadrature. Each run comes with constants that truly hold. Some of its neighbouring
datasets are random; others are as far apart as the constants allow.

Every theorem that applies to a run states its numbers:

- delta at several epsilons, which includes the total variation;
- epsilon at several deltas;
- Rényi divergences of several orders.

The test fails if one of them is below the exact value by more than one part in 10^9.

## How tight each bound is

A cell shows bound / exact: the smallest ratio, the 10 % quantile, the median and the 90 % quantile. A ratio of 1 means
that the bound is attained. The exact value is the largest among the neighbours drawn. Another pair of datasets may come
closer, so a ratio above 1 overstates how loose the bound is. Ratios with an exact value below 1e-6 are left out.

| theorem | instances | {columns} |
| --- | --- | {rules} |
{rows}

## Sizes

Long runs are computed differently from short ones: by closed forms instead of lists, by groups instead of single steps,
by a window instead of the whole run. For every size at which the computation changes, `tests/soundness/thresholds.py`
has runs below and above that size whose exact loss is known. They include expanding maps and composites. A test finds
sizes that are missing from the table. Beyond a size marked *refused* the theorem gives no number and says why.

These runs are compared in the fast or the slow tests. The counts above do not include them.

| limit | counts | value | runs up to it | runs beyond |
| --- | --- | --- | --- | --- |
{sizes}

## Limits

The comparison covers runs with a known distribution. A theorem that is sound on all of them may still be wrong
elsewhere. The code that makes a release is tested separately, by [audits](auditing.md).

Written by `python -m tests.soundness.quantiles --instances {each} --write docs/explanation/soundness.md`; do not edit.
"""


@dataclass(frozen=True)
class Found:
    """All comparisons of a set of instances, by theorem, one list an instance."""

    generators: int
    instances: int
    by_theorem: dict[str, list[list[Comparison]]]

    @property
    def comparisons(self) -> list[Comparison]:
        """Every comparison."""
        return [one for lists in self.by_theorem.values() for found in lists for one in found]


Job = tuple[str, int]


def compared(job: Job) -> tuple[Job, list[Comparison]]:
    """Every theorem beside the truth of one instance."""
    instance = draw(*job)
    return job, [*compare(instance), *epsilons(instance, DELTA)]


def gather(seeds: Iterable[int], names: Iterable[str] | None = None, workers: int = 1) -> Found:
    """Compare every theorem with the truth on the instances with these numbers, of every generator or the named."""
    chosen, generators = tuple(seeds), generator_names() if names is None else tuple(names)
    wanted = list(product(generators, chosen))
    known = dict(_answers(wanted, workers))
    by_theorem: dict[str, list[list[Comparison]]] = defaultdict(list)
    for job in wanted:
        split: dict[str, list[Comparison]] = defaultdict(list)
        for comparison in known[job]:
            split[comparison.theorem].append(comparison)
        for theorem, found in split.items():
            by_theorem[theorem].append(found)
    return Found(len(generators), len(wanted), dict(by_theorem))


def _answers(jobs: list[Job], workers: int) -> Iterator[tuple[Job, list[Comparison]]]:
    if workers <= 1:
        yield from map(compared, jobs)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from (done.result() for done in as_completed([pool.submit(compared, job) for job in jobs]))


def ratios(lists: list[list[Comparison]], quantity: str) -> np.ndarray:
    """Bound over exact, wherever the exact value is not negligible."""
    kept = [one for found in lists for one in found if one.quantity == quantity and one.exact > _NEGLIGIBLE]
    return np.array([one.bound / one.exact for one in kept if math.isfinite(one.bound)])


def table(found: Found) -> list[list[str]]:
    """A row for each theorem: name, instances, and the quantiles of each measure."""
    return [
        [theorem, str(len(lists)), *(_cell(ratios(lists, quantity)) for quantity in MEASURES.values())]
        for theorem, lists in sorted(found.by_theorem.items())
    ]


def _cell(values: np.ndarray) -> str:
    return ", ".join(_number(value) for value in np.quantile(values, LEVELS)) if len(values) else "-"


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.3g}"


def page(found: Found) -> str:
    """The page of the docs."""
    comparisons = found.comparisons
    return _PAGE.format(
        each=found.instances // max(found.generators, 1),
        instances=found.instances,
        generators=found.generators,
        comparisons=f"{len(comparisons):,}",
        violations=sum(one.violated for one in comparisons) or "none",
        columns=" | ".join(MEASURES),
        rules=" | ".join("---" for _ in MEASURES),
        rows="\n".join("| " + " | ".join([f"`{row[0]}`", *row[1:]]) + " |" for row in table(found)),
        sizes="\n".join(map(_size, THRESHOLDS)),
    )


def _size(threshold: Threshold) -> str:
    """A row of the table of sizes: how many runs there are on either side."""
    value = f"{threshold.value:,.0f}" if threshold.value < 1e8 else f"{threshold.value:.0e}"
    more = "refused" if threshold.refused else str(len(threshold.far))
    return f"| `{threshold.constant}` | {threshold.counts} | {value} | {len(threshold.near)} | {more} |"


def main(arguments: list[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Quantiles of bound over exact for every theorem.")
    parser.add_argument("--write", type=Path, required=True, help="write the page here")
    every = [*EVERY_RUN, *MANY]
    parser.add_argument("--instances", type=int, default=len(EVERY_RUN), help=f"of every kind, up to {len(every)}")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    options.write.write_text(page(gather(every[: options.instances], None, options.workers)), encoding="utf-8")


if __name__ == "__main__":
    main()
