"""`make check` runs the tests nearest to a change, and the marks that shorten a run leave out what they say."""

from types import SimpleNamespace

import pytest

from tests.changed import ROOT, concerned
from tests.conftest import pytest_collection_modifyitems

LAYERS, BINOMIAL, RESULTS = (
    ROOT / "tests" / name for name in ("test_layers.py", "core/test_binomial.py", "core/test_results.py")
)


def test_changed_tests_come_first_and_then_those_that_import_what_changed():
    files = [BINOMIAL, RESULTS, LAYERS]
    found = concerned(["src/sordino/core/binomial.py", "tests/test_layers.py", "README.md"], files)
    assert found == ["tests/test_layers.py", "tests/core/test_binomial.py"]
    assert concerned(["src/sordino/core/no_such_module.py"], files) == []
    # What a package exports comes from a module: tests that import it from the package are near, too.
    neighbours = ROOT / "tests" / "data" / "test_neighbours.py"
    assert concerned(["src/sordino/data/scaling.py"], [neighbours, LAYERS]) == ["tests/data/test_neighbours.py"]
    # However many packages pass the name on.
    instance = ROOT / "tests" / "auditing" / "test_instance.py"
    assert concerned(["src/sordino/core/spec/document.py"], [instance, LAYERS]) == ["tests/auditing/test_instance.py"]


class Row:
    """A collected row of a test, as far as the hook looks at it."""

    def __init__(self, test: str, row: int, every: int | None = None):
        self.name, self.nodeid = f"t[{row}]", f"{test}::t[{row}]"
        self.every, self.slow, self.row = every, False, row

    def iter_markers(self, name):
        return [] if self.every is None else [SimpleNamespace(args=(self.every,))]

    def add_marker(self, name):
        self.slow = name == "slow"


def collected(rows, sample=1):
    config = SimpleNamespace(getoption=lambda name: sample, hook=SimpleNamespace(pytest_deselected=lambda items: None))
    pytest_collection_modifyitems(config, rows)
    return rows


def test_every_nth_row_of_a_marked_test_is_fast():
    rows = collected([Row("tests/a.py", row, 3) for row in range(7)] + [Row("tests/b.py", row) for row in range(4)])
    assert [row.row for row in rows if not row.slow] == [0, 3, 6, 0, 1, 2, 3]


@pytest.mark.parametrize(("sample", "left"), [(1, [0, 1, 2, 3, 4, 0, 1]), (4, [0, 4, 0, 1])])
def test_a_sample_is_taken_of_the_long_tables_alone(sample, left):
    rows = [Row("tests/frozen/a.py", row) for row in range(5)] + [Row("tests/core/b.py", row) for row in range(2)]
    assert [row.row for row in collected(rows, sample)] == left
