"""`sordino reproduce`: the papers' figures and tables again, each beside the paper's numbers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.core.errors import InputError
from sordino.core.printable import printable

if TYPE_CHECKING:
    from sordino.reproduce import Item, Options, Outcome


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Items to run; see --list.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every item whose data are at hand.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the items and what they reproduce.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write into, one folder an item.")] = Path(
        "results"
    ),
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of benchmark data, for the items that use it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and smaller runs.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")] = False,
) -> None:
    """Run figures and tables of the papers again and say how they compare."""
    # Items import the samplers; --help and bad flags answer at once.
    from sordino.reproduce import Options, every_item, item_named  # noqa: PLC0415

    if sum((bool(names), every, listed)) != 1:
        raise InputError("Expected one of NAME..., --all or --list, got none or several; see sordino reproduce --help.")
    if listed:
        _list(every_item(), as_json)
        return
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"Expected --data-dir to be a folder, got {str(data_dir)!r}; give an existing one.")
    wanted = every_item() if every else tuple(item_named(name) for name in names or ())
    left_out = tuple(one for one in wanted if every and one.needs and data_dir is None)
    done = _run(tuple(one for one in wanted if one not in left_out), Options(quick, data_dir, seed), out)
    if as_json:
        answer = {"items": [_as_json(one, outcome, out) for one, outcome in done]}
        answer["left_out"] = [{"name": one.name, "needs": list(one.needs)} for one in left_out]
        typer.echo(json.dumps(answer, indent=2))
        return
    for one, outcome in done:
        place = printable(str(out / one.name / "README.md"))
        typer.echo(f"{one.name}: {outcome.verdict.kind}. {outcome.verdict.because}\n  {place}")
    for one in left_out:
        typer.echo(f"{one.name}: left out, it needs {', '.join(one.needs)}; pass --data-dir.")


def _list(found: "tuple[Item, ...]", as_json: bool) -> None:
    if as_json:
        rows = [{"name": one.name, "reproduces": one.source, "needs": list(one.needs)} for one in found]
        typer.echo(json.dumps({"items": rows}, indent=2, ensure_ascii=False))
        return
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        data = f" (needs {', '.join(one.needs)})" if one.needs else ""
        typer.echo(f"{one.name:{width}}  {one.source}{data}")


def _run(wanted: "tuple[Item, ...]", options: "Options", out: Path) -> "list[tuple[Item, Outcome]]":
    """Run one after the other, with a progress bar where a person is looking."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from sordino.reproduce import run_item, write_index  # noqa: PLC0415

    console = Console(stderr=True)
    done: list[tuple[Item, Outcome]] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(wanted))
        for one in wanted:
            bar.update(task, description=one.name)
            done.append((one, run_item(one.name, options, out)))
            bar.advance(task)
    if done:
        write_index(out)
    return done


def _as_json(item: "Item", outcome: "Outcome", out: Path) -> dict[str, Any]:
    return {
        "name": item.name,
        "reproduces": item.source,
        "verdict": outcome.verdict.kind.value,
        "because": outcome.verdict.because,
        "folder": str(out / item.name),
        "tables": [table.name for table in outcome.tables],
        "figures": [figure.name for figure in outcome.figures],
    }
