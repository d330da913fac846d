"""A chart of a page: gaps where there is nothing, the two sides on top, and the same numbers in its table."""

import math
import re
import xml.etree.ElementTree as ET

from sordino.report.charts import AUDITED, CERTIFIED, Chart, Note, Series, draw

UPPER = Series("<upper>", ((1.0, 2.0), (10.0, 3.0), (100.0, 4.0)), CERTIFIED)
LOWER = Series("lower", ((1.0, 1.0), (10.0, math.nan), (100.0, 2.0)), AUDITED)
OTHER = Series("other", ((1.0, 5.0), (10.0, math.inf), (100.0, 6.0)))


def chart(*series: Series, **changes) -> Chart:
    return Chart("c", "A & B", "steps", "epsilon", series, **changes)


def test_names_are_escaped_and_every_line_is_described():
    drawn = draw(chart(UPPER, LOWER, OTHER))
    root = ET.fromstring(drawn.svg)
    assert root.findtext("title") == "A & B"
    assert "<upper>: 4 at 100." in (root.findtext("desc") or "")
    assert [kind for kind, _ in drawn.legend] == ["certified", "audited", "other o0"]


def test_a_gap_splits_a_line_and_a_lone_point_is_a_dot():
    root = ET.fromstring(draw(chart(OTHER)).svg)
    assert len(root.findall(".//path[@class='line other o0']")) == 2
    assert len(root.findall(".//circle")) == 2


def test_the_two_sides_are_drawn_last_with_the_area_between_them():
    text = draw(chart(UPPER, LOWER, OTHER)).svg
    assert text.index("line other") < text.index("line certified")
    assert 'class="between"' in text
    assert 'class="between"' not in draw(chart(UPPER, OTHER)).svg


def test_the_table_has_the_numbers_of_the_lines():
    drawn = draw(chart(UPPER, LOWER, OTHER))
    assert drawn.header == ("steps", "<upper>", "lower", "other")
    assert drawn.rows == (("1", "2", "1", "5"), ("10", "3", "", "beyond"), ("100", "4", "2", "6"))


def test_discs_lie_apart_and_inside():
    notes = tuple(Note(10.0 + k, 0.05, f"note {k}") for k in range(4))
    discs = ET.fromstring(draw(chart(UPPER, notes=notes)).svg).findall(".//circle[@class='disc']")
    places = [(float(disc.get("cx", "0")), float(disc.get("cy", "0"))) for disc in discs]
    assert len(places) == 4
    assert all(math.dist(a, b) >= 18 for k, a in enumerate(places) for b in places[:k])
    assert all(0 < y < 300 for _, y in places)


def test_nothing_to_draw_is_still_a_figure():
    drawn = draw(chart(Series("nothing", ((1.0, math.inf),)), log_y=True, log_x=True))
    assert "no finite value" in drawn.svg
    assert not re.search(r"nan|inf\b", drawn.svg)
