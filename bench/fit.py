"""End to end against others: a cold process reads a table, fits a private classifier at epsilon 1, and predicts.

    python bench/fit.py [--full]

30,000 records of 14 features (bench/peers/fit_task.py). The whole process counts, imports included.
"""

import sys
import tempfile
from pathlib import Path

import area
from rows import Question

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments
import fit_task

_ABOUT = (
    "30,000 records of 14 features, epsilon 1 (delta 1e-5; diffprivlib: delta 0), a fresh process with imports, "
    "reading and predicting; one core. opacus: four epochs of batches of 300. Sordino chooses its method and "
    "certifies; diffprivlib solves one convex problem"
)
CPU = Question("fit", "cpu", "a private classifier, end to end", "CPU seconds", _ABOUT, more_is_better=False)
ACCURACY = Question(
    "fit", "accuracy", "accuracy of that classifier on 10,000 other records", "share right", _ABOUT, even=0.002
)
SCRIPTS = {
    "Sordino": ("sordino", "sordino_fit.py"),
    "diffprivlib": ("diffprivlib", "diffprivlib_fit.py"),
    "opacus": ("opacus", "opacus_fit.py"),
}


def measure(full: bool) -> area.Measured:
    costs: dict[str, list[environments.Cost]] = {name: [] for name in SCRIPTS}
    reasons: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "table.csv")
        fit_task.write(table)
        for _ in range(environments.rounds_of(9 if full else 5)):
            for name, (environment, script) in SCRIPTS.items():
                if name in reasons:
                    continue
                try:
                    python = environments.python_of(environment)
                    costs[name].append(environments.cold(python, str(environments.SCRIPTS / script), table))
                except environments.CouldNotRunError as failure:
                    reasons[name] = str(failure)
    found = {name: [environments.result_of(cost.said) for cost in given] for name, given in costs.items()}
    rows = []
    for peer in ("diffprivlib", "opacus"):
        reason = reasons.get("Sordino") or reasons.get(peer)
        if reason is not None:
            rows.append(CPU.missing(peer, reason))
            continue
        spent = {name: [cost.cpu_seconds for cost in costs[name]] for name in ("Sordino", peer)}
        right = {name: [one["accuracy"] for one in found[name]] for name in ("Sordino", peer)}
        rows.append(CPU.row(peer, spent["Sordino"], spent[peer]))
        rows.append(ACCURACY.row(peer, right["Sordino"], right[peer]))
    figures = {
        "wall seconds": {name: [round(cost.wall_seconds, 3) for cost in given] for name, given in costs.items()},
        "accuracy": {name: given[0]["accuracy"] for name, given in found.items() if given},
    }
    return area.Measured(rows, figures, {name: given[0]["versions"] for name, given in found.items() if given})


if __name__ == "__main__":
    area.main("fit", measure, __doc__)
