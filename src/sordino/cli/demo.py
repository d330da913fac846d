"""`sordino demo`: the main job on data that ships with the project."""

from importlib import resources

import typer

from sordino.core.spec import Spec


def command() -> None:
    """Certify a described run, then calibrate its noise to epsilon = 1."""
    from sordino.accounting.calibrate import calibrate  # noqa: PLC0415
    from sordino.accounting.evaluate import explain  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415

    text = resources.files("sordino.cli").joinpath("demo.spec.json").read_text(encoding="utf-8")
    spec = Spec.from_json(text)
    delta = spec.delta or 1e-5
    typer.echo("A private logistic regression, described before it is run: DP-SGD, Poisson batches of 100 of 10,000.\n")
    answers.print_table(explain(spec, delta))
    typer.echo("\nThe least noise that meets epsilon = 1:\n")
    found = calibrate(spec, 1.0, delta, "noise")
    typer.echo(f"noise scale {spec.to_dict()['algorithm']['noise']['scale']} -> {found.value:.6g}\n")
    answers.print_table(found.explanation)
