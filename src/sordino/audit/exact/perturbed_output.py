"""Exact audits of perturbed minimisers: quadratic objectives that differ by a linear function move the most."""

from collections.abc import Iterator

from sordino.audit.exact.finding import Finding
from sordino.audit.exact.gaussian_shift import GaussianShift
from sordino.core.errors import InputError
from sordino.core.spec import AverageNoiseKind, OutputPerturbation, Spec
from sordino.core.validate import instance_of


def output_findings(spec: Spec) -> Iterator[Finding]:
    """Minimisers exactly L / m apart, with the Gaussian noise of the release."""
    run: OutputPerturbation = instance_of("spec.algorithm", spec.algorithm, OutputPerturbation)
    if run.noise.kind is not AverageNoiseKind.GAUSSIAN:
        raise InputError("Expected Gaussian noise for an exact audit of a perturbed minimiser, got Laplace noise.")
    mu = run.lipschitz.value / run.strong_convexity.value / run.noise.scale
    yield Finding(GaussianShift(mu * (1 - 1e-14)), "quadratic objectives that differ by a linear function")
