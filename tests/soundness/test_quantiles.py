"""The published table says how far above the truth every theorem is."""

from pathlib import Path

import numpy as np

from sordino.accounting.evaluate import theorems
from tests.soundness import quantiles
from tests.soundness.compare import Comparison
from tests.soundness.thresholds import THRESHOLDS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "soundness.md"


def test_a_page_lists_every_theorem_met_with_its_quantiles() -> None:
    found = quantiles.gather(range(2), ["full-replace-one-all-iterates"])
    page = quantiles.page(found)
    assert f"**{found.instances} instances of 1 kinds, {len(found.comparisons):,} comparisons, none below" in page
    rows = [line for line in page.partition("## Sizes")[0].splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == sorted(found.by_theorem)
    assert all(len(row.split("|")) == 4 + len(quantiles.MEASURES) for row in rows)


def test_a_violation_is_counted_on_the_page_and_negligible_values_have_no_ratio() -> None:
    lists = [[Comparison("t", "delta(0)", 0.4, 0.2, ""), Comparison("t", "delta(0)", 0.1, 0.0, "")]]
    assert np.array_equal(quantiles.ratios(lists, "delta(0)"), [2.0])
    wrong = quantiles.Found(1, 1, {"wrong.one": [[Comparison("wrong.one", "delta(0)", 0.1, 0.2, "")]]})
    assert "1 below the truth" in quantiles.page(wrong)


def test_the_published_page_found_no_violation_and_names_registered_theorems() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "none below the truth" in text
    above, _, below = text.partition("## Sizes")
    named = {line.split("`")[1] for line in above.splitlines() if line.startswith("| `")}
    assert named == {theorem.id for theorem in theorems()}
    sizes = [line.split("`")[1] for line in below.splitlines() if line.startswith("| `")]
    assert sizes == [threshold.constant for threshold in THRESHOLDS]
