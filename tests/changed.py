"""Prints the test files that a change concerns, the nearest first, or with --source the changed files of the package.

What changed is the work not committed yet; where there is none, the last commit; or all since the commit in BASE.
A test file is concerned if it changed, or if it imports a changed module of the package, the papers or the tests: the
fewer of their modules it imports, the nearer it is.

python -m tests.changed [--source] [--most N] [BASE]
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def changed_since(base: str | None) -> tuple[str, ...]:
    """The paths that differ from a commit and still exist, new ones among them; none outside a repository."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    paths = git("diff", "--name-only", base or "HEAD") + git("ls-files", "--others", "--exclude-standard")
    if not paths and base is None:
        paths = git("diff", "--name-only", "HEAD~1")
    return tuple(sorted({path for path in paths if (ROOT / path).exists()}))


def module_of(path: str) -> str:
    """The dotted name of a Python file."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def exported(package: str) -> dict[str, str]:
    """The modules that the names of a package come from, by its `__init__`; empty for a module."""
    folder = ROOT / "src" / Path(*package.split("."))
    files = [path for path in (folder / "__init__.pyi", folder / "__init__.py") if path.exists()]
    nodes = [node for path in files for node in ast.parse(path.read_text(encoding="utf-8")).body]
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level]
    return {alias.asname or alias.name: str(node.module) for node in found for alias in node.names}


def home(package: str, name: str) -> str:
    """The module that a package takes a name from, whatever packages lie between."""
    found = exported(package).get(name, package)
    return package if found == package else home(found, name)


def imported(file: Path) -> set[str]:
    """The modules of the project, and the names that may be modules, which a file imports anywhere.

    A name that a package takes from one of its modules counts as that module, imported or used as `package.name`.
    """
    names: set[str] = set()
    packages: dict[str, str] = {}
    used: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            if node.module.partition(".")[0] == "sordino":
                names |= {home(node.module, alias.name) for alias in node.names}
                packages |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.add((node.value.id, node.attr))
    names |= {home(packages[name], part) for name, part in used if part in exported(packages.get(name, ""))}
    return {name for name in names if name.partition(".")[0] in {"sordino", "papers", "tests"}}


def concerned(paths: Iterable[str], files: Iterable[Path]) -> list[str]:
    """The test files that changed, then those that import a changed module, the most special ones first."""
    paths = list(paths)
    modules = {module_of(path) for path in paths if path.endswith(".py")}
    own, near = list[str](), list[tuple[int, str]]()
    for file in files:
        name = str(file.relative_to(ROOT))
        if name in paths:
            own.append(name)
        elif modules & (names := imported(file)):
            near.append((len(names), name))
    return [*sorted(own), *(name for _, name in sorted(near))]


def main() -> None:
    """Print the paths on one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", metavar="BASE")
    parser.add_argument("--source", action="store_true", help="the changed Python files of the package instead")
    parser.add_argument("--most", type=int, default=8, help="print at most so many test files (8)")
    given = parser.parse_args()
    paths = changed_since(given.base)
    if given.source:
        sys.stdout.write(" ".join(path for path in paths if path.startswith("src/") and path.endswith(".py")) + "\n")
        return
    folders = (ROOT / "tests", ROOT / "papers" / "tests", ROOT / "bench" / "tests")
    files = concerned(paths, [file for folder in folders for file in sorted(folder.rglob("test_*.py"))])
    if len(files) > given.most:
        sys.stderr.write(f"{len(files)} test files are concerned; the nearest {given.most} run, in `make test` all.\n")
    sys.stdout.write(" ".join(files[: given.most]) + "\n")


if __name__ == "__main__":
    main()
