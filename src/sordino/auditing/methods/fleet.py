"""`fleet`: many models of an instance, all in one program, on a GPU where there is one.

A fleet is trained by its own code, on the plan that the spec gives, in single precision: an attack on what is
described, with far more and far larger models than `attack`, which runs the kernel that makes releases.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from sordino.auditing import experiment
from sordino.auditing.fleet import plan_of, train_fleet
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.methods.attack import audit_instance_by_attack
from sordino.core.spec import Spec
from sordino.core.validate import refuse
from sordino.data.neighbours import Dataset
from sordino.mechanisms.chain.claims import longest_row

# Models that share a seed: the number decides what is drawn, so it is the same on every device.
_MODELS_IN_A_BLOCK = 264
_ROUNDING = 1e-6  # what single precision may add to the length of a row

FITS_MODELS = True


def fleet(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound by attack on a fleet of the spec's instance; refused where no fleet can train what is described."""
    instance = audit_instance(spec)
    fit = FleetFit(spec, instance.model)
    experiment.need_feasible(
        spec, options.models, experiment.ON_PROCESSOR if jax.default_backend() == "cpu" else experiment.ON_ACCELERATOR
    )
    return replace(audit_instance_by_attack(fit, instance, options, ", trained as a fleet"), method="fleet")


@dataclass(frozen=True)
class FleetFit(experiment.FitInBlocks):
    """Models of a spec as fleets, one for each block."""

    def __post_init__(self) -> None:
        plan_of(self.spec, self.model, seed=0)

    @property
    def at_once(self) -> int:
        return _MODELS_IN_A_BLOCK

    def _block(self, data: Dataset, seeds: experiment.Seeds) -> experiment.Releases:
        plan = plan_of(self.spec, self.model, experiment.seed_of_run(seeds))
        return experiment.finite(train_fleet(self.model, data.features, self._target(data), plan, len(seeds)))

    def _target(self, data: Dataset) -> experiment.Releases:
        """Targets as the model reads them. A chain shortens what is too long for its constants; a fleet refuses it."""
        target = np.asarray(self.model.as_labels(jnp.asarray(data.target, jnp.float32)))
        limits = longest_row(self.spec, experiment.chain_of(self.spec), self.model, data.features.shape[1])
        sizes = float(np.linalg.norm(data.features, axis=1).max()), float(np.abs(target).max())
        if any(size > limit * (1 + _ROUNDING) for size, limit in zip(sizes, limits, strict=True)):
            allowed = "to be as short as the spec's constants need ({:g} and {:g})".format(*limits)
            raise refuse("rows and targets of the instance", allowed, "longer ones", "use the attack method")
        return target
