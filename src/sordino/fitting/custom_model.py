"""Fit a custom model: plan, certify, debit, and only then read rows."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import largest_mu
from sordino.core.spec import ColumnUnit, Unit
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, whole_number
from sordino.fitting.array_schema import delta_cautions
from sordino.fitting.charge import RowAccess, RunContents, as_ledger, charged_run
from sordino.fitting.custom_methods import (
    CUSTOM,
    CUSTOM_METHODS,
    FREE_DRAWS,
    SITE_DRAWS,
    WEIGHTS,
    CustomMethod,
    CustomOutcome,
    CustomProblem,
)
from sordino.fitting.custom_rows import (
    check_units,
    layout_of,
    named_arrays,
    names_in,
    number_of,
    packed_rows,
    plain_arrays,
)
from sordino.fitting.problem import Sources
from sordino.fitting.tasks import ASKED, AUTO
from sordino.ledger.release import StoredRelease
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import CustomModel, FrontEnd, RecordLayout, front_end_for
from sordino.noise.lattice import in_doubles

# Its methods register themselves, as those of `custom_methods` do.
importlib.import_module("sordino.fitting.custom_training")


@dataclass(frozen=True, eq=False)
class CustomFit:
    """A finished fit: what may leave, the model beside it, and the lower bound of the run where it had canaries."""

    release: StoredRelease
    model: CustomModel
    audit: LowerBound | None


def fit_custom(
    model: Any,
    data: Any,
    *,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    records: int | None,
    unit: str | None,
    most_records: int | None,
    method: str,
    loss: Callable[..., Any] | None,
    optimiser: Any,
    params: Any,
    constants: Mapping[str, Any] | None,
    start: Mapping[str, Any] | None,
    draws: int,
    options: Mapping[str, Any] | None,
    ledger: Any,
    random_state: int | None,
    begin: Callable[[str], None],
) -> CustomFit:
    """Fit a custom model; `sordino.fit` says what the arguments are."""
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
    wanted = CustomProblem(own, sizes, asked, choices)
    chosen = _method(method, front, wanted)
    spec = chosen.plan(wanted)
    cautions = delta_cautions(sizes.records, at, "record" if unit is None else "unit")
    _check_model_runs(own)
    sources = Sources(random_state)

    def run(access: RowAccess) -> RunContents[CustomOutcome]:
        reading = partial(packed_rows, layout, table, named, unit)
        rows = access.read(reading if chosen.packs else partial(plain_arrays, layout, named))
        found = chosen.run(wanted, spec, rows, sources, begin)
        if not np.isfinite(found.draws).all():
            raise InputError(
                "The run diverged: its parameters are not finite. Use a smaller step size. The ledger was debited."
            )
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
        return RunContents(
            f"{CUSTOM}/{chosen.name}",
            stored_arrays(own, found),
            found,
            floating_point=found.floating_point,
            settings=settings,
            cautions=(*found.cautions, *cautions),
        )

    release, found = charged_run(
        explain(spec, at),
        run,
        words=f"method {chosen.name!r}",
        epsilon=asked * (1.0 + 1e-12),
        ledger=as_ledger(ledger),
        sources=sources,
        check=lambda: check_units(named, unit, sizes),
    )
    return CustomFit(release, own, found.audit)


def _told(epsilon: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for as plain values; options that are none are named."""
    plain = {name: value for name, value in options.items() if isinstance(value, str | bool | int | float | None)}
    return {"epsilon": epsilon, "options": plain, "unsaid": [name for name in options if name not in plain]}


def _check_model_runs(own: CustomModel) -> None:
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
            f"JAX cannot trace the gradients of this model. It raised {type(error).__name__}: {str(error)[:200]}"
        ) from None
    if not np.isfinite(start).all():
        raise InputError("The starting values must be finite; give `start` or `params` inside the support.")


def _method(name: str, front: FrontEnd, wanted: CustomProblem) -> CustomMethod:
    if name == AUTO:
        name = front.method(wanted.model)
    one_of("method", name, (AUTO, *CUSTOM_METHODS))
    reason = CUSTOM_METHODS[name].refusal(wanted)
    if reason is not None:
        raise InputError(f"Expected a method that this model allows, got {name!r}, which {reason}.")
    return CUSTOM_METHODS[name]


def _built(front: FrontEnd, model: Any, layout: RecordLayout, public: Mapping[str, Any]) -> CustomModel:
    """The model; the same object for the same function and layout, so that nothing is compiled twice."""
    # A function that reads other values of its closure or module than before is another one; arrays are not compared.
    try:
        around = inspect.getclosurevars(model)
        values = tuple(sorted({**around.globals, **around.nonlocals}.items(), key=lambda item: item[0]))
        given = tuple(sorted((k, v) for k, v in public.items() if v is not None))
        return _kept(front, model, layout, given, values)
    except TypeError:
        return front.build(model, layout, public)


@lru_cache(maxsize=32)
def _kept(
    front: FrontEnd, model: Any, layout: RecordLayout, public: tuple[Any, ...], _: tuple[Any, ...]
) -> CustomModel:
    return front.build(model, layout, dict(public))


def stored_arrays(own: CustomModel, found: CustomOutcome) -> dict[str, Any]:
    """What a release holds of a fit: draws of its sites and of what they are made of, or the weights of a network."""
    if WEIGHTS in found.arrays:
        return dict(found.arrays)
    return {SITE_DRAWS: constrained_table(own, found.draws), FREE_DRAWS: np.asarray(found.draws), **found.arrays}


def constrained_table(own: CustomModel, free: Array) -> NDArray[np.float64]:
    """The sites at draws of the unconstrained parameters, shape (chains, draws, entries)."""

    def flat(theta: Any) -> Any:
        values = own.constrained(theta)
        return jnp.concatenate([jnp.ravel(values[site.name]) for site in own.sites])

    with in_doubles():
        return np.asarray(jax.jit(jax.vmap(jax.vmap(flat)))(jnp.asarray(free)))
