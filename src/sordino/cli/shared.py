"""What commands share: registration, options, answers for people and machines, progress, and the Tab key."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from inspect import Parameter, signature
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from sordino.cli import library
from sordino.core.atomic_write import write_file
from sordino.core.bound import Relation
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.fitting.tasks.base import TaskOption
    from sordino.ledger.release import StoredRelease


class Command(NamedTuple):
    """A subcommand: its name, a line for the list of commands, examples of how it is typed, and what it runs."""

    name: str
    short: str
    examples: tuple[str, ...]
    run: Callable[..., None]


def command(name: str, short: str, *examples: str) -> Callable[[Callable[..., None]], Command]:
    """Make a subcommand of a function, which keeps its options and its help text."""
    return lambda run: Command(name, short, examples, run)


def with_options(options: Iterable["TaskOption"]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function these options of models; what it is given of them comes as `settings`, by name."""
    listed = {one.name: one for one in options if one.help}

    def taking(run: Callable[..., None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            settings = {}
            for one in listed.values():
                value = given.pop(one.name)
                if value not in (None, False):
                    settings[one.name] = value if one.read is None else one.read(value)
            run(**given, settings=settings)

        def parameter(one: "TaskOption") -> Parameter:
            kind = bool if one.kind is bool else one.kind | None
            option = Option(f"--{one.name.replace('_', '-')}", help=one.help)
            default = False if one.kind is bool else None
            return Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])

        own = signature(run, eval_str=True)
        kept = [one.replace(kind=Parameter.KEYWORD_ONLY) for name, one in own.parameters.items() if name != "settings"]
        shown: Any = update_wrapper(called, run)
        shown.__signature__ = own.replace(parameters=[*kept, *map(parameter, listed.values())])
        shown.__annotations__ = {one.name: one.annotation for one in shown.__signature__.parameters.values()}
        return shown

    return taking


def register(app: typer.Typer, *commands: Command) -> None:
    """Add subcommands, each with its examples and the exit codes below its options."""
    for one in commands:
        app.command(one.name, short_help=one.short, epilog=epilog(*one.examples))(one.run)


def group(words: str, *commands: Command) -> typer.Typer:
    """A command that only has subcommands."""
    app = typer.Typer(help=words, rich_markup_mode=None)
    register(app, *commands)
    return app


def answer(as_json: bool, value: Any, *lines: str) -> None:
    """An answer on stdout: JSON for a machine, lines for a person; what does not print is spelled out."""
    if as_json:
        typer.echo(json_text(value))
    for line in () if as_json else lines:
        typer.echo(printable(line))


def json_text(value: Any) -> str:
    """An answer as JSON, in which paths are texts."""
    return json.dumps(value, indent=2, allow_nan=False, default=os.fspath)


def print_document(text: str) -> None:
    """A JSON document on stdout; what does not print is spelled out as JSON does it, so that it reads back the same."""
    shown = (sign if sign == "\n" or sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)
    typer.echo("".join(shown), nl=False)


def write_text(path: Path, text: str) -> None:
    """Write a text whole: a reader sees the old file or the new one."""
    write_file(path, text.encode())


def put(text: str, out: Path | None) -> None:
    """A text on stdout, or whole in the file that is named for it."""
    typer.echo(text, nl=False) if out is None else write_text(out, text)


def check_ending(option: str, path: Path | None, *endings: str) -> None:
    """Refuse a file name whose ending does not say what will be written."""
    if path is not None and path.suffix.lower() not in endings:
        raise InputError(f"Expected {option} to name a file that ends in {endings[0]}, got {str(path)!r}.")


# Printed below the options of every command.
EXIT_CODES = (
    "Exit codes: 0 success; 1 internal error; 2 bad input (one line on stderr); 3 refused by the ledger; 4 an audit "
    "contradicts the certificate; 130 stopped by Ctrl-C."
)

_WIDEST = 72


def epilog(*examples: str) -> str:
    """Examples as they are typed, and the exit codes; a backspace keeps the lines from being joined."""
    lines: list[str] = []
    for example in examples:
        program, *options = example.split(" --")
        lines.append(f"  {program}")
        for option in options:  # over several lines where it is long, so that it can be copied as it stands
            if len(lines[-1]) + len(option) > _WIDEST:
                lines[-1] += " \\"
                lines.append("     ")
            lines[-1] += f" --{option}"
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\n".join(["\b", title, *lines, "", EXIT_CODES])


Begin = Callable[[str], None]


@contextmanager
def progress(pieces: int) -> Iterator[Begin]:
    """A function to call with the name of each piece of work as it begins; shown beside a bar, at a terminal only."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    # Names come from outside, so none of them is read as markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, begun = bar.add_task("", total=pieces if pieces > 1 else None), count()
        yield lambda name: bar.update(task, description=printable(name), completed=next(begun))


def among(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the Tab key offers of some words, which are looked up when it is pressed: importing them takes time."""
    return lambda incomplete: sorted(word for word in words() if word.startswith(incomplete))


def engine_address(word: str | None) -> str | None:
    """The address of an engine; a warning says what a scheduler without TLS means."""
    if word is not None and word.startswith("dask://"):
        harm = "anyone who can reach this scheduler can run code on its workers, read their rows and forge answers"
        typer.echo(f"sordino: WARNING: {harm}. Use a tls:// address, or this machine alone.", err=True)
    return word


_ENGINES = (
    "Where to compute: memory (the default), streamed, tls://HOST:PORT or dask://HOST:PORT (a Dask scheduler), or "
    "spark://HOST:PORT. All but memory read the table in parts and fit by bounded-influence."
)
Words = list[str] | None  # of an option that may be repeated
AsJson = Annotated[bool, Option("--json", help="Machine-readable answer on stdout.")]
IsJson = Annotated[bool, Option("--json", help="The answer is JSON either way.")]
EngineWord = Annotated[str | None, Option(callback=engine_address, help=_ENGINES)]
_CLUSTERS = "Fit on processes of this machine (local), or by tls://, dask:// or spark://."
ClusterWord = Annotated[str | None, Option(metavar="ADDRESS", help=_CLUSTERS)]
_SOURCES = "a CSV, Parquet or Arrow file, a folder or pattern, FILE.duckdb#TABLE, or postgresql://HOST/DATABASE#TABLE"
PrivateRows = Annotated[str, Argument(metavar="DATA", help=f"Private rows: {_SOURCES}.")]
RowsToPredict = Annotated[str, Argument(metavar="DATA", help=f"Rows, in which the target may be absent: {_SOURCES}.")]
SpecPath = Annotated[Path, Argument(metavar="SPEC.json", help="Description of the run.")]
TargetDelta = Annotated[float | None, Option(help="Target delta in (0, 1); overrides the spec's.")]
_NEIGHBOURS = "Which datasets are neighbours: replace-one (the number of records is public) or add-remove."
RelationWord = Annotated[str, Option(help=_NEIGHBOURS, autocompletion=among(lambda: Relation))]
ReleaseFolder = Annotated[Path, Argument(metavar="RELEASE", help="Release folder.")]
OutFile = Annotated[Path | None, Option("--out", "--output", help="Write the answer here instead of to stdout.")]

# What commands that spend a budget share: their options, the folder they make, and how they say what was charged.

SchemaFile = Annotated[Path, Option(help="Public schema file; `sordino schema new` writes one.")]
Delta = Annotated[float, Option(help="Delta in (0, 1), far below one over the number of records.")]
OutFolder = Annotated[Path, Option(help="Release folder to create; it must not exist yet.")]
LedgerFile = Annotated[Path | None, Option(help="Ledger file to debit before the rows' values are used.")]
Level = Annotated[float, Option(help="Level of the intervals.")]
Seed = Annotated[int | None, Option(help="Makes the result repeatable and marks the release NON-PRIVATE.")]


def check_out(out: Path) -> None:
    """Refuse a folder that cannot be made, before anything is spent."""
    if out.exists():
        raise InputError(f"{str(out)!r} exists already. Name a new folder for --out.")
    if not out.parent.is_dir():
        raise InputError(f"Expected --out inside an existing folder, got {str(out)!r}; make {str(out.parent)!r} first.")
    if not os.access(out.parent, os.W_OK):
        raise InputError(f"Expected --out inside a folder that can be written to, got {str(out)!r}; choose another.")


def released(as_json: bool, out: Path, release: "StoredRelease", value: dict[str, Any], *lines: str) -> None:
    """Write the folder of a release, and say what it holds and what it cost."""
    library.write_release(out, release)
    answer(as_json, charged_json(release, out) | value, *lines, "", *charged_lines(release, out))


def charged_json(release: "StoredRelease", out: Path) -> dict[str, Any]:
    """What was made and what it cost, for a machine."""
    head = {"release": out, "relation": release.spec.relation.value, **release.protected.to_dict()}
    cost = {"epsilon": release.epsilon, "delta": release.delta, "theorem": release.bound.theorem}
    ledger = None if release.ledger is None else dict(release.ledger)
    return head | cost | {"private": release.private, "ledger": ledger, "warnings": list(release.cautions)}


def charged_lines(release: "StoredRelease", out: Path, details: str = "") -> list[str]:
    """What was made and what it cost, for a person; `details` follow the relation."""
    how = f"{release.spec.relation.value}{details or f' ({release.bound.theorem})'}"
    private = f"epsilon {show_up(release.epsilon)} at delta {release.delta:g}, {how}"
    lines = [f"release   {out}", f"private   {private}", f"unit      {release.protected.words}"]
    if release.protected.group is not None:
        lines.append(f"          {release.protected.group.sentence}")
    if release.ledger is None:
        lines.append("ledger    none: no budget was charged, so other releases are not counted (--ledger)")
    else:
        charged = release.ledger.get("charged_as")
        rest = "" if charged is None else f", charged as {charged}"
        lines.append(f"ledger    entry {release.ledger['entry']} of {release.ledger['dataset']}{rest}")
    if not release.private:
        lines.append("NON-PRIVATE: made with a seed; anyone who knows it can subtract the noise")
    return lines
