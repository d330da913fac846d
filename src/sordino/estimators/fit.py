"""`sordino.fit`: one call for an estimator by its name and for a custom model; the estimators by name."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sordino.core.bound import RelationWord
from sordino.core.validate import InputError, one_of
from sordino.estimators import linear, supervised
from sordino.estimators.base import PrivateEstimator
from sordino.fitting.custom_model import fit_custom
from sordino.fitting.tasks.base import AUTO, ignore_progress
from sordino.inference.release import Release, answering, with_model


def fit(
    model: object,
    data: object,
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    records: int | None = None,
    unit: str | None = None,
    most_records: int | None = None,
    method: str = AUTO,
    loss: Callable[..., Any] | None = None,
    optimiser: object = None,
    params: object = None,
    constants: Mapping[str, Any] | None = None,
    start: Mapping[str, Any] | None = None,
    draws: int = 1000,
    options: Mapping[str, Any] | None = None,
    ledger: object = None,
    random_state: int | None = None,
    begin: Callable[[str], None] = ignore_progress,
    schema: object = None,
) -> Release:
    """Fit a named model, a NumPyro model, a module of Equinox or Flax, or a JAX loss on a pytree, privately.

    The run is planned and certified from public numbers, the ledger is debited, and only then is anything computed from
    the rows' values. No number stops it: NaN counts as 0, and what is too large for 32 bits as the largest there.

    Args:
        model: the name of an estimator, such as "logistic", with `schema`; a NumPyro model function; a module of
            Equinox or Flax with `loss`; or a loss of one record, `loss(params, ...)`, with `params`.
        data: named arrays with the records along the first axis: a mapping, a data frame, or a tuple in the order of
            the model's arguments. Their names, shapes and types are public, their numbers are not; a list is refused,
            because its type would follow from its numbers.
        epsilon: what the release may cost.
        delta: at which it is certified.
        relation: replace-one or add-remove.
        records: public number of records, or of units; under replace-one absent: that of the data.
        unit: the name of the array that identifies the unit; absent: each record is one. `records` is needed.
        most_records: records of one unit that are used at most, the first ones.
        method: natural, variational (with options guide, rounds, step_size, clip), rounds (rounds, step_size, clip) or
            training (rounds, batch, clip, average, canaries, measure and those of `Training`); auto takes natural for a
            NumPyro model of at most 150 parameters, training for a module, rounds for a loss.
        loss: of a module's output for one record, `loss(output, ...)`; its other arguments name arrays of the data, and
            the arrays that it does not name are the module's input.
        optimiser: an optax gradient transformation; for rounds it makes whole updates, unless step_size is given.
        params: the pytree that a loss, or the parameters that a Flax module, is to begin from.
        constants: public arguments of the model.
        start: public values of sites to begin from.
        draws: how many draws of the posterior the release holds.
        options: public settings of the method.
        ledger: a `Ledger` or its path, which is debited or refuses; absent: nothing is debited.
        random_state: absent: secure randomness; a whole number makes the fit reproducible and its release NON-PRIVATE.
        begin: called with the name of each stage.
        schema: of a named model: a `Schema` or its path; or `ArrayBounds`, with data (X, y). It declares records and
            unit, and options are the estimator's own.

    Returns:
        A `Release`: `summary`, `predict`, `write`, and what is stored. A custom model's has `sites` and `to_arviz`.

    Raises:
        InputError: for a model that mixes records or cannot be read, with the site named; for a budget with which
            nothing would be learned, with the one that would do.
        LedgerRefusal: where the budget does not cover the release; no row was read then.

    Examples:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import sordino
        >>> X = np.random.default_rng(0).normal(size=(4000, 2))
        >>> def loss(params, x, y):
        ...     return 0.5 * (x @ params["slope"] - y) ** 2
        >>> release = sordino.fit(
        ...     loss, {"x": X, "y": X @ [1.0, -1.0]}, params={"slope": jnp.zeros(2)},
        ...     epsilon=2.0, delta=1e-6, relation="replace-one", random_state=0,
        ... )
        >>> bool(np.abs(release.sites["slope"].mean((0, 1)) - [1.0, -1.0]).max() < 0.2), release.epsilon <= 2.0
        (True, True)
    """
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation, "method": method}
    budget |= {"ledger": ledger, "random_state": random_state}
    given: dict[str, Any] = {"records": records, "unit": unit, "most_records": most_records, "loss": loss}
    given |= {"optimiser": optimiser, "params": params, "constants": constants, "start": start}
    if isinstance(model, str):
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            raise InputError(f"A named model takes no {unused[0]}; the schema declares records and unit. Omit it.")
        budget["schema"] = schema
        kind = ESTIMATORS[one_of("model", model, tuple(ESTIMATORS))]
        known = tuple(name for name in inspect.signature(kind).parameters if name not in budget)
        for name in options or {}:
            one_of(f"an option of {model}", name, known)
        X, y = data if isinstance(data, tuple) else (data, None)
        return answering(kind(**budget, **(options or {})).fit_in_stages(X, y, begin).release_)
    if schema is not None:
        raise InputError("A custom model takes no schema: give records, and unit where people have several. Omit it.")
    return with_model(*fit_custom(model, data, **budget, **given, draws=draws, options=options, begin=begin))


ESTIMATORS: MappingProxyType[str, type[PrivateEstimator]] = MappingProxyType(
    {
        "linear": linear.PrivateLinearRegression,
        "logistic": linear.PrivateLogisticRegression,
        "robust": linear.PrivateRobustRegression,
        "poisson": linear.PrivatePoissonRegression,
        "cox": linear.PrivateCoxRegression,
        "network-regressor": supervised.PrivateBayesianNetworkRegressor,
        "network-classifier": supervised.PrivateBayesianNetworkClassifier,
        "mixture": supervised.PrivateGaussianMixture,
    }
)
