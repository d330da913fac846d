"""Fit a custom model: plan, certify, debit, and only then use the rows."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.bound import Relation, RelationWord
from sordino.core.gaussian import largest_mu
from sordino.core.spec import ColumnUnit, Unit
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, one_of, refuse, whole_number
from sordino.data import StoredColumn, column_names, from_arrays, read_table
from sordino.data.raw_columns import BOOLEAN, MISSING, NUMBER, Column, arrow, numpy_values
from sordino.data.sources.in_memory import no_rows
from sordino.data.units import key_codes, keys
from sordino.fitting import custom_methods as custom
from sordino.fitting.charge import RowAccess, RunContents, charged_run
from sordino.fitting.gradient_runs import check_typed, finite_numbers
from sordino.fitting.problem import Sources, delta_cautions
from sordino.fitting.tasks.base import ASKED, AUTO
from sordino.ledger.release import StoredRelease
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import CustomModel, FrontEnd, RecordLayout, front_end_for, pack, read_layout
from sordino.noise.lattice import in_doubles

# Arrays, or columns of a table, by name.
Named = Mapping[str, Any]
# No parameter means anything beyond; squares of such numbers are floats still, so that a release can be summarised.
_FARTHEST = 1e100
# Its methods register themselves, as those of `custom_methods` do.
importlib.import_module("sordino.fitting.custom_training")


def fit_custom(
    model: object,
    data: object,
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    records: int | None,
    unit: str | None,
    most_records: int | None,
    method: str,
    optimiser: object,
    draws: int,
    options: Mapping[str, Any] | None,
    ledger: object,
    random_state: int | None,
    begin: Callable[[str], None],
    **public: object,
) -> tuple[StoredRelease, CustomModel, LowerBound | None]:
    """Fit a custom model: its release, the model, and the lower bound of a run that had canaries.

    `sordino.fit` says what the arguments are; `public` are loss, params, constants and start.
    """
    asked, at = number("epsilon", epsilon, POSITIVE), number("delta", delta, OPEN_UNIT)
    related = Relation(one_of("relation", relation, tuple(Relation)))
    arrays = tuple(map(str, data)) if isinstance(data, Mapping) else None
    public |= {"unit": unit, "arrays": column_names(data) if hasattr(data, "columns") else arrays}
    public["prior_scale"] = (options or {}).get("prior_scale")
    front = front_end_for(model, public)
    named = named_arrays(data, front.names(model, public))
    layout, table = layout_of(front, model, public, named, unit, most_records)
    own = _built(front, model, layout, public)
    protected = Unit.RECORD if unit is None else ColumnUnit(unit, layout.rows)
    sizes = Sizes(number_of(records, related, named, unit), own.size, largest_mu(asked, at), related, at, protected)
    choices = dict(options or {})
    if optimiser is not None:
        choices = {"step_size": 1.0, **choices} if front.method(own) == "rounds" and method == AUTO else choices
        choices["optimiser"] = optimiser
    choices["draws"] = whole_number("draws", choices.get("draws", draws))
    wanted = custom.CustomProblem(own, sizes, asked, choices)
    name = one_of("method", front.method(own) if method == AUTO else method, (AUTO, *custom.CUSTOM_METHODS))
    chosen = custom.CUSTOM_METHODS[name]
    if (reason := chosen.refusal(wanted)) is not None:
        raise InputError(f"Expected a method that this model allows, got {name!r}, which {reason}.")
    spec = chosen.plan(wanted)
    cautions = delta_cautions(sizes.records, at, "record" if unit is None else "unit")
    _check_model_runs(own)
    sources = Sources(random_state)

    def check() -> None:
        """Under replace-one the number of units is public."""
        if related is Relation.REPLACE_ONE and unit is not None:
            units = int(_unit_codes(unit, named[unit]).max(initial=-1)) + 1
            if units != sizes.records:
                raise refuse("the number of units", f"to be records = {sizes.records} under replace-one", units)

    def read() -> Any:
        """The first reading of private numbers."""
        if chosen.packs:
            return packed_rows(layout, table, named, unit)
        return {leaf.name: finite_numbers(f"data[{leaf.name!r}]", named[leaf.name]) for leaf in layout.leaves}

    def run(access: RowAccess) -> RunContents[LowerBound | None]:
        found = chosen.run(wanted, spec, access.read(read), sources, begin)
        plain = {name: value for name, value in choices.items() if isinstance(value, str | bool | int | float | None)}
        settings = {
            "front_end": front.name,
            "method": chosen.name,
            "sites": [{"name": site.name, "shape": list(site.shape)} for site in own.sites],
            "layout": [[leaf.name, list(leaf.shape), leaf.whole] for leaf in layout.leaves],
            "rows": layout.rows,
            "unit": unit,
            # Options as plain values; those that are none are named.
            ASKED: {"epsilon": asked, "options": plain, "unsaid": [name for name in choices if name not in plain]},
            **found.settings,
        }
        arrays = dict(found.arrays)
        if custom.WEIGHTS not in arrays:
            arrays = {custom.SITE_DRAWS: _sites(own, found.draws), custom.FREE_DRAWS: np.asarray(found.draws), **arrays}
        kind, said = f"{custom.CUSTOM}/{chosen.name}", (*found.cautions, *cautions)
        return RunContents(kind, arrays, found.audit, found.floating_point, settings, cautions=said)

    paid = {"words": f"method {chosen.name!r}", "epsilon": asked * (1.0 + 1e-12), "ledger": ledger}
    release, audit = charged_run(explain(spec, at), run, sources=sources, check=check, **paid)
    return release, own, audit


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
        why = "JAX cannot trace the gradients of this model"
        raise InputError(f"{why}. It raised {type(error).__name__}: {str(error)[:200]}") from None
    if not np.isfinite(start).all():
        raise InputError("The starting values must be finite; give `start` or `params` inside the support.")


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
def _kept(front: FrontEnd, model: Any, layout: RecordLayout, public: tuple[Any, ...], _: object) -> CustomModel:
    return front.build(model, layout, dict(public))


def _sites(own: CustomModel, free: Array) -> NDArray[np.float64]:
    """The sites at draws of the unconstrained parameters, shape (chains, draws, entries)."""

    def flat(theta: Any) -> Any:
        values = own.constrained(theta)
        return jnp.concatenate([jnp.ravel(values[site.name]) for site in own.sites])

    with in_doubles():
        return np.clip(jax.jit(jax.vmap(jax.vmap(flat)))(jnp.asarray(free)), -_FARTHEST, _FARTHEST)


# Rows: arrays by name, whose names, shapes and stored types are public. A number that no model can compute with counts
# as a public constant, because a refusal after the debit would reveal that record.


def named_arrays(data: object, names: tuple[str, ...]) -> dict[str, object]:
    """The arrays of the data by name; no number decides anything."""
    if isinstance(data, tuple | list):
        if len(data) > len(names):
            raise refuse("data", f"to have at most {len(names)} arrays, {', '.join(names)}", len(data))
        return {name: _typed(name, values) for name, values in zip(names, data, strict=False)}
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return {name: _array(column) for name, column in read_table(data).columns.items()}
    if isinstance(data, Mapping) and all(isinstance(name, str) for name in data):
        return {name: _typed(name, values) for name, values in data.items()}
    raise refuse("data", "to be named arrays, a data frame or a tuple of arrays", type(data).__name__)


def _typed(name: str, values: object) -> Any:
    """An array as it is; a series of pandas or Polars by its stored type, which no missing cell changes."""
    kind = getattr(values, "dtype", None)
    return values if kind is None or isinstance(kind, np.dtype) else _array(from_arrays({name: values}).columns[name])


def _array(column: Column) -> Any:
    """A column of numbers as an array, 0 where a cell is missing; another column as it is."""
    if not isinstance(column, StoredColumn) or column.kind not in (NUMBER, BOOLEAN):
        return column
    values = column.values
    if arrow().types.is_decimal(values.type):
        values = values.cast(arrow().float64())
    return numpy_values(values.fill_null(False if column.kind == BOOLEAN else 0))


def layout_of(
    front: FrontEnd, model: Any, public: Mapping[str, Any], named: Named, unit: str | None, most_records: int | None
) -> tuple[RecordLayout, tuple[str, ...]]:
    """The layout of the arrays that the model reads, and their names."""
    if (unit is None) != (most_records is None):
        raise InputError("Declare unit and most_records together.")
    if unit is not None and unit not in named:
        raise refuse("unit", f"to name one of the arrays {', '.join(named)}", unit)
    rows = 1 if most_records is None else whole_number("most_records", most_records)
    read = front.names(model, public)
    unknown = [name for name in named if name not in read and name != unit]
    if unknown:
        wanted = f"Expected arrays that the model reads, {', '.join(read)}, got {', '.join(unknown)} besides"
        raise InputError(f"{wanted}; leave it out.")
    used = {name: named[name] for name in read if name in named}
    for name, values in used.items():
        if name != unit:
            check_typed(f"data[{name!r}]", values)
    if unit is not None:
        given = named[unit]
        if len(given) != len(next(iter(used.values()))):
            raise refuse(f"data[{unit!r}]", "to hold one unit for each record", "another shape")
        # A type that is no key is refused before the debit.
        empty = given.take(slice(0)) if isinstance(given, Column) else from_arrays(no_rows({unit: given})).columns[unit]
        key_codes(unit, empty, ())
        if unit in used:  # the model of one unit sees no other: its own is number 0
            used[unit] = np.zeros(len(given), np.int32)
    return read_layout(used, rows), tuple(used)


def number_of(records: int | None, relation: Relation, named: Named, unit: str | None) -> int:
    """The public number of records, or of units; that of the rows where the relation makes it public."""
    if records is not None:
        stated = whole_number("records", records)
        rows = len(next(iter(named.values())))
        if unit is None and relation is Relation.REPLACE_ONE and rows != stated:
            raise refuse("records", f"to be {rows}, the number of rows, under replace-one", stated)
        return stated
    if unit is not None:
        raise InputError("With unit, declare records: the public number of units.")
    if relation is Relation.ADD_REMOVE:
        raise InputError("Under add-remove the number of rows is private. Declare records, a public number.")
    return len(next(iter(named.values())))


def packed_rows(layout: RecordLayout, used: tuple[str, ...], named: Named, unit: str | None) -> np.ndarray:
    """The packed rows; the first reading of private numbers."""
    codes = None
    values = {name: finite_numbers(f"data[{name!r}]", named[name]) for name in used if name != unit}
    if unit is not None:
        codes = _unit_codes(unit, named[unit])
        if unit in used:
            values[unit] = np.zeros(len(codes), np.int32)
    return pack(layout, values, codes)


def _unit_codes(unit: str, given: object) -> NDArray[np.intp]:
    """The units numbered from 0 in the order of their keys, records without a key first."""
    column = given if isinstance(given, Column) else from_arrays({unit: given}).columns[unit]
    known: dict[str, int] = {}
    codes = keys(unit, column, (), lambda word: known.setdefault(word, len(known)))
    places = {word: place for place, word in enumerate(sorted(known, key=int if column.kind == NUMBER else None))}
    codes = np.array([*(places[word] for word in known), MISSING])[codes]
    return np.unique(codes, return_inverse=True)[1].ravel()
