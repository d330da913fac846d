"""`sordino certify SPEC.json`: every theorem on a described run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared import AsJson, SpecPath, TargetDelta, check_ending, print_json, write_text
from sordino.core import validate
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.accounting.evaluate import Explanation
    from sordino.report.steps import Crossing

SHORT = "Bound what a described run leaks, with every theorem."
EXAMPLES = ("sordino certify spec.json --delta 1e-5", "sordino certify spec.json --plot steps.svg")


def target_delta(spec: Spec, flag: float | None) -> float:
    """The delta to certify at: the flag wins over the spec's."""
    delta = spec.delta if flag is None else flag
    if delta is None:
        raise InputError("Expected delta in (0, 1), got none; add it to the spec or pass --delta 1e-5.")
    return validate.number("delta", delta, validate.OPEN_UNIT)


def asked_at(spec: Spec, delta: float) -> Spec:
    """The same run with this delta as its own: theorems that choose windows, splits or parts choose them for it."""
    return spec if spec.delta == delta else spec.with_values({"delta": delta})


def command(
    spec_path: SpecPath,
    delta: TargetDelta = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH.svg", help="Draw epsilon against steps for every theorem here.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list theorems about other runs, with the reason of each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bound the privacy loss of a described run with every theorem that applies; the tightest wins.

    No data are read. Near misses are theorems about such runs that need another constant or assumption. Where no
    theorem gives a finite epsilon, the command says so and still exits with code 0; with --json the tightest is then
    null.
    """
    # The accountant is imported here, so that --help and bad input answer at once.
    from sordino.accounting.evaluate import explain  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415

    check_ending("--plot", plot, ".svg")
    spec = read_spec(spec_path)
    delta = target_delta(spec, delta)
    explanation = explain(asked_at(spec, delta), delta)
    crossings = None if plot is None else _plotted(explanation, plot)
    if as_json:
        answer = answers.as_json(explanation)
        if crossings is not None:
            answer["crossings"] = [{"steps": at.steps, "from": at.before, "to": at.after} for at in crossings]
        print_json(answer)
        return
    answers.print_table(explanation, everything)
    _print_drift_crossings(explanation)
    if crossings is not None:
        typer.echo(f"\nEpsilon against steps: {printable(str(plot))}")
        for crossing in crossings:
            typer.echo(f"  {crossing.sentence}")


def _print_drift_crossings(explanation: "Explanation") -> None:
    """Where a bound through the size of the drift, which the number of records does not shrink, beats composition."""
    from sordino.report.steps import crossing_line, forgetful_crossings, says_something  # noqa: PLC0415

    if explanation.tightest is None or not says_something(explanation.tightest.theorem):
        return
    lines = [crossing_line(crossing, explanation.spec) for crossing in forgetful_crossings(explanation.spec)]
    if lines:
        typer.echo("\n" + "\n".join(lines))


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
