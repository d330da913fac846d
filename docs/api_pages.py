"""The API reference's pages, from what the package exports: one for every public name, one for every group of them.

Nothing here names a module: `sordino.__all__` is the public face, and every package directly below that exports names,
or that re-exports one of the face's, has its own listed on the page of its group. Needs no Sphinx.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FACE = "sordino"
# Groups that are here come in this order, those that are not come after.
ORDER = ("estimators", "explore", "accounting", "audit", "auditing", "ledger", "data", "model", "mechanisms", "core")
# The command line has its own page; what its package exports is for the program.
PROGRAM = "cli"
# Where in docs/ pages are written; git ignores all but the index.
FOLDER = "api"
LISTING = "listing.md"


class Name(NamedTuple):
    """A public name: the package that exports it, and what it stands for."""

    package: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.package}.{self.name}"

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring; of a constant, what it holds."""
        return _held(self.value) if is_constant(self.value) else _first_paragraph(self.value)

    @property
    def group(self) -> str:
        """The package directly below the face that the value is from."""
        home = getattr(self.value, "__module__", None) or next(
            (package for package in packages() if getattr(importlib.import_module(package), self.name, None)),
            self.package,
        )
        return [*home.split("."), FACE][1]


def is_constant(value: Any) -> bool:
    """Whether a value is neither a class nor a function; a function that JAX compiled is one still."""
    return not (callable(value) and hasattr(value, "__name__"))


@cache
def exports(package: str) -> tuple[Name, ...]:
    """What a package exports: its `__all__`, or the names that its `__init__` imports under their own name."""
    module = importlib.import_module(package)
    stated = getattr(module, "__all__", None)
    if stated is None:
        tree = ast.parse(inspect.getsource(module))
        imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        stated = [alias.name for alias in imported if alias.asname == alias.name]
    values = {name for name in stated if not name.startswith("_") and not inspect.ismodule(getattr(module, name))}
    public = sorted(values, key=lambda name: (name.lower(), name))
    return tuple(Name(package, name, getattr(module, name)) for name in public)


@cache
def packages() -> tuple[str, ...]:
    """The packages below the face that export something of their own."""
    face = importlib.import_module(FACE)
    below = {found.name for found in pkgutil.iter_modules(face.__path__) if found.ispkg} - {PROGRAM}
    direct = {f"{FACE}.{name}" for name in below}
    above = {package for name in exports(FACE) for package in _above(getattr(name.value, "__module__", None) or FACE)}
    return tuple(sorted(package for package in (direct | above) - {FACE} if exports(package)))


def _above(module: str) -> Iterator[str]:
    """The packages that a module lies in."""
    parts = module.split(".")
    for length in range(2, len(parts)):
        package = ".".join(parts[:length])
        found = importlib.import_module(package)
        if hasattr(found, "__path__") and getattr(found, "__file__", None):  # a folder without a file exports nothing
            yield package


@cache
def face() -> tuple[Name, ...]:
    return exports(FACE)


@cache
def beside() -> tuple[Name, ...]:
    """What the packages export that the face does not, each once."""
    seen = {id(name.value) for name in face()}
    found = []
    for name in (name for package in packages() for name in exports(package)):
        if id(name.value) not in seen or is_constant(name.value):
            seen.add(id(name.value))
            found.append(name)
    return tuple(found)


def groups() -> list[str]:
    """Every group that has a page, in reading order."""
    found = {name.group for name in face()} | {name.package.split(".")[1] for name in beside()}
    return sorted(found, key=lambda group: (ORDER.index(group) if group in ORDER else len(ORDER), group))


def pages() -> dict[str, str]:
    """Every page as Markdown, by its path from `docs/api`."""
    named = {f"names/{_stem(name)}.md": _name_page(name) for name in face()}
    return named | {f"{group}.md": _group_page(group) for group in groups()} | {LISTING: _listing()}


def write(docs: Path) -> None:
    """Write the pages; one that has not changed is left alone, one that is no longer made is removed."""
    folder, made = docs / FOLDER, pages()
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in {*made, "index.md"}:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _stem(name: Name) -> str:
    """A file name; names that differ only in case stay distinct on disks that ignore case."""
    twins = [other for other in face() if other.name.lower() == name.name.lower()]
    return name.name if len(twins) == 1 else f"{name.name}-{type(name.value).__name__}"


def _name_page(name: Name) -> str:
    return f"# {name.name}\n\n{_documented(name)}"


def _group_page(group: str) -> str:
    package = importlib.import_module(FACE if group == FACE else f"{FACE}.{group}")
    listed = [name for name in face() if name.group == group]
    parts = [f"# {_title(group)}", _first_paragraph(package)]
    if listed:
        parts += [f"## From `{FACE}`", _table(listed, "names/"), _toctree(f"names/{_stem(name)}" for name in listed)]
    for home in packages():
        inside = [name for name in beside() if name.package == home and home.split(".")[1] == group]
        if inside:
            parts += [f"## From `{home}`", *(_documented(name) for name in inside)]
    return "\n\n".join(parts) + "\n"


def _listing() -> str:
    parts = [_toctree(groups())]
    for group in groups():
        listed = [name for name in face() if name.group == group]
        also = sorted({name.package for name in beside() if name.package.split(".")[1] == group})
        parts.append(f"## {_title(group)}")
        parts += [_table(listed, "names/")] if listed else []
        if also:
            words = " and ".join(f"`{package}`" for package in also)
            parts.append(f"[More in {words}]({group}.md).")
    return "\n\n".join(parts) + "\n"


def _title(group: str) -> str:
    return group.replace("_", " ").capitalize()


def _toctree(entries: Any) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *entries, "```"])


def _table(names: list[Name], folder: str) -> str:
    rows = [f"| [`{name.name}`]({folder}{_stem(name)}.md) | {_cell(name.summary)} |" for name in names]
    return "\n".join(["| name | |", "| --- | --- |", *rows])


def _cell(text: str) -> str:
    """A docstring's first paragraph as a cell: its double backticks are Markdown's single ones."""
    return text.replace("``", "`").replace("|", "\\|")


def _documented(name: Name) -> str:
    """The directive that has autodoc write what the docstring says."""
    lines = [f".. py:currentmodule:: {name.package}", "", *_directive(name)]
    return "\n".join(["```{eval-rst}", *lines, "```"]) + "\n"


def _directive(name: Name) -> list[str]:
    value = name.value
    if is_constant(value):
        return [f".. py:data:: {name.path}", "", f"   {_held(value)}"]
    if not inspect.isclass(value):
        return [f".. autofunction:: {name.path}"]
    if issubclass(value, Exception):
        return [f".. autoexception:: {name.path}", "   :show-inheritance:"]
    # The face's pages are complete; a package's page does not repeat what its classes share.
    inherited = name.package == FACE and not issubclass(value, Enum)
    options = [":inherited-members:"] if inherited else [":undoc-members:"] if issubclass(value, Enum) else []
    return [f".. autoclass:: {name.path}", *(f"   {option}" for option in (":members:", *options))]


def _held(value: Any) -> str:
    """What a constant holds; it has no docstring of its own."""
    if isinstance(value, Mapping):
        return f"By name: {', '.join(f'``{key}``' for key in value)}."
    if " at 0x" in repr(value):
        return f"``{type(value).__name__}``: {_first_paragraph(type(value))}"
    return f"``{value!r}``"


def _first_paragraph(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
