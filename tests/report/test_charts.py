"""Charts are well-formed SVG that say what they show, on a page and as files, also without colour and without eyes."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sordino.report.charts import AUDITED, CERTIFIED, Axis, Chart, Series, draw, standalone

SVG = "{http://www.w3.org/2000/svg}"
UPPER = Series("<upper>", ((1.0, 2.0), (10.0, 3.0), (100.0, 4.0)), CERTIFIED)
LOWER = Series("lower", ((1.0, 1.0), (10.0, math.nan), (100.0, 2.0)), AUDITED)
OTHER = Series("other", ((1.0, 5.0), (10.0, math.inf), (100.0, 6.0)))


def chart(*series: Series, **changes: Any) -> Chart:
    return replace(Chart("c", "A & B", "steps", "epsilon", series), **changes)


def figure(lines: int = 3, **changes: Any) -> Chart:
    points = ((1.0, 1.0), (10.0, 10.0), (100.0, 100.0), (1000.0, 1000.0))
    made = (Series(f"theorem-{k}", tuple((x, (k + 1.0) * y) for x, y in points)) for k in range(lines))
    return chart(*made, log_x=True, log_y=True, subtitle="delta < 1", **changes)


def test_a_chart_of_a_page_describes_every_line_and_has_its_numbers():
    drawn = draw(chart(UPPER, LOWER, OTHER))
    root = ET.fromstring(drawn.svg)
    assert root.findtext("title") == "A & B"
    assert "<upper>: 4 at 100." in (root.findtext("desc") or "")
    assert [kind for kind, _ in drawn.legend] == ["certified", "audited", "other o0"]
    assert drawn.header == ("steps", "<upper>", "lower", "other")
    assert drawn.rows == (("1", "2", "1", "5"), ("10", "3", "", "beyond"), ("100", "4", "2", "6"))
    # The two sides are drawn last, with the area between them.
    assert drawn.svg.index("line other") < drawn.svg.index("line certified")
    assert 'class="between"' in drawn.svg
    assert 'class="between"' not in draw(chart(UPPER, OTHER)).svg


def test_a_gap_splits_a_line_and_a_lone_point_is_a_dot():
    root = ET.fromstring(draw(chart(OTHER)).svg)
    assert len(root.findall(".//path[@class='line other o0']")) == 2
    assert len(root.findall(".//circle")) == 2
    nothing = draw(chart(Series("nothing", ((1.0, math.inf),)), log_y=True, log_x=True)).svg
    assert "no finite value" in nothing
    assert not re.search(r"nan|inf\b", nothing)


def texts(drawn: str) -> set[str]:
    return {"".join(element.itertext()) for element in ET.fromstring(drawn).iter(f"{SVG}text")}


def test_a_file_of_its_own_is_well_formed_described_and_fetches_nothing():
    drawn = standalone(figure(remarks=("a beats b from step 10.",)))
    root = ET.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "A & B"
    description = root.findtext(f"{SVG}desc") or ""
    assert "theorem-2: 3000 at 1000." in description
    assert "a beats b from step 10." in description
    wanted = {"A & B", "delta < 1", "steps", "epsilon", "theorem-0", "1", "a beats b from step 10."}
    assert wanted <= texts(drawn)
    assert "href" not in drawn
    assert "<script" not in drawn
    assert re.findall(r"https?://[^\"]+", drawn) == ["http://www.w3.org/2000/svg"]


def styles(drawn: str) -> dict[str, str]:
    """The rules of the figure's own style sheet, by selector."""
    sheet = ET.fromstring(drawn).findtext(f"{SVG}style") or ""
    return {name: body for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", sheet) for name in names.split(",")}


def test_lines_differ_without_colour():
    drawn = standalone(figure(7))
    groups = list(ET.fromstring(drawn).iter(f"{SVG}g"))
    kinds = [str(next(group.iter(f"{SVG}path")).get("class")).split()[-1] for group in groups]
    dashes = {re.search(r"stroke-dasharray:([^;]+)", styles(drawn)[f".{kind}"])[1] for kind in kinds}  # type: ignore[index]
    assert len(groups) == len(dashes) == 7


def test_everything_is_inside_the_page():
    long = Series("composition." + "x" * 60, ((1.0, 1.0), (1000.0, 5.0)))
    crowd = (*(f"remark {k}" for k in range(4)), "r" * 150)
    for text in (standalone(figure(20, remarks=crowd)), standalone(chart(long, subtitle="s"))):
        root, rules = ET.fromstring(text), styles(text)
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for element in (one for one in root.iter(f"{SVG}text") if one.get("x") is not None):
            sizes = (rules.get(name, "") for name in (f"text.{element.get('class', '')}", "text"))
            size = next(float(found[1]) for rule in sizes if (found := re.search(r"font-size:(\d+)px", rule)))
            letters = 0.62 * size * len("".join(element.itertext()))
            shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")]
            left = float(element.get("x", 0)) - shift * letters
            assert 0 <= left <= left + letters <= width
            assert 0 <= float(element.get("y", 0)) <= height


@pytest.mark.parametrize(("low", "high"), [(1.0, 1e9), (0.03, 0.2), (1e-7, 3.0), (5.0, 5.0)])
def test_logarithmic_axes_show_every_value_between_round_ends(low: float, high: float):
    axis = Axis.over([low, high], 0.0, 100.0, logarithmic=True)
    assert axis.low <= low * (1 + 1e-9)
    assert high <= axis.high * (1 + 1e-9)
    assert (axis.at(axis.low), axis.at(axis.high)) == pytest.approx((0.0, 100.0))
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 9
    assert all(a < b for a, b in pairwise(ticks))


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (2.0, 7.0), (1.0, 11.0), (90.0, 400.0)])
def test_a_whole_axis_has_no_tick_between_two_steps(low: float, high: float):
    """One to three steps had ticks at 1.2, 1.4, ..."""
    axis = Axis.over([low, high], 0.0, 100.0, logarithmic=False, whole=True)
    assert all(tick == round(tick) for tick in axis.ticks())
    assert axis.low <= low
    assert axis.high >= high
    assert len(axis.ticks()) >= 2
