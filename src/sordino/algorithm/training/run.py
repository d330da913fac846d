"""What a training run is: its public choices, its examples, its loss of one example, and what it is checked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from sordino.algorithm.chain.batch_stream import Batches, Sampling
from sordino.algorithm.chain.batches import batches_for
from sordino.algorithm.io.checkpoint import content_digest, described, traced
from sordino.algorithm.noise.randomness import Purpose, Randomness
from sordino.algorithm.training.clipped import Clipped, check_examples
from sordino.algorithm.training.correlated import INDEPENDENT, Correlation, by_place, correlation_of, participating
from sordino.algorithm.training.uses import Loss, check_leaves
from sordino.core.bound import Relation, View
from sordino.core.spec import MatrixMechanism, NoisedSums, Spec, SumShape, Unit
from sordino.core.validate import COUNT, Interval, instance_of, number, refuse, whole_number
from sordino.core.version import __version__

QUERY = "clipped gradients"
_SHARE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class Descent:
    """Gradient descent with momentum, for whoever has no optax.

    Where `fall` is given, the rate falls to 0 in a straight line over that many steps.
    """

    rate: float
    momentum: float = 0.0
    fall: int | None = None

    def init(self, params: Any) -> Any:
        """No velocity, and no step made."""
        return jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32)

    def update(self, gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        """The update, and the next velocity and number of steps."""
        del params
        velocity = jax.tree.map(lambda old, new: self.momentum * old + new, state[0], gradient)
        rate = self.rate if self.fall is None else self.rate * jnp.maximum(1.0 - state[1] / self.fall, 0.0)
        return jax.tree.map(lambda one: -rate * one, velocity), (velocity, state[1] + 1)


@dataclass(frozen=True)
class Training:
    """Public choices of a training run; none of them touches the guarantee.

    Attributes:
        optimiser: turns noised mean gradients into updates, such as `optax.adam(1e-3)`.
        average: decay of the running average of the weights; 0 for none.
        microbatch: examples on the device at once.
        precision: "float32" or "mixed" (see `Clipped`).
        augment: `augment(key, example)`, another view of an example, or None.
        views: how many views of an example its gradient is averaged over before it is clipped.
        divisor: what sums are divided by where the spec does not say (matrix mechanisms).
        keep: numbers of the steps after which the weights are kept, such as those of an ensemble.
        watch: of every noised sum, a tree like the parameters, what is handed out beside the weights.
        exact: whether sums and noise are whole numbers, which covers floating point; absent: wherever noise is
            independent from step to step and the device computes the same bits in all places of a block.

    Examples:
        >>> import optax
        >>> import sordino
        >>> sordino.Training(optax.adam(1e-3), average=0.99).microbatch
        512
    """

    optimiser: Any
    average: float = 0.0
    microbatch: int = 512
    precision: str = "float32"
    augment: Callable[[Array, Any], Any] | None = None
    views: int = 1
    divisor: int | None = None
    keep: tuple[int, ...] = field(default=())
    watch: Callable[[Any], Any] | None = None
    exact: bool | None = None

    def __post_init__(self) -> None:
        if not (callable(getattr(self.optimiser, "init", None)) and callable(getattr(self.optimiser, "update", None))):
            raise refuse("optimiser", "to have init and update, as those of optax", type(self.optimiser).__name__)
        object.__setattr__(self, "average", number("average", self.average, _SHARE))
        object.__setattr__(self, "views", whole_number("views", self.views))
        if self.divisor is not None:
            object.__setattr__(self, "divisor", whole_number("divisor", self.divisor, COUNT))
        if self.views > 1 and self.augment is None:
            raise refuse("views", "to be 1 where nothing is augmented", self.views, "give augment")


def frozen_apart(params: Any, trainable: Callable[[str], bool] | None) -> tuple[list[Any], Callable[[Any], Any]]:
    """The leaves that are trained, and how to put them back among the others."""
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    chosen = [trainable is None or bool(trainable(jax.tree_util.keystr(path))) for path, _ in found]
    leaves = [leaf for _, leaf in found]

    def whole(trained: Sequence[Any]) -> Any:
        fresh = iter(trained)
        return jax.tree.unflatten(
            structure, [next(fresh) if use else leaf for use, leaf in zip(chosen, leaves, strict=True)]
        )

    return [leaf for use, leaf in zip(chosen, leaves, strict=True) if use], whole


class Run:
    """A described run on given examples, checked before any of them is used."""

    def __init__(
        self,
        spec: Spec,
        loss: Loss,
        params: Any,
        examples: Any,
        training: Training,
        trainable: Callable[[str], bool] | None,
        draws_exactly: bool,
    ) -> None:
        self.spec, self.training = spec, instance_of("training", training, Training)
        if not isinstance(spec.algorithm, NoisedSums | MatrixMechanism):
            words = spec.algorithm.words
            raise refuse("algorithm.kind", "to be noised-sums or matrix-mechanism for a training run", words)
        self.algorithm = spec.algorithm
        self.rows = check_examples(examples)
        self.exact = self._exactly(draws_exactly)
        self.noise, self.correlation = self._noise()
        self.examples = jax.tree.map(jnp.asarray, examples)
        trained, self.whole = frozen_apart(params, trainable)
        check_leaves(params if trainable is None else trained)
        flat, self.unravel = ravel_pytree([jnp.asarray(leaf, jnp.float32) for leaf in trained])
        self.first, self.dim = flat, len(flat)
        self.loss = loss
        self.clipped = Clipped(self.own_loss, self._contribution, training.microbatch, training.precision)

    def _exactly(self, draws_exactly: bool) -> bool:
        """Whether sums and noise are whole numbers."""
        possible = isinstance(self.algorithm, NoisedSums) and draws_exactly
        if self.training.exact and not possible:
            raise refuse(
                "exact",
                "to be absent or False where noise is correlated, or drawn in floating point",
                True,
                "the release then says that floating point is not covered",
            )
        return possible if self.training.exact is None else self.training.exact

    @property
    def block(self) -> int:
        """Examples on the device at once: public, which the number at hand is not, under add-remove."""
        return min(self.training.microbatch, max(1, self.records))

    @property
    def records(self) -> int:
        """A public number of examples; of a matrix mechanism none is stated."""
        return self.algorithm.records if isinstance(self.algorithm, NoisedSums) else self.rows

    @property
    def steps(self) -> int:
        return self.algorithm.rounds if isinstance(self.algorithm, NoisedSums) else self.algorithm.steps

    @property
    def _contribution(self) -> float:
        return self.algorithm.contribution

    def _noise(self) -> tuple[NDArray[np.float64], Correlation]:
        """The noise of every step, and its correlation; what this run cannot be is refused."""
        run = self.algorithm
        if self.spec.view is not View.ALL_ITERATES:
            raise refuse("view", "to be all-iterates for a training run", self.spec.view.value)
        if isinstance(run, NoisedSums):
            if not run.query.startswith(QUERY):
                raise refuse("algorithm.query", f"to begin with {QUERY!r} for a training run", run.query)
            if run.unit is not Unit.RECORD or run.shape is not SumShape.VECTOR:
                raise refuse("algorithm.unit", "to be one record, and sums of vectors", run.words)
            self._check_rows(run.records)
            return run.sum_noise, INDEPENDENT
        if self.training.divisor is None:
            raise refuse("divisor", "to be given for a matrix mechanism", None, "state the expected batch")
        if by_place(run.participation) and self.spec.relation is not Relation.REPLACE_ONE:
            raise refuse(
                "relation",
                "to be replace-one where turns go by place in the table",
                self.spec.relation.value,
                "draw turns by balls-in-bins, poisson or random-allocation",
            )
        return np.full(run.steps, run.noise_multiplier * run.contribution), correlation_of(run.strategy, run.steps)

    def _check_rows(self, records: int) -> None:
        """Under replace-one the number of rows is public and stated; under add-remove it is not to be told."""
        if self.spec.relation is Relation.REPLACE_ONE and self.rows != records:
            raise refuse("examples", f"to be algorithm.records = {records} rows", self.rows)

    @property
    def divisor(self) -> int:
        """The public number that sums are divided by; never one that is read off the rows."""
        given = self.training.divisor
        if given is None and isinstance(self.algorithm, NoisedSums):
            return self.algorithm.batch_size
        return whole_number("divisor", given, COUNT)

    def batches(self, randomness: Randomness) -> Batches | None:
        generator = randomness.generator(Purpose.BATCHES)
        run = self.algorithm
        if isinstance(run, MatrixMechanism):
            return participating(run, self.rows, generator)
        sampling = Sampling(
            rows=self.rows,
            size=run.batch_size,
            rate=run.sampling.chance(run.records),
            chains=1,
            steps=run.rounds,
            generator=generator,
            round=run.batches_per_epoch,
            uses=run.sampling.uses or 1,
            cap=run.sampling.most,
            separation=run.sampling.apart(run.records),
        )
        return batches_for(run.sampling.scheme, sampling)

    def own_loss(self, leaves: Any, example: Any) -> Array:
        """The loss of an example, in the leaves that are trained, averaged over its views."""
        values, words = example
        params = self.whole(leaves)
        if self.training.augment is None:
            return self.loss(params, values)
        key = jax.random.wrap_key_data(words)
        augment = self.training.augment
        if self.training.views == 1:
            return self.loss(params, augment(key, values))
        keys = jax.random.split(key, self.training.views)
        return jnp.mean(jax.vmap(lambda one: self.loss(params, augment(one, values)))(keys))

    def identity(self, salt: bytes) -> dict[str, Any]:
        """What a checkpoint is bound to."""
        leaves = jax.tree.leaves(self.examples)
        one = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
        structure = jax.tree.structure(self.examples)
        start = content_digest(b"start", np.asarray(self.first))
        digest = traced(
            lambda flat, *values: self.own_loss(
                self.unravel(flat), (jax.tree.unflatten(structure, values), jnp.zeros(2, jnp.uint32))
            ),
            jax.ShapeDtypeStruct((self.dim,), jnp.float32),
            *one,
        )
        chosen = self.training
        public = [chosen.average, chosen.microbatch, chosen.precision, chosen.views, chosen.divisor, list(chosen.keep)]
        public.append(self.exact)
        return {
            "sordino": __version__,
            "jax": [jax.__version__, version("jaxlib")],
            "numpy": np.__version__,
            "device": [jax.default_backend(), jax.devices()[0].device_kind],
            "precision": chosen.precision,
            "spec": self.spec.to_dict(),
            "model": [digest, start, described(chosen.optimiser), public],
            "rows": [self.rows, [list(leaf.shape) for leaf in leaves]],
            "content": content_digest(salt, *(np.asarray(leaf) for leaf in leaves)),
        }
