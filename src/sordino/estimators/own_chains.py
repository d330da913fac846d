"""Draws along private chains as methods of `fit`: `sgld` and `hmc`."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.noise.secure import secure_key
from sordino.algorithm.variational.chain_kernels import Dynamics, chain_sums, run_chains
from sordino.core.spec import NoisedSums, Spec
from sordino.core.validate import InputError, instance_of, whole_number
from sordino.estimators.own_methods import Found, OwnMethod, Wanted, check_worth_while, own_method
from sordino.estimators.situation import Sources

_CAUTION = (
    "Draws along a chain know neither the bias of clipping nor how far the chain still is from where it settles, and "
    "depend on each other; their intervals were seen not to hold, and are withheld. Their noise is drawn in double "
    "precision, and the theorems are about real numbers."
)


@own_method("sgld")
class LangevinChains(OwnMethod):
    """Langevin dynamics whose noise is that of privacy as far as it goes."""

    friction: ClassVar[float] = 1.0

    def plan(self, wanted: Wanted) -> Spec:
        check_worth_while(wanted)
        options, sizes = wanted.options, wanted.sizes
        steps, chains = (
            whole_number("steps", options.get("steps", 600)),
            whole_number("chains", options.get("chains", 2)),
        )
        if not 0 <= options.get("warmup", steps // 2) < steps:
            raise InputError(f"Expected a warmup below the {steps} steps of a chain, got {options['warmup']}.")
        spec = chain_sums(
            records=sizes.records,
            steps=steps * chains,
            mu=sizes.mu,
            relation=sizes.relation,
            delta=sizes.delta,
            unit=sizes.unit,
        )
        self._dynamics(wanted, spec)
        return spec

    def run(self, wanted: Wanted, spec: Spec, rows: Any, sources: Sources, begin: Callable[[str], None]) -> Found:
        begin("chains")
        options, dynamics = wanted.options, self._dynamics(wanted, spec)
        chains = int(options.get("chains", 2))
        steps = instance_of("spec.algorithm", spec.algorithm, NoisedSums).rounds // chains
        warmup = int(options.get("warmup", steps // 2))
        keep_every = max(1, (steps - warmup) * chains // int(options.get("draws", 1000)))
        if sources.private:
            keys = [secure_key() for _ in range(chains)]
        else:
            keys = list(jax.random.split(jax.random.key(sources.seed or 0), chains))
        with in_doubles():
            draws = run_chains(wanted.model, dynamics, steps, np.asarray(rows), keys, warmup, keep_every)
        settings = {"clip": dynamics.clip, "step_size": dynamics.step_size, "friction": dynamics.friction}
        return Found(draws, {**settings, "steps": steps, "warmup": warmup}, (_CAUTION,))

    def _dynamics(self, wanted: Wanted, spec: Spec) -> Dynamics:
        options = wanted.options
        if options.get("clip") is None:
            raise InputError(
                "Expected options with clip, the longest gradient of a unit, got none; give a public number."
            )
        noise = float(instance_of("spec.algorithm", spec.algorithm, NoisedSums).sum_noise[0])
        return Dynamics.of(options["clip"], noise, options.get("friction", self.friction), options.get("step_size"))


@own_method("hmc")
class HamiltonianChains(LangevinChains):
    """Hamiltonian dynamics with friction, without acceptance."""

    friction: ClassVar[float] = 0.1
