"""Exact audits of an instance: Gaussian linear regression, whose chains have known laws on any data."""

from collections.abc import Iterator

from sordino.algorithm.claims import check_regulariser
from sordino.audit.exact.finding import Finding
from sordino.audit.exact.law_pair import LawPair
from sordino.audit.instance import audit_instance
from sordino.core.errors import InputError
from sordino.core.spec import NoisyGradient, Spec, StableNoise
from sordino.data import Dataset
from sordino.model.exact import GaussianLaw, GaussianLoss, Law, Quadratics, chain_law, stable_chain_law
from sordino.model.gaussian_linear import GaussianLinear

_MOST_PAIRS = 6


def ridge_findings(spec: Spec) -> Iterator[Finding]:
    """The laws on the neighbours of the instance; of many candidates those with the largest divergence."""
    instance = audit_instance(spec)
    model = instance.model
    if not isinstance(model, GaussianLinear):
        raise InputError(
            f"Expected the model ridge for an exact audit of an instance, got {type(model).__name__}; "
            "use the attack method, or leave the instance out."
        )
    check_regulariser(spec, model)
    solved = [
        (pair, LawPair(_law(spec, model, pair.first), _law(spec, model, pair.second))) for pair in instance.pairs()
    ]
    solved.sort(key=lambda item: -_distance(item[1]))
    for pair, laws in solved[:_MOST_PAIRS]:
        yield Finding(laws, f"{instance.description}, the neighbours differ in record {pair.position}")


def _law(spec: Spec, model: GaussianLinear, data: Dataset) -> Law:
    x, y, precision = data.features, data.target, model.noise_precision
    quadratics = Quadratics.from_records(
        precision * x[:, :, None] * x[:, None, :], precision * x * y[:, None], model.weight_decay
    )
    algorithm = spec.algorithm
    if isinstance(algorithm, NoisyGradient) and isinstance(algorithm.noise, StableNoise):
        return stable_chain_law(spec, quadratics)
    return chain_law(spec, quadratics)


def _distance(pair: LawPair) -> float:
    """A quick measure to rank candidates by; Gaussians only, others keep their order."""
    if isinstance(pair.first, GaussianLaw) and isinstance(pair.second, GaussianLaw):
        return GaussianLoss.between(pair.first, pair.second).renyi(1.0)
    return 0.0
