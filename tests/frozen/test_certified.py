"""No certified number moves unless the frozen table is written again on purpose."""

import json

import numpy as np
import pytest

from sordino.accounting.evaluate import current_id
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
    """Every frozen bound under its present id; the same from the present words of the spec.

    Theorems about noised sums were about one of the three earlier kinds, and say nothing new of the others.
    """
    spec = Spec.from_dict(row["spec"])
    found = certified(spec, row["delta"])
    frozen = {current_id(name): epsilon for name, epsilon in row["certified"].items()}
    more = {name: epsilon for name, epsilon in found.items() if name not in frozen}
    assert found.keys() == frozen.keys() | more.keys()
    for name, epsilon in frozen.items():
        # The last digits of a float are another machine's; fourteen are not.
        assert float(found[name]) == pytest.approx(float(epsilon), rel=1e-14, abs=0.0), name
    values = [float(epsilon) for epsilon in frozen.values()]
    assert all(
        name.startswith("noised-sums.") and np.isclose(float(epsilon), values, rtol=1e-14, atol=0.0).any()
        for name, epsilon in more.items()
    )
    if spec.to_dict() != row["spec"]:
        assert certified(Spec.from_json(spec.to_json()), row["delta"]) == found


@pytest.mark.parametrize("row", FAST, ids=lambda row: row["name"])
def test_every_bound_is_the_frozen_one(row):
    check(row)


def test_the_examples_certify_the_same_in_earlier_words_and_as_noised_sums():
    rows = {row["name"]: row for row in ROWS}
    again = {name: row for name, row in rows.items() if name.endswith(", noised sums")}
    both = [name for name in again if name.removesuffix(", noised sums") in rows]
    assert len(both) == 6
    for name in both:
        earlier = rows[name.removesuffix(", noised sums")]["certified"]
        assert {current_id(theorem): epsilon for theorem, epsilon in earlier.items()}.items() <= again[name][
            "certified"
        ].items()


def test_earlier_kinds_are_among_the_fast_rows():
    kinds = {row["spec"]["algorithm"]["kind"] for row in FAST}
    assert {"message-passing", "variational", "em"} <= kinds


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row not in FAST], ids=lambda row: row["name"])
def test_every_bound_of_the_grid_is_the_frozen_one(row):
    check(row)
