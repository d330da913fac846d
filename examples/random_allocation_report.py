"""A run whose records are allocated at random, its certificate and its audit in one report.

    python examples/random_allocation_report.py report-folder

Writes `release/` (the iterates of the kernel and their certificate), `audit.json` and `report.html` into the folder.
The rows are made up here, so the release says that its noise is seeded.
"""

import json
import sys
from pathlib import Path

import numpy as np

from sordino.accounting.evaluate import as_json, explain
from sordino.auditing.lower_bound import AuditOptions, LowerBound, audit
from sordino.core.bound import Bound
from sordino.core.spec import read_spec
from sordino.core.spec.instance import NamedModel
from sordino.ledger.release import StoredRelease, write_release
from sordino.mechanisms import SeededRandomness, run
from sordino.models.families.classification import Logistic
from sordino.report.page import write_report
from sordino.report.subject import open_subject

DELTA = 1e-5
SMALLER = {"problem.n": 500, "problem.dim": 3, "algorithm.batch.size": 50, "algorithm.steps": 20}


def make(folder: Path) -> tuple[Bound, LowerBound]:
    """Run, certify, audit and report; the certified bound and the lower bound that stand on the page."""
    named = read_spec(Path(__file__).with_name("specs") / "random-allocation.json")
    spec = named.with_values(SMALLER | {"algorithm.noise.scale": 0.02})
    generator = np.random.default_rng(0)
    x, y = generator.uniform(-0.5, 0.5, (500, 3)), generator.choice([-1.0, 1.0], 500)
    iterates = np.asarray(run(spec, Logistic(), x, y, SeededRandomness(1)).iterates, np.float32)  # pyright: ignore
    explanation = explain(spec, DELTA)
    bound = explanation.tightest
    if bound is None:
        raise SystemExit("No theorem answers for this run.")
    lower = audit(spec, "exact", AuditOptions(delta=DELTA))
    kept = {"draws": iterates.reshape(1, -1, 3)}
    release = StoredRelease(
        "kept-iterates", spec, bound, DELTA, True, kept, model=NamedModel("logistic"), answers=as_json(explanation)
    )
    written = write_release(folder / "release", release)
    audit_file = folder / "audit.json"
    audit_file.write_text(json.dumps(lower.answer(bound)), encoding="utf-8")
    write_report([open_subject(written, audit_file)], folder / "report.html")
    return bound, lower


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "random-allocation-report")
    target.mkdir(parents=True, exist_ok=True)
    upper, found = make(target)
    sys.stdout.write(
        f"certified epsilon <= {upper.guarantee.epsilon(DELTA):.4g} ({upper.theorem}), described epsilon >= "
        f"{found.epsilon:.4g}: {target / 'report.html'}\n"
    )
