"""The docs as a static site: every page of docs/ through one template and the report's style sheet, and the API."""

import ast
import importlib
import inspect
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from sordino.report.html_frame import render

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent

# Group, and its pages with their names in the navigation; results are listed on their own page.
NAVIGATION: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Start",
        (
            ("index.md", "Sordino"),
            ("tutorials/statistician.md", "For statisticians"),
            ("tutorials/researcher.md", "For researchers"),
            ("tutorials/auditor.md", "For auditors"),
            ("tutorials/reader.md", "For readers of papers"),
        ),
    ),
    (
        "Use",
        (
            ("schema.md", "Declaring a schema"),
            ("estimators.md", "Estimators"),
            ("choosing.md", "Choosing a method"),
            ("reading-a-report.md", "Reading a report"),
            ("sharp-edges.md", "Sharp edges"),
            ("ledger.md", "Ledger"),
            ("operations.md", "Operations"),
            ("cluster.md", "Cluster"),
            ("command-line.md", "Command line"),
            ("api.md", "API"),
        ),
    ),
    (
        "Trust",
        (
            ("theorems.md", "Theorems"),
            ("soundness.md", "Soundness"),
            ("errata.md", "Errata"),
            ("results/README.md", "Results"),
            ("security.md", "Security"),
        ),
    ),
    (
        "Build",
        (
            ("developer/principles.md", "Principles"),
            ("developer/new_theorem.md", "Adding a theorem"),
        ),
    ),
)

API_MODULES = ("sordino", "sordino.estimators", "sordino.data", "sordino.model", "sordino.algorithm",
               "sordino.audit", "sordino.ledger", "sordino.ledger.release")  # fmt: skip


class Entry(NamedTuple):
    """A public name on the API page."""

    name: str
    signature: str
    summary: str


def sources() -> list[str]:
    """Every page of docs/, as paths from there; a page of results that has its own folder included."""
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.md"))


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def parsed(text: str) -> list[Token]:
    """Markdown as tokens; HTML in it is shown, not used."""
    return _markdown().parse(text)


@cache
def anchors(text: str) -> frozenset[str]:
    """The anchors that the headings of a page make."""
    tokens = parsed(text)
    headings = (tokens[place + 1] for place, token in enumerate(tokens) if token.type == "heading_open")
    return frozenset(slug(_plain(heading)) for heading in headings)


def links(text: str) -> list[str]:
    """Every link and image of a page, code left out."""
    inner = [child for token in parsed(text) for child in token.children or ()]
    found = [child.attrGet("href" if child.type == "link_open" else "src") for child in inner]
    return [str(target) for target in found if target is not None]


def write_site(target: Path) -> list[str]:
    """Write the site into `target`, which is made anew; answers the pages written."""
    shutil.rmtree(target, ignore_errors=True)
    written = [*sources(), "api.md"]
    for name in written:
        place = target / _html(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        body, title = (api_body(), "API") if name == "api.md" else _converted(name, target)
        place.write_text(_framed(name, body, title, set(written)), encoding="utf-8")
    return written


def _converted(name: str, target: Path) -> tuple[Markup, str]:
    tokens = parsed((FOLDER / name).read_text(encoding="utf-8"))
    title = name
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _plain(tokens[place + 1])
            token.attrSet("id", slug(text))
            title = text if token.tag == "h1" else title
        for child in token.children or ():
            _relink(name, child, target)
    made = _markdown().renderer.render(tokens, _markdown().options, {})
    made = made.replace("<table>", '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>')
    return Markup(made.replace("</table>", "</table></div>")), title


def _relink(name: str, child: Token, target: Path) -> None:
    """Links to pages lead to their HTML, files of docs/ are copied, and what lies outside is only named."""
    key = {"link_open": "href", "image": "src"}.get(child.type)
    if key is None:
        return
    link, _, fragment = str(child.attrGet(key)).partition("#")
    if not link or re.match(r"[a-z]+:", link):
        return
    place = (FOLDER / name).parent / link
    if place.suffix == ".md" and place.resolve().is_relative_to(FOLDER.resolve()):
        child.attrSet(key, _html(link) + (f"#{fragment}" if fragment else ""))
    elif place.is_file() and place.resolve().is_relative_to(FOLDER.resolve()):
        copied = target / place.resolve().relative_to(FOLDER.resolve())
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place, copied)
    else:
        child.attrs = {"title": f"in the repository: {os.path.normpath(Path('docs', name).parent / link)}"}


def _framed(name: str, body: Markup, title: str, written: set[str]) -> str:
    here = Path(name).parent
    groups = [
        (group, [(_html(os.path.relpath(page, here)), words, page == name) for page, words in pages if page in written])
        for group, pages in NAVIGATION
    ]
    return render(
        "docs.html", images=True, page_title=title, body=body, groups=groups, home=os.path.relpath("index.html", here)
    )


def api_body() -> Markup:
    """Signature and first paragraph of every public name."""
    return Markup(render_api([(module, list(_entries(module))) for module in API_MODULES]))


def render_api(modules: list[tuple[str, list[Entry]]]) -> str:
    """The API page's content; every text escaped."""
    parts = [Markup("<h1>API</h1><p>Public names with their signatures; the docstrings say more.</p>")]
    for module, entries in modules:
        parts.append(Markup('<h2 id="{0}"><code>{0}</code></h2><dl class="reasons">').format(module))
        line = Markup("<div><dt><code><strong>{0}</strong>{1}</code></dt><dd>{2}</dd></div>")
        parts += [line.format(entry.name, entry.signature, _with_code(entry.summary)) for entry in entries]
        parts.append(Markup("</dl>"))
    return str(Markup("").join(parts))


def _with_code(text: str) -> Markup:
    """What stands between backticks in a docstring, as code."""
    return Markup(re.sub(r"``?([^`]+)``?", r"<code>\1</code>", str(escape(text))))


def _entries(module: str) -> Iterator[Entry]:
    package = importlib.import_module(module)
    for name in sorted(public_names(module), key=str.lower):
        value = getattr(package, name)
        yield Entry(name, _signature(value), _listed(value) or _first_paragraph(value))


def public_names(module: str) -> set[str]:
    """What a package exports: its `__all__`, or the names that its `__init__` imports under their own name."""
    package = importlib.import_module(module)
    stated = getattr(package, "__all__", None)
    if stated is not None:
        return {name for name in stated if not name.startswith("_")}
    tree = ast.parse(inspect.getsource(package))
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return {alias.name for alias in imported if alias.asname == alias.name}


def _listed(value: Any) -> str:
    """What a table of names holds; a constant has no docstring of its own."""
    return f"By name: {', '.join(map(str, value))}." if isinstance(value, Mapping) else ""


def _signature(value: Any) -> str:
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Enum | Exception)):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    # Names, and defaults that can be read: a signature is taken in at a glance.
    plain = [
        parameter.replace(annotation=parameter.empty, default=_Shown.of(parameter.default))
        for parameter in found.parameters.values()
    ]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


class _Shown(str):
    """A default as a person would write it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def of(cls, default: Any) -> Any:
        if default is inspect.Parameter.empty:
            return default
        if isinstance(default, Enum):
            return cls(default)
        return cls(repr(default) if isinstance(default, bool | int | float | str | None) else "…")


def _first_paragraph(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})


def _html(name: str) -> str:
    return re.sub(r"README\.md$", "index.html", name) if name.endswith("README.md") else re.sub(r"\.md$", ".html", name)
