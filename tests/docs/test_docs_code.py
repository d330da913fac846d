"""Every page of the docs is executed: Python blocks in one namespace, `sordino` commands beside them, in order."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
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
    "tutorials/statistician.md": "privacy widened it by",
}
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages whose tables are those of their own commands.
SHOWN = {"tutorials/statistician.md"}
NUMBER = re.compile(r"[<=]? ?[-+]?\d[\d.,e-]*")


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
EXECUTED = [page for page in PAGES if blocks(page) and page not in ELSEWHERE]
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
    namespace: dict[str, Any] = {"__name__": "docs"}
    precision = jax.config.read("jax_enable_x64")
    try:
        for kind, text in blocks(page):
            if kind == "python":
                exec(compile(text, page, "exec"), namespace)
            else:
                _run(text)
    finally:
        jax.config.update("jax_enable_x64", precision)
    printed = capsys.readouterr().out
    assert PRINTED.get(page, "") in printed
    # Head and names of a table that is shown are those that are printed; its numbers are one run's.
    known = [worded(line) for line in printed.splitlines()]
    text = (DOCS / page).read_text(encoding="utf-8")
    if page in SHOWN:
        quiet = [block for kind, block in blocks(page) if f"```{kind}\n{block}```\n\n```text\n" not in text]
        assert all("print(" not in block and not block.startswith("sordino") for block in quiet), quiet
    for shown in TEXT.findall(text) if page in SHOWN else ():
        head, *rows = (worded(line) for line in shown.splitlines() if line.strip())
        assert head in known
        assert {row[0] for row in rows} <= {line[0] for line in known if line}


def worded(line: str) -> list[str]:
    """The words of a line, every number as a mark: the noise of a run is its own."""
    return NUMBER.sub("#", line).split()


def _run(text: str) -> None:
    for line in text.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "sordino", line
        # The replay of a release tries pairs of neighbours as long as it may.
        short = ["--seconds", "1"] if arguments[0] == "audit" and "--seconds" not in line else []
        assert main([*arguments, *short]) == 0, line
