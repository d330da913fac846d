"""Fit a chain that a spec describes: calibrate, certify, debit, and only then read rows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jax import Array

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import Explanation, as_json, at_delta, theorem_named
from sordino.algorithm.chain import exact_average, hidden
from sordino.algorithm.chain.claims import chain_lattice
from sordino.algorithm.chain.release import LipschitzFunction, averaged_function, parameters
from sordino.algorithm.chain.run import run
from sordino.algorithm.noise import lattice
from sordino.algorithm.noise.sums import checked_rows
from sordino.core.bound import NOT_COVERED, Bound, Certificate, View, exactly_computed, with_floating_point
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import InputError, instance_of
from sordino.estimators.charged import after_debit, as_ledger, debited, known_bounds, named_in_ledger
from sordino.estimators.own_rows import check_typed, finite_numbers
from sordino.estimators.situation import Sources
from sordino.ledger.release.document import StoredRelease, stored
from sordino.model.base import Model, describe_model
from sordino.model.registry import JaxModel


def fit_chain(
    spec: Spec | str | Path,
    model: Model | Callable[[Array, Array, Array], Array],
    features: Any,
    target: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    function: LipschitzFunction | None = None,
    ledger: Any = None,
    random_state: int | None = None,
) -> StoredRelease:
    """Fit a model of one's own by the noisy gradient chain of a spec, with the noise that an epsilon needs.

    Noise is calibrated and certified from the spec, the ledger is debited, and only then are rows read.

    Args:
        spec: a noisy gradient run; its noise is where the search for the least noise begins.
        model: a `Model`, or a loss `loss(theta, x, y)` of one record on a flat vector of problem.dim parameters.
        features: an array of numbers, one row for each record; NaN counts as 0.
        target: an array with one number for each record.
        epsilon: what the release may cost.
        delta: at which it is certified; absent: the spec's.
        function: what a spec of view average averages; absent: the parameters.
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
        >>> release = sordino.fit_chain(spec, loss, X, X @ [1.0, -1.0], epsilon=2.0, random_state=0)
        >>> bool(np.abs(release.arrays["draws"] - [1.0, -1.0]).max() < 0.2), release.epsilon <= 2.0
        (True, True)
    """
    given, asked = at_delta(spec, delta)
    own = model if isinstance(model, Model) else JaxModel(model, given.dim)
    plan = calibrate(given, epsilon, asked, "noise").explanation
    bound = plan.tightest
    if bound is None:
        raise InputError("Expected a run that a theorem gives a finite epsilon, got one that none does.")
    if given.view is View.AVERAGE and function is None:
        function = parameters(given.dim)
    averaged_function(given, function)
    chain_line(plan, own)  # a rounding that is too small is refused here
    for name, values in (("features", features), ("target", target)):
        check_typed(name, values)
    sources, account = Sources(random_state), as_ledger(ledger)
    sources.ready()
    entry = None if account is None else account.debit(known_bounds(plan), plan.spec)
    rows = after_debit(partial(_read, features, target), entry)
    contents = stored(run(plan.spec, own, *rows, sources.fresh(), function=function))
    release = StoredRelease(
        kind=contents.kind,
        spec=plan.spec,
        bound=with_floating_point(bound, chain_line(plan, own)),
        delta=plan.delta,
        private=sources.private,
        arrays=contents.arrays,
        model=describe_model(own),
        answers=as_json(plan),
        ledger=debited(account, entry),
    )
    return named_in_ledger(account, entry, release)


def _read(features: Any, target: Any) -> tuple[Any, Any]:
    """The rows; a number that is not finite counts as a public one, because a refusal would tell of it."""
    return checked_rows(finite_numbers("features", features), finite_numbers("target", target))


def chain_line(explanation: Explanation, model: Model) -> Certificate:
    """What a chain's release says about floating point.

    Covered are bounds that take roundings as shifts, and epsilons that hold for any noised sums: theorems about
    `noised-sums` too read nothing of what follows a noised sum. A bound on hidden iterates of a spec without
    `algorithm.rounding` is about real numbers, and so is everything about stable noise and unbounded gradients.
    """
    spec = explanation.spec
    chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    if chain_lattice(spec, chain, model) is None:
        return NOT_COVERED
    if chain.rounding is not None:
        return exactly_computed(exact_average.COVERED if spec.view is View.AVERAGE else hidden.COVERED)
    of_sums = [epsilon for bound, epsilon in explanation.bounds if _is_of_sums(bound)]
    # No more above the epsilon that the release states than two ways of rounding up one number are apart.
    covered = bool(of_sums) and min(of_sums) <= explanation.epsilon * (1.0 + 1e-13)
    return exactly_computed(lattice.COVERED) if covered else NOT_COVERED


def _is_of_sums(bound: Bound) -> bool:
    return "noised-sums" in theorem_named(bound.theorem).scope.kinds
