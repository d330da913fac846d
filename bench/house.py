"""The house: how many files and lines the package has, how long its files are, and how far a fit walks through them.

    python bench/house.py [--against REVISION]

Counts files and lines of src/sordino (tests and papers apart) and traces `sordino fit logistic` on the example table:
how many files of the package it calls into, how many functions, and in how many places it calls another layer.
`--against` counts the files of another revision beside it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
LIMITS = {"files": 380, "lines": 43_000, "median": 100, "longest": 450, "files a fit walks": 60}

# What runs while a module is imported (class bodies, decorators) is no part of the walk.
_TRACED = """
import json, sys
from pathlib import Path
from sordino.cli import main
import sordino
root = str(Path(sordino.__file__).parent)
functions, crossings, importing = set(), set(), 0
def follow(frame, event, argument):
    global importing
    if event not in ("call", "return"):
        return
    name, function = frame.f_code.co_filename, frame.f_code.co_qualname
    if function == "<module>" or name.startswith("<frozen importlib"):
        importing += 1 if event == "call" else -1
    elif event == "call" and not importing and name.startswith(root):
        functions.add((name, function))
        caller = frame.f_back.f_code.co_filename
        if caller.startswith(root) and caller[len(root) + 1:].split("/")[0] != name[len(root) + 1:].split("/")[0]:
            crossings.add((caller, name, function))
sys.setprofile(follow)
code = main(sys.argv[1:])
sys.setprofile(None)
files = sorted({name[len(root) + 1:] for name, _ in functions})
answer = {"code": code, "files": files, "functions": len(functions), "layers": len(crossings)}
print(json.dumps(answer), file=sys.stderr)
"""


def lengths(root: Path) -> dict[str, int]:
    """Lines of every file of the package below `root`."""
    package = root / "src" / "sordino"
    return {str(path.relative_to(package)): len(path.read_text("utf-8").splitlines()) for path in package.rglob("*.py")}


def walked() -> dict[str, object]:
    """What `sordino fit logistic` calls, in a process of its own."""
    data = ROOT / "examples" / "data"
    with tempfile.TemporaryDirectory() as folder:
        words = ["fit", "logistic", data / "clinic.csv", "--schema", data / "clinic.schema.json", "--epsilon", "2"]
        words += ["--delta", "1e-6", "--relation", "replace-one", "--out", Path(folder) / "release"]
        done = subprocess.run(
            [sys.executable, "-c", _TRACED, *map(str, words)], capture_output=True, text=True, check=True
        )
    return json.loads(done.stderr.strip().splitlines()[-1])


def summary(files: dict[str, int]) -> dict[str, float]:
    """The figures of a tree."""
    rooms = [lines for name, lines in files.items() if not name.endswith("__init__.py")]
    return {"files": len(files), "lines": sum(files.values()), "median": median(rooms), "longest": max(files.values())}


def main() -> None:
    """Print the figures, beside their limits and another revision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="count the files of another revision too")
    given = parser.parse_args()
    fit = walked()
    now = summary(lengths(ROOT)) | {"files a fit walks": len(fit["files"])}
    before: dict[str, float] = {}
    if given.against:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(
                ["git", "archive", given.against, "src"], cwd=ROOT, capture_output=True, check=True
            )
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            before = summary(lengths(Path(folder)))
    print(f"{'':20} {'before':>8} {'now':>8}   limit")
    for name, value in now.items():
        limit = f"at least {LIMITS[name]}" if name == "median" else f"at most {LIMITS[name]}"
        print(f"{name:20} {before.get(name, '-'):>8} {value:>8}   {limit}")
    print(f"a fit calls {fit['functions']} functions and calls into another layer in {fit['layers']} places")


if __name__ == "__main__":
    main()
