"""`sordino reproduce`: the papers' figures and tables again, each beside the paper's numbers.

The items live in `papers/` at the root of a checkout, outside the installed package: this command finds that folder.
"""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli import shared
from sordino.cli.shared import AsJson
from sordino.core.validate import InputError

SHORT = "Run figures and tables of the papers again."
EXAMPLES = ("sordino reproduce --list", "sordino reproduce heller-fetaya-fig1 --quick --out results")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Items to run; see --list.", autocompletion=shared.items),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every item whose data are at hand.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the items and what they reproduce.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write into: papers/ of the checkout, with --quick results/."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of benchmark data, for the items that use it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and smaller runs.")] = False,
    checked: Annotated[
        bool, typer.Option("--check", help="Write nothing; name what differs from the files in --out.")
    ] = False,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Run again what pages read from records too; hours, some on a GPU.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compute figures and tables of the papers again, and compare them with the printed numbers."""
    if sum((bool(names), every, listed)) != 1:
        raise InputError("Expected one of NAME..., --all or --list, got none or several; see sordino reproduce --help.")
    if listed and checked:
        raise InputError("Expected --check beside NAME... or --all, got it with --list; leave one of them out.")
    if afresh and (listed or quick):
        raise InputError("Expected --afresh with full runs, got it with --list or --quick; leave one of them out.")
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"Expected --data-dir to be a folder, got {str(data_dir)!r}; give an existing one.")
    papers = _papers_command()
    if listed:
        papers.list_items(as_json)
    else:
        run = papers.check if checked else papers.reproduce
        target = out or (Path("results") if quick else shared.papers_folder())
        run(None if every else tuple(names or ()), papers.Options(quick, data_dir, seed), target, as_json, afresh)


def _papers_command() -> Any:
    """The module of the checkout that runs items, or a refusal that says where the papers are."""
    root = shared.papers_folder()
    if root is None:
        raise InputError(
            "Expected a checkout of Sordino, got an installed package without the folder papers/; "
            "get the source tree and run pip install -e '.[reproduce]' there."
        )
    if str(root.parent) not in sys.path:
        sys.path.insert(0, str(root.parent))
    return importlib.import_module("papers.framework.command")
