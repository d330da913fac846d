"""DP-SGLD and DP-HMC as kernels that NumPyro's `MCMC` runs: draws along a chain, each of which is released.

    v <- (1 - a) v - h (noised sum of clipped gradients + slope of the prior) + noise,    theta <- theta + v

With friction a = 1 this is stochastic gradient Langevin dynamics (Wang, Fienberg & Smola 2015), below 1 it is
Hamiltonian dynamics with friction (Chen, Fox & Guestrin 2014). At temperature 1 a step needs noise of variance 2 a h.
Of that, the privacy noise s on the gradient makes h^2 s^2, and public noise the rest; so h is at most 2 a / s^2, which
is its default: then all of the noise is privacy noise. Everything after the noised sums is post-processing. A chain of
so many steps is so many noised sums of every unit, composed; whoever keeps fewer draws pays for all of them.

What a chain does not know is the bias of clipping, nor how far it still is from where it settles, and its draws depend
on each other. With steps as short as privacy noise makes them it had not settled in any setting that was measured
(docs/own-models.md), so its draws are no posterior, and no interval is told of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from sordino.algorithm.noise.exact_sums import GROUP, clipped_total, no_total
from sordino.algorithm.noise.randomness import ADDED, NoisePort, Purpose
from sordino.algorithm.noise.secure import is_secure, key_for, standard_gaussians
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu, up
from sordino.core.spec import AnyUnit, Batch, NoisedSums, Scheme, Spec, Unit
from sordino.core.spec.schedules import ConstantSchedule
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, refuse, whole_number
from sordino.model.compiled import check_sums
from sordino.model.contributions import Plain
from sordino.model.numpyro_model import numpyro
from sordino.model.own.base import OwnModel
from sordino.model.own.numpyro_program import NumPyroProgram
from sordino.model.own.records import read_layout

QUERY = "gradients of a chain, own model"
_FRICTION = Interval(0.0, 1.0, low_open=True)


@dataclass(frozen=True)
class Dynamics:
    """The public numbers of a chain.

    Attributes:
        clip: the longest gradient of a unit.
        noise: the deviation of the noise on a sum of gradients over the clip.
        friction: 1 for Langevin dynamics, less for Hamiltonian ones.
        step_size: at most 2 friction / (clip noise)^2.
    """

    clip: float
    noise: float
    friction: float
    step_size: float

    @classmethod
    def of(cls, clip: float, noise: float, friction: float, step_size: float | None = None) -> "Dynamics":
        """With the longest step at which the chain keeps temperature 1, unless a shorter one is given."""
        length, share = number("clip", clip, POSITIVE), number("friction", friction, _FRICTION)
        longest = 2.0 * share / (length * noise) ** 2
        chosen = longest if step_size is None else number("step_size", step_size, POSITIVE)
        if chosen > longest * (1.0 + 1e-12):
            raise refuse(
                "step_size",
                f"to be at most {longest:.3g}, above which privacy noise alone heats the chain",
                chosen,
                "make fewer steps, or spend more",
            )
        return cls(length, noise, share, chosen)

    @property
    def public_noise(self) -> float:
        """The deviation of the noise that is added to that of the gradients."""
        left = 2.0 * self.friction * self.step_size - (self.step_size * self.clip * self.noise) ** 2
        return math.sqrt(max(left, 0.0))


def chain_sums(
    *, records: int, steps: int, mu: float, relation: Relation, delta: float, unit: AnyUnit = Unit.RECORD
) -> Spec:
    """The noised sums of a chain, or of several whose steps are counted together."""
    moved = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    algorithm = NoisedSums(
        query=QUERY,
        records=records,
        rounds=steps,
        sampling=Batch(Scheme.FULL),
        contribution=1.0,
        noise_multiplier=ConstantSchedule(up(moved / mu * math.sqrt(steps) * (1.0 + 1e-9))),
        unit=unit,
    )
    return Spec(algorithm=algorithm, relation=relation, view=View.ALL_ITERATES, delta=delta)


NO_INTERVALS = (
    "The chain need not have settled and does not know the bias of clipping: quantiles of its draws are no intervals."
)


class ChainPoint(NamedTuple):
    """Where a chain is: the step that comes next, the unconstrained parameters, the velocity, and the chain's key."""

    i: Array
    z: Array
    velocity: Array
    rng_key: Array


def noised_gradient(
    model: OwnModel, dynamics: Dynamics, rows: Array, theta: Array, key: Array, port: NoisePort = ADDED
) -> Array:
    """The sum of clipped gradients of all units with noise, and the slope of the prior."""
    padded = jnp.pad(rows, ((0, -len(rows) % GROUP), (0, 0)), mode="edge")
    present = (jnp.arange(len(padded)) < len(rows)).astype(jnp.float64)

    def added(block: Array, total: Any) -> Any:
        some = lax.dynamic_slice_in_dim(padded, block * GROUP, GROUP)
        there = lax.dynamic_slice_in_dim(present, block * GROUP, GROUP)
        gradients = model.unit_gradients(theta, some) / dynamics.clip
        return total.plus(clipped_total((Plain(gradients),), there, jnp.ones(())))

    total = lax.fori_loop(0, len(padded) // GROUP, added, no_total((model.size,)))
    noised = port.added(total, jnp.asarray(dynamics.noise), standard_gaussians(key, (model.size,)))
    return dynamics.clip * noised + jax.grad(model.penalty)(theta)


def stepped(
    model: OwnModel, dynamics: Dynamics, steps: int, rows: Array, at: ChainPoint, port: NoisePort = ADDED
) -> ChainPoint:
    """One step; NaN beyond the steps that were planned, so that nothing leaves that no certificate covers."""
    gradient = noised_gradient(model, dynamics, rows, at.z, key_for(at.rng_key, Purpose.NOISE, at.i), port)
    extra = standard_gaussians(key_for(at.rng_key, Purpose.DRAWS, at.i), at.z.shape)
    velocity = (1.0 - dynamics.friction) * at.velocity - dynamics.step_size * gradient + dynamics.public_noise * extra
    velocity = jnp.where(at.i < steps, velocity, jnp.nan)
    return ChainPoint(at.i + 1, at.z + velocity, velocity, at.rng_key)


class PrivateKernel:
    """A kernel for `numpyro.infer.MCMC` whose whole chain is one release within an epsilon.

    Draws are points of a chain that need not have settled: their quantiles are no intervals (see the module).

    >>> import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist, sordino
    >>> from sordino.algorithm.variational.chain_kernels import DPSGLD
    >>> def model(x, y=None):
    ...     slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    ...     with numpyro.plate("records", x.shape[0]):
    ...         numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
    >>> kernel = DPSGLD(model, records=2000, epsilon=4.0, delta=1e-5, relation="replace-one", steps=150, clip=1.5)
    >>> sordino.certify(kernel.spec).epsilon <= 4.0
    True
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> with jax.enable_x64(True):
    ...     mcmc = numpyro.infer.MCMC(kernel, num_warmup=50, num_samples=100, progress_bar=False)
    ...     mcmc.run(sordino.secure_key(), x=x, y=0.5 * x)
    ...     slope = np.asarray(mcmc.get_samples()["slope"])
    >>> slope.shape, bool(abs(slope.mean() - 0.5) < 0.3)
    ((100,), True)
    >>> print(*kernel.cautions(mcmc.last_state))
    The chain need not have settled and does not know the bias of clipping: quantiles of its draws are no intervals.
    """

    friction = 1.0
    sample_field = "z"
    default_fields: tuple[str, ...] = ()
    is_ensemble_kernel = False

    def __init__(
        self,
        model: Any,
        *,
        records: int,
        epsilon: float,
        delta: float,
        relation: Relation | str,
        steps: int,
        clip: float,
        chains: int = 1,
        step_size: float | None = None,
        friction: float | None = None,
    ) -> None:
        """Plan a chain.

        Args:
            model: a NumPyro model function, as `sordino.fit` takes it.
            records: the public number of records.
            epsilon: what all draws of all chains cost together.
            delta: at which it is certified.
            relation: replace-one or add-remove.
            steps: of each chain, those of the warm-up too; further ones are NaN.
            clip: the longest gradient of a record.
            chains: how many are run; their steps count together.
            step_size: absent: the longest at which the chain keeps temperature 1.
            friction: of Hamiltonian dynamics.
        """
        related = Relation(one_of("relation", relation, tuple(Relation)))
        self.model, self.steps, self.chains = model, whole_number("steps", steps), whole_number("chains", chains)
        at = number("delta", delta, OPEN_UNIT)
        self.spec = chain_sums(
            records=whole_number("records", records),
            steps=self.steps * self.chains,
            mu=largest_mu(number("epsilon", epsilon, POSITIVE), at),
            relation=related,
            delta=at,
        )
        algorithm = self.spec.algorithm
        noise = float(algorithm.sum_noise[0]) if isinstance(algorithm, NoisedSums) else math.nan
        self.records = records
        self.dynamics = Dynamics.of(clip, noise, self.friction if friction is None else friction, step_size)
        self._begun, self._own = 0, None
        # NumPyro asks whether a kernel is one of its own kind.
        numpyro().infer.mcmc.MCMCKernel.register(type(self))

    def init(
        self,
        rng_key: Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: Mapping[str, Any] | None = None,
    ) -> ChainPoint:
        """The point that a chain begins from; each chain of the plan begins once."""
        del num_warmup
        if jnp.zeros(()).dtype != jnp.float64:
            raise InputError("Expected 64-bit numbers for a private chain, got 32-bit ones; use jax.enable_x64(True).")
        check_sums()
        is_secure(rng_key)
        # A traced or stacked key begins many chains by one call, which the count below would take for one.
        if isinstance(rng_key, Tracer) or rng_key.shape:
            raise InputError(
                'Expected chains that run one after another, got several at once; give MCMC chain_method="sequential".'
            )
        if self._begun >= self.chains:
            raise refuse("chains", "to be as many as are run with one kernel", self.chains, "make another kernel")
        self._begun += 1
        own = self._model(model_args, model_kwargs)
        start = own.start() if init_params is None else init_params
        z = jnp.asarray(start, jnp.float64)
        if z.shape != (own.size,):
            raise refuse("init_params", f"to be {own.size} unconstrained numbers", f"shape {z.shape}")
        return ChainPoint(jnp.zeros((), jnp.int32), z, jnp.zeros_like(z), rng_key)

    def sample(self, state: ChainPoint, model_args: tuple[Any, ...], model_kwargs: Mapping[str, Any]) -> ChainPoint:
        """The next point."""
        own = self._model(model_args, model_kwargs)
        columns = [jnp.asarray(model_kwargs[leaf.name], jnp.float64) for leaf in own.layout.leaves]
        table = jnp.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)
        return stepped(own, self.dynamics, self.steps, table, state)

    def postprocess_fn(self, model_args: tuple[Any, ...], model_kwargs: Mapping[str, Any]) -> Any:
        """From unconstrained numbers to named sites."""
        return self._model(model_args, model_kwargs).constrained

    def get_diagnostics_str(self, state: ChainPoint) -> str:
        """What a progress bar shows."""
        del state
        return f"step size {self.dynamics.step_size:.2e}"

    def cautions(self, state: ChainPoint) -> tuple[str, ...]:
        """What a reader must know first."""
        if is_secure(state.rng_key):
            return (NO_INTERVALS,)
        seeded = "NON-PRIVATE: the keys are not those of secure_key, so whoever knows the seed can subtract the noise."
        return (seeded, NO_INTERVALS)

    def _model(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> OwnModel:
        if args or not kwargs:
            raise InputError(
                "Expected the arrays of the model by name, got them by place or none; mcmc.run(key, x=...)."
            )
        rows = {len(values) for values in kwargs.values()}
        if self.spec.relation is Relation.REPLACE_ONE and rows != {self.records}:
            raise refuse("the number of rows", f"to be records = {self.records} under replace-one", sorted(rows))
        if self._own is None:
            self._own = NumPyroProgram(self.model, read_layout(kwargs))
        return self._own


class DPSGLD(PrivateKernel):
    """Stochastic gradient Langevin dynamics with clipped gradients of all records; its draws give no intervals."""


class DPHMC(PrivateKernel):
    """Hamiltonian dynamics with friction on noised gradients of all records; its draws give no intervals.

    No step is accepted or refused.
    """

    friction = 0.1


def run_chains(
    model: OwnModel,
    dynamics: Dynamics,
    steps: int,
    rows: np.ndarray,
    keys: Sequence[Array],
    warmup: int,
    keep_every: int,
) -> np.ndarray:
    """Kept draws of several chains, shape (chains, draws, size); call it inside `in_doubles`."""
    table, start = jnp.asarray(rows, jnp.float64), jnp.asarray(model.start(), jnp.float64)

    @jax.jit
    def chain(key: Array, table: Array) -> Array:
        first = ChainPoint(jnp.zeros((), jnp.int32), start, jnp.zeros_like(start), key)

        def one(at: ChainPoint, _: Any) -> tuple[ChainPoint, Array]:
            after = stepped(model, dynamics, steps, table, at)
            return after, after.z

        return lax.scan(one, first, None, length=steps)[1][warmup::keep_every]

    return np.stack([np.asarray(chain(key, table)) for key in keys])
