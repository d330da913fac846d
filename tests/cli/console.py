"""What tests of the command line share: every subcommand, its answers, and its refusals in one line."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from sordino.cli.main import app, main


def subcommands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the application that runs something."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in inner.items():
        yield from subcommands(one, (*path, name))


EVERY = tuple(subcommands(typer.main.get_command(app)))
NAMED = pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])


def shown(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    """What a command prints for a person."""
    capsys.readouterr()
    assert main([*map(str, words)]) == code
    return capsys.readouterr().out


def answer(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> Any:
    """What a command prints for a machine."""
    return json.loads(shown(capsys, *words, "--json", code=code))


def refusal(capsys: pytest.CaptureFixture[str], *words: object, code: int = 2, quiet: bool = True) -> str:
    """The one line on stderr of a command that is refused; nothing is on stdout, unless it lists findings."""
    capsys.readouterr()
    assert main([*map(str, words)]) == code
    streams = capsys.readouterr()
    assert streams.out == "" or not quiet
    assert streams.err.startswith("sordino: ")
    assert streams.err.endswith("\n")
    assert streams.err[:-1].isprintable()
    return streams.err
