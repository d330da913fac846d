"""`sordino certify SPEC.json`: every theorem on a described run; `sordino calibrate`: the least noise for a target."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from sordino.cli.shared import (
    AsJson,
    SpecPath,
    TargetDelta,
    among,
    check_ending,
    command,
    print_json,
    write_text,
)
from sordino.core import validate
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.accounting.evaluate import Explanation
    from sordino.report.steps import Crossing


def target_delta(spec: Spec, flag: float | None) -> float:
    """The delta to certify at: the flag wins over the spec's."""
    delta = spec.delta if flag is None else flag
    if delta is None:
        raise InputError("Expected delta in (0, 1), got none; add it to the spec or pass --delta 1e-5.")
    return validate.number("delta", delta, validate.OPEN_UNIT)


def asked_at(spec: Spec, delta: float) -> Spec:
    """The same run with this delta as its own: theorems that choose windows, splits or parts choose them for it."""
    return spec if spec.delta == delta else spec.with_values({"delta": delta})


@command(
    "certify",
    "Bound what a described run leaks, with every theorem.",
    "sordino certify spec.json --delta 1e-5",
    "sordino certify spec.json --plot steps.svg",
)
def certify(
    spec_path: SpecPath,
    delta: TargetDelta = None,
    plot: Annotated[
        Path | None, Option(metavar="PATH.svg", help="Draw epsilon against steps for every theorem here.")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help="Also list theorems about other runs, with the reason of each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bound the privacy loss of a described run with every theorem that applies; the tightest wins.

    No data are read. Near misses are theorems about such runs that need another constant or assumption. Where no
    theorem gives a finite epsilon, the command says so and still exits with code 0; with --json the tightest is then
    null.
    """
    # The accountant is imported here, so that --help and bad input answer at once.
    from sordino.accounting.evaluate import as_json as answered  # noqa: PLC0415
    from sordino.accounting.evaluate import explain  # noqa: PLC0415

    check_ending("--plot", plot, ".svg")
    spec = read_spec(spec_path)
    delta = target_delta(spec, delta)
    explanation = explain(asked_at(spec, delta), delta)
    crossings = None if plot is None else _plotted(explanation, plot)
    if as_json:
        answer = answered(explanation)
        if crossings is not None:
            answer["crossings"] = [{"steps": at.steps, "from": at.before, "to": at.after} for at in crossings]
        print_json(answer)
        return
    typer.echo(str(explanation))
    if everything:
        typer.echo("\nDid not apply:")
    for one in explanation.inapplicable if everything else ():
        typer.echo(printable(f"  {one.theorem}: {one.reason}"))
    if crossings is not None:
        typer.echo(f"\nEpsilon against steps: {printable(str(plot))}")
        for crossing in crossings:
            typer.echo(f"  {crossing.sentence}")


def _plotted(explanation: "Explanation", path: Path) -> "tuple[Crossing, ...]":
    """Draw the figure, with a progress bar where a person is looking, and return where the tightest theorem changes."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from sordino.report.figures import steps_figure  # noqa: PLC0415
    from sordino.report.steps import steps_curves  # noqa: PLC0415

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("epsilon against steps", total=None)
        curves = steps_curves(
            explanation.spec, explanation.delta, lambda done, total: bar.update(task, completed=done, total=total)
        )
    write_text(path, steps_figure(curves))
    return curves.crossings


def _knobs() -> tuple[str, ...]:
    from sordino.accounting.calibration import KNOBS  # noqa: PLC0415

    return tuple(KNOBS)


@command(
    "calibrate",
    "Change one number of a run to meet (epsilon, delta).",
    "sordino calibrate spec.json --epsilon 1 --delta 1e-5 --out calibrated.json",
    "sordino calibrate spec.json --epsilon 1 --over steps",
)
def calibrate(
    spec_path: SpecPath,
    epsilon: Annotated[float, Option(help="Target epsilon; 0 asks for a total variation of at most delta.")],
    delta: TargetDelta = None,
    over: Annotated[
        str,
        Option(
            help="What to change: noise (least), steps (most), batch (least of a chain, largest of rounds), clip.",
            autocompletion=among(_knobs),
        ),
    ] = "noise",
    output: Annotated[Path | None, Option("--out", "--output", help="Write the calibrated SPEC.json here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change one number of a run until the tightest theorem meets (epsilon, delta); the result meets the target."""
    from sordino.accounting import calibration  # noqa: PLC0415
    from sordino.accounting.evaluate import as_json as answered  # noqa: PLC0415

    spec = read_spec(spec_path)
    delta = target_delta(spec, delta)
    found = calibration.calibrate(asked_at(spec, delta), epsilon, delta, over)
    if output is not None:
        write_text(output, found.spec.to_json())
    if as_json:
        target = {"epsilon": found.target_epsilon, "delta": found.explanation.delta}
        certificate = answered(found.explanation)
        what = {"over": found.knob, "value": found.value, "target": target}
        print_json(what | {"spec": found.spec.to_dict(), "certificate": certificate})
        return
    typer.echo(f"{found.knob} = {found.value!r} meets epsilon {found.target_epsilon:g}\n")
    typer.echo(str(found.explanation))
