"""One step of a training run: the noised sum of clipped gradients, and what an optimiser makes of it.

In *whole numbers* (`WholeSteps`) sums are those of `integer_sums`. Noise is a whole-number Gaussian on their lattice,
drawn on the host or on the accelerator, and nothing but the noised whole numbers reaches the optimiser. Three programs
make a step, each of a shape that depends on public numbers alone: one moves examples into blocks, which changes no bit;
one adds a block to the sum; one moves the parameters by the noised sum. So what floating point does before rounding and
after noise is the same for neighbours, whatever the number of examples is.

In *single precision* (`FloatingSteps`) sums and noise are floats, and the release says that floating point is not
covered. Correlated noise, which no lattice holds, has this way only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from sordino.core.validate import InputError
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.training import Run
from sordino.noise.device_gaussian import step_gaussians
from sordino.noise.lattice import Total, in_doubles
from sordino.noise.port import ADDED, NoisePort, gaussian_call
from sordino.noise.randomness import Purpose, Randomness
from sordino.noise.rounded_gaussian import SCALES

# Noise of so many steps is drawn at once, by the number of its draws.
_DRAWS_AT_ONCE = 2**18


class State(NamedTuple):
    """Where a run is: parameters, what the optimiser remembers, averaged parameters, and past noise."""

    params: Array
    memory: Any
    averaged: Array
    noise: Array


class Steps(ABC):
    """Makes the steps of a run, from the numbers of a batch's examples."""

    def __init__(self, run: Run, randomness: Randomness) -> None:
        self.run, self.randomness = run, randomness
        self.size = run.block
        words = randomness.generator(Purpose.DRAWS).integers(0, 2**32, 2, dtype=np.uint32)
        self.views_key = jax.random.wrap_key_data(jnp.asarray(words))
        self.gathered, self.leaves_of = jax.jit(self._block), jax.jit(run.unravel)

    @abstractmethod
    def __call__(self, state: State, k: int, indices: NDArray[np.int32]) -> tuple[State, Any]:
        """The next state, and what is handed out of the noised sum."""

    def _total(self, total: Any, plus: Callable[..., Any], params: Array, k: Array, indices: NDArray[np.int32]) -> Any:
        """A sum over examples, block by block: `plus` adds one block to it. The last one is filled up and masked."""
        leaves = self.leaves_of(params)
        for first in range(0, len(indices), self.size):
            chosen = indices[first : first + self.size]
            present = np.zeros(self.size, np.float32)
            present[: len(chosen)] = 1.0
            padded = jnp.asarray(np.pad(chosen, (0, self.size - len(chosen))))
            # Examples are an input: as constants of the program they would be compiled into it.
            total = plus(total, leaves, self.gathered(self.run.examples, k, padded), jnp.asarray(present))
        return total

    def seen(self, noised: Array) -> Any:
        """What is handed out of a noised sum."""
        watch = self.run.training.watch
        return None if watch is None else watch(self.run.whole(self.run.unravel(noised)))

    def _moved(self, state: State, k: Array, noised: Array, past: Array) -> tuple[State, Any]:
        run, training = self.run, self.run.training
        gradient = run.unravel(noised / run.divisor)
        update, memory = training.optimiser.update(gradient, state.memory, run.unravel(state.params))
        moved = state.params + ravel_pytree(update)[0]
        # A running average that starts at the first points would hold them for long: its decay grows with the steps.
        decay = jnp.minimum(training.average, (1.0 + k) / (10.0 + k))
        averaged = decay * state.averaged + (1.0 - decay) * moved
        return State(moved, memory, averaged, past), self.seen(noised)

    def _block(self, examples: Any, k: Array, chosen: Array) -> Any:
        """Some examples, each with the words of its own views."""
        key = jax.random.fold_in(self.views_key, k)
        words = jax.vmap(lambda row: jax.random.key_data(jax.random.fold_in(key, row)))(chosen)
        return jax.tree.map(lambda leaf: leaf[chosen], examples), words


class FloatingSteps(Steps):
    """Sums and noise in single precision."""

    def __init__(self, run: Run, randomness: Randomness) -> None:
        super().__init__(run, randomness)
        self.plus, self.move = jax.jit(self._plus), jax.jit(self._noised_and_moved, donate_argnums=0)

    def __call__(self, state: State, k: int, indices: NDArray[np.int32]) -> tuple[State, Any]:
        number, none = jnp.asarray(k, jnp.int32), jnp.zeros(self.run.dim, jnp.float32)
        total = self._total(none, self.plus, state.params, number, indices)
        gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.run.dim,), jnp.float32)[0]
        return self.move(state, number, total, gaussian, jnp.asarray(self.run.noise[k], jnp.float32))

    def _plus(self, total: Array, leaves: Any, block: Any, present: Array) -> Array:
        return total + ravel_pytree(self.run.clipped.part(leaves, block, present))[0]

    def _noised_and_moved(
        self, state: State, k: Array, total: Array, gaussian: Array, scale: Array
    ) -> tuple[State, Any]:
        noise, past = self.run.correlation.step(gaussian, state.noise)
        return self._moved(state, k, noised_total(self.randomness.port, total, scale, noise), past)


class WholeSteps(Steps):
    """Sums and noise in whole numbers."""

    def __init__(self, run: Run, randomness: Randomness, sums: WholeSums) -> None:
        super().__init__(run, randomness)
        self.sums = sums
        self.scales = np.maximum(np.ldexp(run.noise, -self.sums.exponent), SCALES.low)
        self.move = jax.jit(lambda state, k, noised: self._moved(state, k, noised, state.noise), donate_argnums=0)
        self.as_floats = jax.jit(self._as_floats)
        self._drawn: tuple[int, Any] = (0, ())

    def __call__(self, state: State, k: int, indices: NDArray[np.int32]) -> tuple[State, Any]:
        number = jnp.asarray(k, jnp.int32)
        total = self._total(self.sums.zeros(), self.sums.plus, state.params, number, indices)
        return self.move(state, number, self._noised(total, k))

    def _noised(self, total: Array, k: int) -> Array:
        port = self.randomness.port
        if port is ADDED:
            with in_doubles():
                return self.as_floats(total, self._noise(k))
        sums = np.asarray(total)
        answer = port.answer(
            gaussian_call(sums, self.run.noise[k], self.sums.spacing),
            lambda: np.ldexp((sums + np.asarray(self._noise(k))).astype(np.float64), self.sums.exponent),
        )
        return jnp.asarray(np.asarray(answer), jnp.float32)

    def _as_floats(self, total: Array, noise: Array) -> Array:
        return ((total + noise).astype(jnp.float64) * self.sums.spacing).astype(jnp.float32)

    def _noise(self, k: int) -> Any:
        """Noise of a step, which depends on its number alone; drawn for several steps at once."""
        first, drawn = self._drawn
        if not first <= k < first + len(drawn):
            steps = min(max(1, _DRAWS_AT_ONCE // self.run.dim), self.run.steps - k)
            if jax.default_backend() == "cpu":
                drawn = self.randomness.whole_gaussians(Purpose.NOISE, k, steps, self.scales, self.run.dim)
            else:
                drawn = step_gaussians(self.randomness, Purpose.NOISE, k, self.scales[k : k + steps], self.run.dim)
            first, self._drawn = k, (k, drawn)
        with in_doubles():
            return jnp.asarray(drawn[k - first])


def whole_sums_of(run: Run) -> WholeSums | None:
    """The sums of a run in whole numbers; None where it is in single precision, or where places are not alike here.

    Where a device's own products differ by place, `reproducible_ops` takes their place. What decides is public: a drawn
    example, the parameters that the run starts from, and the device.
    """
    if not run.exact:
        return None
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), run.examples)
    example = (one, jax.ShapeDtypeStruct((2,), jnp.uint32))
    leaves, noise = run.unravel(run.first), float(run.noise.max())
    for own_bits in (False, True):
        sums = WholeSums(run.clipped, leaves, example, run.block, noise, max(run.rows, run.records), own_bits)
        if sums.places_alike(leaves, np.random.default_rng(0)):
            return sums
    if run.training.exact:
        raise InputError(
            "Expected a program that computes the same bits for an example wherever it stands in a block, got one that "
            f"does not on {jax.devices()[0].device_kind}; set exact=False, and the release says that floating point is "
            "not covered, or microbatch=1, which is slow."
        )
    return None


def noised_total(port: NoisePort, total: Array, scale: Array, noise: Array) -> Array:
    """The sum plus noise, through the port where noise meets statistics of rows."""
    if port is ADDED:
        return total + scale * noise
    return port.added(Total(total, jnp.zeros_like(total)), scale, noise)
