"""`sordino check RELEASE DATA`: does what a release predicts agree with rows, for a charge or on public rows."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.fit import check_out
from sordino.cli.shared import AsJson, print_json
from sordino.core.validate import InputError, printable

SHORT = "Calibration and residuals of a release, on private rows for a price or on public ones."
EXAMPLES = (
    "sordino check release patients.csv --epsilon 0.2 --delta 1e-6 --ledger clinic.ledger --out check",
    "sordino check release published-rows.csv --public",
)


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder of a fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file with rows and their targets.")],
    public: Annotated[
        bool, typer.Option("--public", help="The rows are public: exact, and nothing is charged.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="Of private rows: epsilon of the check, > 0.")] = None,
    delta: Annotated[float | None, typer.Option(help="Of private rows: delta in (0, 1).")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file to debit before a row is read.")] = None,
    out: Annotated[Path | None, typer.Option(help="Of private rows: release folder to make.")] = None,
    bands: Annotated[int, typer.Option(help="Bands of what is predicted, 2 to 50.")] = 8,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option(help="For a check that can be repeated, whose answer is marked NON-PRIVATE.")
    ] = None,
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
    if out is not None and found.release is not None:
        write_release(out, found.release)
    if as_json:
        made = found.release
        charged = {} if made is None else {"epsilon": made.epsilon, "delta": made.delta, "private": made.private}
        debit = {} if made is None else {"ledger": None if made.ledger is None else dict(made.ledger)}
        print_json({"release": None if out is None else str(out)} | charged | debit | found.as_dict())
        return
    typer.echo(str(found))
    if found.release is not None and found.release.ledger is not None:
        typer.echo(
            "\n" + printable(f"ledger    entry {found.release.ledger['entry']} of {found.release.ledger['dataset']}")
        )
