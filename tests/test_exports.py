# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
"""What `sordino` exports exists, is what its home module holds, and is what type checkers see."""

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
from sordino.cli import library
from sordino.estimators import PrivateEstimator

FACES = (sordino, sordino.accounting, sordino.data, sordino.estimators, sordino.explore, library)


@pytest.mark.parametrize("face", FACES)
def test_the_stub_is_the_only_table_and_every_name_of_it_is_what_its_home_holds(face):
    stub = ast.parse(Path(inspect.getfile(face)).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(homes) == set(face.__all__)
    assert len(stub.body) == len(homes)
    for name, home in homes.items():
        assert getattr(face, name) is getattr(importlib.import_module(home), name)
    assert "import_module" not in Path(inspect.getfile(face)).read_text(encoding="utf-8")


def test_the_top_level_is_small():
    assert len(set(sordino.__all__) - {"__version__", "accounting", "explore"}) <= 36


def test_every_exported_name_resolves():
    assert [name for name in sordino.__all__ if getattr(sordino, name) is None] == []
    assert set(sordino.__all__) <= set(dir(sordino))


def test_a_missing_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        sordino.frobnicate  # noqa: B018


# Of the estimators' package the top level has what is for users; the rest is for whoever adds one.
PUBLIC = sorted({
    (face.__name__, name)
    for face in (sordino, sordino.accounting, sordino.explore)
    for name in face.__all__
    if not name.startswith("_") and name not in ("accounting", "explore", "Look", "Check", "Comparison", "Choice")
})  # fmt: skip
VERBS = ("certify", "audit", "fit", "run", "chain")


def is_named(word: str, text: str) -> bool:
    """Whether a docstring says what a parameter is: in its list, or in a sentence."""
    return re.search(rf"^\s*{word}: \S|`{word}`", text, re.MULTILINE) is not None


def lacking(name: str, value: object) -> list[str]:
    """What a reader of this name's docstring would look for in vain."""
    text = inspect.getdoc(value) or ""
    needed = {"an example": ">>> " in text}
    if inspect.isfunction(value):
        needed |= {"Returns": "Returns:" in text, "Raises": "Raises:" in text or name == "theorems"}
    explained = text + (inspect.getdoc(PrivateEstimator) or "" if "`PrivateEstimator`" in text else "")
    if "`PrivateBayesianNetworkRegressor`" in text:
        explained += (inspect.getdoc(sordino.PrivateBayesianNetworkRegressor) or "") + inspect.getdoc(PrivateEstimator)
    ordinary = not (inspect.isclass(value) and issubclass(value, enum.Enum | Exception))
    for parameter in inspect.signature(value).parameters.values() if ordinary else ():  # type: ignore[arg-type]
        needed[parameter.name] = is_named(parameter.name, explained)
    return [word for word, there in needed.items() if not there]


def test_every_public_name_says_what_it_takes_and_gives_with_an_example():
    words = {name: lacking(name, getattr(importlib.import_module(face), name)) for face, name in PUBLIC}
    assert {name: found for name, found in words.items() if found} == {}


def test_a_bare_docstring_is_found_out():
    def bare(spec):
        """Certify."""

    assert lacking("bare", bare) == ["an example", "Returns", "Raises", "spec"]


IMPORTED = """
import importlib, pkgutil
import sordino
before = {name: getattr(sordino, name) for name in sordino.__all__}
for found in pkgutil.walk_packages(sordino.__path__, "sordino."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert all(getattr(sordino, name) is value for name, value in before.items())
assert all(callable(getattr(sordino, verb)) for verb in ("certify", "audit", "fit", "run", "chain"))
"""


def test_importing_submodules_overwrites_no_public_name():
    """`sordino.audit` was a package once, and whoever imported from it lost the function."""
    modules = {found.name for found in pkgutil.iter_modules(sordino.__path__)}
    assert modules.isdisjoint(set(sordino.__all__) - {"accounting", "explore"})
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_verbs_are_functions():
    for verb in VERBS:
        assert inspect.isfunction(getattr(sordino, verb))
