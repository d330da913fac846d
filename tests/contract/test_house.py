"""The package only becomes smaller: no figure of `bench/house.py` rises above the recorded one.

Lowering a figure is one line of `house.json`, or `python bench/house.py --record`.
"""

import json

from bench.house import AIMS, RECORD, figures, walks

KNOWN = json.loads(RECORD.read_text(encoding="utf-8"))


def risen(now):
    return {name: (value, KNOWN[name]) for name, value in now.items() if value > KNOWN[name]}


def test_no_size_of_the_package_rises():
    assert risen(figures()) == {}


def test_no_command_walks_further():
    assert risen(walks()) == {}


def test_a_figure_that_rises_is_seen():
    assert risen({"files": KNOWN["files"] + 1}) == {"files": (KNOWN["files"] + 1, KNOWN["files"])}
    assert set(AIMS) <= set(KNOWN)
