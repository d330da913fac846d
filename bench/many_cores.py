"""Parts of a measurement on many cores: lines of JSON as they come, and none is begun after the time is over."""

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

# One thread a process, and no memory handed back between tables.
_OWN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
_OWN |= {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


def options(words: str | None, tables: int) -> argparse.ArgumentParser:
    """What every measurement of cells is asked with; `words` is the docstring of its module."""
    parser = argparse.ArgumentParser(description=words.splitlines()[0] if words else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", type=int, default=tables)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--page", action="store_true")
    return parser


def left(cells: Sequence[Any], lines: list[dict[str, Any]], given: argparse.Namespace, size: int) -> list[Any]:
    """Parts of `size` tables that no line has yet: (cell, seed, first table, tables); few tables of all cells first."""
    done = {(*(line[name] for name in cells[0]._fields), line["seed"], line["first"]) for line in lines}
    return [
        (cell, given.seed, first, min(size, given.tables - first))
        for first in range(0, given.tables, size)
        for cell in cells
        if (*cell, given.seed, first) not in done
    ]


def kept(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, or none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(
    part: Callable[[Any], dict[str, Any]],
    tasks: Iterable[Any],
    path: Path,
    cores: int,
    until: float,
    prepare: Callable[[], None],
) -> list[dict[str, Any]]:
    """What `part` makes of each task, added to a file, until a time of `time.monotonic`; new lines are answered.

    Processes are started anew, so what is set here comes before they load their libraries.
    """
    os.environ.update(_OWN)
    lines: list[dict[str, Any]] = []
    waiting = iter(tasks)
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), prepare) as pool, path.open("a") as file:
        # No more parts are handed out than are worked on, so that none begins after the time is over.
        running = {pool.submit(part, one) for one in itertools.islice(waiting, cores)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                line = one.result()
                file.write(json.dumps(line) + "\n")
                lines.append(line)
                if time.monotonic() < until:
                    running |= {pool.submit(part, another) for another in itertools.islice(waiting, 1)}
            file.flush()
            print(f"\r{len(lines)} parts, {until - time.monotonic():.0f} s left", end="", file=sys.stderr)
    return lines
