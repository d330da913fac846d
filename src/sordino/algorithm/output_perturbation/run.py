"""Release a minimiser with the noise that a spec describes."""

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise import ExactGaussians, noised_numbers
from sordino.algorithm.randomness import Randomness
from sordino.core.spec import AverageNoiseKind, OutputPerturbation, Spec
from sordino.core.validate import instance_of, refuse

Array = NDArray[np.float64]


def run_output(spec: Spec, point: Array, randomness: Randomness) -> Array:
    """The point plus noise; the caller answers for the point being within the spec's tolerance of the minimiser."""
    algorithm: OutputPerturbation = instance_of("spec.algorithm", spec.algorithm, OutputPerturbation)
    if len(point) != algorithm.dim:
        raise refuse("the point", f"to have algorithm.dim = {algorithm.dim} entries", len(point))
    if algorithm.noise.kind is not AverageNoiseKind.GAUSSIAN:
        raise refuse("algorithm.noise.kind", "to be gaussian for a run", algorithm.noise.kind.value)
    noise = ExactGaussians.of(randomness, algorithm.dim)
    return noised_numbers(point, algorithm.noise.scale, noise)
