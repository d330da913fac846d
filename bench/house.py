"""The size of the package, and how far its main commands walk through it, beside what is aimed at.

    python bench/house.py             print every figure, the recorded one and the aim
    python bench/house.py --record    record figures that fell

`tests/contract/test_house.py` fails where a figure is above the recorded one. A walk is what a command calls in a
process of its own: files, functions, and how often the next function called for the first time lies in another layer.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sordino"
RECORD = ROOT / "tests" / "contract" / "house.json"
AIMS = {
    "files": 300,
    "lines": 60_000,
    "code lines": 41_000,
    "longest file": 450,
    "class names in several files": 10,
    "late imports": 80,
    "bare asserts": 0,
    "branches on a task": 0,
    "lines with Any": 500,
    "names at the top level": 35,
    "commands": 16,
    "lines of tests": 48_000,
    "fit: files": 60,
    "fit: functions": 500,
    "fit: changes of layer": 80,
    "certify: files": 30,
    "audit: files": 50,
}

# What runs while a module is imported (class bodies, decorators) is no part of the walk, and comprehensions are part of
# their function: Python 3.12 does not report them apart.
_TRACED = """
import json, sys
from pathlib import Path
from sordino.cli import main
import sordino
root = str(Path(sordino.__file__).parent)
functions, importing = {}, 0
def follow(frame, event, argument):
    global importing
    if event not in ("call", "return"):
        return
    name, function = frame.f_code.co_filename, frame.f_code.co_qualname
    if function == "<module>" or name.startswith("<frozen importlib"):
        importing += 1 if event == "call" else -1
    elif event == "call" and not importing and name.startswith(root) and not function.endswith(("comp>", "genexpr>")):
        functions.setdefault((name[len(root) + 1:], function))
sys.setprofile(follow)
code = main(sys.argv[1:])
sys.setprofile(None)
print(json.dumps({"code": code, "calls": list(functions)}), file=sys.stderr)
"""


def figures() -> dict[str, int]:
    """What can be counted without running anything."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    classes = Counter(name for tree in trees.values() for name in {*_classes(tree)})
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    return {
        "files": len(files),
        "lines": sum(len(text.splitlines()) for text in files.values()),
        "code lines": sum(_code_lines(path, trees[path]) for path in files),
        "longest file": max(len(text.splitlines()) for text in files.values()),
        "class names in several files": sum(count > 1 for count in classes.values()),
        "late imports": sum(_late_imports(tree) for tree in trees.values()),
        "bare asserts": sum(isinstance(node, ast.Assert) for node in nodes),
        "branches on a task": sum(text.count(" is Task.") + text.count(" is not Task.") for text in files.values()),
        "lines with Any": sum("Any" in line for text in files.values() for line in text.splitlines()),
        "names at the top level": _top_level(),
        "commands": _commands(),
        "lines of tests": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")
        ),
    }


def _classes(tree: ast.Module) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _code_lines(path: Path, tree: ast.Module) -> int:
    """Lines with a token that is neither a comment nor a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            texts |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in blank and token.type != tokenize.ENDMARKER:
                lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - texts)


def _late_imports(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {inner for node in functions for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)}
    return len(inside)


def _top_level() -> int:
    code = "import sordino; print(len(sordino.__all__))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def _commands() -> int:
    code = "from sordino.cli import main; main(['--help'])"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    listed = text.split("Commands:")[1].split("\n\n")[0].splitlines()
    return sum(line.startswith("  ") and not line.startswith("   ") for line in listed)


def walks() -> dict[str, int]:
    """How far fit with a ledger, certify, audit of a release, and report walk."""
    data = ROOT / "examples" / "data"
    table = [data / "clinic.csv", "--schema", data / "clinic.schema.json"]
    budget = ["--epsilon", "2", "--delta", "1e-6", "--relation", "replace-one"]
    with tempfile.TemporaryDirectory() as folder:
        ledger, release = Path(folder) / "ledger", Path(folder) / "release"
        opened = ["--dataset", "clinic", "--relation", "replace-one", "--epsilon", "3", "--delta", "1e-5"]
        _walk("ledger", "open", ledger, *opened)
        found = {
            "fit": _walk("fit", "logistic", *table, *budget, "--ledger", ledger, "--out", release, "--seed", 1),
            "certify": _walk("certify", ROOT / "examples" / "specs" / "golden-poisson.json"),
            "audit": _walk("audit", release, "--seconds", 0.5),
            "report": _walk("report", release, "--ledger", ledger, "--out", Path(folder) / "report.html"),
        }
    return {f"{word}: {figure}": count for word, walk in found.items() for figure, count in walk.items()}


def _walk(*words: Any) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", _TRACED, *map(str, words)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    calls = json.loads(done.stderr.strip().splitlines()[-1])["calls"]
    layers = [name.split("/")[0] for name, _ in calls]
    return {
        "files": len({name for name, _ in calls}),
        "functions": len(calls),
        "changes of layer": sum(one != other for one, other in pairwise(layers)),
    }


def main() -> None:
    """Print the figures; record those that fell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record figures that fell")
    given = parser.parse_args()
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    now = figures() | walks()
    print(f"{'':28} {'recorded':>9} {'now':>8}   aim")
    for name, value in now.items():
        aim = f"at most {AIMS[name]:,}" if name in AIMS else ""
        print(f"{name:28} {recorded.get(name, '-'):>9} {value:>8}   {aim}")
    if given.record:
        kept = {name: min(value, recorded.get(name, value)) for name, value in now.items()}
        RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
