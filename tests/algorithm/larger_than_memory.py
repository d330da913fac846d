"""Runs on a Parquet file in a process of its own and prints, as JSON, the memory each took at its peak.

    python larger_than_memory.py FOLDER ROWS

The file is written first, fifty features to a row.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sordino.algorithm import MappedRows, ParquetRows, SeededRandomness, run_rows
from sordino.core.bound import Relation
from sordino.core.spec import Spec
from sordino.data import BooleanTarget, Feature, Number, RowNorm, Schema, Target
from sordino.model.families.classification import Logistic

WIDTH, GROUP = 50, 100_000


def _peak() -> float:
    """Gigabytes at the peak of this program. `getrusage` would count what its parent held when it was started."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / 1e9


def written(path: Path, rows: int) -> None:
    generator, writer = np.random.default_rng(0), None
    for first in range(0, rows, GROUP):
        X = generator.uniform(-1, 1, (min(GROUP, rows - first), WIDTH)).astype(np.float32)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(WIDTH)}, "y": X[:, 0] > 0})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def spec_of(rows: int, batch: dict, steps: int) -> Spec:
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": 1.0,
                "noise": {"kind": "gaussian", "scale": 0.001},
                "batch": batch,
                "chains": 1,
            },
            "problem": {"n": rows, "dim": WIDTH},
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )


def main() -> None:
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    path = folder / "rows.parquet"
    written(path, rows)
    schema = Schema(
        records=rows,
        features=tuple(Feature(f"x{j}", Number(-1, 1)) for j in range(WIDTH)),
        target=Target("y", BooleanTarget()),
        intercept=False,
        row_norm=RowNorm(1.0, includes_intercept=False),
    )
    answer = {"gigabytes of features": rows * WIDTH * 4 / 1e9}

    def measured(name: str, source: ParquetRows | MappedRows, batch: dict, steps: int) -> None:
        begun = time.monotonic()
        run_rows(spec_of(rows, batch, steps), Logistic(), source, SeededRandomness(0))
        answer[name] = {"seconds": time.monotonic() - begun, "peak gigabytes so far": _peak()}

    parquet = ParquetRows(path, schema, Relation.REPLACE_ONE)
    size = rows // 1000
    measured("full, from Parquet", parquet, {"scheme": "full"}, 1)
    measured("cyclic, from Parquet", parquet, {"scheme": "cyclic", "size": size}, 1000)
    with MappedRows.write(folder / "mapped", parquet.pieces()) as mapped:
        measured("poisson, from a memory map", mapped, {"scheme": "poisson", "size": size}, 1000)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
