"""A NumPyro model function, read as a model of one unit at a time.

It is run on the records of one unit, so no gradient of a unit can see another unit. What that would change is refused
before any private row is read. Latents inside the plate of records, or inside a plate of size 1 that has the name of
the unit's column, belong to one unit and are integrated out by adaptive Gauss-Hermite quadrature (Naylor & Smith 1982):
nodes lie around the mode of the unit's own joint density, scaled by its curvature there, and are constants in
derivatives. Discrete latents are summed out.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from types import MappingProxyType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from sordino.core.validate import InputError, refuse
from sordino.models.custom import base
from sordino.models.custom.base import Data, Options, RecordLayout, ReleasedParameter, UserModel, blank

Site = dict[str, Any]  # of a trace: its name, value, distribution and plates
Trace = dict[str, Site]
NO_OPTIONS: Options = MappingProxyType({})
# Two numbers of records that no other plate is likely to have; a frame whose size follows them is the data's.
_TRIED = (5, 7)
_SAME = 1e-4
_BESIDE = 0.03

MOST_LOCAL = 3
_NODES = {1: 15, 2: 9, 3: 7}
_NEWTON_STEPS = 12
_LONGEST_STEP = 5.0
_LEAST_CURVATURE, _LARGEST_CURVATURE = 1e-6, 1e12


def log_integral(log_joint: Callable[[Array], Array], constant: Callable[[Array], Array], dim: int) -> Array:
    """The logarithm of the integral of exp(log_joint(z)) over z in `dim` dimensions.

    `constant` is the same function with everything but z a constant in derivatives; it places the nodes.
    """
    if dim > MOST_LOCAL:
        raise refuse("the latents of one unit", f"to be at most {MOST_LOCAL} numbers", dim, "integrate them by hand")
    mode, root = _placed(constant, dim)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES[dim])
    points, logs = np.array(list(product(nodes, repeat=dim))), product(np.log(weights) + nodes**2, repeat=dim)
    values = jax.vmap(lambda point: log_joint(mode + jnp.sqrt(2.0) * (root @ point)))(jnp.asarray(points))
    volume = 0.5 * dim * jnp.log(2.0) + jnp.linalg.slogdet(root)[1]
    return logsumexp(values + jnp.asarray(list(map(sum, logs)))) + volume


def _placed(log_joint: Callable[[Array], Array], dim: int) -> tuple[Array, Array]:
    """The mode by Newton's method, and a root of the inverse curvature there; constants in derivatives."""

    def curvature(z: Array) -> tuple[Array, Array]:
        values, vectors = jnp.linalg.eigh(-jax.hessian(log_joint)(z))
        return jnp.clip(jnp.abs(values), _LEAST_CURVATURE, _LARGEST_CURVATURE), vectors

    def step(_: int, z: Array) -> Array:
        values, vectors = curvature(z)
        move = vectors @ ((vectors.T @ jax.grad(log_joint)(z)) / values)
        moved = z + move * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.linalg.norm(move), _LONGEST_STEP * 1e-9))
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, z)

    mode = lax.fori_loop(0, _NEWTON_STEPS, step, jnp.zeros(dim))
    values, vectors = curvature(mode)
    return mode, vectors / jnp.sqrt(values)


def numpyro() -> ModuleType:
    """The numpyro package, or a refusal that says how to get it."""
    try:
        import_module("numpyro.distributions")
        import_module("numpyro.handlers")
        return import_module("numpyro")
    except ImportError:
        raise InputError("This needs numpyro. Install sordino[numpyro].") from None


@dataclass(frozen=True)
class Latent:
    """A latent: its shape unconstrained, as in the flat vector, and its own, and the map from the one to the other."""

    name: str
    shape: tuple[int, ...]
    own_shape: tuple[int, ...]
    transform: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def latent_of(site: Site, other: Site) -> Latent:
    """A global latent; refused where it belongs to a record, is discrete or is empty."""
    name = site["name"]
    if jnp.shape(site["value"]) != jnp.shape(other["value"]):
        raise InputError(f"Expected global latents of one shape, got {name!r}, which has one for each record.")
    if site["fn"].support.is_discrete:
        raise InputError(f"Expected continuous global latents, got the discrete {name!r}; sum it out.")
    if 0 in jnp.shape(site["value"]):
        raise InputError(f"Expected latents with at least one number, got the empty {name!r}.")
    transform, own_shape = numpyro().distributions.biject_to(site["fn"].support), tuple(jnp.shape(site["value"]))
    return Latent(name, tuple(transform.inverse_shape(own_shape)), own_shape, transform)


def blocks_of(latents: tuple[Latent, ...], theta: Any) -> list[Array]:
    """The part of the flat vector that belongs to each latent; one that is in parts already stays so."""
    if isinstance(theta, list):
        return theta
    ends = np.cumsum([latent.size for latent in latents])
    return [theta[end - latent.size : end] for latent, end in zip(latents, ends, strict=True)]


def substituted(latents: tuple[Latent, ...], theta: Any) -> tuple[dict[str, Array], Array]:
    """The values of the latents by name, and the sum of the log-determinants of their unconstraining maps."""
    values, volume = {}, jnp.zeros(())
    for latent, block in zip(latents, blocks_of(latents, theta), strict=True):
        free = block.reshape(latent.shape)
        values[latent.name] = value = latent.transform(free)
        volume = volume + jnp.sum(latent.transform.log_abs_det_jacobian(free, value))
    return values, volume


def log_prob(site: Site) -> Array:
    """The log-density of a site at its value."""
    return site["fn"].log_prob(site["value"])


def record_densities(site: Site, axis: int) -> Array:
    """The log-density of an observed site for each record: other axes are summed."""
    found = log_prob(site)
    return jnp.sum(jnp.moveaxis(found, axis, 0).reshape(found.shape[axis], -1), axis=1)


@dataclass(frozen=True)
class ModelTrace:
    """What a model function samples: global latents, latents of one unit, and observed sites with their plate axis."""

    latents: tuple[Latent, ...]
    local: tuple[Latent, ...]
    summed: tuple[str, ...]  # discrete latents of a record
    observed: tuple[tuple[str, int], ...]
    given: tuple[tuple[str, str], ...]  # observed sites whose values are arrays of the data as they are, and which


class NumPyroProgram(base.CustomModel):
    """The model on the unconstrained latents, in the order of sampling."""

    def __init__(self, model_fn: Callable[..., Any], layout: RecordLayout, options: Options = NO_OPTIONS) -> None:
        self.model_fn, self.layout, self.unit = model_fn, layout, options.get("unit")
        self.constants, self.started = options.get("constants") or {}, options.get("start") or {}
        # Made-up records need not lie in the support of a likelihood, and one record alone may make a scale NaN.
        with import_module("numpyro.distributions.distribution").validation_enabled(False):
            self.program = self._read()
            self._check_records_stand_alone()

    @property
    def size(self) -> int:
        return sum(latent.size for latent in self.program.latents)

    @property
    def sites(self) -> tuple[ReleasedParameter, ...]:
        return tuple(ReleasedParameter(latent.name, latent.own_shape) for latent in self.program.latents)

    def start(self) -> Array:
        # Not at exactly 0, where many densities have a kink and mixtures are symmetric; the numbers are public.
        parts, generator = [], np.random.default_rng(0)
        for latent in self.program.latents:
            parts.append(jnp.asarray(generator.normal(0.0, _BESIDE, latent.size)))
            if latent.name in self.started:
                value = jnp.asarray(self.started[latent.name], float)
                parts[-1] = jnp.broadcast_to(latent.transform.inv(value), latent.shape).ravel()
        if unknown := set(self.started) - {latent.name for latent in self.program.latents}:
            raise refuse("start", f"to name sites of the model, {', '.join(s.name for s in self.sites)}", unknown)
        return jnp.concatenate(parts)

    def constrained(self, theta: Array) -> dict[str, Array]:
        return substituted(self.program.latents, theta)[0]

    def unit_loss(self, theta: Any, row: Array) -> Array:
        record, mask = self.layout.unpack(row)
        joint = partial(self._log_joint, record=record, mask=mask)
        if not self.program.local:
            return -joint(theta, jnp.zeros(0))
        dim = sum(latent.size for latent in self.program.local)
        return -log_integral(partial(joint, theta), partial(joint, lax.stop_gradient(theta)), dim)

    def unit_gradients(self, theta: Array, rows: Array) -> Array:
        # In each latent's own part: the derivative of cutting a vector into parts is a sum of padded ones.
        found = jax.vmap(jax.grad(self.unit_loss), in_axes=(None, 0))(blocks_of(self.program.latents, theta), rows)
        return jnp.concatenate(found, axis=1) if found else jnp.zeros((len(rows), 0))

    def penalty(self, theta: Array) -> Array:
        values, volume = substituted(self.program.latents, theta)
        return -(_joint(self._trace(values, _arrays(blank(self.layout, 1)), 0), self.program.latents) + volume)

    @property
    def simulates(self) -> bool:
        parameters = inspect.signature(self.model_fn).parameters
        leaves = dict(self.program.given)
        return all(name in leaves and parameters[leaves[name]].default is None for name, _ in self.program.observed)

    def simulated(self, theta: Array, row: Array, number: Any = 0) -> Array:
        record, _ = self.layout.unpack(row)
        leaves = dict(self.program.given)
        kept = {name: values for name, values in record.items() if name not in leaves.values()}
        sites = self._trace(self.constrained(theta), kept, jax.random.fold_in(base.key_of(row), number))
        return self.layout.replaced(row, {leaf: sites[name]["value"] for name, leaf in leaves.items()})

    def predict(self, theta: Array, data: Data, key: Array) -> dict[str, Array]:
        """What the model observes is drawn; latents of one unit are drawn from their prior."""
        observed = {leaf for _, leaf in self.program.given}
        read = [leaf.name for leaf in self.layout.leaves if leaf.name not in observed]
        if missing := [name for name in read if name not in data]:
            raise InputError(f"The new records lack {', '.join(missing)}, which the model reads.")
        given = {name: jnp.asarray(data[name]) for name in data if name in read}

        def one(theta: Array, key: Array) -> dict[str, Array]:
            sites = self._trace(self.constrained(theta), given, key)
            return {name: sites[name]["value"] for name, _ in self.program.observed if name in sites}

        return jax.jit(jax.vmap(one))(theta, jax.random.split(key, len(theta)))

    def log_likelihood(self, theta: Array, data: Data) -> dict[str, Array]:
        if self.program.local or self.program.summed:
            raise InputError("Log-likelihoods of records need a model without latents of single records.")
        given = _arrays(data)

        def one(theta: Array) -> dict[str, Array]:
            sites = self._trace(self.constrained(theta), given)
            return {name: record_densities(sites[name], axis) for name, axis in self.program.observed}

        return jax.jit(jax.vmap(one))(theta)

    def _log_joint(self, theta: Any, local: Array, record: Mapping[str, Array], mask: Array) -> Array:
        """The log-density of a unit's observations and of its local latents, given the others."""
        program = self.program
        inner, volume = substituted(program.local, local)
        fixed = self.constrained(theta) | inner

        def densities(discrete: Mapping[str, Array]) -> Array:
            sites = self._trace({**fixed, **discrete}, record)
            parts = [record_densities(sites[name], axis) for name, axis in program.observed]
            parts += [jnp.ravel(log_prob(sites[name])) for name in discrete]
            return jnp.sum(jnp.stack(parts), axis=0)

        if program.summed:
            [name] = program.summed
            support = self._trace(fixed, record, 0)[name]["fn"].enumerate_support(expand=False).reshape(-1)
            each = [densities({name: jnp.broadcast_to(value, (self.layout.rows,))}) for value in support]
            of_records = logsumexp(jnp.stack(each), axis=0)
        else:
            of_records = densities({})
        total = jnp.sum(jnp.where(mask, of_records, 0.0))
        if not program.local:
            return total
        return total + _joint(self._trace(fixed, record, 0), program.local) + volume

    def _trace(self, values: Mapping[str, Array], record: Mapping[str, Any], key: Any = None) -> Trace:
        """The sites of the function at values of its latents; those without a value are drawn with a key."""
        handlers = numpyro().handlers
        model = handlers.substitute(self.model_fn, data=dict(values))
        seeded = model if key is None else handlers.seed(model, key)
        return handlers.trace(seeded).get_trace(**record, **self.constants)

    def _read(self) -> ModelTrace:
        rows = [self.layout.rows] if self.layout.rows > 1 else []
        traces, given = {}, {}
        for number in (*_TRIED, *rows, 1):
            given = _arrays(blank(self.layout, number, seed=1))
            words = f"The model must run on {number} records of the data's shapes. Called with them"
            traces[number] = base.tried(words, partial(self._trace, {}, given, 0))
        # An observed site holds the very array that the function was given, or something made of it.
        observed = {name: site for name, site in traces[1].items() if site["type"] == "sample" and site["is_observed"]}
        own = [(name, leaf) for leaf, array in given.items() for name in observed if observed[name]["value"] is array]
        return replace(_read_program(traces, self.unit, self.layout.rows), given=tuple(own))

    def _check_records_stand_alone(self) -> None:
        """Refuse, on made-up records, sites whose density of one record follows the others, and priors that read."""
        records, others = (blank(self.layout, _TRIED[0], seed=seed) for seed in (2, 3))
        values = self.constrained(jnp.asarray(np.random.default_rng(4).normal(0.0, 0.1, self.size)))
        together, elsewhere = (self._trace(values, _arrays(each), 0) for each in (records, others))
        for latent in self.program.latents:
            if not _close(log_prob(together[latent.name]), log_prob(elsewhere[latent.name])):
                raise InputError(f"The prior of {latent.name!r} changes with the rows. Give it public numbers.")
        if self.program.local or self.program.summed:
            return
        for place in range(_TRIED[0]):
            one = {name: jnp.asarray(part[place : place + 1]) for name, part in records.items()}
            alone = self._trace(values, one, 0)
            for name, axis in self.program.observed:
                if not _close(record_densities(together[name], axis)[place], record_densities(alone[name], axis)[0]):
                    raise InputError(f"The density of a record at {name!r} changes with others. Use public numbers.")


def _read_program(traces: Mapping[int, Trace], unit: str | None, rows: int) -> ModelTrace:  # noqa: PLR0912
    first, second = (traces[number] for number in _TRIED)
    one, other = (
        {frame.name: frame.size for site in trace.values() for frame in site.get("cond_indep_stack", ())}
        for trace in (first, second)
    )
    plates = {name for name, size in one.items() if size == _TRIED[0] and other.get(name) == _TRIED[1]}
    observed, latents, local, summed = [], [], [], []
    for name, site in first.items():
        if site["type"] == "param":
            raise InputError(f"Expected a NumPyro model without numpyro.param, got {name!r}; give it a prior instead.")
        if site["type"] != "sample":
            continue
        frames = {frame.name: frame for frame in site["cond_indep_stack"]}
        inside = [frames[plate] for plate in frames if plate in plates]
        if site["scale"] not in (None, 1, 1.0):
            raise InputError(f"Expected unscaled sites, got {name!r} with a scale; leave out subsampling and scale.")
        if site["is_observed"]:
            if len(inside) != 1:
                raise InputError(
                    f"Expected site {name!r} to be observed inside one plate of an entry for each record, got plates "
                    f"{[(frame.name, frame.size) for frame in frames.values()]} for {_TRIED[0]} records; size a plate "
                    "by the first axis of the data."
                )
            observed.append((name, inside[0].dim))
        elif inside or (unit is not None and unit in frames):
            if not inside and frames[unit].size != 1:
                raise InputError(
                    f"The model describes one unit: the plate {unit!r} must have size 1, not {frames[unit].size}."
                )
            discrete = site["fn"].support.is_discrete
            if (inside and rows > 1) or (discrete and not inside):
                level = "a record" if inside else "a unit"
                words = "Latents must belong to a unit (or a record, if it is the unit);"
                raise InputError(f"{words} {name!r} is of {level}.")
            (summed if discrete else local).append(name)
        else:
            latents.append(latent_of(site, second[name]))
    if not observed:
        raise InputError("The NumPyro model observes nothing. Add a sample site with obs=.")
    if not latents:
        raise InputError("The NumPyro model has no global latent. It needs at least one.")
    if len(summed) > 1:
        raise InputError(f"Expected at most one discrete latent in a record, got {summed}.")
    inner = tuple(latent_of(traces[1][name], traces[1][name]) for name in local)
    return ModelTrace(tuple(latents), inner, tuple(summed), tuple(observed), ())


def _joint(sites: Trace, latents: tuple[Latent, ...]) -> Array:
    """The sum of the log-densities of some latents."""
    return sum((jnp.sum(log_prob(sites[latent.name])) for latent in latents), jnp.zeros(()))


def _arrays(data: Data) -> dict[str, Array]:
    return {name: jnp.asarray(values) for name, values in data.items()}


def _close(one: Array, other: Array) -> bool:
    left, right = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=_SAME, atol=_SAME, equal_nan=True))


@base.front_end("numpyro")
class NumPyroFrontEnd(base.FrontEnd):
    """Takes any function where no parameters are given: a NumPyro model brings its own."""

    def takes(self, model: UserModel, options: Options) -> bool:
        return inspect.isfunction(model) and options.get("params") is None

    def names(self, model: UserModel, options: Options) -> tuple[str, ...]:
        constants = options.get("constants") or {}
        return tuple(name for name in inspect.signature(model).parameters if name not in constants)

    def build(self, model: UserModel, layout: RecordLayout, options: Options) -> base.CustomModel:
        return NumPyroProgram(model, layout, options)
