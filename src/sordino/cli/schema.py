"""`sordino schema new|check`: the public schema file a person declares."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sordino.core.errors import InputError
from sordino.core.printable import printable

app = typer.Typer(help="Declare and check the public schema of a table.", rich_markup_mode=None)

_LOUD = (
    "WARNING: --infer reads private rows. The schema is marked as such: every certificate made from it is refused by "
    "every theorem. Use it to explore, then declare the bounds from public knowledge."
)


@app.command("new")
def new(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file; only its header is read.")],
    target: Annotated[str | None, typer.Option(help="Name of the target column.")] = None,
    infer: Annotated[bool, typer.Option("--infer", help="Fill it in by reading private rows.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the schema here instead of to stdout.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The schema is JSON either way.")] = False,
) -> None:
    """Write a schema file to fill in: names from the header, null wherever a person must decide."""
    import sordino.data as tables  # noqa: PLC0415
    from sordino.cli.files import write_text  # noqa: PLC0415

    del as_json
    if infer:
        typer.echo(_LOUD, err=True)
        text = tables.schema_to_text(tables.infer_schema(tables.read_table(data), target))
    else:
        text = tables.template_text(tables.new_schema_template(tables.column_names(data), target=target))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)


@app.command("check")
def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file.")],
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="CSV or Parquet file to check against.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable findings on stdout.")] = False,
) -> None:
    """Say everything about a schema, and a table if given, that a run would stumble over."""
    import sordino.data as tables  # noqa: PLC0415

    found = tables.check(tables.read_schema(schema), None if data is None else tables.read_table(data))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    for finding in () if as_json else found:
        where = f" ({finding.column})" if finding.column else ""
        private = " NON-PRIVATE" if finding.reads_private_data else ""
        typer.echo(printable(f"{finding.level}{private}{where}: {finding.message}"))
    errors = sum(finding.level == "error" for finding in found)
    if errors:
        raise InputError(f"Expected a schema and table that fit together, got {errors} error(s); see the findings.")
