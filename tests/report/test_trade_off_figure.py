"""The figure of an audit: certified below what was found, both named, valid SVG."""

import xml.etree.ElementTree as ET
from dataclasses import replace

from sordino.auditing.exact.leak import GaussianShift
from sordino.auditing.lower_bound import LowerBound
from sordino.core.bound import Bound, Citation, Relation, Status, View
from sordino.core.guarantee import GaussianDP
from sordino.report.figures import trade_off_figure

LOWER = LowerBound(
    epsilon=1.0,
    delta=1e-5,
    relation=Relation.REPLACE_ONE,
    view=View.LAST_ITERATE,
    method="exact",
    confidence=1.0,
    counts=(),
    cap=None,
    seed_policy="None.",
    evidence="Distinguished.",
    curve=GaussianShift(0.3).curve(),
)
BOUND = Bound(
    GaussianDP(1.0),
    Relation.REPLACE_ONE,
    View.LAST_ITERATE,
    (),
    "some.theorem",
    Citation("dong2022gaussian", "x"),
    Status.AS_STATED,
)


def names(text: str) -> list[str]:
    root = ET.fromstring(text)
    return ["".join(node.itertext()) for node in root.iter() if node.tag.endswith(("text", "title"))]


def test_both_curves_are_named():
    shown = names(trade_off_figure(LOWER, BOUND))
    assert "tests that the description allows" in shown
    assert "certified, no test below: some.theorem" in shown
    assert "At delta 1e-05: the description leaks epsilon at least 1, certified at most 4.378." in shown


def test_without_curve_or_certificate_it_still_says_what_is_known():
    shown = names(trade_off_figure(replace(LOWER, curve=()), None))
    assert not any("tests the" in name or "no test below" in name for name in shown)
    assert any("no theorem gives a finite epsilon" in name for name in shown)
