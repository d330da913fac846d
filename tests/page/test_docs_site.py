"""The docs as a site: built without a warning, whole, and silent: no page asks for anything outside its folder."""

import html
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHOWN = (
    "index",
    "getting-started",
    "tutorials/statistician",
    "theorems",
    "results",
    "api/index",
    "api/names/Ledger",
    "api/estimators",
    "developer/docs",
    "dossier",
    "search",
)


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the site needs the package {package}, which the extra docs installs")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site as `make docs` builds it: a warning is an error."""
    for package in ("sphinx", "myst_parser", "furo", "sphinx_copybutton", "sphinx-mathjax-offline"):
        need(package)
    target, state = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("doctrees")
    options = ["--quiet", "--fresh-env", "--fail-on-warning", "--keep-going", "--doctree-dir", str(state)]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="session")
def texts(site) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_page_of_docs_is_a_page_of_the_site(site):
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page.name != "listing.md"]
    assert len(pages) > 100
    assert [page for page in pages if not (site / page).with_suffix(".html").exists()] == []


def test_every_link_of_the_site_leads_to_a_place_of_the_site(texts):
    idents = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    lost = []
    for path, text in texts.items():
        for link in set(re.findall(r'<(?:a|img|script|link)\b[^>]*?(?:href|src)="([^"]*)"', text)):
            name, _, fragment = re.sub(r"\?.*", "", link.split("#")[0]), *link.partition("#")[1:]
            if re.match(r"https?:", link):
                continue
            target = (path.parent / name).resolve() if name else path
            # Furo's link to the top of a page needs no anchor.
            if not target.exists() or (fragment and target in idents and fragment not in idents[target]):
                lost.append((path.name, link))
    assert lost == []


def test_nothing_that_a_page_loads_is_elsewhere(site, texts):
    """Links in the text may lead out; scripts, styles, fonts, images and frames may not."""
    loads = r'<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc="([^"]*)"|<link\b[^>]*?\bhref="([^"]*)"'
    loaded = {found for text in texts.values() for pair in re.findall(loads, text) for found in pair if found}
    assert len(loaded) > 10
    assert [link for link in loaded if re.match(r"(\w+:)?//", link)] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    styles += [style for text in texts.values() for style in re.findall(r"<style>(.*?)</style>", text, re.DOTALL)]
    fetches = r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)"""
    fetched = [found for style in styles for pair in re.findall(fetches, style) for found in pair if found]
    assert len(fetched) > 3
    assert [link for link in fetched if re.match(r"(\w+:)?//", link)] == []
    policies = {re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)"', text)[0].split(";")[0]
                for text in texts.values()}  # fmt: skip
    assert policies == {"default-src 'self' 'unsafe-inline' data:"}


def test_every_public_name_has_its_place_and_its_words(site):
    import sordino

    for name in sordino.__all__:
        if not name.startswith("_") and not inspect.ismodule(getattr(sordino, name)):
            text = (site / "api" / "names" / f"{name}.html").read_text(encoding="utf-8")
            # A function that dispatches has several signatures before its words.
            words = re.split(r"</dt>\s*<dd>", text.split(f'id="sordino.{name}"')[1])[1]
            assert re.match(r"<p>\S", words), name
    predict = (site / "api" / "names" / "PrivateLogisticRegression.html").read_text(encoding="utf-8")
    assert 'id="sordino.PrivateLogisticRegression.predict_interval"' in predict
    # What scikit-learn documents is not repeated, and an array is called one.
    assert "set_fit_request" not in predict
    assert "dtype[" not in predict


def test_a_signature_can_be_read(site, texts):
    """No address, nothing that checks a field, and none that Sphinx could not read and shows as it came."""
    seen = 0
    for path, text in texts.items():
        for signature in re.findall(r'<dt class="sig.*?</dt>', text, re.DOTALL):
            shown, seen = html.unescape(re.sub(r"<[^>]+>", "", signature)), seen + 1
            assert not re.search(r" at 0x|Annotated\[|~\w+\.|<", shown), (path.name, shown)
            assert len(shown) < 900, (path.name, shown)
    assert seen > 500
    spec = (site / "api" / "names" / "Spec.html").read_text(encoding="utf-8")
    assert 'href="Relation.html#sordino.Relation"' in spec


def test_a_page_has_contents_neighbours_colours_and_a_place_to_search(site):
    text = (site / "tutorials" / "researcher.html").read_text(encoding="utf-8")
    assert re.search(r'class="next-page" href="auditor.html"', text)
    assert re.search(r'class="prev-page" href="statistician.html"', text)
    assert '<span class="kn">import</span>' in text
    assert 'action="../search.html"' in text
    assert 'class="toctree-l1 current' in text


def test_html_in_a_page_is_shown_and_not_used(site):
    text = (site / "developer" / "docs.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;this&lt;/b&gt;" in text
    assert "<b>this" not in text
    assert "&lt;div&gt;" in text


def test_the_page_of_results_shows_its_figure_fetches_pages_and_says_where_folders_are(site):
    text = (site / "reference" / "results.html").read_text(encoding="utf-8")
    assert '<abbr title="in the repository: bench/pages">' in text
    assert re.search(r'<img [^>]*src="../_images/winners.svg"', text)
    fetched = re.findall(r'href="../(_downloads/[^"]+)"', text)
    pages = [*(ROOT / "bench" / "pages").glob("*.md"), ROOT / "papers" / "README.md"]
    assert {page.read_bytes() for page in pages} <= {(site / name).read_bytes() for name in fetched}


def test_only_pages_with_a_formula_load_mathematics(site, texts):
    assert [str(path.relative_to(site)) for path, text in texts.items() if "mathjax/" in text] == [
        "developer/docs.html"
    ]
    assert sum(path.stat().st_size for path in (site / "_static" / "mathjax").rglob("*")) < 3e6


def until(tab, expression: str) -> object:
    end = time.monotonic() + 30
    while not (found := tab.value(expression)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def outside(tab, site: Path) -> list[str]:
    """What the page asked for that is neither in the site nor in the page itself."""
    return [link for link in tab.requests if not link.startswith((site.resolve().as_uri(), "data:"))]


@pytest.mark.page
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [360, 390, 1280])
def test_a_page_fits_complains_of_nothing_and_stays_in_its_folder(tab, site, name, width):
    tab.open(site / f"{name}.html", width=width)
    assert until(tab, "document.readyState === 'complete'")
    assert outside(tab, site) == []
    assert tab.complaints == []
    assert tab.value("[...document.images].every(one => one.naturalWidth > 0)")
    assert name != "results" or tab.value("document.querySelectorAll('article img').length")
    assert tab.value("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('article *')]
        .filter(one => !one.closest('.table-wrapper, pre, mjx-container, .headerlink'))
        .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(one => one.outerHTML.slice(0, 80))"""
    assert tab.value(wide) == []


@pytest.mark.page
def test_a_formula_is_set_with_its_own_fonts(tab, site):
    tab.open(site / "developer" / "docs.html")
    assert until(tab, "document.querySelectorAll('mjx-container mjx-math').length") == 2
    assert until(tab, "[...document.fonts].some(font => font.family.includes('MJX') && font.status === 'loaded')")
    assert outside(tab, site) == []
    assert tab.complaints == []


@pytest.mark.page
def test_searching_finds_pages_and_names(tab, site):
    tab.open(site / "search.html")
    for words, target in (("Propose Test Sample", "theorems.html"), ("predict_interval", "PrivateLinearRegression")):
        tab.value(f"location.search = '?q={words}'")
        time.sleep(0.3)
        assert until(tab, f"[...document.querySelectorAll('#search-results a')].some(a => a.href.includes('{target}'))")


@pytest.mark.page
def test_the_policy_lets_nothing_in_from_elsewhere(tab, site):
    """A page as it is, with an intruder in it: the browser says that it was refused."""
    text = (site / "index.html").read_text(encoding="utf-8")
    (site / "intruder.html").write_text(
        text.replace("</article>", '<img src="http://example.org/x.png" alt=""></article>')
    )
    try:
        tab.open(site / "intruder.html")
        assert any("Content Security Policy" in line for line in tab.complaints)
    finally:
        (site / "intruder.html").unlink()


@pytest.mark.page
@pytest.mark.parametrize("name", ["dossier", "reading-a-report", "command-line"])
@pytest.mark.parametrize(("size", "width"), [("desk", 1280), ("phone", 375), ("paper", 680)])
def test_pages_are_kept_as_pictures_on_a_desk_a_phone_and_paper(tab, site, tmp_path, name, size, width):
    """Set SORDINO_SCREENS to a folder to look at them."""
    folder = Path(os.environ.get("SORDINO_SCREENS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tab.open(site / f"{name}.html", width=width)
        if size == "paper":
            tab.call("Emulation.setEmulatedMedia", media="print", features=[])
        picture = tab.screenshot()
        (folder / f"docs-{name}-{size}.png").write_bytes(picture)
        assert len(picture) > 20_000
        assert tab.value("document.documentElement.scrollWidth") <= width
    finally:
        tab.call("Emulation.setEmulatedMedia", media="", features=[])
