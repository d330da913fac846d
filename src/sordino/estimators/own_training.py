"""A module, or any loss on a pytree, trained by noised sums of clipped gradients of single precision.

This is the way of networks: gradients of examples are clipped without being held in memory, batches may be drawn by
chance, the optimiser is any of optax, and canaries make the run audit itself.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sordino.accounting.calibration import calibrate
from sordino.algorithm.training.train import QUERY, Descent, Trained, Training, train
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.one_run.training import train_and_audit
from sordino.core.spec import NoisedSums, Spec, Unit
from sordino.core.validate import POSITIVE, InputError, instance_of, number, whole_number
from sordino.estimators.own_methods import Found, OwnMethod, Wanted, own_method
from sordino.estimators.released import WEIGHTS
from sordino.estimators.situation import Sources
from sordino.estimators.trained import MEASURED
from sordino.model.own.pytree_loss import PytreeLoss

_OPTIONS = (
    "augment",
    "average",
    "batch",
    "canaries",
    "clip",
    "exact",
    "keep",
    "measure",
    "microbatch",
    "optimiser",
    "precision",
)
_OPTIONS += ("rounds", "views")
_EVERYWHERE = ("draws", "prior_scale")


def _canaries(options: Mapping[str, Any]) -> int:
    given = options.get("canaries", 0)
    return 0 if given == 0 else whole_number("canaries", given)


def _training(wanted: Wanted) -> Training:
    options = wanted.options
    return Training(
        options.get("optimiser") or Descent(0.25, 0.9),
        average=options.get("average", 0.9),
        microbatch=options.get("microbatch", 512),
        precision=options.get("precision", "float32"),
        augment=options.get("augment"),
        views=options.get("views", 1),
        keep=tuple(options.get("keep", ())),
        exact=options.get("exact"),
    )


@own_method("training")
class NetworkTraining(OwnMethod):
    """Noised sums of clipped gradients, then any optimiser and a running average of the weights."""

    packs: ClassVar[bool] = False

    def refusal(self, wanted: Wanted) -> str | None:
        if not isinstance(wanted.model, PytreeLoss):
            return "needs a module, or a loss on a pytree"
        if wanted.sizes.unit is not Unit.RECORD:
            return "clips the gradient of one record, and units of several are declared"
        if wanted.options.get("prior_scale") is not None:
            return "knows no prior; take natural or rounds"
        unknown = sorted(set(wanted.options) - {*_OPTIONS, *_EVERYWHERE})
        return f"has no option {unknown[0]!r}; it has {', '.join(_OPTIONS)}" if unknown else None

    def plan(self, wanted: Wanted) -> Spec:
        options, sizes = wanted.options, wanted.sizes
        _check_optimiser(_training(wanted), instance_of("the model", wanted.model, PytreeLoss))
        batch = options.get("batch")
        rounds = whole_number("rounds", options.get("rounds", 60))
        sampling = {"scheme": "full"} if batch is None else {"scheme": "poisson", "size": whole_number("batch", batch)}
        described = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "noised-sums",
                    "query": f"{QUERY} of a module",
                    "records": sizes.records + _canaries(options),
                    "rounds": rounds,
                    "sampling": sampling,
                    "contribution": number("clip", options.get("clip", 1.0), POSITIVE),
                    "noise_multiplier": 1.0,
                },
                "relation": sizes.relation.value,
                "view": "all-iterates",
                "delta": sizes.delta,
            }
        )
        return calibrate(described, wanted.epsilon, sizes.delta, "noise").explanation.spec

    def run(self, wanted: Wanted, spec: Spec, rows: Any, sources: Sources, begin: Callable[[str], None]) -> Found:
        model, options = instance_of("the model", wanted.model, PytreeLoss), wanted.options
        begin("training")

        def loss(params: Any, example: Any) -> Any:
            return model.loss(model.rebuilt(params), **example)

        examples = {leaf.name: _typed(rows[leaf.name], leaf.whole) for leaf in model.layout.leaves}
        first = [np.asarray(leaf, np.float32) for leaf in model.leaves]
        arguments = (spec, loss, first, examples, sources.fresh(), _training(wanted))
        canaries, audit = _canaries(options), None
        if canaries:
            audited = AuditOptions(delta=wanted.sizes.delta, seed=sources.seed)
            trained, audit = train_and_audit(*arguments, audited, canaries=canaries)
        else:
            trained = train(*arguments)
        points = _points(trained)
        settings: dict[str, Any] = {"clip": instance_of("algorithm", spec.algorithm, NoisedSums).contribution}
        if options.get("measure") is not None:
            settings[MEASURED] = _measured(options["measure"], model, points)
        several = f"{len(points)} points of the weights were" if len(points) > 1 else "One point of the weights was"
        cautions = (f"{several} released, without a spread.",)
        return Found(points[None], settings, cautions, {WEIGHTS: points}, audit, trained.floating_point)


def _points(trained: Trained) -> np.ndarray:
    """The kept points, or the averaged weights, each as one row."""
    chosen = trained.kept or (trained.averaged,)
    return np.stack([np.concatenate([np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(one)]) for one in chosen])


def _measured(measure: Any, model: PytreeLoss, points: np.ndarray) -> dict[str, Any]:
    """What the weights do on public examples: `measure(predict)`, whose predict gives the mean output of the points."""

    def predict(public: Mapping[str, Any]) -> np.ndarray:
        found = model.predict(jnp.asarray(points), public, jax.random.key(0))
        return np.asarray(next(iter(found.values()))).mean(axis=0)

    found = measure(predict)
    if not isinstance(found, Mapping):
        raise InputError("Expected measure(predict) to return named numbers, got something else. It was debited.")
    return dict(found)


def _check_optimiser(training: Training, model: PytreeLoss) -> None:
    """Refuse, by a trace and before a debit, an optimiser that does not take these weights."""
    shapes = jax.ShapeDtypeStruct((model.size,), jnp.float32)
    try:
        jax.eval_shape(lambda each: training.optimiser.update(each, training.optimiser.init(each), each), shapes)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"Expected an optimiser of optax, got one with a {type(error).__name__}: {str(error)[:200]}"
        ) from None


def _typed(values: Any, whole: bool) -> np.ndarray:
    return np.asarray(values).astype(np.int32 if whole else np.float32)
