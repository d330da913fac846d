"""Many models of a described chain at once.

The number of chains is part of a certificate, so nobody may release more of them than the spec says. An audit releases
none: it runs a replica of the spec with as many chains as it needs models, all in one compiled program, and looks at
them one release at a time. Chains of one run have independent noise, batches and starts.
"""

from dataclasses import dataclass, replace

import numpy as np

from sordino.algorithm import KeptIterates, LastIterate, NoisedAverage, SeededRandomness, parameters, run
from sordino.audit.attack.effort import chain_of
from sordino.audit.attack.fitting import Releases, Seeds
from sordino.core.errors import InputError
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import instance_of
from sordino.core.view import View
from sordino.data.neighbours import Dataset
from sordino.model.base import Model

_CHAINS_AT_ONCE = 1024
_RELEASED = {LastIterate: "iterates", KeptIterates: "iterates", NoisedAverage: "averages"}


@dataclass(frozen=True)
class ChainFit:
    """`FitMany` of a noisy gradient spec on encoded records; one release is all chains and iterates the spec keeps."""

    spec: Spec
    model: Model

    def __post_init__(self) -> None:
        chain_of(self.spec)
        instance_of("model", self.model, Model)

    def __call__(self, data: Dataset, seeds: Seeds, /) -> Releases:
        return np.concatenate([self._block(data, block) for block in self.blocks(seeds)])

    def blocks(self, seeds: Seeds) -> list[Seeds]:
        """The seeds of models that run together; a block's seeds decide all it draws."""
        at_once = max(1, _CHAINS_AT_ONCE // self.algorithm.chains)
        return [seeds[first : first + at_once] for first in range(0, len(seeds), at_once)]

    @property
    def algorithm(self) -> NoisyGradient:
        """The chain that is audited."""
        return chain_of(self.spec)

    def _block(self, data: Dataset, seeds: Seeds) -> Releases:
        replica = replace(
            self.spec, algorithm=replace(self.algorithm, chains=self.algorithm.chains * len(seeds)), instance=None
        )
        # One seed drives the whole run: the seeds of its models together, so that no two runs share a stream.
        entropy = np.random.SeedSequence([int(seed) for seed in seeds]).generate_state(2, np.uint64)
        randomness = SeededRandomness((int(entropy[0]) << 64) | int(entropy[1]))
        function = parameters(self.spec.dim) if self.spec.view == View.AVERAGE else None
        release = run(replica, self.model, data.features, data.target, randomness, function=function)
        values = np.asarray(getattr(release, _RELEASED[type(release)]))
        if not np.isfinite(values).all():
            raise InputError("Expected finite iterates, got a chain that diverged; take smaller steps.")
        return values.reshape(len(seeds), -1)
