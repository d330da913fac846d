"""The chain as pure functions on keys and pytrees: `init`, `batches` and `step`, for `jit`, `vmap`, `scan` and optax.

A step here and a step of `run` are the same functions (`kernel`) with the same limits (`claims`), so the same draws
give the same bits. Here the caller gives keys; what that leaves of the certificate is `PureChain.certified_spec`.

Batches are functions of key and step, not an iterator, so that a scan can draw them. Subsets and orders are drawn by
sorting 128 random bits a record, which differs from uniform by at most n^2 / 2^129 in total variation; Poisson batches
by comparing 64 random bits with the rate, rounded down.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike

from sordino.core.bound import Certificate, View
from sordino.core.gaussian import up
from sordino.core.spec import Batch, GaussianStart, NoisyGradient, PointStart, Problem, Scheme, Spec, StableNoise
from sordino.core.spec.chain import OWN_PLACES
from sordino.core.validate import InputError, instance_of, refuse
from sordino.mechanisms.chain import kernel
from sordino.mechanisms.chain.batches import planned_capacity
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.models.registry import JaxModel
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import GROUP, in_doubles
from sordino.noise.port import keyed_noise, keyed_scale
from sordino.noise.randomness import ADDED, NoisePort, Purpose
from sordino.noise.secure import is_secure, key_for, standard_gaussians

Loss = Callable[[Any, Array, Array], Array]


@partial(jax.tree_util.register_dataclass, data_fields=["data", "records", "count"], meta_fields=["block", "secure"])
@dataclass(frozen=True)
class DrawnBatch:
    """A batch that a scheme drew: the table, and a list of its rows of which the first `count` are used."""

    data: kernel.Records
    records: Array | None  # None where every row is used
    count: Array
    block: int  # how many rows are worked on at a time
    secure: bool


# A list of rows or None, how many of it are used, and how many at a time.
_Listed = tuple[Array | None, Array | int, int]


@dataclass(frozen=True, eq=False)
class PureBatches:
    """The batches of a chain on `n` records, all drawn from one key; called with the rows and the number of a step."""

    algorithm: NoisyGradient
    n: int
    key: Array
    _kept_order: Array = field(init=False)

    def __post_init__(self) -> None:
        scheme = self.algorithm.batch.scheme
        if scheme not in _LISTED:
            raise refuse("algorithm.batch.scheme", f"to be one of {', '.join(_LISTED)} for a pure chain", scheme.value)
        # Drawn once, outside of any loop.
        once = scheme is Scheme.SHUFFLE_ONCE
        object.__setattr__(self, "_kept_order", self._shuffled(0) if once else jnp.arange(self.n, dtype=jnp.int32))

    def __call__(self, data: kernel.Records, step: Any) -> DrawnBatch:
        records, count, block = _LISTED[self.algorithm.batch.scheme](self, data, jnp.asarray(step, jnp.int32))
        return DrawnBatch(data, records, jnp.asarray(count, jnp.int32), block, is_secure(self.key))

    @property
    def _size(self) -> int:
        return self.algorithm.divisor(self.n)

    def _bits(self, number: Any, *shape: int) -> Array:
        """64 random bits for each entry, fresh for every number of a step, pass or round."""
        return jax.random.bits(key_for(self.key, Purpose.BATCHES, number), shape, jnp.uint64)

    def _of_pass(self, data: kernel.Records, step: Array) -> _Listed:
        """A batch cut from the order of a pass, one after the other; the last of a pass may be smaller."""
        per_pass, size = self.algorithm.batches_per_epoch(self.n), self._size
        redrawn = self.algorithm.batch.scheme is Scheme.RESHUFFLED
        order = self._shuffled(step // per_pass) if redrawn else self._kept_order
        first = (step % per_pass) * size
        padded = jnp.pad(order, (0, per_pass * size - self.n))
        return lax.dynamic_slice_in_dim(padded, first, size), jnp.minimum(size, self.n - first), size

    def _redrawn(self, data: kernel.Records, step: Array) -> _Listed:
        # 64 bits modulo n: uneven by n / 2^64 at most.
        return (self._bits(step, self._size) % np.uint64(self.n)).astype(jnp.int32), self._size, self._size

    def _poisson(self, data: kernel.Records, step: Array) -> _Listed:
        padded, rate = data.target.shape[0], self.algorithm.rate(self.n)
        threshold = int(Fraction(rate) * 2**64)
        taken = self._bits(step, padded) < np.uint64(threshold) if threshold < 2**64 else jnp.ones(padded, bool)
        places, drawn, block = self._those(data, taken, rate * self.n)
        # The list is in the order of the table, so that a cap keeps those that come first.
        cap = self.algorithm.batch.most
        return places, drawn if cap is None else jnp.minimum(drawn, cap), block

    def _those(self, data: kernel.Records, chosen: Array, expected: float) -> _Listed:
        """The real rows among the chosen ones, in the order of the table."""
        padded = data.target.shape[0]
        present = chosen & (jnp.arange(padded) < data.rows)
        block = min(padded, planned_capacity(expected, self.algorithm.steps * self.algorithm.chains))
        places = jnp.nonzero(present, size=-(-padded // block) * block, fill_value=0)[0]
        return places.astype(jnp.int32), jnp.sum(present), block

    def _shuffled(self, number: Any) -> Array:
        """A uniform order of the records, by sorting 128 random bits each."""
        return lax.sort((*self._bits(number, 2, self.n), jnp.arange(self.n, dtype=jnp.int32)), num_keys=2)[2]


_LISTED: dict[Scheme, Callable[[PureBatches, kernel.Records, Array], _Listed]] = {
    Scheme.FULL: lambda _, data, __: (None, data.rows, GROUP),
    Scheme.CYCLIC: PureBatches._of_pass,
    Scheme.RESHUFFLED: PureBatches._of_pass,
    Scheme.SHUFFLE_ONCE: PureBatches._of_pass,
    Scheme.WITHOUT_REPLACEMENT: lambda own, _, step: (own._shuffled(step)[: own._size], own._size, own._size),
    Scheme.WITH_REPLACEMENT: PureBatches._redrawn,
    Scheme.POISSON: PureBatches._poisson,
    Scheme.TRUNCATED_POISSON: PureBatches._poisson,
}


@partial(
    jax.tree_util.register_dataclass, data_fields=["step", "params", "optimiser"], meta_fields=["secure", "own_start"]
)
@dataclass(frozen=True)
class ChainState:
    """Where a chain is: what the next step needs, as a pytree.

    Attributes:
        step: how many steps were made.
        params: the iterate, in the form that `init` was given, in double precision; NaN after more steps than the spec
            describes, so that nothing leaves that no certificate covers.
        optimiser: the state of the chain's optimiser; None without one.
        secure: whether the keys are those of `secure_key`; otherwise what leaves is NON-PRIVATE.
        own_start: whether the start was given, and not the spec's.
    """

    step: Array
    params: Any
    optimiser: Any
    secure: bool
    own_start: bool


@dataclass(frozen=True, eq=False)
class PureChain:
    """A noisy gradient chain as pure functions; `sordino.chain` makes it.

    Everything needs 64-bit numbers: `jax.config.update("jax_enable_x64", True)` or `with jax.enable_x64(True):` around.
    """

    spec: Spec
    model: Model | Loss
    weight_decay: float = 0.0
    own_batches: bool = False
    optimiser: Any = None
    port: NoisePort = ADDED
    _plan: ChainPlan = field(init=False)

    def __post_init__(self) -> None:
        if self.weight_decay and isinstance(self.model, Model):
            raise refuse("weight_decay", "to be absent beside a model, which has its own", self.weight_decay)
        object.__setattr__(self, "_plan", self._planned(lambda theta: theta))
        if self.algorithm.rounding is not None:
            raise refuse("algorithm.rounding", "to be absent for custom steps", self.algorithm.rounding)

    @property
    def algorithm(self) -> NoisyGradient:
        """The chain of the spec."""
        return self._plan.chain

    def init(self, key: Array, params: Any = None) -> ChainState:
        """The state before the first step, with parameters in double precision and inside the spec's ball.

        The key decides whether the chain is `secure`; the spec's Gaussian start is drawn from it. `params`, a pytree
        with problem.dim numbers, must not depend on private rows; absent: the spec's start, as a flat vector.
        """
        _need_doubles()
        secure, own_start = is_secure(key), params is not None
        given = self._start(key) if params is None else params
        theta, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), given))
        if len(theta) != self.spec.dim:
            raise refuse("params", f"to have problem.dim = {self.spec.dim} numbers", len(theta))
        if self.algorithm.projection is not None:
            theta = kernel.on_ball(theta[None], self._plan.constants().radius)[0]
        start = unravel(theta)
        memory = None if self.optimiser is None else self.optimiser.init(start)
        return ChainState(jnp.zeros((), jnp.int32), start, memory, secure, own_start)

    def data(self, features: ArrayLike, target: ArrayLike) -> kernel.Records:
        """The private rows on the device, as a pytree, every row within what the spec was certified for."""
        _need_doubles()
        X, y = checked_rows(features, target)
        self._plan.check_rows(*X.shape)
        if len(X) != self.spec.n and self.algorithm.batch.scheme not in OWN_PLACES:
            raise refuse("the number of rows", f"to be problem.n = {self.spec.n} for batches of fixed size", len(X))
        return kernel.load(X, y, GROUP, np.float64, self._plan.row_limits(X.shape[1]))

    def batches(self, key: Array) -> PureBatches:
        """The spec's scheme as a function `draw(data, step)` of the rows that `data` made and a step, counted from 0.

        It may be called inside `scan`, in any order. The key may be that of the chain, and is of the same kind.
        """
        _need_doubles()
        if self.own_batches:
            raise InputError("This chain has own_batches, so the spec's batches do not apply. Make one without.")
        is_secure(key)
        return PureBatches(self.algorithm, self.spec.n, key)

    def step(self, key: Array, state: ChainState, batch: Any) -> ChainState:
        """The state after one step: clipped gradients, their exact sum, noise, the public divisor, projection.

        The key is the same at every step: noise depends on it and on `state.step`. `batch` is what `batches` drew; with
        own_batches, features and target of the rows to use, each record once.
        """
        _need_doubles()
        if is_secure(key) != state.secure:
            raise InputError("init and step need the same kind of key: use secure_key for both or for neither.")
        with in_doubles():
            theta, unravel = ravel_pytree(state.params)
            reader, records, listed = self._rows(batch, state)
            plan = self._planned(unravel)
            program, constants = plan.program(reader, self.port), plan.constants()
            # No step beyond the last is certified, so none is made.
            covered = state.step < self.algorithm.steps
            constants = constants._replace(divisor=jnp.where(covered, constants.divisor, jnp.nan))
            inputs = self._inputs(key, state.step)
            if self.optimiser is None:
                after, memory = kernel.step(program, constants, records, theta[None], listed, inputs), None
            else:
                total = kernel.total(program, constants, records, theta[None], listed)
                drift = kernel.drift(program, constants, theta[None], kernel.noised(program, total, inputs))
                updates, memory = self.optimiser.update(unravel(drift[0]), state.optimiser, state.params)
                after = kernel.projected(program, constants, theta[None] + ravel_pytree(updates)[0])
        return replace(state, step=state.step + 1, params=unravel(after[0]), optimiser=memory)

    def certified_spec(self, state: ChainState) -> Spec:
        """The spec that a chain with this state is certified by: `sordino.certify` takes it.

        With secure keys, the spec's batches and no optimiser it is the spec itself. The caller's batches or keys, and
        an optimiser, leave composition alone: a record counts as if it were in every batch and every iterate were
        seen, because nothing is known of how batches were chosen and where the iterates go. The caller's start takes
        away the constants of theorems that read the start. Keys that are not secure make what leaves NON-PRIVATE.
        """
        spec = self.spec
        if self.own_batches or self.optimiser is not None or not state.secure:
            return composition_only(spec)
        if state.own_start and spec.problem is not None:
            nothing = {name: None for name in ("gradient_growth", "dissipativity", "ergodicity", "convergence")}
            return replace(spec, problem=replace(spec.problem, **nothing))
        return spec

    def cautions(self, state: ChainState) -> tuple[str, ...]:
        """What a reader of a release of this chain must know first, in sentences; empty where nothing is amiss."""
        seeded = "NON-PRIVATE: the keys are not from secure_key, so anyone who knows the seed can subtract the noise."
        own = "The caller chose the batches and must ensure that no batch contains a record twice."
        chosen = "The optimiser is custom, so only composition theorems apply."
        sentences = ((not state.secure, seeded), (self.own_batches, own), (self.optimiser is not None, chosen))
        return tuple(sentence for applies, sentence in sentences if applies)

    def _start(self, key: Array) -> Array:
        start = self.algorithm.start
        if isinstance(start, GaussianStart):
            return start.scale * standard_gaussians(key_for(key, Purpose.START), (self.spec.dim,))
        values = instance_of("algorithm.start", start, PointStart).values
        return jnp.zeros(self.spec.dim) if values is None else jnp.asarray(values)

    def _inputs(self, key: Array, step: Array) -> kernel.StepInputs:
        """The size of a step, and its noise: standard Gaussians, and their scale on the sum."""
        size = jnp.asarray(self.algorithm.step_size.values(self.algorithm.steps))[step]
        scale = jnp.asarray(self._plan.sum_noise)[step]
        if isinstance(self.algorithm.noise, StableNoise):
            scale = scale * keyed_scale(key, step, self.algorithm.noise.alpha)
        return kernel.StepInputs(size, scale[None], -keyed_noise(key, step, self.spec.dim)[None])

    def _rows(self, batch: Any, state: ChainState) -> tuple[kernel.RowReader, kernel.Records, kernel.StepBatch]:
        """The table, which rows of it are used, and how many at a time."""
        if self.own_batches:
            features, target = (jnp.asarray(column) for column in batch)
            if features.ndim != 2 or target.shape != features.shape[:1] or not len(features):
                shapes = f"shapes {features.shape} and {target.shape}"
                raise refuse("batch", "to be a table of at least one row, and a target for each", shapes)
            count = jnp.asarray(len(features), jnp.int32)
            limits = self._plan.row_limits(features.shape[1])
            records = kernel.prepared(features.astype(jnp.float64), target, count, limits)
            return kernel.RowReader(len(features), False), records, _one_list(_NO_LIST, count)
        drawn = instance_of("batch", batch, DrawnBatch, "draw it with batches, or make the chain with own_batches")
        if drawn.secure != state.secure:
            raise InputError("init and batches need the same kind of key: use secure_key for both or for neither.")
        listed = _NO_LIST if drawn.records is None else drawn.records
        reader = kernel.RowReader(drawn.block, drawn.records is not None, len(listed) == drawn.block)
        return reader, drawn.data, _one_list(listed, drawn.count)

    def _planned(self, unravel: Callable[[Array], Any]) -> ChainPlan:
        """The chain of the model on flat parameters: a custom loss reads them in the form that `init` was given."""
        loss, dim = self.model, instance_of("spec", self.spec, Spec).dim
        if isinstance(loss, Model):
            return ChainPlan(self.spec, loss)
        flat = JaxModel(lambda theta, x, y: loss(unravel(theta), x, y), dim, weight_decay=self.weight_decay)
        return ChainPlan(self.spec, flat)


def composition_only(spec: Spec) -> Spec:
    """What is left where every iterate may be seen and a record may be in every batch."""
    # The batch becomes the full one. Its divisor is n and not b, so the constants of a record's gradient grow by n / b.
    algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    growth = Fraction(spec.n, algorithm.divisor(spec.n))
    problem = instance_of("spec.problem", spec.problem, Problem)

    def grown(known: Certificate | None) -> Certificate | None:
        if known is None or growth == 1:
            return known
        reason = f"{known.reason}; times n / b, because a record may be in every batch of b"
        return replace(known, value=up(known.value * float(growth), 2), reason=reason)

    apart, bound = grown(problem.gradient_sensitivity), grown(problem.gradient_bound)
    left = Problem(n=spec.n, dim=spec.dim, gradient_sensitivity=apart, gradient_bound=bound)
    full = replace(algorithm, batch=Batch(Scheme.FULL), clipping=None, projection=None, keep=None)
    return Spec(algorithm=full, problem=left, relation=spec.relation, view=View.ALL_ITERATES, delta=spec.delta)


def _need_doubles() -> None:
    if jnp.zeros(()).dtype != jnp.float64:
        raise InputError(
            'A pure chain needs 64-bit numbers. Call jax.config.update("jax_enable_x64", True), or put it '
            "inside `with jax.enable_x64(True):`."
        )


_NO_LIST = np.zeros(1, np.int32)


def _one_list(records: Any, count: Array) -> kernel.StepBatch:
    return kernel.StepBatch(records, jnp.zeros(1, jnp.int32), count[None])


def chain(
    spec: Spec, model: Model | Loss, *, weight_decay: float = 0.0, own_batches: bool = False, optimiser: Any = None
) -> PureChain:
    """Make the pure functions of a noisy gradient chain: `init`, `data`, `batches` and `step`.

    They take keys and pytrees and compose with `jax.jit`, `jax.vmap` and `lax.scan`. The spec decides noise, clipping,
    projection and schedules, and what is certified; `PureChain.certified_spec` says what own batches, own keys and an
    optimiser leave of it. 64-bit numbers have to be switched on.

    Args:
        spec: a spec of kind noisy-gradient.
        model: a `Model`, or a loss `loss(params, x, y)` of one record on any pytree of parameters.
        weight_decay: the regulariser (weight_decay / 2) |params|^2 beside a loss; a `Model` has its own.
        own_batches: whether `step` takes rows of the caller's choice; only composition is certified then.
        optimiser: an optax gradient transformation that is given the noised gradient; only composition is certified.

    Returns:
        A `PureChain`.

    Raises:
        InputError: for another kind of spec, or one whose regulariser the model does not have.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import sordino
        >>> from sordino.mechanisms import dp_sgd
        >>> from sordino.core.spec import Batch, Problem
        >>> problem = Problem(n=100, dim=2, gradient_sensitivity=2.0, gradient_bound=1.0)
        >>> spec = dp_sgd(problem, step_size=0.5, batch=Batch("poisson", 20), noise_multiplier=4.0, clip_norm=1.0,
        ...     steps=50, relation="add-remove", view="all-iterates")
        >>> def loss(params, x, y):
        ...     return (x @ params["slope"] - y) ** 2
        >>> X = [[1.0, 0.01 * k] for k in range(100)]
        >>> with jax.enable_x64(True):
        ...     chain, key = sordino.chain(spec, loss), sordino.secure_key()
        ...     data, draw = chain.data(X, [0.01 * k for k in range(100)]), chain.batches(key)
        ...     start = chain.init(key, {"slope": jnp.zeros(2)})
        ...     end, _ = jax.lax.scan(
        ...         lambda state, k: (chain.step(key, state, draw(data, k)), None), start, jnp.arange(50)
        ...     )
        >>> bool(jnp.isfinite(end.params["slope"]).all()), chain.cautions(end)
        (True, ())
        >>> sordino.certify(chain.certified_spec(end), 1e-5).epsilon < 5.0
        True
    """
    check_sums()
    return PureChain(spec, model, weight_decay, own_batches, optimiser)
