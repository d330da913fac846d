"""`sordino show RELEASE`: coefficients, margins and effects in the units of the table; post-processing, so free."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import AsJson, check_ending, optional_text, print_json, write_text
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, one_of, printable, refuse, whole_number

if TYPE_CHECKING:
    from sordino.estimators.released import Release
    from sordino.estimators.shown_table import ShownTable
    from sordino.ledger.release import StoredRelease

FORMATS = ("text", "csv", "latex", "html", "json")
SHORT = "Coefficients, margins, or the answers of a look, with intervals; costs no budget."
EXAMPLES = (
    "sordino show release",
    "sordino show release --level 0.9 --contrast age=1,dose=-1 --wald age,dose",
    "sordino show release --effects --at ward=surgery",
    "sordino show release --margins age --format latex --out margins.tex",
    "sordino show release --draws 1000 --format csv --out draws.csv",
    "sordino show release --plot forest.svg --json",
)


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    level: Annotated[float, typer.Option(help="Level of intervals, in (0, 1).")] = 0.95,
    contrast: Annotated[
        list[str] | None,
        typer.Option(help="A sum of coefficients such as age=1,dose=-1, with its interval and test; may be repeated."),
    ] = None,
    wald: Annotated[
        list[str] | None,
        typer.Option(help="Names such as age,dose: the joint test that all of them are 0; may be repeated."),
    ] = None,
    margins: Annotated[
        list[str] | None,
        typer.Option(help="A column: mean outcomes at its values instead of coefficients; may be repeated, or all."),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Effects as differences of mean outcomes, instead of coefficients.")
    ] = False,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Of margins and effects: hold a column at a value, such as ward=surgery; may be repeated."),
    ] = None,
    over: Annotated[
        Path | None, typer.Option(help="Of margins and effects: average over the rows of this public table.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="So many draws of the coefficients instead, as CSV or JSON.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of --draws: for the same ones again.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a forest plot here, as SVG.")] = None,
    format: Annotated[  # noqa: A002  (the word of the option)
        str | None, typer.Option(help=f"One of {', '.join(FORMATS)}; absent: text.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the answer here instead of to stdout.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a release says in the units of the table.

    For a fit by bounded influence: estimate, standard error, interval, z, p-value, odds or rate ratios, and which share
    of each width is sampling, privacy and prior. For older methods estimates, with intervals only where it was measured
    how often they hold, and no tests. With --margins or --effects it is mean outcomes: probabilities, rates or means in
    the units of the target, from the posterior and from declared or public values. It reads the folder, no private row,
    and costs no budget.
    """
    number("level", level, OPEN_UNIT)
    check_ending("--plot", plot, ".svg")
    form = "json" if as_json else one_of("--format", format or "text", FORMATS)
    if as_json and format not in (None, "json"):
        raise InputError(f"Expected --json or --format {format}, got both; leave one out.")
    if draws is not None:
        whole_number("--draws", draws, Interval(1, 1_000_000))
        one_of("--format with --draws", form if format or as_json else "csv", ("csv", "json"))
    outcomes = bool(margins or effects)
    if (at or over is not None) and not outcomes:
        raise InputError("Expected --at and --over with --margins or --effects, got them alone; leave them out.")
    if outcomes + (draws is not None) + bool(contrast or wald or plot) > 1 or (margins and effects):
        raise InputError(
            "Expected one of --margins, --effects, --draws, or --contrast, --wald and --plot, got several; ask twice."
        )
    # Imported here: bad input is refused without them.
    from sordino.estimators.released import read_release  # noqa: PLC0415
    from sordino.estimators.tasks import is_fit  # noqa: PLC0415

    stored = read_release(release)
    if not is_fit(stored.settings):
        if contrast or wald or plot is not None or outcomes or draws is not None:
            raise InputError(f"This release is a {stored.kind}; leave these options out, which are about fits.")
        values, table = _of_another_kind(stored, level)
        _answer({"release": str(release)} | values, table, form, out)
    elif draws is not None:
        _draws(stored, draws, seed, "json" if form == "json" else "csv", out)
    elif outcomes:
        from sordino.estimators import margins as found  # noqa: PLC0415

        names = None if effects or "all" in (margins or ()) else margins
        kept = {"at": _values(at or ()), "over": None if over is None else str(over), "level": level}
        made = found.effects(stored, names, **kept) if effects else found.margins(stored, names, **kept)
        _answer({"release": str(release)} | made.as_dict(), made.shown, form, out)
    else:
        _coefficients(stored, release, level, contrast or [], wald or [], plot, form, out)


def _answer(answer: dict[str, Any], shown: "ShownTable", form: str, out: Path | None, more: str = "") -> None:
    """A table in one of the forms, to stdout or to a file."""
    if form == "json":
        if out is None:
            print_json(answer)
            return
        from sordino.cli.shared import json_text  # noqa: PLC0415

        text = json_text(answer)
    else:
        text = shown.to(form).rstrip("\n") + (more if form == "text" else "")
    if out is None:
        typer.echo(text)
        return
    write_text(out, text.rstrip("\n") + "\n")
    typer.echo(printable(f"written: {out}"))


def _values(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise refuse("--at", "to read like ward=surgery", text)
        found[name.strip()] = value.strip()
    return found


def _draws(stored: "StoredRelease", draws: int, seed: int | None, form: str, out: Path | None) -> None:
    from sordino.cli.shared import json_text  # noqa: PLC0415
    from sordino.estimators.draws import named_draws  # noqa: PLC0415
    from sordino.estimators.shown_table import as_csv  # noqa: PLC0415

    table = {name: values.tolist() for name, values in named_draws(stored, draws, seed).items()}
    text = json_text(table) + "\n" if form == "json" else as_csv(table)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(printable(f"written: {out}"))


def _of_another_kind(stored: "Release", level: float) -> tuple[dict[str, Any], "ShownTable"]:
    """What a machine and a person read of a release that is no fit of an estimator."""
    from sordino.estimators.summary import Summary  # noqa: PLC0415

    table = stored.summary(level)
    if isinstance(table, Summary):
        return table.as_dict(), table.shown
    names = ("answers", "bands", "models", "about", "level")
    return {name: stored.settings[name] for name in names if name in stored.settings}, table


def _coefficients(
    stored: "StoredRelease",
    folder: Path,
    level: float,
    contrast: list[str],
    wald: list[str],
    plot: Path | None,
    form: str,
    out: Path | None,
) -> None:
    from sordino.estimators.inference import coefficients_of, summary_of  # noqa: PLC0415
    from sordino.estimators.inference_table import contrast as contrasted  # noqa: PLC0415
    from sordino.estimators.inference_table import parsed_contrast, parsed_names  # noqa: PLC0415
    from sordino.estimators.inference_table import wald as tested  # noqa: PLC0415
    from sordino.estimators.summary import lines_as_text  # noqa: PLC0415

    found = summary_of(stored, level)
    known = coefficients_of(stored) if contrast or wald else None
    sums = tuple(contrasted(known, parsed_contrast(words), level) for words in contrast if known is not None)
    tests = tuple(tested(known, parsed_names(known, words)) for words in wald if known is not None)
    if form not in ("text", "json") and (sums or tests):
        raise InputError(f"Expected --format text or json with --contrast and --wald, got {form}; ask for them apart.")
    if plot is not None:
        from sordino.report.figures import forest_figure, forest_rows  # noqa: PLC0415

        if not found.tested or not forest_rows(found.lines, ratio=False):
            raise InputError(
                "Expected a release whose intervals are known to hold for --plot, got another; leave --plot out."
            )
        target = None if stored.schema is None or stored.schema.target is None else stored.schema.target.name
        write_text(plot, forest_figure(found, target or ""))
    extra = {"contrasts": [one.as_dict() for one in sums], "wald": [one.as_dict() for one in tests]}
    answer = {"release": str(folder)} | found.as_dict() | extra | {"plot": optional_text(plot)}
    more = "\n\n" + lines_as_text(found, sums) if sums else ""
    more += "".join(f"\n\n{one}" for one in tests)
    more += f"\n\nforest plot: {printable(str(plot))}" if plot is not None else ""
    _answer(answer, found.shown, form, out, more)
