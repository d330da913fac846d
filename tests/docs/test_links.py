"""Every link of every page leads somewhere: to a file of the repository, and to a heading where it names one."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def website() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_website", DOCS / "website.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = website()
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "examples" / "specs" / "README.md"]


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in SITE.links(page.read_text(encoding="utf-8")):
        path, _, fragment = link.partition("#")
        if re.match(r"https?://[\w.-]+\.\w+", link):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (fragment and fragment not in SITE.anchors(target.read_text(encoding="utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](none.md) [b](#two) [c](#one) `[d](code.md)` ![e](none.png) [f](page.md#one)\n")
    assert broken(page) == ["none.md", "#two", "none.png"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    assert "index.md" in SITE.write_site(target)
    return target


def test_every_link_of_the_site_leads_to_a_page_of_the_site(site):
    idents = {
        path: set(re.findall(r'\bid="([^"]+)"', path.read_text(encoding="utf-8"))) for path in site.rglob("*.html")
    }
    assert len(idents) > 20
    for path in idents:
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            name, _, fragment = link.partition("#")
            if re.match(r"https?:", link):
                continue
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), (path.name, link)
            assert not fragment or fragment in idents[target], (path.name, link)


def test_the_navigation_names_every_page_of_its_own(site):
    listed = {page for _, pages in SITE.NAVIGATION for page, _ in pages}
    own = {page for page in SITE.sources() if not page.startswith("results/")}
    assert own - listed == set()
    assert listed - own == {"api.md", "results/README.md"}
    assert 'aria-current="page"' in (site / "index.html").read_text(encoding="utf-8")


def test_html_in_a_page_is_shown_and_not_used(tmp_path):
    tokens = SITE.parsed("<script>alert(1)</script>\n\n[x](javascript:alert(1))\n")
    shown = SITE._markdown().renderer.render(tokens, SITE._markdown().options, {})
    assert "<script" not in shown
    assert "href" not in shown


def test_the_api_page_has_signatures_and_first_paragraphs(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in ("explain", "Ledger", "PrivateLogisticRegression", "read_schema", "audit", "write_release"):
        assert f"<strong>{name}</strong>" in text
    assert "Ask every theorem" in text
    assert "By name: linear, logistic" in text
    assert " at 0x" not in text


@pytest.mark.parametrize("module", SITE.API_MODULES)
def test_every_public_name_is_on_the_api_page(site, module):
    text = (site / "api.html").read_text(encoding="utf-8")
    section = text.split(f'<h2 id="{module}">')[1].split("<h2")[0]
    names = SITE.public_names(module)
    assert len(names) >= 5
    assert {name for name in names if f"<strong>{name}</strong>" not in section} == set()
    # A name without a sentence is a name nobody can use.
    assert "<dd></dd>" not in section
