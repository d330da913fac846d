"""Canaries in a training run: the very run that is released is audited, and its network learns nothing from them.

The parameters get further entries that the loss does not use. A canary is a record whose loss is a multiple of one of
them, with a gradient far longer than the clip: it contributes the clip along that entry in every step it takes part in.
A coin decides about every canary; entries without one show the noise alone. Of full batches scores are Gaussian
(`methods.one_run`); of hidden batches coins are guessed (`methods.one_run_guesses`). A skipped clip makes canaries
louder, and noise that is too small clearer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.methods.one_run import KnownGaussian, bound_from_scores
from sordino.auditing.methods.one_run_guesses import Coins, audit_in_one_run, fair_coins, plan_for
from sordino.core.bound import Relation
from sordino.core.spec import NoisedSums, Scheme, Spec
from sordino.core.validate import InputError, instance_of, refuse, whole_number
from sordino.mechanisms.networks.jaxpr import Loss
from sordino.mechanisms.networks.training import Trained, Training, train
from sordino.noise.randomness import Randomness

_LOUDER = 4.0  # how much longer than the clip a canary's gradient is: a clip that is skipped shows
_BLANKS = 256
_SCHEMES = frozenset({Scheme.FULL, Scheme.POISSON})


@dataclass(frozen=True)
class Planted:
    """A loss with room for canaries: `mirrored` ones pull one way or the other, others are there or not."""

    loss: Loss
    canaries: int
    mirrored: bool
    clip: float

    def params(self, params: Any) -> dict[str, Any]:
        """The parameters, and the entries that only canaries use."""
        return {"network": params, "canaries": jnp.zeros(self.canaries + _BLANKS)}

    def of_example(self, params: Any, example: Any) -> Array:
        """The loss of a record of the table, or of a canary, which has the number of its entry beside it."""
        values, entry, side = example
        pull = _LOUDER * self.clip * side * params["canaries"][jnp.maximum(entry, 0)]
        return jnp.where(entry < 0, self.loss(params["network"], values), pull)

    def examples(self, examples: Any, coins: Coins) -> Any:
        """The table with the canaries that the coins decide, in front of everything that is by chance."""
        chosen = np.arange(self.canaries) if self.mirrored else np.flatnonzero(coins)
        rows = len(jax.tree.leaves(examples)[0])
        side = np.where(coins[chosen], 1.0, -1.0) if self.mirrored else np.ones(len(chosen))
        padded = jax.tree.map(
            lambda leaf: np.concatenate([np.asarray(leaf), np.zeros((len(chosen), *leaf.shape[1:]), leaf.dtype)]),
            examples,
        )
        entry = np.concatenate([np.full(rows, -1), chosen]).astype(np.int32)
        return padded, entry, np.concatenate([np.zeros(rows), side]).astype(np.float32)


def train_and_audit(
    spec: Spec,
    loss: Loss,
    params: Any,
    examples: Any,
    randomness: Randomness,
    training: Training,
    options: AuditOptions,
    *,
    canaries: int = 1000,
    **more: Any,
) -> tuple[Trained, LowerBound]:
    """Train as `train` does, with canaries among the records of the spec, and bound the run's epsilon from below."""
    run, many = check_planting(spec, training), whole_number("canaries", canaries)
    planted = Planted(loss, many, spec.relation is Relation.REPLACE_ONE, run.contribution)
    watching = replace(training, watch=lambda tree: tree["canaries"])
    made: list[Trained] = []

    def run_with(coins: Coins, _seed: int) -> NDArray[np.float64]:
        rows = planted.examples(examples, coins)
        made.append(train(spec, planted.of_example, planted.params(params), rows, randomness, watching, **more))
        return np.asarray(made[0].watched, np.float64)

    audited = _known if run.sampling.scheme is Scheme.FULL else _guessed
    lower = audited(spec, run, run_with, planted, options)
    params, averaged, *kept = (tree["network"] for tree in (made[0].params, made[0].averaged, *made[0].kept))
    return replace(made[0], params=params, averaged=averaged, kept=tuple(kept), watched=None), lower


def check_planting(spec: Spec, training: Training) -> NoisedSums:
    """The run, if canaries can be planted in it; public, so to be asked before a debit."""
    run = instance_of("spec.algorithm", spec.algorithm, NoisedSums)
    if run.sampling.scheme not in _SCHEMES:
        raise refuse("algorithm.sampling.scheme", "to be full or poisson for canaries", run.sampling.scheme.value)
    if training.watch is not None:
        raise InputError("A run with canaries cannot have a custom watch; watch a run without them.")
    return run


RunWith = Callable[[Coins, int], NDArray[np.float64]]
_STORY = "The run that made the release, with {} canaries that use parameters of their own"


def _known(spec: Spec, run: NoisedSums, run_with: RunWith, planted: Planted, options: AuditOptions) -> LowerBound:
    coins = fair_coins(planted.canaries, np.random.default_rng(np.random.SeedSequence(options.seed)))
    precision = 1.0 / run.sum_noise**2
    scores = precision @ run_with(coins, 0) / np.sqrt(precision.sum())
    known = KnownGaussian(
        "every record takes part in every step, no record of the table has a gradient in a canary's entry, and the "
        "score is the sum of the noised sums there",
        baseline=0.0,
        mirrored=planted.mirrored,
    )
    found, blanks = scores[: planted.canaries], scores[planted.canaries :]
    evidence = _STORY.format(planted.canaries)
    return bound_from_scores(found, coins, known, spec, options, evidence, blanks)


def _guessed(spec: Spec, run: NoisedSums, run_with: RunWith, planted: Planted, options: AuditOptions) -> LowerBound:
    plan = plan_for(spec, planted.canaries, planted.canaries, options)
    rate, noise = run.rate, run.sum_noise[:, None]

    def scores(watched: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-likelihood ratios, a step's batch being hidden."""
        seen, shift = watched[:, : planted.canaries] / noise, run.contribution / noise

        def weighed(side: float) -> NDArray[np.float64]:
            return np.logaddexp(np.log1p(-rate), np.log(rate) + side * seen * shift - shift**2 / 2).sum(axis=0)

        return weighed(1.0) - weighed(-1.0) if planted.mirrored else weighed(1.0)

    evidence = f"{_STORY.format(planted.canaries)}; coins guessed by their likelihood, because batches are hidden"
    return audit_in_one_run(run_with, scores, planted.canaries, plan.guesses, spec, options, evidence)
