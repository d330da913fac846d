"""The verb `audit`: the largest leak that a method finds of a described run, which may be a file."""

from pathlib import Path

from sordino.accounting.evaluate import at_delta
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.lower_bound import audit as audit_with
from sordino.core.spec import Spec


def audit(
    spec: Spec | str | Path,
    *,
    method: str = "exact",
    delta: float | None = None,
    confidence: float = 0.95,
    models: int = 1000,
    seed: int | None = None,
) -> LowerBound:
    """Look for the largest leak of a described run: a lower bound on its epsilon.

    Args:
        spec: a `Spec`, or the path of a SPEC.json.
        method: "exact" (laws known from the description), "attack" (many models of two neighbours), "one-run" or
            "one-run-guesses" (canaries in a single run).
        delta: of the lower bound; absent: the spec's.
        confidence: of the whole statement, for methods that sample.
        models: how many models an attack may train, all sides together.
        seed: for an audit that can be repeated; absent: from the operating system.

    Returns:
        A `LowerBound`: its `epsilon` with delta, confidence, what was `examined` and the evidence.

    Raises:
        InputError: for a run that the method cannot audit, with the reason, or an unknown method.

    Examples:
        >>> import sordino
        >>> from sordino.algorithm import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=1, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> lower = sordino.audit(spec, delta=1e-5)
        >>> lower.method, lower.epsilon <= sordino.certify(spec, delta=1e-5).epsilon
        ('exact', True)
    """
    run, asked = at_delta(spec, delta)
    options = AuditOptions(delta=asked, confidence=confidence, models=models, seed=seed)
    return audit_with(run, method, options)
