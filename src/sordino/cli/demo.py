"""`sordino demo`: the main job on real data that ships inside a dependency."""

from typing import TYPE_CHECKING

import typer

from sordino.core.validate import instance_of

if TYPE_CHECKING:
    from sordino.algorithm import LastIterate
    from sordino.data import Encoded

EPSILON, DELTA = 1.0, 1e-6
STEPS, STEP_SIZE, WEIGHT_DECAY = 300, 1.0, 1e-3


def command(
    seed: int = typer.Option(0, help="Seed of the reproducible run; a seeded run is a demonstration, not a release."),
) -> None:
    """Fit a private logistic regression on the RAND Health Insurance Experiment and certify it."""
    # Imported here: jax and pandas are not needed by the other commands.
    from sordino.accounting.calibrate import calibrate  # noqa: PLC0415
    from sordino.algorithm import LastIterate, SeededRandomness, noisy_gd, run  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415
    from sordino.core.relation import Relation  # noqa: PLC0415
    from sordino.core.view import View  # noqa: PLC0415
    from sordino.data import encode, rand_health  # noqa: PLC0415
    from sordino.model import Domain, Logistic  # noqa: PLC0415

    loaded = rand_health("any-visit")
    schema = loaded.schema
    typer.echo(
        f"RAND Health Insurance Experiment: {schema.records} person-years, will a person see a doctor this year?\n"
        f"Bounds and categories come from a public schema; no row is read to choose a setting.\n"
    )
    model = Logistic(weight_decay=WEIGHT_DECAY)
    described = noisy_gd(
        model.problem(schema.records, Domain.from_schema(schema)),
        step_size=STEP_SIZE,
        noise_scale=1e-3,
        steps=STEPS,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
    )
    found = calibrate(described, EPSILON, DELTA, "noise")
    typer.echo(f"Noise calibrated to epsilon {EPSILON:g}: scale {found.value:.4g} a step.\n")
    answers.print_table(found.explanation)

    encoded = encode(schema, loaded.table, Relation.REPLACE_ONE)
    release = run(found.spec, model, encoded.features, encoded.target, SeededRandomness(seed))
    _show(encoded, instance_of("release", release, LastIterate))


def _show(encoded: "Encoded", release: "LastIterate") -> None:
    """Coefficients, which may leave, and an accuracy, which may not: it reads the rows again."""
    import numpy as np  # noqa: PLC0415

    theta = release.iterates[0]
    typer.echo("\nReleased coefficients (features scaled by their public bounds):")
    for name, value in zip(encoded.names, theta, strict=True):
        typer.echo(f"  {name:12s} {value:+.3f}")
    correct = float(np.mean(np.sign(encoded.features @ theta) == encoded.target))
    majority = max(float(np.mean(encoded.target > 0)), float(np.mean(encoded.target < 0)))
    typer.echo(
        f"\nNON-PRIVATE, shown because this data set is public: accuracy {correct:.3f} on the training rows "
        f"(always answering the majority: {majority:.3f})."
    )
