"""Report and dossier as they are looked at: on a desk, on a phone and on paper, each kept as a picture.

Set SORDINO_SCREENS to a folder to look at the pictures; otherwise they go with the test's own folder.
"""

import base64
import os
import re
import struct
from pathlib import Path

import pytest

from sordino.cli import main
from tests.page.browser import stored_rows
from tests.report.handed_over import HandedOver, handed_over

pytestmark = [pytest.mark.page, pytest.mark.slow]

# Paper is what is left of A4 between the margins, at 96 dots per inch.
DESK, PHONE, PAPER = (1280, 900), (375, 812), (680, 1000)
SIZES = {"desk": DESK, "phone": PHONE, "paper": PAPER}


@pytest.fixture(scope="session")
def handed(tmp_path_factory) -> HandedOver:
    made = handed_over(tmp_path_factory.mktemp("handed"))
    words = ["report", str(made.release), "--ledger", str(made.ledger), "--out", str(made.place / "report.html")]
    assert main(words) == 0
    return made


@pytest.fixture(scope="session")
def screens(tmp_path_factory) -> Path:
    wanted = os.environ.get("SORDINO_SCREENS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screens")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def page_of(made: HandedOver, name: str) -> Path:
    return made.dossier / "index.html" if name == "dossier" else made.place / "report.html"


def colours(png: bytes) -> int:
    """How many different rows of pixels a picture has: a blank one has one."""
    return len(set(stored_rows(png)))


def shot(tab, path: Path, name: str, size: str, screens: Path) -> bytes:
    width, height = SIZES[size]
    tab.call("Emulation.setScrollbarsHidden", hidden=True)
    tab.open(path, width=width, height=height)
    if size == "paper":
        tab.call("Emulation.setEmulatedMedia", media="print", features=[])
    picture = tab.screenshot()
    (screens / f"{name}-{size}.png").write_bytes(picture)
    return picture


@pytest.mark.parametrize("name", ["report", "dossier"])
@pytest.mark.parametrize("size", SIZES)
def test_the_decision_is_seen_first_and_nothing_is_cut_off(tab, handed, screens, name, size):
    try:
        picture = shot(tab, page_of(handed, name), name, size, screens)
        width, height = SIZES[size]
        assert struct.unpack(">I", picture[16:20])[0] == width
        assert colours(picture) > 200
        assert tab.complaints == []
        assert tab.value("document.documentElement.scrollWidth") <= width
        # Yes or no is on the first screen, and the whole strip on the first sheet of paper.
        assert tab.value("document.querySelector('.decision .word').getBoundingClientRect().bottom") < height
        assert tab.value("document.querySelector('.decision .word').textContent") == "Yes"
        if size == "paper":
            assert tab.value("document.querySelector('.decision').getBoundingClientRect().bottom") < height
            assert tab.value("getComputedStyle(document.querySelector('nav')).display") == "none"
        facts = tab.value("[...document.querySelectorAll('.strip dt')].map(one => one.textContent)")
        assert {"protects", "epsilon", "charged", "budget left", "weakest evidence", "learned", "made"} <= set(facts)
        cut = """[...document.querySelectorAll('main *')]
            .filter(one => !one.closest('.scroll, pre, svg'))
            .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
            .map(one => one.outerHTML.slice(0, 80))"""
        assert tab.value(cut) == []
        overlap = """(() => { const parts = '.strip > div, .signing p, .decision .answer';
            const boxes = [...document.querySelectorAll(parts)].map(one => one.getBoundingClientRect());
            return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 1 && b.left < a.right - 1
                && a.top < b.bottom - 1 && b.top < a.bottom - 1)); })()"""
        assert tab.value(overlap) is False
    finally:
        tab.call("Emulation.setScrollbarsHidden", hidden=False)
        tab.call("Emulation.setEmulatedMedia", media="", features=[])


@pytest.mark.parametrize("name", ["report", "dossier"])
def test_a_page_prints_on_a_few_sheets(tab, handed, screens, name):
    tab.open(page_of(handed, name))
    printed = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    (screens / f"{name}.pdf").write_bytes(printed)
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 14
