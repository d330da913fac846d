"""How a fleet is trained: the canonical chain, an epoch at a time, from a start that no data went into."""

from dataclasses import dataclass, field

from sordino.core.spec import Batch, ClippingKind, GaussianNoise, GaussianStart, NoisyGradient, PointStart, Scheme
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, instance_of, number, refuse, whole_number


@dataclass(frozen=True)
class FanInStart:
    """Each weight and bias uniform within 1 / sqrt(number of inputs of its layer), as is usual for networks."""


FleetStart = FanInStart | GaussianStart | PointStart


@dataclass(frozen=True)
class FleetPlan:
    """theta <- theta - step_size * (sum of batch gradients / b + grad r) + noise_scale * gaussian, for whole epochs.

    `clip_norm` shortens every example's gradient first. An epoch is as many steps as one pass over the records takes,
    also where batches are drawn afresh. The seed fixes every member's start, batches and noise.
    """

    step_size: float
    noise_scale: float
    batch: Batch
    epochs: int
    seed: int
    clip_norm: float | None = None
    start: FleetStart = field(default_factory=FanInStart)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", number("step_size", self.step_size, POSITIVE))
        object.__setattr__(self, "noise_scale", number("noise_scale", self.noise_scale, NON_NEGATIVE))
        object.__setattr__(self, "epochs", whole_number("epochs", self.epochs))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, Interval(0, 2**128 - 1)))
        if self.clip_norm is not None:
            object.__setattr__(self, "clip_norm", number("clip_norm", self.clip_norm, POSITIVE))
        instance_of("batch", self.batch, Batch)
        if self.batch.scheme == Scheme.POISSON:
            remedy = "use without-replacement batches, or run the chains with sordino.algorithm.run"
            raise refuse("the batches of a fleet", "to have a fixed size", self.batch.scheme.value, remedy)

    def batch_size(self, records: int) -> int:
        """The divisor b; every record for full batches."""
        size = records if self.batch.size is None else self.batch.size
        if size > records:
            raise refuse("batch.size", f"to be at most the {records} records", size)
        return size

    def steps_per_epoch(self, records: int) -> int:
        """How many batches one pass takes, a partial last one included."""
        return -(-records // self.batch_size(records))


def plan_of(algorithm: NoisyGradient, records: int, seed: int, start: FleetStart | None = None) -> FleetPlan:
    """The plan that trains what a spec describes, so that the chain audited is the chain certified.

    The start is the spec's unless another is given: a spec has no words for the start of a network.
    """
    instance_of("algorithm", algorithm, NoisyGradient)
    per_epoch = algorithm.batches_per_epoch(records)
    if algorithm.steps % per_epoch:
        raise refuse("algorithm.steps", f"to be whole epochs of {per_epoch} steps", algorithm.steps)
    clipping = algorithm.clipping
    if clipping is not None and clipping.kind != ClippingKind.NORM:
        raise refuse("algorithm.clipping.kind", 'to be "norm" for a fleet', clipping.kind.value)
    if algorithm.projection is not None:
        raise refuse("algorithm.projection", "to be absent for a fleet", algorithm.projection)
    noise = instance_of("algorithm.noise", algorithm.noise, GaussianNoise)
    constants = (algorithm.step_size.constant, noise.scale.constant)
    if None in constants:
        raise refuse("step size and noise scale", "to be the same at every step of a fleet", algorithm.step_size)
    return FleetPlan(
        step_size=constants[0] or 0.0,
        noise_scale=constants[1] or 0.0,
        batch=algorithm.batch,
        epochs=algorithm.steps // per_epoch,
        seed=seed,
        clip_norm=None if clipping is None else clipping.bound,
        start=algorithm.start if start is None else start,
    )
