"""`sordino certify SPEC.json`: every theorem on a described run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.spec import Spec, read_spec


def target_delta(spec: Spec, flag: float | None) -> float:
    """The delta to certify at: the flag wins over the spec's."""
    delta = spec.delta if flag is None else flag
    if delta is None:
        raise InputError("Expected delta in (0, 1), got none; add it to the spec or pass --delta 1e-5.")
    return validate.number("delta", delta, validate.OPEN_UNIT)


def command(
    spec_path: Annotated[Path, typer.Argument(metavar="SPEC.json", help="Description of the run.")],
    delta: Annotated[float | None, typer.Option(help="Target delta in (0, 1); wins over the spec's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")] = False,
) -> None:
    """Bound the privacy loss of a described run with every theorem that applies; the tightest wins."""
    # The accountant is imported here, so that --help and bad input answer at once.
    from sordino.accounting.evaluate import explain  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415

    spec = read_spec(spec_path)
    found = explain(spec, target_delta(spec, delta))
    if as_json:
        typer.echo(json.dumps(answers.as_json(found), indent=2, allow_nan=False))
    else:
        answers.print_table(found)
