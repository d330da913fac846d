"""Methods of custom models that step along noised gradients: training of networks, and Langevin chains.

The chain is that of `sordino.mechanisms.sgld` on full batches (Wang, Fienberg & Smola 2015). Its noise is the noise of
privacy: a step e puts noise of deviation 2 / sqrt(e) on the sum of clipped gradients. All steps are certified together.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core import spec as specs
from sordino.core.bound import Certificate, Relation, View
from sordino.core.gaussian import up
from sordino.core.validate import POSITIVE, InputError, Interval, instance_of, number, whole_number
from sordino.fitting import custom_methods as custom
from sordino.fitting.gradient_runs import measurements, train_with_canaries, training_plan
from sordino.fitting.problem import Sources
from sordino.fitting.tasks.base import Begin
from sordino.mechanisms.chain.release import KeptIterates
from sordino.mechanisms.chain.run import run as run_chain
from sordino.mechanisms.chain.specs import sgld
from sordino.mechanisms.networks.training import QUERY, Descent, Training, check_room
from sordino.models.base import Model
from sordino.models.custom.base import CustomModel
from sordino.models.custom.modules import PytreeLoss
from sordino.models.facts import Domain

_OPTIONS = ("average", "batch", "canaries", "clip", "keep", "measure", "microbatch", "optimiser", "rounds")
_EVERYWHERE = ("draws", "prior_scale")


def _canaries(options: Mapping[str, object]) -> int:
    return whole_number("canaries", options.get("canaries", 0), Interval(0))


def _training(options: Mapping[str, Any]) -> Training:
    chosen = {"average": options.get("average", 0.9), "microbatch": options.get("microbatch", 512)}
    return Training(options.get("optimiser") or Descent(0.25, 0.9), keep=tuple(options.get("keep", ())), **chosen)


@custom.custom_method("training")
class NetworkTraining(custom.CustomMethod):
    """Noised sums of clipped gradients, then any optimiser and a running average of the weights."""

    packs: ClassVar[bool] = False

    def refusal(self, wanted: custom.CustomProblem) -> str | None:
        if not isinstance(wanted.model, PytreeLoss):
            return "needs a module, or a loss on a pytree"
        if wanted.sizes.unit is not specs.Unit.RECORD:
            return "clips the gradient of one record, and units of several are declared"
        if wanted.options.get("prior_scale") is not None:
            return "knows no prior; take natural or rounds"
        unknown = sorted(set(wanted.options) - {*_OPTIONS, *_EVERYWHERE})
        return f"has no option {unknown[0]!r}; it has {', '.join(_OPTIONS)}" if unknown else None

    def plan(self, wanted: custom.CustomProblem) -> specs.Spec:
        options, sizes = wanted.options, wanted.sizes
        training = _training(options)
        custom.check_optimiser(training.optimiser, wanted.model.size, with_weights=True)
        batch = options.get("batch")
        spec = training_plan(
            f"{QUERY} of a module",
            sizes.records + _canaries(options),
            sizes.relation,
            whole_number("rounds", options.get("rounds", 60)),
            None if batch is None else {"scheme": "poisson", "size": whole_number("batch", batch)},
            number("clip", options.get("clip", 1.0), POSITIVE),
            epsilon=wanted.epsilon,
            delta=sizes.delta,
        ).spec
        check_room(spec, wanted.model.size, training)
        return spec

    def run(
        self, wanted: custom.CustomProblem, spec: specs.Spec, rows: Any, sources: Sources, begin: Begin
    ) -> custom.CustomOutcome:
        model, options = instance_of("the model", wanted.model, PytreeLoss), wanted.options
        begin("training")

        def loss(params: Any, example: Any) -> Any:
            return model.loss(model.rebuilt(params), **example)

        types = {leaf.name: np.int32 if leaf.whole else np.float32 for leaf in model.layout.leaves}
        examples = {name: np.asarray(rows[name]).astype(kind) for name, kind in types.items()}
        first = [np.asarray(leaf, np.float32) for leaf in model.leaves]
        arguments = (spec, loss, first, examples, sources.fresh(), _training(options))
        trained, audit = train_with_canaries(arguments, _canaries(options), wanted.sizes.delta, sources.seed)
        # The kept points, or the averaged weights, each as one row.
        trees = [jax.tree.leaves(one) for one in trained.kept or (trained.averaged,)]
        points = np.stack([np.concatenate([np.ravel(np.asarray(leaf)) for leaf in leaves]) for leaves in trees])

        def predict(public: Mapping[str, Any]) -> np.ndarray:
            """What the weights do on public examples, on average over the points."""
            found = model.predict(jnp.asarray(points), public, jax.random.key(0))
            return np.asarray(next(iter(found.values()))).mean(axis=0)

        settings: dict[str, Any] = {"clip": instance_of("algorithm", spec.algorithm, specs.NoisedSums).contribution}
        if options.get("measure") is not None:
            settings |= measurements(options["measure"], predict)
        cautions = (custom.points_caution(len(points)),)
        return custom.CustomOutcome(
            points[None], settings, cautions, {custom.WEIGHTS: points}, audit, trained.floating_point
        )


_CAUTION = (
    "Draws along a chain depend on each other and include neither the bias of clipping nor the distance from "
    "convergence. Their intervals had too low coverage in simulations, so they are withheld."
)
_STEPS = 600


@dataclass(frozen=True)
class UnitLoss(Model):
    """A custom model as the loss of a chain: a row of the packed table is a record, and the prior is the penalty."""

    own: CustomModel
    records: int
    # Columns of a packed row need not be of one size: cutting the row by its largest number would lose small ones.
    cuts_rows: ClassVar[bool] = False

    def dim(self, features: int) -> int:
        return self.own.size

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.own.unit_loss(theta, x)

    def penalty(self, theta: Array) -> Array:
        return self.own.penalty(theta) / self.records

    def penalty_gradient(self, theta: Array) -> Array:
        return jax.grad(self.penalty)(theta)

    def regulariser_certificates(self) -> dict[str, Certificate]:
        return {}

    def certificates(
        self, domain: Domain, clipping: specs.Clipping | None, projection: specs.Ball | None = None
    ) -> dict[str, Certificate]:
        # A prior need not be centred, and the growth constants count the whole gradient at theta = 0.
        certified = super().certificates(domain, clipping, projection)
        return {name: certificate for name, certificate in certified.items() if not name.startswith("gradient_growth.")}


@custom.custom_method("sgld")
class LangevinChains(custom.CustomMethod):
    """Langevin dynamics whose noise is that of privacy."""

    def refusal(self, wanted: custom.CustomProblem) -> str | None:
        if wanted.sizes.unit is specs.Unit.RECORD:
            return None
        return "its chain protects single records; fit units with natural or variational"

    def plan(self, wanted: custom.CustomProblem) -> specs.Spec:
        custom.check_worth_while(wanted)
        options, sizes = wanted.options, wanted.sizes
        steps = whole_number("steps", options.get("steps", _STEPS))
        chains = whole_number("chains", options.get("chains", 2))
        whole_number("warmup", options.get("warmup", steps // 2), Interval(0, steps - 1))
        if options.get("clip") is None:
            raise InputError("The options need clip, a public bound on the norm of a record's gradient.")
        clipping = specs.Clipping(specs.ClippingKind.NORM, number("clip", options["clip"], POSITIVE))
        moved = 2.0 if sizes.relation is Relation.REPLACE_ONE else 1.0
        multiplier = up(moved / sizes.mu * math.sqrt(steps * chains) * (1.0 + 1e-9))
        return sgld(
            UnitLoss(wanted.model, sizes.records).problem(sizes.records, Domain(1, 1.0), clipping),
            step=4.0 / (clipping.bound * multiplier) ** 2,
            batch=specs.Batch(specs.Scheme.FULL),
            clipping=clipping,
            steps=steps,
            chains=chains,
            start=specs.PointStart(tuple(np.asarray(wanted.model.start(), float).tolist())),
            relation=sizes.relation,
            view=View.ALL_ITERATES,
            delta=sizes.delta,
        )

    def run(
        self, wanted: custom.CustomProblem, spec: specs.Spec, rows: Any, sources: Sources, begin: Begin
    ) -> custom.CustomOutcome:
        begin("chains")
        steps = wanted.options.get("steps", _STEPS)
        warmup = wanted.options.get("warmup", steps // 2)
        model, clip = UnitLoss(wanted.model, wanted.sizes.records), wanted.options["clip"]
        with jax.enable_x64(True):  # draws are released in double precision
            release = run_chain(spec, model, np.asarray(rows, np.float64), np.zeros(len(rows)), sources.fresh())
        found = instance_of("the release", release, KeptIterates).iterates
        keep_every = max(1, (steps - warmup) * len(found) // int(wanted.options.get("draws", 1000)))
        scale = instance_of("spec.algorithm", spec.algorithm, specs.NoisyGradient).noise.scale.values(steps)[0]
        settings = {"clip": clip, "step_size": float(scale) ** 2, "steps": steps, "warmup": warmup}
        return custom.CustomOutcome(found[:, warmup::keep_every], settings, (_CAUTION,))
