"""A mistake that would break a guarantee without changing a word of its certificate, and the tests that find it."""

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Mutation(NamedTuple):
    """In the function or class `where` of the package, `old` becomes `new`.

    `where` is a qualified name, empty for the level of a module. `old` is an expression or a few statements, compared
    as syntax trees: neither a move to another file nor a new layout loses it, and a rename fails a test at once.
    `tests` are paths under tests/ and `-k` with words: fast tests that pass as things are and fail with the change.
    """

    name: str
    where: str
    old: str
    new: str
    tests: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The tests as arguments of pytest."""
        files, _, words = self.tests.partition(" -k ")
        paths = tuple(f"tests/{file}" for file in files.split())
        return (*paths, "-k", words) if words else paths


class Place(NamedTuple):
    """A file, and the first and last byte of what a mutation replaces there."""

    file: Path
    start: int
    end: int


def mutations(rows: str) -> tuple[Mutation, ...]:
    """The mutations that a text states, each with a head and the change of a few lines in the manner of `diff`.

    A head is `@@ name | where | tests`, in two lines if need be.
    """
    return tuple(_mutation(row.splitlines()) for row in re.split(r"^@@ (?!\|)", rows, flags=re.MULTILINE)[1:])


def _mutation(lines: list[str]) -> Mutation:
    if lines[1].startswith("@@ "):
        lines[:2] = [lines[0] + lines[1][2:]]
    name, where, tests = (part.strip() for part in lines[0].split("|"))
    old, new = ("\n".join(line[2:] for line in lines[1:] if line[0] in signs) for signs in (" -", " +"))
    return Mutation(name, where, old, new, tests)


def places(package: Path, mutation: Mutation) -> list[Place]:
    """Every place that a mutation fits; there should be one."""
    wanted = ast.parse(textwrap.dedent(mutation.old)).body
    one = wanted[0].value if len(wanted) == 1 and isinstance(wanted[0], ast.Expr) else None
    whole = [ast.dump(node) for node in wanted] if one is None else [ast.dump(one)]
    runs = _expressions if one is not None else _statements
    return [
        _place(file, run)
        for file, node in _scopes(package).get(mutation.where, ())
        for run in runs(node, len(whole))
        if [*map(_dump, run)] == whole
    ]


def mutated(place: Place, mutation: Mutation) -> str:
    """The text of the file with the mistake in it."""
    text = place.file.read_bytes()
    line = text[text.rfind(b"\n", 0, place.start) + 1 : place.start].decode()
    new = textwrap.dedent(mutation.new).strip("\n")
    if not line.strip():
        new = textwrap.indent(new, line)[len(line) :]
    return (text[: place.start] + new.encode() + text[place.end :]).decode()


@cache
def _scopes(package: Path) -> dict[str, list[tuple[Path, ast.AST]]]:
    """All functions, classes and modules by their qualified names."""
    found: dict[str, list[tuple[Path, ast.AST]]] = {}

    def walk(file: Path, node: ast.AST, name: str) -> None:
        if isinstance(node, (*_SCOPES, ast.Module)):
            name = f"{name}.{node.name}".lstrip(".") if isinstance(node, _SCOPES) else name
            found.setdefault(name, []).append((file, node))
        for child in ast.iter_child_nodes(node):
            walk(file, child, name)

    for file in sorted(package.rglob("*.py")):
        walk(file, ast.parse(file.read_text(encoding="utf-8")), "")
    return found


@cache
def _dump(node: ast.AST) -> str:
    return ast.dump(node)


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """A scope and what is in it, without what is in scopes inside."""
    yield scope
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, _SCOPES):
            yield from (part for part in (*child.decorator_list,) for part in ast.walk(part))
        else:
            yield from _within(child)


def _expressions(scope: ast.AST, _length: int) -> Iterator[list[Any]]:
    yield from ([node] for node in _within(scope) if isinstance(node, ast.expr))


def _statements(scope: ast.AST, length: int) -> Iterator[list[Any]]:
    for node in _within(scope):
        for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                yield from (body[first : first + length] for first in range(len(body) - length + 1))


def _place(file: Path, nodes: list[Any]) -> Place:
    starts = [0]
    for line in file.read_bytes().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    first, last = nodes[0], nodes[-1]
    above = getattr(first, "decorator_list", [])
    line, column = (above[0].lineno, above[0].col_offset - 1) if above else (first.lineno, first.col_offset)
    return Place(file, starts[line - 1] + column, starts[last.end_lineno - 1] + last.end_col_offset)
