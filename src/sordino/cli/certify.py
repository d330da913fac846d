"""`sordino certify SPEC.json`: every theorem on a described run; `sordino calibrate`: the least noise for a target."""

from pathlib import Path
from typing import Annotated

from typer import Option

from sordino.cli import library, shared

_KNOBS = shared.among(lambda: library.KNOBS)


@shared.command("certify", "Bound the privacy loss of a described run.", "sordino certify spec.json --plot steps.svg")
def certify(
    spec_path: shared.SpecPath,
    delta: shared.TargetDelta = None,
    plot: Annotated[Path | None, Option(metavar="PATH.svg", help="Draw epsilon against steps here.")] = None,
    everything: Annotated[bool, Option("--all", help="Also list theorems about other runs, with the reasons.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Bound the privacy loss of a described run with every theorem that applies; the tightest wins.

    No data are read. Near misses are theorems that would apply with another constant or assumption. If no theorem gives
    a finite epsilon, the command says so and still exits with code 0; with --json the tightest is then null.
    """
    shared.check_ending("--plot", plot, ".svg")
    spec, delta = library.at_delta(spec_path, delta)
    explanation = library.explain(spec, delta)
    value, lines = library.as_json(explanation) if as_json else {}, str(explanation).split("\n")
    if everything:
        lines += ["", "Did not apply:", *(f"  {one.theorem}: {one.reason}" for one in explanation.inapplicable)]
    if plot is not None:
        with shared.progress(library.POINTS) as begin:
            begin("epsilon against steps")
            curves = library.steps_curves(spec, delta, lambda: begin("epsilon against steps"))
        shared.write_text(plot, library.steps_figure(curves))
        lines += ["", f"Epsilon against steps: {plot}", *(f"  {sentence}" for sentence in curves.remarks)]
        value["crossings"] = [dict(zip(("steps", "from", "to"), one, strict=True)) for one in curves.crossings]
    shared.answer(as_json, value, *lines)


@shared.command(
    "calibrate",
    "Change one number of a run to meet (epsilon, delta).",
    "sordino calibrate spec.json --epsilon 1 --delta 1e-5 --out calibrated.json",
)
def calibrate(
    spec_path: shared.SpecPath,
    epsilon: Annotated[float, Option(help="Target epsilon; 0 asks for a total variation of at most delta.")],
    delta: shared.TargetDelta = None,
    over: Annotated[str, Option(help="What to change: noise, steps or batch.", autocompletion=_KNOBS)] = "noise",
    output: shared.OutFile = None,
    as_json: shared.AsJson = False,
) -> None:
    """Change one number of a run until its tightest bound meets (epsilon, delta).

    Sordino finds the least noise, the most steps, the smallest batch of a chain, or the largest batch of rounds.
    """
    spec, delta = library.at_delta(spec_path, delta)
    found = library.calibrate(spec, epsilon, delta, over)
    if output is not None:
        shared.write_text(output, found.spec.to_json())
    target = {"epsilon": found.target_epsilon, "delta": found.explanation.delta}
    what = {"over": found.knob, "value": found.value, "target": target, "spec": found.spec.to_dict()}
    text = f"{found.knob} = {found.value!r} gives epsilon at most {found.target_epsilon:g}\n\n{found.explanation}"
    shared.answer(as_json, what | {"certificate": library.as_json(found.explanation)}, *text.split("\n"))
