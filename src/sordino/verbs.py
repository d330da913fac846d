"""The verbs of the library: certify a described run, audit it, and fit a model of one's own privately."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sordino.accounting.calibrate import calibrate
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
        ('shifted.full', 1.35)
    """
    described = _described(spec)
    return explain(described, _delta(described, delta))


def audit(
    spec: Spec | str | Path,
    *,
    method: str = "exact",
    delta: float | None = None,
    confidence: float = 0.95,
    models: int = 1000,
    seed: int | None = None,
) -> Any:
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
    from sordino.auditing.lower_bound import AuditOptions, audit as audited  # noqa: PLC0415

    described = _described(spec)
    options = AuditOptions(
        delta=_delta(described, delta), confidence=confidence, models=models, seed=seed
    )
    return audited(described, method, options)


def fit(
    spec: Spec | str | Path,
    model: Any,
    features: Any,
    target: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    random_state: int | None = None,
) -> Any:
    """Fit a model of one's own by the noisy gradient chain of a spec, with the noise that an epsilon needs.

    Noise is calibrated and certified from the spec, the ledger is debited, and only then are rows read.

    Args:
        spec: a noisy gradient run; its noise is where the search for the least noise begins.
        model: a `Model`, or a loss `loss(theta, x, y)` of one record on a flat vector of problem.dim parameters.
        features: a table of numbers, one row for each record.
        target: one number for each record.
        epsilon: what the release may cost.
        delta: at which it is certified; absent: the spec's.
        ledger: a `Ledger` or its path, which is debited or refuses; absent: nothing is debited.
        random_state: absent: secure randomness; a whole number makes the fit reproducible and its release NON-PRIVATE.

    Returns:
        A `StoredRelease` with the released arrays, the spec that ran and its bound; `write_release` writes it.

    Raises:
        InputError: for an epsilon that no noise reaches, or rows that do not fit the spec.
        LedgerRefusal: where the budget does not cover the release; no row was read then.

    Examples:
        >>> import numpy as np
        >>> import sordino
        >>> from sordino.algorithm import dp_sgd
        >>> from sordino.core.spec import Batch, Problem
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> def loss(theta, x, y):
        ...     return (x @ theta - y) ** 2
        >>> problem = Problem(n=500, dim=2, gradient_sensitivity=2.0, gradient_bound=1.0)
        >>> spec = dp_sgd(
        ...     problem, step_size=0.3, batch=Batch("full"), noise_multiplier=1.0, clip_norm=1.0, steps=40,
        ...     relation="replace-one", view="last-iterate", delta=1e-5,
        ... )
        >>> release = sordino.fit(spec, loss, X, X @ [1.0, -1.0], epsilon=2.0, random_state=0)
        >>> bool(np.abs(release.arrays["iterates"] - [[1.0, -1.0]]).max() < 0.2), release.epsilon <= 2.0
        (True, True)
    """
    from sordino.algorithm import SecureRandomness, SeededRandomness, run  # noqa: PLC0415
    from sordino.estimators.fitting import known_bounds  # noqa: PLC0415
    from sordino.ledger import Ledger  # noqa: PLC0415
    from sordino.ledger.release import stored  # noqa: PLC0415
    from sordino.model.base import Model  # noqa: PLC0415
    from sordino.model.registry import JaxModel  # noqa: PLC0415

    given = _described(spec)
    described = model if isinstance(model, Model) else JaxModel(model, given.dim)
    found = calibrate(given, epsilon, _delta(given, delta), "noise")
    randomness = SecureRandomness() if random_state is None else SeededRandomness(random_state)
