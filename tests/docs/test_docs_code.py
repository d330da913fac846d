"""Every page of the docs is executed: Python blocks in one namespace, `sordino` commands beside them, in order.

A page that imports JAX runs as a script in a fresh process: which of JAX and Sordino comes first matters there.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import sordino
from sordino.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# These pages show files to add to the package; tests/templates and tests/auditing/test_method.py add them.
ADDED = ("a-theorem", "a-method", "a-task", "a-family", "a-query", "a-reader", "an-audit")
ELSEWHERE = {f"developer/adding-{thing}.md" for thing in ADDED}
NEEDS = {
    "how-to/cluster.md": "distributed",
    "how-to/custom-models.md": "numpyro",
    "tutorials/jax.md": "equinox",
    "tutorials/loss.md": "optax",
    "tutorials/network.md": "flax",
    "tutorials/numpyro.md": "numpyro",
    "tutorials/statistician.md": "randomgen",
    "how-to/cookbook.md": "formulaic",
}
# What the comments of a page say is printed.
PRINTED = {
    "how-to/custom-models.md": "composition.subsampled-poisson 1.828",
    "tutorials/statistician.md": "widened by privacy",
}
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages that show what their own blocks print, and those of them in which nothing is random.
CERTAIN = {"how-to/accountant.md"}
SHOWN = CERTAIN | {"tutorials/jax.md", "tutorials/network.md", "tutorials/statistician.md"}
SEEDED, TRIED = "NON-PRIVATE: made with a seed.", "Test of the implementation"
NUMBER = re.compile(r"[<=]? ?[-+]?\d[\d.,e-]*")


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
EXECUTED = [page for page in PAGES if blocks(page) and page not in ELSEWHERE]
IMPORT_JAX = {page for page in EXECUTED if re.search(r"^import jax", "".join(text for _, text in blocks(page)), re.M)}
# The cookbook makes ten fits, the statistician's tutorial plans, fits and reports, others fit networks or compile
# programs of their own. What they show is tested in small: by the README's commands, in the docstrings of the
# estimators, of `sordino.fit` and `sordino.chain`, in tests/own_models and in test_pure_chain.
SLOW = {
    "how-to/cookbook.md",
    "reference/estimators.md",
    "how-to/custom-models.md",
    "tutorials/jax.md",
    "tutorials/loss.md",
    "tutorials/network.md",
    "tutorials/numpyro.md",
    "tutorials/reader.md",
    "tutorials/statistician.md",
}


@pytest.mark.parametrize("page", sorted(SLOW))
def test_a_page_that_takes_long_imports_names_that_there_are(page):
    needed = NEEDS.get(page)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"the page needs the package {needed}, which an extra installs")
    trees = [ast.parse(text) for kind, text in blocks(page) if kind == "python"]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports
    space: dict[str, Any] = {}
    exec(compile(ast.Module(imports, []), page, "exec"), space)
    # And what is called of the package itself.
    called = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sordino"
    }
    assert {name for name in called if not hasattr(sordino, name)} == set()


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page for page in EXECUTED]
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    needed = NEEDS.get(page)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"the page needs the package {needed}, which an extra installs")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    printed = _printed_by_a_script(page) if page in IMPORT_JAX else _printed_here(page, capsys)
    assert PRINTED.get(page, "") in printed
    # What is shown is what is printed, word for word; numbers are one run's, but for a seeded one.
    known = [worded(line) for line in printed.splitlines()]
    text = (DOCS / page).read_text(encoding="utf-8")
    if page in SHOWN:
        quiet = [block for kind, block in blocks(page) if f"```{kind}\n{block}```\n\n```text\n" not in text]
        assert all("print(" not in block and not block.startswith("sordino") for block in quiet), quiet
    for shown in TEXT.findall(text) if page in SHOWN else ():
        fixed, _, tried = shown.partition(TRIED)  # what an audit has time to try differs
        lines = [line for line in fixed.splitlines() if line.strip()]
        if SEEDED in shown or page in CERTAIN:
            assert set(lines) <= {line.rstrip() for line in printed.splitlines()}
        assert [line for line in lines if worded(line) not in known] == []
        labels = {line.split()[0] for line in tried.splitlines() if "  " in line or ": " in line}
        assert labels <= {line[0] for line in known if line}


def worded(line: str) -> list[str]:
    """The words of a line, every number as a mark: the noise of a run is its own."""
    return NUMBER.sub("#", line).split()


def _printed_here(page: str, capsys: pytest.CaptureFixture[str]) -> str:
    namespace: dict[str, Any] = {"__name__": "docs"}
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, page, "exec"), namespace)
        else:
            for arguments in commands(text):
                assert main(arguments) == 0, arguments
    return capsys.readouterr().out


def _printed_by_a_script(page: str) -> str:
    lines = ["import subprocess, sys"]
    for kind, text in blocks(page):
        if kind == "python":
            lines.append(text)
        else:
            calls = [[sys.executable, "-m", "sordino", *arguments] for arguments in commands(text)]
            lines += [f"subprocess.run({call!r}, check=True)" for call in calls]
    Path("page.py").write_text("\n".join(lines), encoding="utf-8")
    # Without the flags of this process, as a reader's would start.
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run([sys.executable, "page.py"], env=kept, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def commands(text: str) -> list[list[str]]:
    """The arguments of every `sordino` command of a block."""
    found = [shlex.split(line) for line in text.splitlines()]
    assert {program for program, *_ in found} == {"sordino"}
    # The replay of a release tries pairs of neighbours as long as it may.
    return [
        [*arguments, *(["--seconds", "1"] if arguments[0] == "audit" and "--seconds" not in arguments else [])]
        for _, *arguments in found
    ]
