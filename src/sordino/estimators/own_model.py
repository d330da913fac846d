"""Fit a model of one's own: plan, certify, debit, and only then read rows."""

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sordino.accounting.evaluate import as_json, explain
from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.variational.natural import Sizes
from sordino.core.bound import Relation, with_floating_point
from sordino.core.gaussian import largest_mu, show_up
from sordino.core.spec import ColumnUnit, Unit
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, whole_number
from sordino.estimators.bare_arrays import DeltaWarning
from sordino.estimators.charged import after_debit, as_ledger, debited, known_bounds, named_in_ledger
from sordino.estimators.own_methods import OWN_METHODS, OwnMethod, Wanted
from sordino.estimators.own_release import stored_arrays, with_model
from sordino.estimators.own_rows import (
    check_units,
    layout_of,
    named_arrays,
    names_in,
    number_of,
    packed_rows,
    plain_arrays,
)
from sordino.estimators.released import CUSTOM, Release
from sordino.estimators.situation import Sources
from sordino.estimators.tasks import ASKED
from sordino.ledger.release import StoredRelease
from sordino.model.own.base import FrontEnd, OwnModel, front_end_for
from sordino.model.own.records import RecordLayout

AUTO = "auto"
# Methods register themselves, as front ends do (`own_release`); a new file of them is named here once.
for _home in (
    "sordino.estimators.own_guides",
    "sordino.estimators.own_training",
    "sordino.estimators.own_chains",
):
    importlib.import_module(_home)


def fit(
    model: Any,
    data: Any,
    *,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    records: int | None = None,
    unit: str | None = None,
    most_records: int | None = None,
    method: str = AUTO,
    loss: Callable[..., Any] | None = None,
    optimiser: Any = None,
    params: Any = None,
    constants: Mapping[str, Any] | None = None,
    start: Mapping[str, Any] | None = None,
    draws: int = 1000,
    options: Mapping[str, Any] | None = None,
    ledger: Any = None,
    random_state: int | None = None,
    begin: Callable[[str], None] = lambda _: None,
    schema: Any = None,
) -> Release:
    """Fit a named model, a NumPyro model, a module of Equinox or Flax, or a JAX loss on a pytree, privately.

    The run is planned and certified from public numbers, the ledger is debited, and only then are rows read. No number
    stops it: NaN counts as 0, and what is too large for 32 bits as the largest number there.

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
        unit: the name of the array that says whose a record is; absent: a record is the unit. `records` is needed.
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
    if isinstance(model, str):
        given = {"records": records, "unit": unit, "most_records": most_records, "loss": loss, "optimiser": optimiser}
        given |= {"params": params, "constants": constants, "start": start}
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            raise InputError(f"A named model takes no {unused[0]}; the schema declares records and unit. Omit it.")
        budget = {"epsilon": epsilon, "delta": delta, "relation": relation, "schema": schema, "method": method}
        from sordino.estimators.named import fit_named  # noqa: PLC0415  (it brings scikit-learn)

        return fit_named(model, data, {**budget, "ledger": ledger, "random_state": random_state}, options or {}, begin)
    if schema is not None:
        raise InputError("A custom model takes no schema: give records, and unit where people have several. Omit it.")
    asked = number("epsilon", epsilon, POSITIVE)
    at = number("delta", delta, OPEN_UNIT)
    related = Relation(one_of("relation", relation, tuple(Relation)))
    public: dict[str, Any] = {"params": params, "constants": constants, "start": start, "unit": unit}
    public |= {"prior_scale": (options or {}).get("prior_scale"), "loss": loss, "arrays": names_in(data)}
    front = front_end_for(model, public)
    named = named_arrays(data, front.names(model, public))
    layout, table = layout_of(front, model, public, named, unit, most_records)
    own = _built(front, model, layout, public)
    sizes = Sizes(
        number_of(records, related, named, unit),
        own.size,
        largest_mu(asked, at),
        related,
        at,
        Unit.RECORD if unit is None else ColumnUnit(unit, layout.rows),
    )
    choices = dict(options or {})
    if optimiser is not None:
        choices = {"step_size": 1.0, **choices} if front.method(own) == "rounds" and method == AUTO else choices
        choices["optimiser"] = optimiser
    choices["draws"] = whole_number("draws", choices.get("draws", draws))
    wanted = Wanted(own, sizes, asked, choices)
    chosen = _method(method, front, wanted)
    spec = chosen.plan(wanted)
    explanation = explain(spec, at)
    bound = explanation.tightest
    if bound is None or explanation.epsilon > asked * (1.0 + 1e-12):
        raise InputError(
            f"Expected a run within epsilon {asked:g}, got one that is certified {show_up(explanation.epsilon)}."
        )
    cautions = _cautions(sizes)
    _check_model_runs(own)
    sources, account = Sources(random_state), as_ledger(ledger)
    sources.ready()
    check_units(named, unit, sizes)
    entry = None if account is None else account.debit(known_bounds(explanation), spec)
    reading = partial(packed_rows, layout, table, named, unit) if chosen.packs else partial(plain_arrays, layout, named)
    rows = after_debit(reading, entry)
    found = chosen.run(wanted, spec, rows, sources, begin)
    if not np.isfinite(found.draws).all():
        raise InputError("Expected finite parameters, got others: the run diverged; shorten its steps. It was debited.")
    settings = {
        "front_end": front.name,
        "method": chosen.name,
        "sites": [{"name": site.name, "shape": list(site.shape)} for site in own.sites],
        "layout": [[leaf.name, list(leaf.shape), leaf.whole] for leaf in layout.leaves],
        "rows": layout.rows,
        "unit": unit,
        ASKED: _told(asked, choices),
        **found.settings,
    }
    release = StoredRelease(
        kind=f"{CUSTOM}/{chosen.name}",
        spec=spec,
        bound=bound if found.floating_point is None else with_floating_point(bound, found.floating_point),
        delta=at,
        private=sources.private,
        arrays=stored_arrays(own, found),
        settings=settings,
        answers=as_json(explanation),
        ledger=debited(account, entry),
        cautions=(*found.cautions, *cautions),
    )
    return with_model(named_in_ledger(account, entry, release), own, found.audit)


def _told(epsilon: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for as plain values; options that are none are named."""
    plain = {name: value for name, value in options.items() if isinstance(value, str | bool | int | float | None)}
    return {"epsilon": epsilon, "options": plain, "unsaid": [name for name in options if name not in plain]}


def _check_model_runs(own: OwnModel) -> None:
    """Refuse, before anything is debited, what could not run or begin: the model is traced, no row is there."""

    def tried(theta: Any, rows: Any) -> Any:
        drawn = jax.vmap(own.simulated, in_axes=(None, 0))(theta, rows) if own.simulates else rows
        return own.unit_gradients(theta, drawn), jax.grad(own.penalty)(theta), own.constrained(theta)

    try:
        start = np.asarray(own.start(), np.float64)
        with in_doubles():
            rows = jax.ShapeDtypeStruct((2, own.layout.columns), jnp.float64)
            jax.eval_shape(tried, jnp.asarray(start), rows)
    except InputError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"Expected a model whose gradients JAX can trace, got a {type(error).__name__}: {str(error)[:200]}"
        ) from None
    if not np.isfinite(start).all():
        raise InputError("Expected finite values to begin from, got others; give start or params inside the support.")


def _method(name: str, front: FrontEnd, wanted: Wanted) -> OwnMethod:
    if name == AUTO:
        name = front.method(wanted.model)
    one_of("method", name, (AUTO, *OWN_METHODS))
    reason = OWN_METHODS[name].refusal(wanted)
    if reason is not None:
        raise InputError(f"Expected a method that this model allows, got {name!r}, which {reason}.")
    return OWN_METHODS[name]


def _cautions(sizes: Sizes) -> tuple[str, ...]:
    if sizes.delta * sizes.records < 1.0:
        return ()
    sentence = (
        f"Delta {sizes.delta:g} is at least one over the number of records or units, {sizes.records}: a release of "
        "one whole record would satisfy it. Take a smaller delta."
    )
    warnings.warn(sentence, DeltaWarning, stacklevel=3)
    return (sentence,)


def _built(front: FrontEnd, model: Any, layout: RecordLayout, public: Mapping[str, Any]) -> OwnModel:
    """The model; the same object for the same function and layout, so that nothing is compiled twice."""
    # A function that reads other values of its closure or module than before is another one; arrays are not compared.
    try:
        around = inspect.getclosurevars(model)
        values = tuple(sorted({**around.globals, **around.nonlocals}.items(), key=lambda item: item[0]))
        given = tuple(sorted((k, v) for k, v in public.items() if v is not None))
        return _kept(front, model, layout, _Public(given), values)
    except TypeError:
        return front.build(model, layout, public)


@dataclass(frozen=True)
class _Public:
    items: tuple[tuple[str, Any], ...]


@lru_cache(maxsize=32)
def _kept(front: FrontEnd, model: Any, layout: RecordLayout, public: _Public, _: tuple[Any, ...]) -> OwnModel:
    return front.build(model, layout, dict(public.items))
