"""`sordino explore choose MODEL DATA`: the best of several models by their loss on private rows, for one charge."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import (
    AsJson,
    Delta,
    LedgerFile,
    OutFolder,
    RelationWord,
    SchemaFile,
    Seed,
    charged_json,
    check_out,
    print_charged,
    print_json,
)
from sordino.core.validate import InputError, printable

SHORT = "Choose among models by their loss on private rows, for a price."
EXAMPLES = (
    "sordino explore choose logistic patients.csv --candidate 'ill ~ age' --candidate 'ill ~ age + ward' "
    "--schema schema.json --epsilon 1 --delta 1e-6 --relation replace-one --ledger clinic.ledger --out chosen",
)


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="One of linear, robust, logistic, poisson.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file with private rows.")],
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the choice and the fit that comes out of it, > 0.")],
    delta: Delta,
    relation: RelationWord,
    out: OutFolder,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMULA", help="A model such as 'ill ~ age + ward'; repeat it for each."),
    ] = None,
    effect_scale: Annotated[
        list[float] | None,
        typer.Option(help="Try each candidate with this size of effects too; repeat it for each."),
    ] = None,
    trials: Annotated[
        float | None, typer.Option(help="Trials that are expected; absent: eight for each candidate.")
    ] = None,
    ledger: LedgerFile = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Choose among models, or settings of one, by how much they lose on private rows, and keep the best one's fit.

    Each trial draws a candidate, fits it with noise and scores it with noise of its own; their number is random and
    secret, and only the best trial is told. So the whole choice costs little more than one trial: one charge, before a
    row is read, for the choice and the fit. Trials get less of the budget than a fit alone would have; intervals do not
    count the choice. How long it takes tells something about the number of trials: keep the clock to yourself.
    """
    check_out(out)
    if not candidate and not effect_scale:
        raise InputError("Expected --candidate or --effect-scale, got neither; name what is chosen from.")
    # Imported here: bad input is refused without them.
    from sordino.data.sources.csv_files import existing_table  # noqa: PLC0415
    from sordino.estimators.choice import CHOSEN, Candidate, choose  # noqa: PLC0415
    from sordino.ledger.release import write_release  # noqa: PLC0415

    formulas, scales = list(candidate or [None]), list(effect_scale or [None])
    given = [
        Candidate(
            " ".join(
                word
                for word in (formula or "all columns", None if scale is None else f"[effect scale {scale:g}]")
                if word
            ),
            formula,
            None if scale is None else {"effect_scale": scale},
        )
        for formula in formulas
        for scale in scales
    ]
    existing_table(data)
    found = choose(
        model,
        str(data),
        given,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        trials=trials,
        ledger=ledger,
        random_state=seed,
    )
    release = found.release
    write_release(out, release)
    chosen = release.settings[CHOSEN]
    if as_json:
        print_json(charged_json(release, out) | dict(chosen))
        return
    typer.echo(printable(f"chosen    {found.name}"))
    typer.echo(f"loss      {found.loss:.4g} of 1 on average, noise {chosen['loss_noise']:.2g}")
    typer.echo(
        f"trials    {chosen['expected_trials']:.3g} expected; a candidate is never drawn with a chance of "
        f"{100 * chosen['chance_of_no_trial']:.1f} %"
    )
    print_charged(release, out)
    typer.echo(printable(f"read it   sordino show {out}"))
