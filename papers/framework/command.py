"""What `sordino reproduce` does once it has found this folder: run items, write their pages, print a summary."""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from papers.framework.item import Item, Options, every_item, item_named
from papers.framework.kinds import unlike
from papers.framework.records import Again, make_again, records_of
from papers.framework.writing import TOLERANCE, Attempt, Checked, attempt_items, check_item, index_pages, write_index
from sordino.core.validate import printable


def reproduce(names: tuple[str, ...] | None, options: Options, out: Path, as_json: bool, afresh: bool) -> None:
    """Run the named items, or every item whose data are at hand, and exit with the worst of their codes.

    With `afresh` the records behind them are made first, where this machine can make them.
    """
    wanted, left_out = _wanted(names, options)
    again, absent = _records(wanted, options, as_json, write=True) if afresh else ((), {})
    done = _run(wanted, options, out)
    if len(done) == 1 and isinstance(done[0].result, Exception):
        raise done[0].result
    if as_json:
        answer: dict[str, Any] = {"items": [_as_json(one, out) for one in done]}
        answer["left_out"] = [{"name": one.name, "needs": list(one.needs)} for one in left_out]
        if afresh:
            answer["records"] = [_record_as_json(one) for one in again]
            answer["records_left_out"] = absent
        typer.echo(json.dumps(answer, indent=2))
    else:
        _summarise(done, left_out, out)
    # A failure inside is worse news than a refusal.
    codes = {one.exit_code for one in done} | {1 if one.failed else 0 for one in again}
    if codes - {0}:
        raise typer.Exit(min(codes - {0}))


def _wanted(names: tuple[str, ...] | None, options: Options) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """The items to run, and those that are left out because their data are not named."""
    wanted = every_item() if names is None else tuple(item_named(name) for name in names)
    left_out = tuple(one for one in wanted if names is None and one.needs and options.data_dir is None)
    return tuple(one for one in wanted if one not in left_out), left_out


def _records(
    wanted: Sequence[Item], options: Options, as_json: bool, write: bool
) -> tuple[tuple[Again, ...], dict[str, str]]:
    """Make the records of some items again, telling of each as it is done; and those that cannot be, and why."""
    records = records_of(wanted)
    absent = {one.name: missing for one in records if (missing := one.missing(options.data_dir))}
    again = []
    for one in records:
        if one.name not in absent:
            again.append(make_again(one, options.data_dir, write))
            if not as_json:
                typer.echo(printable(f"record {one.name}: {_told(again[-1])}, {again[-1].seconds:.1f} seconds"))
        elif not as_json:
            typer.echo(f"record {one.name}: left as it is, it needs {absent[one.name]}.")
    return tuple(again), absent


def _told(again: Again) -> str:
    """In words, how a record that was made again compares with the kept one."""
    if again.failed:
        return f"failed ({again.failed})"
    if again.apart == 0.0:
        return "every number the same"
    other = f" (another kind: {words})" if (words := unlike(again.made, again.kept)) else ""
    return f"{_gap(again.apart)}{other}"


def _gap(gap: float) -> str:
    return f"numbers apart by at most {gap:.1g} of themselves" if math.isfinite(gap) else "not the same"


def check(names: tuple[str, ...] | None, options: Options, out: Path, as_json: bool, afresh: bool) -> None:
    """Run items again and compare their files with those in `out`; exit with 1 where some differ.

    On the kind of processor that they were made on they are compared byte for byte, elsewhere by their numbers.
    """
    wanted, left_out = _wanted(names, options)
    again, absent = _records(wanted, options, as_json, write=False) if afresh else ((), {})
    rows = [_record_as_json(one) for one in again]
    for one in wanted:
        begun = time.perf_counter()
        found = _compared(one, options, out, alone=len(wanted) == 1)
        seconds = time.perf_counter() - begun
        rows.append({"name": one.name, "differ": list(found.differ), "seconds": round(seconds, 3)})
        if found.other_kind:
            rows[-1] |= {"apart": found.apart, "other_kind": found.other_kind}
        if not as_json:
            typer.echo(printable(f"{one.name}: {_differences(found)}, {seconds:.1f} seconds"))
    if names is None:
        pages = index_pages(out).items()
        stale = [page.name for page, text in pages if not page.is_file() or page.read_text(encoding="utf-8") != text]
        rows.append({"name": "pages above the items", "differ": stale, "seconds": 0.0})
        if not as_json:
            typer.echo(f"pages above the items: {_differences(Checked(tuple(stale)))}")
    failed = [row for row in rows if row["differ"]]
    if as_json:
        answer = {"checked": rows, "left_out": [one.name for one in left_out]}
        typer.echo(json.dumps(answer | ({"records_left_out": absent} if afresh else {}), indent=2))
    else:
        for one in left_out:
            typer.echo(f"{one.name}: left out, it needs {', '.join(one.needs)}; pass --data-dir.")
        total = sum(row["seconds"] for row in rows)
        typer.echo(f"{len(rows) - len(failed)} the same, {len(failed)} not, {total:.0f} seconds.")
    if failed:
        raise typer.Exit(1)


def _compared(one: Item, options: Options, out: Path, alone: bool) -> Checked:
    """The files that differ; an item that fails differs as a whole, and the others are still looked at."""
    try:
        return check_item(one.name, options, out)
    except Exception as error:
        if alone:
            raise
        return Checked((" ".join(f"everything ({type(error).__name__}: {error})".split()),))


def _differences(found: Checked) -> str:
    kind = f" (another kind: {found.other_kind})" if found.other_kind else ""
    if found.differ:
        gap = f", {_gap(found.apart)}" if math.isfinite(found.apart) and found.apart else ""
        return f"differs in {', '.join(found.differ)}{gap}{kind}"
    return f"{_gap(found.apart)}{kind}" if found.apart else "the same, byte for byte"


def _record_as_json(again: Again) -> dict[str, Any]:
    """A record is said to differ beyond the tolerance, and on the same kind wherever a number does."""
    other = unlike(again.made, again.kept)
    differs = again.apart > (TOLERANCE if other else 0.0)
    row: dict[str, Any] = {"name": again.record.name, "differ": [again.failed or "numbers"] if differs else []}
    row |= {"seconds": round(again.seconds, 3)}
    return row | ({"apart": again.apart if math.isfinite(again.apart) else None, "other_kind": other} if other else {})


def _summarise(done: tuple[Attempt, ...], left_out: tuple[Item, ...], out: Path) -> None:
    for one in done:
        typer.echo(printable(f"{one.item.name}: {one.verdict}. {one.because}"))
        if one.outcome is not None:
            typer.echo(f"  {printable(str(out / one.item.folder / 'README.md'))}, {one.seconds:.1f} seconds")
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
        "folder": str(out / one.item.folder),
        "tables": [table.name for table in one.outcome.tables],
        "figures": [figure.name for figure in one.outcome.figures],
    }
