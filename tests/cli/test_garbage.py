"""Every subcommand, given what is no input at all: exit code 2 and one line that a terminal can be trusted with."""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sordino.cli.main import main
from tests.cli.console import EVERY, NAMED, refusal, shown

# What else a subcommand wants before it looks at its files; an option that is not here gets a word.
NEEDED = {"--epsilon": "1", "--delta": "1e-5", "--relation": "replace-one", "--dataset": "clinic"}
NUMBERS = {"delta", "epsilon", "seed", "models", "confidence", "reserve"}
SUFFIXES = ("json", "csv", "parquet")
ESCAPES = "\x1b[2J\x1b]0;owned\x07\n\u202efdp"
TAKES_FILES = pytest.mark.parametrize(
    ("path", "command"),
    [
        pytest.param(path, command, id=" ".join(path))
        for path, command in EVERY
        if any(one.param_type_name == "argument" for one in command.params)
    ],
)


def arguments(path: tuple[str, ...], command: Any, given: object) -> list[str]:
    """The command line with `given` in every place of a file."""
    places = [one for one in command.params if one.param_type_name == "argument"]
    options = [one.opts[0] for one in command.params if one.param_type_name == "option" and one.required]
    needed = [word for option in options for word in (option, NEEDED.get(option, "word"))]
    return [*path, *(str(given) for _ in places), *needed]


@pytest.fixture(autouse=True)
def in_time():
    """Fail instead of waiting for ever for a pipe."""

    def late(*_: object) -> None:
        raise TimeoutError("no answer after a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def noise(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(2000))


GARBAGE = {
    "noise": noise,
    "empty": Path.touch,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "nowhere": lambda path: path.symlink_to("/dev/null"),
    "loop": lambda path: path.symlink_to(path),
}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and alarms are POSIX")
@TAKES_FILES
def test_every_subcommand_refuses_garbage_in_one_line(capsys, tmp_path, path, command):
    for kind, make in GARBAGE.items():
        for suffix in SUFFIXES:
            name = tmp_path / f"{kind}.{suffix}"
            make(name)
            refusal(capsys, *arguments(path, command, name))
    left = {f"{kind}.{suffix}" for kind in GARBAGE for suffix in SUFFIXES}
    assert {one.name for one in tmp_path.iterdir()} == left


@TAKES_FILES
def test_no_subcommand_sends_a_name_to_the_terminal_as_it_is(capsys, tmp_path, path, command):
    """A file name may hold line breaks, escape sequences, directional marks and bytes that are not text."""
    for suffix in SUFFIXES:
        noise(tmp_path / f"{ESCAPES}.{suffix}")
        refusal(capsys, *arguments(path, command, tmp_path / f"{ESCAPES}.{suffix}"))
    for missing in (ESCAPES, os.fsdecode(b"\xff\xfe"), "x" * 5000, ""):
        refusal(capsys, *arguments(path, command, tmp_path / "absent" / f"{missing}.json"))


@NAMED
def test_unknown_options_and_values_of_the_wrong_kind_are_refused(capsys, tmp_path, path, command):
    assert "\\x1b" in refusal(capsys, *path, f"--{ESCAPES}")
    for option in (one.opts[0] for one in command.params if one.param_type_name == "option" and one.name in NUMBERS):
        refusal(capsys, *arguments(path, command, tmp_path / "absent.json"), option, ESCAPES)


def test_running_out_of_memory_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("sordino.accounting.evaluate.read_spec", lambda _: bytearray(2**62))
    assert "does not fit into the memory" in refusal(capsys, "certify", "spec.json", code=1)


def test_markup_in_a_reason_is_text(capsys, tmp_path):
    """A spec may hold any printable sentence; the tables print it instead of obeying it."""
    golden = Path(__file__).parents[2] / "examples" / "specs" / "golden-poisson.json"
    spec = json.loads(golden.read_text())
    stated = {"value": 1.0, "evidence": "declared", "reason": "[/red] :smile: [bold]x"}
    spec["problem"]["gradient_bound"] = stated
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert stated["reason"] in " ".join(shown(capsys, "certify", tmp_path / "spec.json").split())


def test_column_names_are_spelled_out_on_standard_output(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(f'age,"{ESCAPES}"\n1,2\n')
    age = {"name": "age", "kind": "number", "low": 0, "high": 120}
    schema = {"format": "sordino-schema", "version": 1, "records": 1, "intercept": True, "columns": [age]}
    (tmp_path / "a.json").write_text(json.dumps(schema))
    assert main(["schema", "check", str(tmp_path / "a.json"), str(tmp_path / "a.csv")]) == 2
    text = capsys.readouterr().out
    assert "\\x1b[2J" in text
    assert all(line.isprintable() for line in text.splitlines())
