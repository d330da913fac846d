"""`sordino show RELEASE`: coefficients with intervals and tests in the units of the table; post-processing, so free."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, check_ending, optional_text, print_json, write_text
from sordino.core.validate import OPEN_UNIT, InputError, number, printable

SHORT = "Coefficients, or the answers of a look, with intervals; costs no budget."
EXAMPLES = (
    "sordino show release",
    "sordino show release --level 0.9 --contrast age=1,dose=-1 --wald age,dose",
    "sordino show release --plot forest.svg --table table.tex",
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
    plot: Annotated[Path | None, typer.Option(help="Write a forest plot here, as SVG.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="Write the table here: Markdown (.md), LaTeX (.tex), or CSV with all digits.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the coefficients of a release in the units of the table.

    For a fit by bounded influence: estimate, standard error, interval, z, p-value, odds or rate ratios, and which share
    of each width is sampling, privacy and prior. For older methods estimates, with intervals only where it was measured
    how often they hold, and no tests. It reads the folder, no row, and costs no budget.
    """
    number("level", level, OPEN_UNIT)
    check_ending("--plot", plot, ".svg")
    check_ending("--table", table, ".md", ".tex", ".csv")
    # Imported here: bad input is refused without them.
    from sordino.estimators.inference import coefficients_of, lines_as_text, summary_of  # noqa: PLC0415
    from sordino.estimators.inference_table import contrast as contrasted  # noqa: PLC0415
    from sordino.estimators.inference_table import parsed_contrast, parsed_names  # noqa: PLC0415
    from sordino.estimators.inference_table import wald as tested  # noqa: PLC0415
    from sordino.estimators.look import LOOK, answers_as_text  # noqa: PLC0415
    from sordino.ledger.release import read_release  # noqa: PLC0415

    stored = read_release(release)
    if stored.kind == LOOK:
        if contrast or wald or plot is not None or table is not None:
            raise InputError("Expected a fit for --contrast, --wald, --plot and --table, got a look; leave them out.")
        if as_json:
            print_json(
                {"release": str(release), "level": stored.settings["level"], "answers": stored.settings["answers"]}
            )
        else:
            typer.echo("\n".join(map(printable, answers_as_text(stored).splitlines())))
        return
    found = summary_of(stored, level)
    known = coefficients_of(stored) if contrast or wald else None
    sums = tuple(contrasted(known, parsed_contrast(words), level) for words in contrast or () if known is not None)
    tests = tuple(tested(known, parsed_names(known, words)) for words in wald or () if known is not None)
    if plot is not None:
        from sordino.report.figures import forest_figure, forest_rows  # noqa: PLC0415

        if not found.tested or not forest_rows(found.lines, ratio=False):
            raise InputError(
                "Expected a release whose intervals are known to hold for --plot, got another; leave --plot out."
            )
        target = None if stored.schema is None or stored.schema.target is None else stored.schema.target.name
        write_text(plot, forest_figure(found, target or ""))
    if table is not None:
        from sordino.report.paper_table import paper_table  # noqa: PLC0415

        write_text(table, paper_table(found, table.suffix.lower()))
    if as_json:
        extra = {"contrasts": [one.as_dict() for one in sums], "wald": [one.as_dict() for one in tests]}
        files = {"plot": optional_text(plot), "table": optional_text(table)}
        print_json({"release": str(release)} | found.as_dict() | extra | files)
        return
    typer.echo(str(found))
    if sums:
        typer.echo("\n" + lines_as_text(found, sums))
    for one in tests:
        typer.echo(f"\n{one}")
    if plot is not None:
        typer.echo(f"\nforest plot: {printable(str(plot))}")
    if table is not None:
        typer.echo(f"\ntable: {printable(str(table))}")
