"""Cold starts: CPU time of a fresh process that imports the package, prints help, certifies a spec or fits a table.

    python bench/cold_start.py [--against REVISION] [--repetitions 10]

User and system time of the process and its children, the best of all repetitions; both revisions take turns, with the
same interpreter and packages. Files are in the page cache and compiled to bytecode: the first turn is not counted.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "examples" / "data"
SPECS = ROOT / "examples" / "specs"
BUDGET = ("--epsilon", "2", "--delta", "1e-6", "--relation", "replace-one")
# What must get faster, as a share of the other revision's time; the rest must not get slower.
GOALS = {"certify": 0.8, "fit logistic": 0.8}


def commands(folder: Path, turn: int) -> dict[str, list[str]]:
    """Name -> arguments of Python; every fit writes a folder of its own."""
    sordino = ["-m", "sordino"]
    table = [str(DATA / "clinic.csv"), "--schema", str(DATA / "clinic.schema.json")]
    out = str(folder / f"release-{turn}-{len(list(folder.iterdir()))}")
    return {
        "import sordino": ["-c", "import sordino"],
        "--help": [*sordino, "--help"],
        "certify": [*sordino, "certify", str(SPECS / "cyclic-last-iterate.json")],
        "fit logistic": [*sordino, "fit", "logistic", *table, *BUDGET, "--seed", "1", "--out", out],
    }


def cpu_seconds(arguments: list[str], source: Path) -> float:
    """User and system time of one fresh process that finds the package in `source`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def best(sources: dict[str, Path], repetitions: int) -> dict[str, dict[str, float]]:
    """Command -> revision -> least CPU time."""
    least: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repetitions + 1):
            for revision, source in sources.items():
                for name, arguments in commands(Path(folder), turn).items():
                    spent = cpu_seconds(arguments, source)
                    if turn:
                        times = least.setdefault(name, {})
                        times[revision] = min(spent, times.get(revision, spent))
    return least


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The source folder of another revision, in a worktree that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        tree = str(Path(folder) / "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", tree, revision], check=True, capture_output=True)
        try:
            yield Path(tree) / "src"
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="another revision, measured in turns")
    parser.add_argument("--repetitions", type=int, default=10)
    given = parser.parse_args()
    here = {"here": ROOT / "src"}
    if given.against is None:
        for name, times in best(here, given.repetitions).items():
            print(f"{name:16} {times['here']:.3f} s")
        return
    with checked_out(given.against) as source:
        least = best(here | {given.against: source}, given.repetitions)
    for name, times in least.items():
        ratio = times["here"] / times[given.against]
        goal = f"goal {GOALS[name]:.2f}" if name in GOALS else "no slower"
        print(f"{name:16} {times['here']:.3f} s, {given.against}: {times[given.against]:.3f} s, {ratio:.2f} ({goal})")


if __name__ == "__main__":
    main()
