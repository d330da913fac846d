"""Many jobs in processes, each result kept as a line of JSON as soon as it is there."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any


def keep_results(
    job: Callable[..., dict[str, Any]], waiting: Sequence[tuple[Any, ...]], keep: Path, processes: int, seconds: float
) -> None:
    """Run the job with each of these arguments, in order; none begins after so many seconds.

    Args:
        job: a function of a module, which worker processes import.
        waiting: arguments of every job.
        keep: a file that lines are added to.
        processes: how many run at once.
        seconds: what has begun by then is waited for.
    """
    keep.parent.mkdir(exist_ok=True)
    begin, left, running = time.monotonic(), list(waiting), set()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool, keep.open("a", encoding="utf-8") as kept:
        while left or running:
            while left and len(running) < processes and time.monotonic() - begin < seconds:
                running.add(pool.submit(job, *left.pop(0)))
            if not running:
                break
            done = next(as_completed(running))
            running.discard(done)
            kept.write(json.dumps(done.result()) + "\n")
            kept.flush()
