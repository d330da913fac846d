"""`sordino schema new|check`: the public schema file a person declares."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import epilog, print_json, write_text
from sordino.core.validate import InputError, printable

app = typer.Typer(help="Declare and check the public schema of a table.", rich_markup_mode=None)
NEW_EXAMPLES = ("sordino schema new patients.csv --target ill --boolean ill --category ward --out schema.json",)
CHECK_EXAMPLES = ("sordino schema check schema.json", "sordino schema check schema.json patients.csv")

_LOUD = (
    "WARNING: --infer reads private rows. The schema is marked as such: every certificate made from it is refused by "
    "every theorem. Use it to explore, then declare the bounds from public knowledge."
)


@app.command("new", short_help="Write a schema file to fill in.", epilog=epilog(*NEW_EXAMPLES))
def new(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file; only its header is read.")],
    target: Annotated[str | None, typer.Option(help="Name of the target column.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A column of words; repeat it for each.")
    ] = None,
    boolean: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A column of yes and no; repeat it for each.")
    ] = None,
    unit: Annotated[str | None, typer.Option(metavar="NAME", help="The column that says whose a record is.")] = None,
    infer: Annotated[bool, typer.Option("--infer", help="Fill it in by reading private rows.")] = False,
    output: Annotated[
        Path | None, typer.Option("--out", "--output", help="Write the schema here instead of to stdout.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The schema is JSON either way.")] = False,
) -> None:
    """Write a schema file to fill in: names from the header, null wherever a person must decide.

    Every column is a number with bounds to fill in, unless --category or --boolean names it. Bounds and lists of words
    come from what is publicly known, never from a look at the rows. `sordino schema check` says what is still open.
    With --unit all records that share a value of that column are hidden together, and `records` counts such units.
    """
    import sordino.data as tables  # noqa: PLC0415

    if infer:
        if category or boolean or unit:
            raise InputError(
                "Expected --infer alone, got --category, --boolean or --unit with it; leave one of them out."
            )
        typer.echo(_LOUD, err=True)
        text = tables.schema_to_text(tables.infer_schema(tables.read_table(data), target))
    else:
        kinds = dict.fromkeys(category or (), "category") | dict.fromkeys(boolean or (), "boolean")
        names = tables.column_names(data)
        text = tables.template_text(tables.new_schema_template(names, target=target, kinds=kinds, unit=unit))
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if not (infer or as_json):
        shown = printable(str(output))
        typer.echo(f"{shown}: replace every null, then run: sordino schema check {shown}")


@app.command("check", short_help="List what a run would refuse.", epilog=epilog(*CHECK_EXAMPLES))
def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file.")],
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="CSV or Parquet file to check against.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable findings on stdout.")] = False,
) -> None:
    """List everything in a schema, and in a table if given, that a run would refuse or warn about.

    Costs no budget, but what it says of a table was learnt from its rows: for your eyes only. Exits with code 2 where
    a run would stop.
    """
    import sordino.data as tables  # noqa: PLC0415

    findings = tables.check(tables.read_schema(schema), None if data is None else tables.read_table(data))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    for finding in () if as_json else findings:
        where = f" ({finding.column})" if finding.column else ""
        private = " NON-PRIVATE" if finding.reads_private_data else ""
        typer.echo(printable(f"{finding.level}{private}{where}: {finding.message}"))
    if not as_json and not any(finding.level in {"error", "warning"} for finding in findings):
        typer.echo("The schema is complete." if data is None else "The schema and the table fit together.")
    errors = sum(finding.level == "error" for finding in findings)
    if errors:
        raise InputError(f"Expected a schema and table that fit together, got {errors} error(s); see the findings.")
