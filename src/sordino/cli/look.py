"""`sordino look DATA`: questions about a private table, answered with noise for one charge, as a release folder."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import (
    AsJson,
    Delta,
    EngineWord,
    LedgerFile,
    Level,
    OutFolder,
    PrivateRows,
    RelationWord,
    Seed,
    charged_json,
    check_out,
    print_charged,
    print_json,
    write_text,
)
from sordino.core.validate import printable

SHORT = "Ask a private table questions, for a price."
EXAMPLES = (
    "sordino look patients.csv --ask 'bounds: days' --records 600 --epsilon 0.1 --delta 1e-6 --relation replace-one "
    "--ledger clinic.ledger --out first-look",
    "sordino look patients.csv --schema schema.json --ask 'mean: age' --ask 'table: ward, smoker' --epsilon 0.5 "
    "--delta 1e-6 --relation replace-one --ledger clinic.ledger --out look",
)


def command(
    data: PrivateRows,
    ask: Annotated[
        list[str],
        typer.Option(
            metavar="QUESTION",
            help="count; histogram: age [bins=20]; mean: age; quantiles: age [levels=0.5,0.9]; table: ward, smoker; "
            "missing: age; correlation: age, days; categories: ward [above=50]; bounds: days. Repeat it for each.",
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole list, > 0.")],
    delta: Delta,
    relation: RelationWord,
    out: OutFolder,
    schema: Annotated[
        Path | None, typer.Option(help="Public schema file; may be left out where only bounds are asked for.")
    ] = None,
    records: Annotated[int | None, typer.Option(help="Number of records, where there is no schema.")] = None,
    ledger: LedgerFile = None,
    level: Level = 0.95,
    lines: Annotated[
        Path | None, typer.Option(help="Write the suggested bounds here, as lines for `sordino schema new --declare`.")
    ] = None,
    seed: Seed = None,
    engine: EngineWord = None,
    as_json: AsJson = False,
) -> None:
    """Answer a list of questions about a private table with noise, for one charge.

    Questions are checked against the header and the schema before anything is spent; the ledger is debited before a
    row is read. The noise of all answers together costs exactly what is charged. Cells that cannot be read count as
    missing, and words that were not declared as others, so that no cell of a file stops a look. Where the schema says
    whose a record is, each unit counts once, spread over its records. Bounds that a look suggests are charged, not
    private: they may go into a schema.
    """
    check_out(out)
    # Imported here: bad input is refused without them.
    from sordino.explore.looks import look  # noqa: PLC0415
    from sordino.inference.table_formats import answers_as_text  # noqa: PLC0415
    from sordino.ledger.release import write_release  # noqa: PLC0415

    found = look(
        data,
        ask,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        schema=schema,
        records=records,
        ledger=ledger,
        level=level,
        random_state=seed,
        engine=engine,
    )
    release = found.release
    write_release(out, release)
    if lines is not None:
        write_text(lines, "".join(f"{line}\n" for line in found.lines()))
    if as_json:
        own = {"level": level, "answers": release.settings["answers"], "lines": list(found.lines())}
        print_json(charged_json(release, out) | own)
        return
    for caution in release.cautions:
        typer.echo(printable(caution))
    for line in answers_as_text(release).splitlines():
        typer.echo(printable(line))
    typer.echo()
    print_charged(release, out)
