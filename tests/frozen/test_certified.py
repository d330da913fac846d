"""No certified number moves unless the frozen table is written again on purpose."""

import json

import pytest

from sordino.core.spec import Spec

from .freeze import TABLE, certified

ROWS = json.loads(TABLE.read_text(encoding="utf-8"))
# The examples and every tenth generated run in the fast tests; all of them in the slow ones.
FAST = [row for place, row in enumerate(ROWS) if not row["name"].startswith("grid") or place % 10 == 0]


def test_the_table_holds_the_examples_and_three_hundred_generated_runs():
    generated = [row for row in ROWS if row["name"].startswith("grid")]
    assert len(generated) == 300
    assert len(ROWS) - len(generated) >= 54
    assert len({json.dumps(row["spec"], sort_keys=True) for row in generated}) == 300


def check(row):
    """Every frozen bound, and no other."""
    found = certified(Spec.from_dict(row["spec"]), row["delta"])
    assert found.keys() == row["certified"].keys()
    for name, epsilon in row["certified"].items():
        # The last digits of a float are those of a machine; twelve are not.
        assert float(found[name]) == pytest.approx(float(epsilon), rel=1e-12, abs=0.0), name


@pytest.mark.parametrize("row", FAST, ids=lambda row: row["name"])
def test_every_bound_is_the_frozen_one(row):
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row not in FAST], ids=lambda row: row["name"])
def test_every_bound_of_the_grid_is_the_frozen_one(row):
    check(row)
