"""Every subcommand of the application, for tests that hold for all of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from sordino.cli.main import app


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
