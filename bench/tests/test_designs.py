"""Random designs and fixed cells: runs in parts are one run, pages say what lines say, and free intervals are right."""

import argparse
import json

import numpy as np
import pytest

from bench import design_coverage, designs_page, old_cells
from bench.free_intervals import free
from bench.many_cores import kept


def test_least_squares_without_privacy_has_the_sandwich_errors():
    g = np.random.default_rng(1)
    X, unit = g.normal(size=(400, 2)), np.repeat(np.arange(200), 2)
    y = X @ [1.0, -2.0] + 0.5 * X[:, 0] * g.normal(size=400)
    rows = np.column_stack([np.ones(400), X])
    inverse = np.linalg.inv(rows.T @ rows)
    residual = y - rows @ (inverse @ rows.T @ y)
    scores = rows * residual[:, None]
    for units, sums in ((None, scores), (unit, scores[::2] + scores[1::2])):
        found = free("linear", X, y, np.zeros(3), 1.0, unit=units)
        assert found.mean == pytest.approx(inverse @ rows.T @ y)
        assert found.error == pytest.approx(np.sqrt(np.diag(inverse @ sums.T @ sums @ inverse)), rel=1e-6)


@pytest.mark.parametrize(
    "family", ["linear", "robust", "logistic", "multinomial", "poisson", "negative-binomial", "cox"]
)
def test_intervals_without_privacy_hold(family):
    """Of 12 random designs: about 250 coefficients, three standard errors are 4 points."""
    found = []
    for seed in range(12):
        made = design_coverage.Asked((family,), 6000, effects=1.0).design(seed)
        table = made.table()
        rows = design_coverage.fitted_rows(made, table)
        own = slice(rows.plan.outputs, len(table.truth))
        middle, width = design_coverage.without_privacy(made, table, rows, own)
        said = np.isfinite(width)
        found += list((np.abs(middle - table.truth[own]) <= width / 2)[said])
    assert 0.88 <= np.mean(found) <= 0.99


def test_a_level_that_no_row_has_has_no_interval_without_privacy():
    g = np.random.default_rng(2)
    X = np.column_stack([g.normal(size=300), np.zeros(300)])
    for family in ("linear", "logistic", "poisson"):
        found = free(family, X, (g.random(300) < 0.4).astype(float), np.zeros(3), 1.0)
        assert np.isfinite(found.error).tolist() == [True, True, False]


def asked(**changes):
    given = {"first": 40, "designs": 6, "tables": 3, "again": 4, "most_tables": 9, "page": False}
    return argparse.Namespace(**given | changes)


def run(given, lines, families=("linear", "logistic"), stages=(0, 1, 2), parts=None):
    """All parts that are waiting, or so many of them, in this process."""
    for stage in stages:
        tasks = design_coverage.waiting(lines, design_coverage.Asked(families, 900), given, stage)
        lines += [json.loads(json.dumps(design_coverage.part(one))) for one in tasks[:parts]]
    return designs_page.complete(design_coverage.grouped(lines, given), given)


def test_a_run_that_was_stopped_goes_on_to_the_same_answer(monkeypatch):
    monkeypatch.setattr(design_coverage, "PART", 1500)
    whole = run(asked(), [])
    lines = []
    left = run(asked(), lines, stages=(0,), parts=2)[2]
    assert left > 0
    there = len(lines)
    # Other seeds in a file of their own.
    other = []
    run(asked(first=43, designs=3), other)
    again = run(asked(), lines + other)
    timeless = [[{k: v for k, v in one.items() if k != "seconds"} for one in found] for found in (whole[0], again[0])]
    assert timeless[0] == timeless[1]
    assert whole[1:] == again[1:]
    assert whole[2] == 0
    assert there < len(lines + other)


def line(seed, first, tables, held, count=10):
    sums = {"held": [held // 2, held, held], "all": [held] * 3, "count": count * tables, "size": count * tables}
    head = {"family": "linear", "q": 50.0, "n": 100, "text": "a | b", "effects": 1.0} if first == 0 else {}
    more = {"widths": [1.0] * tables, "score": 1.0, "ratios": [2.0] * tables, "free": [9 * tables, 10 * tables]}
    return {"seed": seed, "first": first, "tables": tables} | head | sums | more | {"far": 0.0, "slopes_noise": 0.0}


def test_only_designs_that_seem_low_are_measured_again_and_new_tables_alone_count():
    given = asked(first=0, designs=1, tables=3, again=8, most_tables=20)
    good, low = [line(0, 0, 3, 30)], [line(0, 0, 3, 26)]
    assert designs_page.next_block(good, given, 1) is None
    assert designs_page.next_block(low, given, 1) == (3, 8)
    assert designs_page.next_block([*low, line(0, 3, 8, 80)], given, 2) is None
    assert designs_page.next_block([*low, line(0, 3, 8, 70)], given, 2) == (11, 20)
    found, refused, left = designs_page.complete({0: [*low, line(0, 3, 4, 40), line(0, 7, 4, 40)]}, given)
    assert (found[0]["coverage"][2], found[0]["tables"], found[0]["ratio"]) == (1.0, 8, 2.0)
    assert (refused, left) == ([], 0)
    assert designs_page.complete({0: [*low, line(0, 3, 4, 40)]}, given)[2] == 1


def test_the_page_of_designs_says_how_wide_intervals_are_and_how_many_are_refused():
    found = designs_page.complete({0: [line(0, 0, 4, 38)], 1: [line(1, 0, 4, 40)]}, asked(tables=4))[0]
    refused = [{"seed": 2, "family": "linear", "q": 20.0, "n": 9}, {"seed": 3, "family": "cox", "q": 5.0, "n": 9}]
    text = "\n".join(designs_page.page({"designs": found, "refused": refused, "left": 1, "command": "c"}))
    assert "Of 4 designs 2 are refused before anything is spent: 33% of" in text
    assert "Not measured: 1 designs." in text
    assert "| linear | - (0, 1) | - (0, 0) | 2.00 (2, 0) |" in text
    assert "Of those intervals 90.0 % hold." in text
    assert "| linear | 2 | 80 | 48.8 | 97.5 | 97.5 | 95.0 | 0.0% | 0.0% |" in text


def test_cells_are_152_under_each_relation_and_tables_do_not_depend_on_the_budget():
    every = old_cells.cells()
    assert [sum(cell.relation == one for cell in every) for one in old_cells.RELATIONS] == [152, 152]
    some = old_cells.cells("rare:hospital:3000:*:*")
    tables = [old_cells.table(cell, 5) for cell in some]
    assert len(some) == 4
    assert all(np.array_equal(tables[0].y, one.y) for one in tables)
    assert 0.01 <= tables[0].y.mean() <= 0.2


def test_cells_are_measured_in_parts_and_shown_beside_another_engine(tmp_path):
    cell = old_cells.cells("linear:uniform:2000:4:add-remove")[0]
    lines = [old_cells.part((cell, 1, first, 2)) for first in (0, 2)]
    refused = old_cells.part((old_cells.cells("linear:real:500:0.25:replace-one")[0], 1, 0, 2))
    (tmp_path / "lines").write_text("".join(json.dumps(one) + "\n" for one in [*lines, refused]))
    found = old_cells.together(kept(tmp_path / "lines"))
    assert found[0]["tables"] == 4
    assert found[0]["square"] == pytest.approx((lines[0]["square"] + lines[1]["square"]) / 4)
    assert found[0]["width"] > found[0]["free_width"]
    text = "\n".join(old_cells.page([*found, found[0] | {"engine": "before", "square": 4 * found[0]["square"]}]))
    assert "Of 2 cells 1 are refused" in text
    assert "Beside *before*, 1 cells: error 0.50 times as large" in text
    assert "Refused: linear:real:500:0.25:replace-one." in text
