"""`sordino explore compare DATA RELEASE RELEASE...`: what released models lose on private rows, with intervals."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import (
    AsJson,
    Delta,
    LedgerFile,
    Level,
    OutFolder,
    Seed,
    charged_json,
    check_out,
    print_charged,
    print_json,
)
from sordino.core.validate import InputError

SHORT = "Compare released models on private rows, for a price."
EXAMPLES = (
    "sordino explore compare patients.csv small large --epsilon 0.2 --delta 1e-6 --ledger clinic.ledger "
    "--out comparison",
)


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file with private rows.")],
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders, two or more.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the comparison, > 0.")],
    delta: Delta,
    out: OutFolder,
    ledger: LedgerFile = None,
    level: Level = 0.95,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Compare models that were released already by what they lose on private rows.

    All losses together are one noised sum, charged before a row is read under the relation of the releases. Differences
    from the first model have an interval about the table itself, and one for records like these.
    """
    check_out(out)
    if len({str(one) for one in releases}) < len(releases):
        raise InputError("Expected different releases, got one twice; leave it out.")
    # Imported here: bad input is refused without them.
    from sordino.data.sources.csv_files import existing_table  # noqa: PLC0415
    from sordino.estimators.comparison import compare  # noqa: PLC0415
    from sordino.ledger.release import read_release, write_release  # noqa: PLC0415

    given = {str(one): read_release(one) for one in releases}
    existing_table(data)
    found = compare(given, str(data), epsilon=epsilon, delta=delta, ledger=ledger, level=level, random_state=seed)
    write_release(out, found.release)
    if as_json:
        print_json(charged_json(found.release, out) | found.as_dict())
        return
    typer.echo(f"{found}\n")
    print_charged(found.release, out)
