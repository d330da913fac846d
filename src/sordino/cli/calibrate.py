"""`sordino calibrate SPEC.json --epsilon E --delta D`: the least noise that meets a target."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli import shared as completion
from sordino.cli.certify import asked_at, target_delta
from sordino.core.spec import read_spec

SHORT = "Turn one knob of a run until it meets (epsilon, delta)."
EXAMPLES = (
    "sordino calibrate spec.json --epsilon 1 --delta 1e-5 --out calibrated.json",
    "sordino calibrate spec.json --epsilon 1 --over steps",
)


def command(
    spec_path: Annotated[Path, typer.Argument(metavar="SPEC.json", help="Description of the run.")],
    epsilon: Annotated[float, typer.Option(help="Target epsilon > 0.")],
    delta: Annotated[float | None, typer.Option(help="Target delta in (0, 1); wins over the spec's.")] = None,
    over: Annotated[
        str,
        typer.Option(
            help="What to turn: noise (least), steps (most), batch (least of a chain, largest of rounds), clip.",
            autocompletion=completion.knobs,
        ),
    ] = "noise",
    output: Annotated[
        Path | None, typer.Option("--out", "--output", help="Write the calibrated SPEC.json here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")] = False,
) -> None:
    """Turn one knob of a run until the tightest theorem meets (epsilon, delta), ending on the private side."""
    from sordino.accounting.calibrate import calibrate  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415
    from sordino.cli.shared import write_text  # noqa: PLC0415

    spec = read_spec(spec_path)
    delta = target_delta(spec, delta)
    found = calibrate(asked_at(spec, delta), epsilon, delta, over)
    if output is not None:
        write_text(output, found.spec.to_json())
    if as_json:
        answer = {
            "over": found.knob,
            "value": found.value,
            "target": {"epsilon": found.target_epsilon, "delta": found.explanation.delta},
            "spec": found.spec.to_dict(),
            "certificate": answers.as_json(found.explanation),
        }
        typer.echo(json.dumps(answer, indent=2, allow_nan=False))
        return
    typer.echo(f"{found.knob} = {found.value!r} meets epsilon {found.target_epsilon:g}\n")
    answers.print_table(found.explanation)
