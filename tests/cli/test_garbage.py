"""Every subcommand, given what is no input at all: exit code 2 and one line that a terminal can be trusted with."""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sordino.cli.main import main
from tests.cli.every_subcommand import EVERY, NAMED

# What else a subcommand wants before it looks at its files; an option that is not here gets a word.
NEEDED = {"--epsilon": "1", "--delta": "1e-5", "--relation": "replace-one", "--dataset": "clinic"}
SUFFIXES = ("json", "csv", "parquet")
AGE = {"name": "age", "kind": "number", "low": 0, "high": 120}
ESCAPES = "\x1b[2J\x1b]0;owned\x07\n\u202efdp"


TAKES_FILES = tuple(
    (path, command) for path, command in EVERY if any(one.param_type_name == "argument" for one in command.params)
)


def arguments(path: tuple[str, ...], command: Any, given: str) -> list[str]:
    """The command line with `given` in every place of a file."""
    places = [one for one in command.params if one.param_type_name == "argument"]
    options = [one.opts[0] for one in command.params if one.param_type_name == "option" and one.required]
    needed = [word for option in options for word in (option, NEEDED.get(option, "word"))]
    return [*path, *(given for _ in places), *needed]


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail instead of waiting for ever for a pipe."""

    def late(*_: object) -> None:
        raise TimeoutError(f"no answer after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refusal(capsys: pytest.CaptureFixture[str], line: list[str]) -> str:
    with at_most(30):
        code = main(line)
    streams = capsys.readouterr()
    assert (code, streams.out) == (2, ""), streams
    assert streams.err.startswith("sordino: ")
    assert streams.err.endswith("\n")
    assert streams.err[:-1].isprintable()
    return streams.err


def noise(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(2000))


def loop(path: Path) -> None:
    path.symlink_to(path)


GARBAGE = {
    "noise": noise,
    "empty": Path.touch,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "nowhere": lambda path: path.symlink_to("/dev/null"),
    "loop": loop,
}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and alarms are POSIX")
@pytest.mark.parametrize(("path", "command"), TAKES_FILES, ids=[" ".join(path) for path, _ in TAKES_FILES])
def test_every_subcommand_refuses_garbage_in_one_line(capsys, tmp_path, path, command):
    for kind, make in GARBAGE.items():
        for suffix in SUFFIXES:
            name = tmp_path / f"{kind}.{suffix}"
            make(name)
            refusal(capsys, arguments(path, command, str(name)))
    left = {f"{kind}.{suffix}" for kind in GARBAGE for suffix in SUFFIXES}
    assert {one.name for one in tmp_path.iterdir()} == left


@pytest.mark.parametrize(("path", "command"), TAKES_FILES, ids=[" ".join(path) for path, _ in TAKES_FILES])
def test_no_subcommand_sends_a_name_to_the_terminal_as_it_is(capsys, tmp_path, path, command):
    """A file name may hold line breaks, escape sequences, directional marks and bytes that are not text."""
    for suffix in SUFFIXES:
        noise(tmp_path / f"{ESCAPES}.{suffix}")
        refusal(capsys, arguments(path, command, str(tmp_path / f"{ESCAPES}.{suffix}")))
        for missing in (ESCAPES, os.fsdecode(b"\xff\xfe"), "x" * 5000, ""):
            refusal(capsys, arguments(path, command, str(tmp_path / "absent" / f"{missing}.{suffix}")))


@NAMED
def test_unknown_options_are_refused_without_echoing_escapes(capsys, path, command):
    assert "\\x1b" in refusal(capsys, [*path, f"--{ESCAPES}"])


@NAMED
def test_values_of_the_wrong_kind_are_refused(capsys, tmp_path, path, command):
    """Numbers that are none; every option that takes a number has a type, so the value is looked at first."""
    numbers = [
        one.opts[0]
        for one in command.params
        if one.param_type_name == "option"
        and one.name in {"delta", "epsilon", "seed", "models", "confidence", "reserve"}
    ]
    for option in numbers:
        line = arguments(path, command, str(tmp_path / "absent.json"))
        refusal(capsys, [*line, option, ESCAPES])


def test_running_out_of_memory_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("sordino.cli.certify.read_spec", lambda _: bytearray(2**62))
    assert main(["certify", "spec.json"]) == 1
    assert (
        capsys.readouterr().err
        == "sordino: Expected input that fits into memory, got more than this machine can hold.\n"
    )


def test_markup_in_a_reason_is_text(capsys, tmp_path):
    """A spec may hold any printable sentence; the tables print it instead of obeying it."""
    golden = Path(__file__).parents[2] / "examples" / "specs" / "golden-poisson.json"
    spec = json.loads(golden.read_text())
    stated = spec["problem"]["gradient_bound"]
    number = stated["value"] if isinstance(stated, dict) else stated
    spec["problem"]["gradient_bound"] = {"value": number, "evidence": "declared", "reason": "[/red] :smile: [bold]x"}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main(["certify", str(tmp_path / "spec.json")]) == 0
    assert "[/red] :smile: [bold]x" in " ".join(capsys.readouterr().out.split())


def test_column_names_are_spelled_out_on_standard_output(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(f'age,"{ESCAPES}"\n1,2\n')
    schema = {"format": "sordino-schema", "version": 1, "records": 1, "intercept": True, "columns": [AGE]}
    (tmp_path / "a.json").write_text(json.dumps(schema))
    assert main(["schema", "check", str(tmp_path / "a.json"), str(tmp_path / "a.csv")]) == 2
    shown = capsys.readouterr().out
    assert "\\x1b[2J" in shown
    assert all(line.isprintable() for line in shown.splitlines())
