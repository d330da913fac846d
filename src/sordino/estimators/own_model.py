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
from numpy.typing import NDArray

from sordino.accounting.evaluate import as_json, explain
from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.variational.natural import Sizes
from sordino.core.bound import Relation, with_floating_point
from sordino.core.gaussian import largest_mu, show_up
from sordino.core.spec import ColumnUnit, Unit
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, refuse, whole_number
from sordino.estimators.bare_arrays import DeltaWarning
from sordino.estimators.charged import after_debit, as_ledger, debited, known_bounds, named_in_ledger
from sordino.estimators.own_methods import OWN_METHODS, OwnMethod, Wanted
from sordino.estimators.own_release import KIND, OwnRelease, stored_arrays, with_model
from sordino.estimators.situation import Sources
from sordino.estimators.tasks import ASKED
from sordino.ledger.release import StoredRelease
from sordino.model.own.base import FrontEnd, OwnModel, front_end_for
from sordino.model.own.records import RecordLayout, pack, read_layout

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
) -> OwnRelease:
    """Fit a NumPyro model, a module of Equinox or Flax, or a JAX loss on a pytree, privately.

    The run is planned and certified from public numbers, the ledger is debited, and only then are rows read.

    Args:
        model: a NumPyro model function; a module of Equinox or Flax with `loss`; or a loss of one record,
            `loss(params, ...)`, with `params`.
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

    Returns:
        An `OwnRelease`: `sites`, `summary`, `predict`, `to_arviz`, and everything of a `StoredRelease`.

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
    asked = number("epsilon", epsilon, POSITIVE)
    at = number("delta", delta, OPEN_UNIT)
    related = Relation(one_of("relation", relation, tuple(Relation)))
    public: dict[str, Any] = {"params": params, "constants": constants, "start": start, "unit": unit}
    public |= {"prior_scale": (options or {}).get("prior_scale"), "loss": loss, "arrays": _names_in(data)}
    front = front_end_for(model, public)
    named = _named(data, front.names(model, public))
    layout, table = _layout(front, model, public, named, unit, most_records)
    own = _built(front, model, layout, public)
    sizes = Sizes(
        _number_of(records, related, named, unit),
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
    entry = None if account is None else account.debit(known_bounds(explanation), spec)
    reading = (
        partial(_rows, layout, table, named, unit, sizes) if chosen.packs else partial(_arrays, layout, named, sizes)
    )
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
        kind=f"{KIND}/{chosen.name}",
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


def _names_in(data: Any) -> tuple[str, ...] | None:
    """The names of the arrays, where the data have any."""
    named = getattr(data, "columns", data)
    return None if isinstance(named, tuple | list) or not hasattr(named, "__iter__") else tuple(map(str, named))


def _named(data: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The arrays of the data by name; no number is read."""
    if isinstance(data, tuple | list):
        if len(data) > len(names):
            raise refuse("data", f"to have at most {len(names)} arrays, {', '.join(names)}", len(data))
        return dict(zip(names, data, strict=False))
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return {str(name): np.asarray(data[name]) for name in data.columns}
    if isinstance(data, Mapping) and all(isinstance(name, str) for name in data):
        return dict(data)
    raise refuse("data", "to be named arrays, a data frame or a tuple of arrays", type(data).__name__)


def _layout(
    front: FrontEnd,
    model: Any,
    public: Mapping[str, Any],
    named: Mapping[str, Any],
    unit: str | None,
    most_records: int | None,
) -> tuple[RecordLayout, tuple[str, ...]]:
    """The layout of the arrays that the model reads, and their names."""
    if (unit is None) != (most_records is None):
        raise InputError("Expected unit and most_records together, got one of them; declare both.")
    if unit is not None and unit not in named:
        raise refuse("unit", f"to name one of the arrays {', '.join(named)}", unit)
    rows = 1 if most_records is None else whole_number("most_records", most_records)
    read = front.names(model, public)
    unknown = [name for name in named if name not in read and name != unit]
    if unknown:
        raise InputError(
            f"Expected arrays that the model reads, {', '.join(read)}, got {', '.join(unknown)} besides; leave it out."
        )
    used = {name: named[name] for name in read if name in named}
    for name, values in used.items():
        if name != unit and not (hasattr(values, "dtype") and hasattr(values, "shape")):
            raise InputError(
                f"Expected data[{name!r}] to be an array, whose type is public, got a {type(values).__name__}, whose "
                "type would follow from private numbers; make it an array of a declared type."
            )
    layout = read_layout(used, rows)
    if unit is not None and np.shape(named[unit]) != np.shape(next(iter(used.values())))[:1]:
        raise refuse(f"data[{unit!r}]", "to hold one unit for each record", "another shape")
    if unit in used:  # the model of one unit sees no other: its own is number 0
        leaves = tuple(leaf if leaf.name != unit else type(leaf)(leaf.name, (), True) for leaf in layout.leaves)
        layout = RecordLayout(leaves, rows)
    return layout, tuple(used)


def _number_of(records: int | None, relation: Relation, named: Mapping[str, Any], unit: str | None) -> int:
    if records is not None:
        stated = whole_number("records", records)
        rows = len(next(iter(named.values())))
        if unit is None and relation is Relation.REPLACE_ONE and rows != stated:
            raise refuse("records", f"to be {rows}, the number of rows, under replace-one", stated)
        return stated
    if unit is not None:
        raise InputError("Expected records, the public number of units, with unit, got none; declare it.")
    if relation is Relation.ADD_REMOVE:
        raise InputError(
            "Expected records, a public number, under add-remove, where the number of rows is private, got none; "
            "declare it."
        )
    return len(next(iter(named.values())))


def _rows(
    layout: RecordLayout, used: tuple[str, ...], named: Mapping[str, Any], unit: str | None, sizes: Sizes
) -> NDArray[Any]:
    """The packed rows; the first reading of private numbers."""
    codes = None
    values = {name: named[name] for name in used}
    if unit is not None:
        _, codes = np.unique(np.asarray(named[unit]), return_inverse=True)
        codes = codes.ravel()
        if unit in values:
            values[unit] = np.zeros(len(codes), np.int32)
    rows = pack(layout, values, codes)
    if sizes.relation is Relation.REPLACE_ONE and len(rows) != sizes.records:
        kind = "units" if unit is not None else "records"
        raise refuse(f"the number of {kind}", f"to be records = {sizes.records} under replace-one", len(rows))
    return rows


def _arrays(layout: RecordLayout, named: Mapping[str, Any], sizes: Sizes) -> dict[str, NDArray[Any]]:
    """The arrays by name, as they are; the first reading of private numbers."""
    found = {leaf.name: np.asarray(named[leaf.name]) for leaf in layout.leaves}
    for name, values in found.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise refuse(f"data[{name!r}]", "to be finite", "NaN or infinity", "leave such records out")
    rows = len(next(iter(found.values())))
    if sizes.relation is Relation.REPLACE_ONE and rows != sizes.records:
        raise refuse("the number of records", f"to be records = {sizes.records} under replace-one", rows)
    return found


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
