"""`sordino sites coordinate|join`: several organisations fit one model, and nobody shows rows or sums to another."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, Delta, OutFolder, PrivateRows, RelationWord, check_out, epilog, print_json
from sordino.core.validate import InputError, printable

app = typer.Typer(help="Fit with other organisations; rows stay.", rich_markup_mode=None)

COORDINATE_EXAMPLES = (
    "sordino sites coordinate logistic --folder shared --sites Graz,Lyon,Turku --schema schema.json --epsilon 1 "
    "--delta 1e-8 --relation replace-one --noise joint --out release",
)
JOIN_EXAMPLES = (
    "sordino sites join visits/ --folder shared --name Graz --schema schema.json --ledger graz.ledger "
    "--secret sites.secret",
)
_FEWEST_BYTES = 32

Shared = Annotated[Path, typer.Option(metavar="FOLDER", help="A folder that coordinator and sites can all reach.")]
Patience = Annotated[float, typer.Option(help="Seconds after which somebody who is silent counts as lost.")]
SchemaPath = Annotated[Path, typer.Option(help="Public schema file, the same for everybody; it counts all records.")]


@app.command("coordinate", short_help="Ask the sites and make the release.", epilog=epilog(*COORDINATE_EXAMPLES))
def coordinate_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As for `sordino fit`.")],
    folder: Shared,
    sites: Annotated[str, typer.Option(metavar="NAME,NAME,...", help="All sites that take part.")],
    schema: SchemaPath,
    epsilon: Annotated[float, typer.Option(help="Epsilon of this fit, > 0.")],
    delta: Delta,
    relation: RelationWord,
    noise: Annotated[
        str,
        typer.Option(
            help="central: the coordinator adds the noise and sees exact sums of all sites; joint: every site adds a "
            "share, the coordinator sees noised sums alone, and a lost site ends the fit."
        ),
    ],
    out: OutFolder,
    patience: Patience = 600.0,
    as_json: AsJson = False,
) -> None:
    """Publish an agreement, ask every site for its sums behind masks, and make one release of all.

    The coordinator has no rows and debits no ledger: every site debits its own, the whole price. No site's sums are
    seen by anybody, as long as fewer than half of the sites work together with the coordinator.
    """
    check_out(out)
    from sordino.data import read_schema  # noqa: PLC0415
    from sordino.estimators.site_fits import agreed, coordinate  # noqa: PLC0415
    from sordino.ledger.release import write_release  # noqa: PLC0415

    names = tuple(name.strip() for name in sites.split(","))
    made = agreed(model, read_schema(schema), names, noise, epsilon=epsilon, delta=delta, relation=relation)
    release = coordinate(made, folder, patience=patience)
    write_release(out, release)
    answer = {
        "release": str(out),
        "sites": list(names),
        "noise": noise,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "relation": relation,
        "warnings": list(release.cautions),
    }
    if as_json:
        print_json(answer)
        return
    for caution in release.cautions:
        typer.echo(printable(caution))
    typer.echo(printable(f"sites     {', '.join(names)}; {noise} noise; each site's own ledger pays"))
    typer.echo(printable(f"release   {out}"))


@app.command("join", short_help="Take part with the rows of one site.", epilog=epilog(*JOIN_EXAMPLES))
def join_command(
    data: PrivateRows,
    folder: Shared,
    name: Annotated[str, typer.Option(help="Of this site, as the agreement has it.")],
    schema: SchemaPath,
    ledger: Annotated[Path | None, typer.Option(help="This site's ledger, debited before a row is read.")] = None,
    secret: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="At least 32 bytes that all sites know and the coordinator does not; with it, forged keys are found.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where this site's sums are added up, as for `sordino fit`.")
    ] = "streamed",
    patience: Patience = 600.0,
    as_json: AsJson = False,
) -> None:
    """Answer a coordinator with sums behind masks, in the order of the plan that everybody computes for themselves.

    The whole price is debited from this site's ledger, for its people are in the release. People who are at two sites
    are two units, whose loss is up to that of two releases.
    """
    from sordino.data import read_schema  # noqa: PLC0415
    from sordino.estimators.site_fits import join  # noqa: PLC0415

    known = None if secret is None else _secret(secret)
    agreement, entry, well = join(
        folder,
        name,
        data,
        read_schema(schema),
        ledger=ledger,
        engine=engine,
        secret=known,
        patience=patience,
        told=lambda question: typer.echo(f"sordino: answers {question}", err=True),
    )
    if as_json:
        print_json({"site": name, "sites": list(agreement.sites), "entry": entry, "released": well})
        return
    paid = "no ledger was debited" if entry is None else f"entry {entry} of this site's ledger paid"
    typer.echo(printable(f"{name}: {'a release was made' if well else 'no release was made'}; {paid}"))


def _secret(path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError:
        raise InputError(f"Expected a file with the sites' secret, got none at {str(path)!r}.") from None
    if len(found) < _FEWEST_BYTES:
        raise InputError(f"Expected a secret of at least {_FEWEST_BYTES} bytes, got {len(found)}; draw a longer one.")
    return found
