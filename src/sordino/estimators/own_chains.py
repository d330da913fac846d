"""Stochastic gradient Langevin dynamics as a method of `fit`: draws of a certified chain, without intervals.

The chain is that of `sordino.algorithm.sgld` on full batches (Wang, Fienberg & Smola 2015), made step by step with
`sordino.chain`. The noise of the dynamics is the noise of privacy, so the budget decides the step: a step e puts noise
of deviation 2 / sqrt(e) on the sum of clipped gradients. All steps of all chains are certified together.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.chain.named import sgld
from sordino.algorithm.chain.pure import ChainState, PureChain, chain
from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.noise.secure import secure_key
from sordino.core.bound import Certificate, Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import Ball, Batch, Clipping, ClippingKind, NoisyGradient, PointStart, Scheme, Spec, Unit
from sordino.core.validate import POSITIVE, InputError, Interval, instance_of, number, whole_number
from sordino.estimators.own_methods import Found, OwnMethod, Wanted, check_worth_while, own_method
from sordino.estimators.situation import Sources
from sordino.model.base import Model
from sordino.model.facts import NOTHING_KNOWN, Domain, LossFacts
from sordino.model.own.base import OwnModel

_CAUTION = (
    "Draws along a chain know neither the bias of clipping nor how far the chain still is from where it settles, and "
    "depend on each other; their intervals were seen not to hold, and are withheld. Their noise is drawn in double "
    "precision, and the theorems are about real numbers."
)


@dataclass(frozen=True)
class UnitLoss(Model):
    """A custom model as the loss of a chain: a row of the packed table is a record, and the prior is the penalty."""

    own: OwnModel
    records: int
    # Columns of a packed row need not be of one size: cutting the row by its largest number would lose small ones.
    cuts_rows: ClassVar[bool] = False

    def dim(self, features: int) -> int:
        del features
        return self.own.size

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        del y
        return self.own.unit_loss(theta, x)

    def penalty(self, theta: Array) -> Array:
        return self.own.penalty(theta) / self.records

    def penalty_gradient(self, theta: Array) -> Array:
        return jax.grad(self.penalty)(theta)

    def facts(self, domain: Domain) -> LossFacts:
        del domain
        return NOTHING_KNOWN

    def regulariser_certificates(self) -> dict[str, Certificate]:
        return {}

    def certificates(
        self, domain: Domain, clipping: Clipping | None, projection: Ball | None = None
    ) -> dict[str, Certificate]:
        # A prior need not be centred, and the growth constants count the whole gradient at theta = 0.
        certified = super().certificates(domain, clipping, projection)
        return {name: certificate for name, certificate in certified.items() if not name.startswith("gradient_growth.")}


@own_method("sgld")
class LangevinChains(OwnMethod):
    """Langevin dynamics whose noise is that of privacy."""

    def refusal(self, wanted: Wanted) -> str | None:
        if wanted.sizes.unit is Unit.RECORD:
            return None
        return "its chain protects single records; fit units with natural or variational"

    def plan(self, wanted: Wanted) -> Spec:
        check_worth_while(wanted)
        options, sizes = wanted.options, wanted.sizes
        steps = whole_number("steps", options.get("steps", 600))
        chains = whole_number("chains", options.get("chains", 2))
        whole_number("warmup", options.get("warmup", steps // 2), Interval(0, steps - 1))
        if options.get("clip") is None:
            raise InputError(
                "Expected options with clip, the longest gradient of a record, got none; give a public number."
            )
        clipping = Clipping(ClippingKind.NORM, number("clip", options["clip"], POSITIVE))
        moved = 2.0 if sizes.relation is Relation.REPLACE_ONE else 1.0
        multiplier = up(moved / sizes.mu * math.sqrt(steps * chains) * (1.0 + 1e-9))
        return sgld(
            UnitLoss(wanted.model, sizes.records).problem(sizes.records, Domain(1, 1.0), clipping),
            step=4.0 / (clipping.bound * multiplier) ** 2,
            batch=Batch(Scheme.FULL),
            clipping=clipping,
            steps=steps,
            chains=chains,
            start=PointStart(tuple(np.asarray(wanted.model.start(), float).tolist())),
            relation=sizes.relation,
            view=View.ALL_ITERATES,
            delta=sizes.delta,
        )

    def run(self, wanted: Wanted, spec: Spec, rows: Any, sources: Sources, begin: Callable[[str], None]) -> Found:
        begin("chains")
        algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        steps, chains = algorithm.steps, algorithm.chains
        warmup = int(wanted.options.get("warmup", steps // 2))
        keep_every = max(1, (steps - warmup) * chains // int(wanted.options.get("draws", 1000)))
        with in_doubles():
            if sources.private:
                keys = [secure_key() for _ in range(chains)]
            else:
                keys = list(jax.random.split(jax.random.key(sources.seed or 0), chains))
            made = chain(spec, UnitLoss(wanted.model, wanted.sizes.records))
            data = made.data(np.asarray(rows, np.float64), np.zeros(len(rows)))
            draws = _iterates(made, keys, data)[:, warmup::keep_every]
        settings = {"clip": wanted.options["clip"], "step_size": float(algorithm.noise.scale.values(steps)[0]) ** 2}
        return Found(draws, {**settings, "steps": steps, "warmup": warmup}, (_CAUTION,))


def _iterates(made: PureChain, keys: Iterable[Array], data: Any) -> NDArray[np.float64]:
    """Every iterate of a chain for each key, shape (keys, steps, size)."""

    @jax.jit
    def scanned(key: Array, first: ChainState, data: Any) -> Array:
        draw = made.batches(key)

        def one(state: ChainState, k: Array) -> tuple[ChainState, Array]:
            after = made.step(key, state, draw(data, k))
            return after, after.params

        return lax.scan(one, first, jnp.arange(made.algorithm.steps))[1]

    return np.stack([np.asarray(scanned(key, made.init(key), data)) for key in keys])
