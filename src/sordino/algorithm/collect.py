"""Collectors: each view keeps, block by block, only what it will release."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.algorithm.exact_sums import in_precision
from sordino.algorithm.lipschitz import LipschitzFunction
from sordino.algorithm.noise_port import Law, NoisedCall
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.release import ChainRelease, KeptIterates, LastIterate, NoisedAverage, Values
from sordino.core.spec import AverageNoiseKind, NoisyGradient, Spec
from sordino.core.validate import refuse
from sordino.core.view import View


class Collector(ABC):
    """Takes the kept iterates of one block after the other and turns them into the release."""

    needs_iterates: ClassVar[bool] = True

    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        self.spec, self.kept, self.dtype = spec, kept, dtype
        if function is not None and spec.view != View.AVERAGE:
            raise refuse("the averaged function", "to be absent unless the view is average", spec.view.value)

    @abstractmethod
    def accept(self, block: Array, number: int) -> None:
        """Take the next block, shape (slots, chains, dim), of which the first `number` slots are filled."""

    @abstractmethod
    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        """The release, given the last iterates."""

    @abstractmethod
    def state(self) -> Values:
        """What was collected so far, as one array."""

    @abstractmethod
    def restore(self, collected: Values, step: int) -> None:
        """Go on as the collector that gave `collected` after `step` steps; `ValueError` for what it cannot have."""


_COLLECTORS: dict[View, type[Collector]] = {}


def collector_for(spec: Spec, algorithm: NoisyGradient, dtype: Any, function: LipschitzFunction | None) -> Collector:
    """The collector of the spec's view."""
    kept = algorithm.kept_iterates(spec.view)
    return _COLLECTORS[spec.view](spec, kept, algorithm.chains, dtype, function)


def collects(view: View) -> Callable[[type[Collector]], type[Collector]]:
    """Class decorator: use this collector for a view."""

    def registered(collector: type[Collector]) -> type[Collector]:
        _COLLECTORS[view] = collector
        return collector

    return registered


@collects(View.LAST_ITERATE)
class _Last(Collector):
    needs_iterates = False

    def accept(self, block: Array, number: int) -> None:
        block.block_until_ready()

    def state(self) -> Values:
        return np.zeros(0)

    def restore(self, collected: Values, step: int) -> None:
        del step
        _check(collected, (0,), np.dtype(np.float64))  # the last iterates are all there is

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        return LastIterate(self.spec, in_precision(theta, self.dtype))


@collects(View.ALL_ITERATES)
class _Kept(Collector):
    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        super().__init__(spec, kept, chains, dtype, function)
        self._iterates = np.empty((chains, len(kept), spec.dim), dtype)
        self._filled = 0

    def accept(self, block: Array, number: int) -> None:
        after = self._filled + number
        self._iterates[:, self._filled : after] = in_precision(block, self.dtype)[:number].transpose(1, 0, 2)
        self._filled = after

    def state(self) -> Values:
        return self._iterates[:, : self._filled]

    def restore(self, collected: Values, step: int) -> None:
        filled, (chains, _, dim) = sum(position <= step for position in self.kept), self._iterates.shape
        _check(collected, (chains, filled, dim), self._iterates.dtype)
        self._filled = filled
        self._iterates[:, :filled] = collected

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        return KeptIterates(self.spec, self._iterates)


@collects(View.AVERAGE)
class _Averaged(Collector):
    def __init__(self, spec: Spec, kept: range, chains: int, dtype: Any, function: LipschitzFunction | None) -> None:
        super().__init__(spec, kept, chains, dtype, function)
        if function is None or spec.average is None:
            raise refuse("the averaged function", "to be given when the view is average", function)
        function.check_against(spec.average)
        self._average, self._function = spec.average, function
        self._total = np.zeros((chains, function.dim))

    def accept(self, block: Array, number: int) -> None:
        self._total += np.asarray(_block_total(self._function.function, block, number), np.float64)

    def state(self) -> Values:
        return self._total

    def restore(self, collected: Values, step: int) -> None:
        del step
        _check(collected, self._total.shape, self._total.dtype)
        self._total = np.array(collected)

    def release(self, theta: Array, randomness: Randomness) -> ChainRelease:
        law, noise = _AVERAGE_NOISE[self._average.noise.kind]
        mean, scale = self._total / len(self.kept), self._average.noise.scale
        released = randomness.port.answer(
            NoisedCall(law, mean, scale),
            lambda: mean + scale * noise(randomness.generator(Purpose.AVERAGE), mean.shape),
        )
        return NoisedAverage(self.spec, released)


def _check(collected: Values, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if (collected.shape, collected.dtype) != (shape, dtype) or not np.isfinite(collected).all():
        raise ValueError(collected.shape)


@partial(jax.jit, static_argnums=0)
def _block_total(function: Callable[[Array], Array], block: Array, number: int) -> Array:
    values = jax.vmap(jax.vmap(function))(block)
    filled = jnp.arange(block.shape[0]) < number
    return jnp.sum(jnp.where(filled[:, None, None], values, 0.0), axis=0)


_AVERAGE_NOISE: dict[AverageNoiseKind, tuple[Law, Callable[[np.random.Generator, tuple[int, ...]], Values]]] = {
    AverageNoiseKind.LAPLACE: (Law.LAPLACE, lambda generator, shape: generator.laplace(size=shape)),
    AverageNoiseKind.GAUSSIAN: (Law.GAUSSIAN, lambda generator, shape: generator.standard_normal(shape)),
}
