"""`sordino calibrate SPEC.json --epsilon E --delta D`: the least noise that meets a target."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli import shared
from sordino.cli.certify import asked_at, target_delta
from sordino.cli.shared import AsJson, SpecPath, TargetDelta, print_json, write_text
from sordino.core.spec import read_spec

SHORT = "Change one number of a run to meet (epsilon, delta)."
EXAMPLES = (
    "sordino calibrate spec.json --epsilon 1 --delta 1e-5 --out calibrated.json",
    "sordino calibrate spec.json --epsilon 1 --over steps",
)


def command(
    spec_path: SpecPath,
    epsilon: Annotated[float, typer.Option(help="Target epsilon > 0.")],
    delta: TargetDelta = None,
    over: Annotated[
        str,
        typer.Option(
            help="What to change: noise (least), steps (most), batch (least of a chain, largest of rounds), clip.",
            autocompletion=shared.knobs,
        ),
    ] = "noise",
    output: Annotated[
        Path | None, typer.Option("--out", "--output", help="Write the calibrated SPEC.json here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change one number of a run until the tightest theorem meets (epsilon, delta); the result meets the target."""
    from sordino.accounting.calibration import calibrate  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415

    spec = read_spec(spec_path)
    delta = target_delta(spec, delta)
    calibrated = calibrate(asked_at(spec, delta), epsilon, delta, over)
    if output is not None:
        write_text(output, calibrated.spec.to_json())
    if as_json:
        answer = {
            "over": calibrated.knob,
            "value": calibrated.value,
            "target": {"epsilon": calibrated.target_epsilon, "delta": calibrated.explanation.delta},
            "spec": calibrated.spec.to_dict(),
            "certificate": answers.as_json(calibrated.explanation),
        }
        print_json(answer)
        return
    typer.echo(f"{calibrated.knob} = {calibrated.value!r} meets epsilon {calibrated.target_epsilon:g}\n")
    answers.print_table(calibrated.explanation)
