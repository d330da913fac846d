"""What `sordino` exports exists, is what its home module holds, and is what type checkers see."""

import ast
import enum
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
from sordino.estimators import PrivateEstimator


def names_seen_by_type_checkers() -> set[str]:
    tree = ast.parse(Path(inspect.getfile(sordino)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_type_checkers_and_the_interpreter_see_the_same_names():
    assert names_seen_by_type_checkers() == set(sordino.__all__) - {"__version__"}


@pytest.mark.parametrize("name", sorted(sordino.__all__))
def test_every_exported_name_resolves(name):
    assert getattr(sordino, name) is not None
    assert name in dir(sordino)


def test_a_missing_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        sordino.frobnicate  # noqa: B018


PUBLIC = sorted(name for name in sordino.__all__ if not name.startswith("_"))
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


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_takes_and_gives_with_an_example(name):
    assert lacking(name, getattr(sordino, name)) == []


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
    assert modules.isdisjoint(sordino.__all__)
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_verbs_are_functions():
    for verb in VERBS:
        assert inspect.isfunction(getattr(sordino, verb))
