"""The report in a real browser: silent, offline, readable on a phone and in the dark, usable without a mouse."""

import pytest

from tests.page.browser import stored_rows

pytestmark = pytest.mark.page

NAMES = ("one", "two", "seeded")
TAB, ENTER = ("Tab", 9), ("Enter", 13)


@pytest.mark.parametrize("name", NAMES)
def test_it_asks_for_nothing_and_complains_about_nothing(tab, pages, name):
    tab.open(pages[name])
    assert tab.requests == [pages[name].resolve().as_uri()]
    assert tab.complaints == []
    assert tab.value("document.scripts.length") == 0


def test_the_policy_lets_no_script_run_and_nothing_load(tab, pages, tmp_path):
    """The page as it is, with an intruder in it: nothing happens, and the browser says that it was refused."""
    text = pages["one"].read_text().replace(
        "</main>", '<script>document.title = "owned"</script><img src="http://example.org/x.png" alt=""></main>'
    )  # fmt: skip
    path = tmp_path / "intruder.html"
    path.write_text(text)
    tab.open(path)
    assert tab.value("document.title").startswith("Privacy report")
    assert any("Content Security Policy" in line for line in tab.complaints)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_never_scrolls_sideways(tab, pages, name, width):
    tab.open(pages[name], width=width)
    tab.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.value("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('main *')]
        .filter(one => !one.closest('.scroll, pre, svg'))
        .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(one => one.outerHTML.slice(0, 80))"""
    assert tab.value(wide) == []


def test_both_sides_of_the_sandwich_are_visible(tab, pages):
    tab.open(pages["one"])
    for kind in ("certified", "audited"):
        lines = f"[...document.querySelectorAll('#r1-bounds .figure .line.{kind}')]"
        shown = f"{lines}.filter(one => one.getBoundingClientRect().width > 100).length"
        assert tab.value(shown) == 2
    assert "certified ≤ 1.910" in tab.value("document.querySelector('.bar').textContent")
    assert "description ≥ 1.909" in tab.value("document.querySelector('.bar').textContent")


def test_everything_is_reached_with_the_tabulator_alone(tab, pages):
    tab.open(pages["one"])
    tab.press(*TAB)
    assert tab.value("document.activeElement.className") == "skip"
    tab.press(*ENTER)
    assert tab.value("document.activeElement.id") == "content"
    tab.open(pages["one"])
    focusable = "[...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')]"
    wanted = set(tab.value(f"{focusable}.map((one, place) => one.checkVisibility() ? place : -1)")) - {-1}
    reached = set()
    for _ in range(len(wanted)):
        tab.press(*TAB)
        reached.add(tab.value(f"{focusable}.indexOf(document.activeElement)"))
        assert tab.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert reached == wanted


def test_a_summary_opens_with_the_keyboard(tab, pages):
    tab.open(pages["one"])
    tab.value("document.querySelector('#r1-theorems details:last-of-type summary').focus()")
    assert tab.value("document.querySelector('#r1-theorems details:last-of-type').open") is False
    tab.press(*ENTER)
    assert tab.value("document.querySelector('#r1-theorems details:last-of-type').open") is True


def test_a_screen_reader_finds_landmarks_and_named_figures(tab, pages):
    tab.open(pages["one"])
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    found = {role for role, _ in roles}
    assert {"banner", "main", "navigation", "contentinfo", "heading", "table"} <= found
    figures = [name for role, name in roles if role in {"image", "img"}]
    assert len(figures) >= 4
    assert all(figures)


def _luminance(png: bytes) -> float:
    """The first byte of the first pixel, unfiltered: enough to tell paper from night."""
    return stored_rows(png)[0][1] / 255


def _contrast(tab, selector: str) -> float:
    """The ratio of WCAG 2 between an element's text and the page."""
    script = f"""(() => {{
        const channel = value => {{ const s = value / 255; return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; }};
        const light = text => {{ const [r, g, b] = text.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); }};
        const one = document.querySelector('{selector}'), style = getComputedStyle(one);
        const ink = light(one.ownerSVGElement ? style.fill : style.color), paper = light(getComputedStyle(document.body).backgroundColor);
        return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }})()"""  # noqa: E501
    return tab.value(script)


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_in_either_colour_scheme(tab, pages, dark):
    tab.open(pages["one"], dark=dark)
    assert (_luminance(tab.screenshot(whole=False)) < 0.3) is dark
    for selector in (
        "main p",
        ".remark",
        "main a",
        "thead th",
        "svg text.tick",
        "svg text.certified",
        "svg text.audited",
    ):
        assert _contrast(tab, selector) >= 4.5, selector


def test_the_watermark_covers_the_whole_page(tab, pages):
    tab.open(pages["seeded"], width=360)
    assert tab.value("document.title").startswith("NON-PRIVATE")
    height = tab.value("document.querySelector('.watermark').getBoundingClientRect().height")
    assert height >= tab.value("document.documentElement.scrollHeight") - 1
    assert tab.value("getComputedStyle(document.querySelector('.watermark')).pointerEvents") == "none"


def test_it_prints_dark_on_white_whatever_the_screen(tab, pages):
    tab.open(pages["one"], dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert tab.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in ("main p", ".remark", "svg text.certified", "svg text.audited", ".epsilon strong"):
        assert _contrast(tab, selector) >= 4.5, selector
    tab.call("Emulation.setEmulatedMedia", media="", features=[])


@pytest.mark.parametrize("width", [1280, 390])
def test_no_name_is_cut_off_at_the_edge_of_its_figure(tab, pages, width):
    tab.open(pages["one"], width=width)
    left = tab.value("[...document.querySelectorAll('svg.figure text.name')].map(name => name.getBBox().x)")
    assert len(left) >= 5
    assert min(left) >= 0
