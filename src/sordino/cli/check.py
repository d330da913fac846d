"""`sordino explore check RELEASE DATA`: whether predictions agree with rows, private for a charge, or public."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, LedgerFile, Level, Seed, charged_json, check_out, print_charged, print_json
from sordino.core.validate import InputError

SHORT = "Calibration and residuals of a release, on private rows for a price or on public ones."
EXAMPLES = (
    "sordino explore check release patients.csv --epsilon 0.2 --delta 1e-6 --ledger clinic.ledger --out check",
    "sordino explore check release published-rows.csv --public",
)


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder of a fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file with rows and their targets.")],
    public: Annotated[
        bool, typer.Option("--public", help="The rows are public: exact, and nothing is charged.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="Of private rows: epsilon of the check, > 0.")] = None,
    delta: Annotated[float | None, typer.Option(help="Of private rows: delta in (0, 1).")] = None,
    ledger: LedgerFile = None,
    out: Annotated[Path | None, typer.Option(help="Of private rows: release folder to make.")] = None,
    bands: Annotated[int, typer.Option(help="Bands of what is predicted, 2 to 50.")] = 8,
    level: Level = 0.95,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Compare what a release predicts with rows, band by band of the prediction.

    For classes it is the observed share minus the predicted one, for numbers and counts the mean residual in predicted
    standard deviations. On private rows that is one noised sum, charged before a row is read, under the relation of the
    release; on public rows it is exact. Predictions are those at the posterior's mean coefficients.
    """
    if out is not None:
        check_out(out)
    if not public and out is None:
        raise InputError("Expected --out for a check of private rows, got none; name the release folder to make.")
    # Imported here: bad input is refused without them.
    from sordino.estimators.checks import check  # noqa: PLC0415
    from sordino.ledger.release import read_release, write_release  # noqa: PLC0415

    found = check(
        read_release(release),
        str(data),
        public=public,
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        bands=bands,
        level=level,
        random_state=seed,
    )
    made = None if out is None or found.release is None else (found.release, out)
    if made is not None:
        write_release(made[1], made[0])
    if as_json:
        print_json(({"release": None} if made is None else charged_json(*made)) | found.as_dict())
        return
    typer.echo(str(found))
    if made is not None:
        typer.echo()
        print_charged(*made)
