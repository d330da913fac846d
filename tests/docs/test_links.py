"""Every link of every page leads somewhere, and every page is in the contents. Parses Markdown; needs no Sphinx."""

import re
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# The build writes the pages of the API below docs/api, beside an index that is kept.
OWN = sorted(path for path in DOCS.rglob("*.md") if path.parts[len(DOCS.parts)] != "api" or path.name == "index.md")
PAGES = [*OWN, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "papers").rglob("*.md")), ROOT / "examples/specs/README.md"]
MARKDOWN = MarkdownIt("commonmark").enable("table")


def plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and the site make them: a heading that comes again is numbered."""
    tokens, found = MARKDOWN.parse(page.read_text(encoding="utf-8")), list[str]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", plain(tokens[place + 1]).lower()).strip().replace(" ", "-")
            again = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
            found.append(f"{slug}-{again}" if again else slug)
    return frozenset(found)


def links(page: Path) -> list[str]:
    """Every link and image of a page, code left out."""
    inner = [child for token in MARKDOWN.parse(page.read_text(encoding="utf-8")) for child in token.children or ()]
    found = [child.attrGet("href" if child.type == "link_open" else "src") for child in inner]
    return [str(target) for target in found if target is not None]


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page):
        if re.match(r"https?://[\w.-]+\.\w+", link):
            continue
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (fragment and (target.suffix != ".md" or fragment not in anchors(target))):
            found.append(link)
    return found


def contents(page: Path) -> list[str]:
    """What the hidden tables of contents of a page name, as paths of docs/ without their endings."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [re.sub(r".*<(.*)>", r"\1", line) for line in lines if line and not line.startswith(":")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n[a](none.md) [b](#two) [c](#one) `[d](code.md)` ![e](none.png) [f](page.md#one)\n\n"
        "## A `b.c`, d\n\n## One\n\n[g](#a-bc-d) [h](#one-1) [i](#one-2) [j](page.md#1) [k](javascript:x)\n\n"
        "```\n[l](none.md)\n```\n\n| t |\n| - |\n| [m](other.md) |\n"
    )
    assert broken(page) == ["none.md", "#two", "none.png", "#one-2", "page.md#1", "other.md"]


def test_the_contents_name_every_page():
    """A page of results is found by the build, below the page that lists them."""
    named = contents(DOCS / "index.md")
    files = {str(page.relative_to(DOCS).with_suffix("")) for page in OWN} - {"index"}
    assert len(named) == len(set(named))
    listed = {name for entry in named for name in files if Path(name).match(entry)}
    assert files - listed == {name for name in files if name.startswith("results/") and name != "results/README"}
    assert [entry for entry in named if not any(Path(name).match(entry) for name in files)] == []
