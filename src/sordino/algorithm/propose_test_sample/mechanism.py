"""The private mechanism: one exact posterior draw of the slope, or null."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from sordino.algorithm.propose_test_sample.cleaning import clean, stage_of
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.spec import Sampler, Spec
from sordino.core.validate import instance_of, refuse
from sordino.model.exact.linear_regression import ConjugateRegression


@dataclass(frozen=True)
class ProposedSample:
    """What leaves the run: the drawn slope, or None when the tests found too few clean records."""

    spec: Spec
    slope: float | None


def propose_test_sample(spec: Spec, x: ArrayLike, y: ArrayLike, randomness: Randomness) -> ProposedSample:
    """Algorithm 1 on records (x, y).

    Formal guarantees: (5 epsilon, 2 delta)-differential privacy under replace-one, by the theorem
    `posterior.propose-test-sample`, which `certify` evaluates on the same spec. The noise is drawn in floating point.
    """
    run = stage_of(spec)
    instance_of("randomness", randomness, Randomness)
    if run.sampler is not Sampler.EXACT:
        raise refuse(
            "algorithm.sampler",
            "to be exact",
            run.sampler.value,
            "a draw by SGLD is not private; propose_test_sgld_not_private runs it for study",
        )
    generator = randomness.generator(Purpose.NOISE)
    left = clean(run, x, y, generator)
    if left is None:
        return ProposedSample(spec, None)
    posterior = ConjugateRegression(run.alpha, run.beta).posterior(left.x[:, None], left.y)
    return ProposedSample(spec, float(posterior.sample(generator, 1)[0, 0]))
