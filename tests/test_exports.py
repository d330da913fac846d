"""What `sordino` exports exists, is what its home module holds, and is what type checkers see."""

import ast
import inspect
from pathlib import Path

import pytest

import sordino


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
