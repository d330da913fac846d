"""`sordino reproduce`: the papers' figures and tables again, each beside the paper's numbers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli import completion
from sordino.core.errors import InputError
from sordino.core.printable import printable

if TYPE_CHECKING:
    from sordino.reproduce import Attempt, Item, Options

SHORT = "Run figures and tables of the papers again."
EXAMPLES = ("sordino reproduce --list", "sordino reproduce heller-fetaya-fig1 --quick --out results")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Items to run; see --list.", autocompletion=completion.items),
    ] = None,
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
    if len(done) == 1 and isinstance(done[0].result, Exception):
        raise done[0].result
    if as_json:
        answer = {"items": [_as_json(one, out) for one in done]}
        answer["left_out"] = [{"name": one.name, "needs": list(one.needs)} for one in left_out]
        typer.echo(json.dumps(answer, indent=2))
    else:
        _summarise(done, left_out, out)
    # A failure inside is worse news than a refusal.
    codes = {one.exit_code for one in done} - {0}
    if codes:
        raise typer.Exit(min(codes))


def _summarise(done: "tuple[Attempt, ...]", left_out: "tuple[Item, ...]", out: Path) -> None:
    for one in done:
        typer.echo(printable(f"{one.item.name}: {one.verdict}. {one.because}"))
        if one.outcome is not None:
            typer.echo(f"  {printable(str(out / one.item.name / 'README.md'))}")
    for item in left_out:
        typer.echo(f"{item.name}: left out, it needs {', '.join(item.needs)}; pass --data-dir.")
    if len(done) > 1:
        width = max(len(one.item.name) for one in done)
        typer.echo(f"\n{'item':{width}}  {'verdict':24}  seconds")
        for one in done:
            typer.echo(f"{one.item.name:{width}}  {one.verdict:24}  {one.seconds:7.1f}")
        failed = sum(one.outcome is None for one in done)
        total = sum(one.seconds for one in done)
        left = f", {len(left_out)} left out" if left_out else ""
        typer.echo(f"{len(done) - failed} done, {failed} failed{left}, {total:.0f} seconds.")


def _list(found: "tuple[Item, ...]", as_json: bool) -> None:
    if as_json:
        rows = [{"name": one.name, "reproduces": one.source, "needs": list(one.needs)} for one in found]
        typer.echo(json.dumps({"items": rows}, indent=2, ensure_ascii=False))
        return
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        data = f" (needs {', '.join(one.needs)})" if one.needs else ""
        typer.echo(f"{one.name:{width}}  {one.source}{data}")


def _run(wanted: "tuple[Item, ...]", options: "Options", out: Path) -> "tuple[Attempt, ...]":
    """Run one after the other, with a progress bar where a person is looking."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from sordino.reproduce import attempt_items, write_index  # noqa: PLC0415

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(wanted), completed=-1)

        def starting(one: "Item") -> None:
            bar.update(task, description=one.name, advance=1)

        done = attempt_items(wanted, options, out, starting)
    if any(one.outcome is not None for one in done):
        write_index(out)
    return done


def _as_json(one: "Attempt", out: Path) -> dict[str, Any]:
    answer = {"name": one.item.name, "reproduces": one.item.source, "verdict": one.verdict, "because": one.because}
    answer |= {"seconds": round(one.seconds, 3)}
    if one.outcome is None:
        return answer
    return answer | {
        "folder": str(out / one.item.name),
        "tables": [table.name for table in one.outcome.tables],
        "figures": [figure.name for figure in one.outcome.figures],
    }
