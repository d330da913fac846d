"""`sordino plan FAMILY`: standard errors, widths and power to expect, before a row is read or anything is spent."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli import shared
from sordino.cli.shared import AsJson, RelationWord, check_ending, print_json, write_text
from sordino.core.validate import OPEN_UNIT, number, one_of, printable, refuse

# The words of `estimators.planning.FAMILIES`; a test compares them.
FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson", "negative-binomial", "cox")
SHORT = "Expected widths and power; reads no row, spends nothing."
EXAMPLES = (
    "sordino plan logistic --schema schema.json --records 5000 --epsilon 1 --delta 1e-6 --relation replace-one",
    "sordino plan linear --schema schema.json --epsilon 1 --delta 1e-6 --relation add-remove "
    "--effect treated=2.5 --width treated=1",
)


def command(
    family: Annotated[
        str,
        typer.Argument(metavar="FAMILY", help=f"One of {', '.join(FAMILIES)}.", autocompletion=shared.families),
    ],
    schema: Annotated[Path, typer.Option(help="Public schema file; `sordino schema new` begins one.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the fit, > 0.")],
    delta: Annotated[float, typer.Option(help="Delta in (0, 1), far below one over the number of records.")],
    relation: RelationWord,
    records: Annotated[
        int | None, typer.Option(help="How many records, or units; absent: the schema's number.")
    ] = None,
    effect: Annotated[
        list[str] | None,
        typer.Option(
            help="COLUMN=VALUE in the table's units, may be repeated: the power to find it. A bare VALUE is the effect "
            "of half a number's declared range, or of having a 0/1 column, for every column.",
        ),
    ] = None,
    width: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=VALUE or VALUE, as for --effect: the epsilon that would reach such an interval."),
    ] = None,
    power: Annotated[float, typer.Option(help="The smallest effect found with this power is shown.")] = 0.8,
    level: Annotated[float, typer.Option(help="Level of intervals, in (0, 1).")] = 0.95,
    effect_scale: Annotated[
        float | None, typer.Option(help="How large effects are taken to be before the data speak, as for `fit`.")
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Of counts: the declared column that says how long a record was watched.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Of cox: the declared column of times.")] = None,
    bins: Annotated[
        str | None,
        typer.Option(help="Of cox: time bins, as a number of equal ones, or edges such as 0,1,2,4; absent: 4."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curve over epsilon here, as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a private regression would give: standard errors, widths, power, and a curve over epsilon.

    Everything follows from declared numbers: no row is read and nothing is spent. Figures are expectations for columns
    of typical spread. Where the budget is too small for a fit, the answer says which epsilon is needed.
    """
    one_of("FAMILY", family, FAMILIES)
    number("power", power, OPEN_UNIT)
    number("level", level, OPEN_UNIT)
    check_ending("--plot", plot, ".svg")
    effects, widths = (_by_column(name, given) for name, given in (("--effect", effect), ("--width", width)))
    from sordino.inference.power import plan  # noqa: PLC0415

    made = plan(
        family,
        schema,
        records=records,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        level=level,
        effect_scale=effect_scale,
        exposure=exposure,
        time=time,
        bins=None if bins is None else shared.time_bins(bins),
    )
    answer = made.as_dict(effects, widths, power)
    if plot is not None:
        from sordino.report.figures import widths_figure  # noqa: PLC0415

        write_text(plot, widths_figure(made))
    if as_json:
        print_json(answer | {"plot": shared.optional_text(plot)})
        return
    typer.echo(made.text(effects, widths, power))
    if plot is not None:
        typer.echo(f"\ncurve: {printable(str(plot))}")


def _by_column(option: str, given: list[str] | None) -> dict[str, float] | float | None:
    """Numbers by column, one number for all, or nothing."""
    if not given:
        return None
    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise refuse(option, "to be COLUMN=VALUE or VALUE", text) from None
    if "" not in found:
        return found
    if len(given) > 1:
        raise refuse(option, "to be one VALUE for all columns, or COLUMN=VALUE for each", given)
    return found[""]
