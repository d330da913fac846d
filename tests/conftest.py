"""What every run of the tests shares."""

import gc
from collections import Counter

import pytest

# Tables of which a quick check reads a part.
SAMPLED = ("tests/frozen/", "tests/golden/", "tests/conformance/")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a quick check read a part of the long tables."""
    parser.addoption("--sample", type=int, default=1, help="of the frozen and golden tables, only every Nth row")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `every(N)` every Nth row is fast; with --sample every Nth row of the long tables stays."""
    places = Counter[str]()
    for item in items:
        for mark in item.iter_markers("every"):
            name = item.nodeid.partition("[")[0]
            if places[name] % mark.args[0]:
                item.add_marker("slow")
            places[name] += 1
    rows = [item for item in items if item.nodeid.startswith(SAMPLED) and "[" in item.name]
    left_out = {item for place, item in enumerate(rows) if place % config.getoption("--sample")}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand collected tests stay until the end: the garbage collector need not walk them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
