"""The verb `certify`: every theorem on a described run, which may be a file."""

from pathlib import Path

from sordino.accounting.evaluate import Explanation, explain
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError, instance_of


def certify(spec: Spec | str | Path, delta: float | None = None) -> Explanation:
    """Ask every theorem how private a described run is; no data are read.

    Args:
        spec: a `Spec`, or the path of a SPEC.json.
        delta: at which bounds are compared; absent: the spec's.

    Returns:
        An `Explanation`: its `epsilon` and `tightest` bound, every other `bounds`, and why the rest is `inapplicable`.

    Raises:
        InputError: where neither the spec nor the caller states delta, or the file is no spec.

    Examples:
        >>> import sordino
        >>> from sordino.algorithm import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> answer = sordino.certify(spec, delta=1e-5)
        >>> answer.tightest.theorem, round(answer.epsilon, 2)
        ('shifted.full', 2.56)
    """
    return explain(*at_delta(spec, delta))


def at_delta(spec: Spec | str | Path, delta: float | None) -> tuple[Spec, float]:
    """A run, or that of a file, and its delta: theorems that choose windows or splits choose them for it."""
    run = read_spec(spec) if isinstance(spec, str | Path) else instance_of("spec", spec, Spec)
    asked = run.delta if delta is None else delta
    if asked is None:
        raise InputError("Expected a delta, got none in the spec; give one, far below one over the number of records.")
    return (run if run.delta == asked else run.with_values({"delta": asked})), asked
