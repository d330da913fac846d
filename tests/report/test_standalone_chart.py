"""The line figure is well-formed SVG that says what it shows, also without colour and without eyes."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sordino.report.charts import Axis, Chart, Note, Series, standalone

SVG = "{http://www.w3.org/2000/svg}"


def figure(lines: int = 3, **changes: Any) -> Chart:
    made = tuple(
        Series(f"theorem-{k}", tuple((float(x), (k + 1.0) * x) for x in (1, 10, 100, 1000))) for k in range(lines)
    )
    return chart(
        made, **{"title": "A & B", "subtitle": "delta < 1", "x_title": "steps", "y_title": "epsilon"} | changes
    )


def chart(series: tuple[Series, ...], **changes: Any) -> Chart:
    return replace(Chart("c", "t", "x", "y", series, log_x=True, log_y=True, subtitle="s"), **changes)


def styles(drawn: str) -> dict[str, str]:
    """The rules of the figure's own style sheet, by selector."""
    sheet = ET.fromstring(drawn).findtext(f"{SVG}style") or ""
    return {name: body for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", sheet) for name in names.split(",")}


def font_size(drawn: str, kind: str) -> float:
    rules = styles(drawn)
    found = [re.search(r"font-size:(\d+)px", rules.get(name, "")) for name in (f"text.{kind}", "text")]
    return next(float(size[1]) for size in found if size)


def texts(drawn: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_it_is_well_formed_and_described() -> None:
    drawn = standalone(figure(notes=(Note(10.0, 10.0, "a beats b from step 10"),)))
    root = ET.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "A & B"
    description = root.findtext(f"{SVG}desc") or ""
    assert "theorem-2: 3000 at 1000." in description
    assert "a beats b from step 10" in description
    assert {"A & B", "delta < 1", "steps", "epsilon", "theorem-0", "1", "1. a beats b from step 10"} <= set(
        texts(drawn)
    )


def test_nothing_is_fetched_and_nothing_runs() -> None:
    drawn = standalone(figure())
    assert "href" not in drawn
    assert "<script" not in drawn
    assert re.findall(r"https?://[^\"]+", drawn) == ["http://www.w3.org/2000/svg"]


def test_lines_differ_without_colour() -> None:
    drawn = standalone(figure(7))
    groups = list(ET.fromstring(drawn).iter(f"{SVG}g"))
    kinds = [str(next(group.iter(f"{SVG}path")).get("class")).split()[-1] for group in groups]
    dashes = [re.search(r"stroke-dasharray:([^;]+)", styles(drawn)[f".{kind}"])[1] for kind in kinds]  # type: ignore[index]
    assert len(groups) == len(set(dashes)) == 7


def test_everything_is_inside_the_page() -> None:
    long = Series("composition." + "x" * 60, ((1.0, 1.0), (1000.0, 5.0)))
    crowd = tuple(Note(10.0 + k, 10.0, f"note {k}") for k in range(4))
    drawn = standalone(figure(lines=20, notes=crowd, remark="r" * 150))
    drawn_long = standalone(chart((long,)))
    for text in (drawn, drawn_long):
        root = ET.fromstring(text)
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for element in root.iter(f"{SVG}text"):
            if element.get("x") is None:
                continue
            letters = 0.62 * font_size(text, element.get("class", "")) * len("".join(element.itertext()))
            shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")]
            left = float(element.get("x", 0)) - shift * letters
            assert 0 <= left <= left + letters <= width
            assert 0 <= float(element.get("y", 0)) <= height


@pytest.mark.parametrize(("low", "high"), [(1.0, 1e9), (0.03, 0.2), (1e-7, 3.0), (5.0, 5.0)])
def test_logarithmic_axes_show_every_value_between_round_ends(low: float, high: float) -> None:
    axis = Axis.over([low, high], 0.0, 100.0, logarithmic=True)
    assert axis.low <= low * (1 + 1e-9)
    assert high <= axis.high * (1 + 1e-9)
    assert axis.at(axis.low) == pytest.approx(0.0)
    assert axis.at(axis.high) == pytest.approx(100.0)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 9
    assert all(a < b for a, b in pairwise(ticks))


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (2.0, 7.0), (1.0, 11.0), (90.0, 400.0)])
def test_a_whole_axis_has_no_tick_between_two_steps(low: float, high: float) -> None:
    """One to three steps had ticks at 1.2, 1.4, ..."""
    axis = Axis.over([low, high], 0.0, 100.0, logarithmic=False, whole=True)
    assert all(tick == round(tick) for tick in axis.ticks())
    assert axis.low <= low
    assert axis.high >= high
    assert len(axis.ticks()) >= 2
