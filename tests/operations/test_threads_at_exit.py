"""Refusing a file ends the process with its exit code: no thread of a library may call into an interpreter that ends.

Arrow reads ahead on threads of its own. Where it reads a file object of Python, such a thread asks for the interpreter
after the main thread has refused the file and is gone, and the process aborts with code 134 (2 of 60 refusals of a file
of 180 MB, on two cores, before files were opened natively).
"""

import io
import pathlib
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.core.validate import InputError
from sordino.data import read_table

SCHEMA = str(pathlib.Path(__file__).parents[2] / "examples" / "data" / "clinic.schema.json")


class Watched(io.FileIO):
    """A file that remembers which threads read it."""

    readers: set[int]

    def readinto(self, buffer):
        Watched.readers.add(threading.get_ident())
        return super().readinto(buffer)


def watched(self: pathlib.Path, mode: str = "r", **how):
    file = io.BufferedReader(Watched(str(self)))
    return file if "b" in mode else io.TextIOWrapper(file, encoding=how["encoding"], newline=how.get("newline"))


def uneven_csv(path: pathlib.Path, rows: int) -> pathlib.Path:
    """A short row first, and much to read ahead of it."""
    path.write_text("a,b,y\n1,2,0\n1,2\n" + "1,2,0\n" * rows)
    return path


def test_no_thread_of_arrow_reads_through_python(monkeypatch, tmp_path):
    table = pa.table({name: [0.5] * 1000 for name in "abcd"})
    pq.write_table(table, tmp_path / "fine.parquet", row_group_size=100)
    damaged = bytearray((tmp_path / "fine.parquet").read_bytes())
    damaged[4:40] = b"\xff" * 36
    (tmp_path / "bad.parquet").write_bytes(damaged)
    (tmp_path / "fine.csv").write_text("a,b\n1,2\n")
    uneven = uneven_csv(tmp_path / "bad.csv", 10_000)
    Watched.readers = set()
    monkeypatch.setattr(pathlib.Path, "open", watched)
    assert read_table(tmp_path / "fine.csv").rows == 1
    assert read_table(tmp_path / "fine.parquet").rows == 1000
    for refused in (uneven, tmp_path / "bad.parquet"):
        with pytest.raises(InputError):
            read_table(refused)
    assert Watched.readers <= {threading.get_ident()}


def exit_codes(arguments: list[str], times: int) -> set[int]:
    command = [sys.executable, "-m", "sordino", *arguments]
    return {subprocess.run(command, capture_output=True, check=False).returncode for _ in range(times)}


def test_a_refusal_ends_with_its_exit_code(tmp_path):
    assert exit_codes(["schema", "check", SCHEMA, str(uneven_csv(tmp_path / "bad.csv", 1_500_000))], 2) == {2}


CUT_SHORT = """
import atexit, os, sys
{loaded}
import sordino.cli
cli = sys.modules['sordino.cli.main']
cli.main = lambda: print("said") or {code}
atexit.register(os.abort)  # what a library's exit handler does to a thread that still runs
cli.program()
"""


@pytest.mark.parametrize(
    ("loaded", "code", "ends"),
    [
        ("import jax", 2, 2),
        pytest.param("import jax", 130, 130, marks=pytest.mark.slow),
        ("import jax", 0, -6),
        ("", 2, -6),
    ],
)
def test_a_process_cut_short_after_jax_was_loaded_ends_without_its_exit_handlers(loaded, code, ends):
    """One that has done its work, or never loaded JAX, ends as every process does."""
    script = CUT_SHORT.format(loaded=loaded, code=code)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == ends
    assert ends < 0 or ran.stdout == "said\n"


@pytest.mark.slow
def test_none_of_sixty_refusals_aborts(tmp_path):
    assert exit_codes(["schema", "check", SCHEMA, str(uneven_csv(tmp_path / "bad.csv", 30_000_000))], 60) == {2}
