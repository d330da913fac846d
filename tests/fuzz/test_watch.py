"""The observer notices what it is there to notice."""

import pickle
import subprocess
import sys

import pytest

from sordino.core.validate import InputError
from tests.fuzz.watch import read_or_refused


class Call:
    def __reduce__(self):
        return (len, ("abc",))


CALLED = pickle.dumps(Call())


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: (folder / "new").write_text("x"),
        lambda folder: pickle.loads(CALLED),
        lambda folder: eval("1 + 1"),
        lambda folder: subprocess.run([sys.executable, "--version"], check=True, capture_output=True),
    ],
    ids=["write", "unpickle", "evaluate", "spawn"],
)
def test_a_reader_that_writes_or_runs_something_is_caught(tmp_path, read):
    with pytest.raises(AssertionError):
        read_or_refused(lambda: read(tmp_path), tmp_path)


def test_a_refusal_is_one_printable_line_whatever_it_quotes(tmp_path):
    def refuse():
        raise InputError("Expected a name, got \x1b[2J\n\u202eevil\ud800.")

    assert read_or_refused(refuse, tmp_path) == "Expected a name, got \\x1b[2J\\n\\u202eevil\\ud800."


def test_other_errors_come_through(tmp_path):
    with pytest.raises(ZeroDivisionError):
        read_or_refused(lambda: 1 / 0, tmp_path)
