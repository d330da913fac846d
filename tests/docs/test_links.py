"""Every link of every page leads somewhere, and every page is in the contents. Parses Markdown; needs no Sphinx."""

import re
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# The build writes the pages of the API below docs/api, beside an index that is kept.
OWN = sorted(path for path in DOCS.rglob("*.md") if path.parts[len(DOCS.parts)] != "api" or path.name == "index.md")
RESULTS = [*sorted((ROOT / "papers").rglob("*.md")), *sorted((ROOT / "bench" / "pages").glob("*.md"))]
PAGES = [*OWN, *sorted(ROOT.glob("*.md")), *RESULTS, ROOT / "examples/specs/README.md"]
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


def test_every_link_leads_somewhere():
    assert {str(page.relative_to(ROOT)): found for page in PAGES if (found := broken(page))} == {}


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n[a](none.md) [b](#two) [c](#one) `[d](code.md)` ![e](none.png) [f](page.md#one)\n\n"
        "## A `b.c`, d\n\n## One\n\n[g](#a-bc-d) [h](#one-1) [i](#one-2) [j](page.md#1) [k](javascript:x)\n\n"
        "```\n[l](none.md)\n```\n\n| t |\n| - |\n| [m](other.md) |\n"
    )
    assert broken(page) == ["none.md", "#two", "none.png", "#one-2", "page.md#1", "other.md"]


def test_the_contents_name_every_page():
    named = contents(DOCS / "index.md")
    files = {str(page.relative_to(DOCS).with_suffix("")) for page in OWN} - {"index"}
    assert len(named) == len(set(named))
    listed = {name for entry in named for name in files if Path(name).match(entry)}
    assert files - listed == set()
    assert [entry for entry in named if not any(Path(name).match(entry) for name in files)] == []


def test_one_page_links_to_the_results():
    """It names the index of the papers and every page of the bench; what a reader reads goes by that page."""
    page = DOCS / "reference" / "results.md"
    linked = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
    assert {ROOT / "papers" / "README.md", *(ROOT / "bench" / "pages").glob("*.md")} <= linked
    beside = {page.resolve() for page in RESULTS}
    others = [page for page in OWN if page.name != "results.md"]
    assert [page for page in others if beside & {(page.parent / link).resolve() for link in links(page)}] == []
