"""What `sordino reproduce` does once it has found this folder: run items, write their pages, print a summary."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from papers.framework.item import Item, Options, every_item, item_named
from papers.framework.writing import Attempt, attempt_items, check_item, index_pages, write_index
from sordino.core.validate import printable


def reproduce(names: tuple[str, ...] | None, options: Options, out: Path, as_json: bool) -> None:
    """Run the named items, or every item whose data are at hand, and exit with the worst of their codes."""
    wanted = every_item() if names is None else tuple(item_named(name) for name in names)
    left_out = tuple(one for one in wanted if names is None and one.needs and options.data_dir is None)
    done = _run(tuple(one for one in wanted if one not in left_out), options, out)
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


def check(names: tuple[str, ...] | None, options: Options, out: Path, as_json: bool) -> None:
    """Run items again and compare their files with those in `out`, byte for byte; exit with 1 where some differ."""
    wanted = every_item() if names is None else tuple(item_named(name) for name in names)
    left_out = tuple(one for one in wanted if names is None and one.needs and options.data_dir is None)
    rows: list[dict[str, Any]] = []
    for one in wanted:
        if one not in left_out:
            begun = time.perf_counter()
            differ = _compared(one, options, out, alone=len(wanted) == 1)
            seconds = time.perf_counter() - begun
            rows.append({"name": one.name, "differ": list(differ), "seconds": round(seconds, 3)})
            if not as_json:
                typer.echo(printable(f"{one.name}: {_differences(differ)}, {seconds:.1f} seconds"))
    if names is None:
        pages = index_pages(out).items()
        stale = [page.name for page, text in pages if not page.is_file() or page.read_text(encoding="utf-8") != text]
        rows.append({"name": "pages above the items", "differ": stale, "seconds": 0.0})
        if not as_json:
            typer.echo(f"pages above the items: {_differences(stale)}")
    failed = [row for row in rows if row["differ"]]
    if as_json:
        typer.echo(json.dumps({"checked": rows, "left_out": [one.name for one in left_out]}, indent=2))
    else:
        for one in left_out:
            typer.echo(f"{one.name}: left out, it needs {', '.join(one.needs)}; pass --data-dir.")
        total = sum(row["seconds"] for row in rows)
        typer.echo(f"{len(rows) - len(failed)} the same, {len(failed)} not, {total:.0f} seconds.")
    if failed:
        raise typer.Exit(1)


def _compared(one: Item, options: Options, out: Path, alone: bool) -> tuple[str, ...]:
    """The files that differ; an item that fails differs as a whole, and the others are still looked at."""
    try:
        return check_item(one.name, options, out)
    except Exception as error:
        if alone:
            raise
        return (" ".join(f"everything ({type(error).__name__}: {error})".split()),)


def _differences(files: Sequence[str]) -> str:
    return f"differs in {', '.join(files)}" if files else "the same, byte for byte"


def _summarise(done: tuple[Attempt, ...], left_out: tuple[Item, ...], out: Path) -> None:
    for one in done:
        typer.echo(printable(f"{one.item.name}: {one.verdict}. {one.because}"))
        if one.outcome is not None:
            typer.echo(f"  {printable(str(out / one.item.name / 'README.md'))}, {one.seconds:.1f} seconds")
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


def list_items(as_json: bool) -> None:
    """Print every item and what it reproduces."""
    items = every_item()
    if as_json:
        rows = [{"name": one.name, "reproduces": one.source, "needs": list(one.needs)} for one in items]
        typer.echo(json.dumps({"items": rows}, indent=2, ensure_ascii=False))
        return
    width = max((len(one.name) for one in items), default=0)
    for one in items:
        data = f" (needs {', '.join(one.needs)})" if one.needs else ""
        typer.echo(f"{one.name:{width}}  {one.source}{data}")


def _run(wanted: tuple[Item, ...], options: Options, out: Path) -> tuple[Attempt, ...]:
    """Run one after the other, with a progress bar where a person is looking."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(wanted), completed=-1)

        def starting(one: Item) -> None:
            bar.update(task, description=one.name, advance=1)

        done = attempt_items(wanted, options, out, starting)
    if any(one.outcome is not None for one in done):
        write_index(out)
    return done


def _as_json(one: Attempt, out: Path) -> dict[str, Any]:
    answer = {"name": one.item.name, "reproduces": one.item.source, "verdict": one.verdict, "because": one.because}
    answer |= {"seconds": round(one.seconds, 3)}
    if one.outcome is None:
        return answer
    return answer | {
        "folder": str(out / one.item.name),
        "tables": [table.name for table in one.outcome.tables],
        "figures": [figure.name for figure in one.outcome.figures],
    }
