"""Ways to approximate the mixture's posterior: message passing with and without noise, private EM, and the prior."""

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.em import EmOptions, run_em
from sordino.algorithm.message_passing import (
    CentredCoordinates,
    NaturalCoordinates,
    Prior,
    RaiseEigenvalues,
    Refinement,
    linear_decay,
    run_message_passing,
    stochastic_ep,
)
from sordino.algorithm.posterior import GaussianPosterior
from sordino.algorithm.randomness import SeededRandomness
from sordino.core.spec import ConstantSchedule, ExpectationMaximisation, MessagePassing, Sampling, Spec
from sordino.core.view import View
from sordino.model.mixture import GaussianMixture
from sordino.model.sites import MixtureSite
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.mixture import COMPONENTS, DIM, PRIOR_PRECISION, SPREAD, WEIGHTS, Posterior

Array = NDArray[np.float64]
SITE = MixtureSite(WEIGHTS, SPREAD)
# Chosen on other data sets of the same law. Centred messages, and a floor that keeps every round's step short.
ROUNDS, CLIP, FIRST_RHO, LAST_RHO, FLOOR = 60, 4.0, 0.1, 0.01, 100.0
EM_ROUNDS, EM_CLIP = 5, 3.0
_CENTRED = Refinement(CentredCoordinates(1.0), RaiseEigenvalues(FLOOR), start_scale=1.0)


def from_prior() -> Posterior:
    """The prior itself: what an answer that ignores the data scores."""
    covariances = np.broadcast_to(np.eye(DIM) / PRIOR_PRECISION, (COMPONENTS, DIM, DIM))
    return Posterior(np.zeros((COMPONENTS, DIM)), np.array(covariances))


def sep(X: Array, clip: float | None, start: Array, seed: int) -> Posterior:
    """Not private: SEP with natural messages, the prior's means moved to `start` so that components can part."""
    result = stochastic_ep(
        SITE,
        X,
        np.zeros(len(X)),
        SeededRandomness(seed),
        prior=Prior(PRIOR_PRECISION, tuple(start.ravel().tolist())),
        refinement=Refinement(NaturalCoordinates(), RaiseEigenvalues(1e-2)),
        steps=100,
        sampling=Sampling.FULL,
        damping=0.2 * len(X),
        clip=clip,
    )
    return _posterior(result.posterior)


def sep_spec(budget: Budget, records: int) -> Spec:
    """Private full-batch rounds in words."""
    algorithm = MessagePassing(
        records=records,
        steps=ROUNDS,
        sampling=Sampling.FULL,
        clip=CLIP,
        noise_multiplier=ConstantSchedule(budget.multiplier(1.0, ROUNDS)),
        damping=linear_decay(FIRST_RHO * records, LAST_RHO * records, ROUNDS),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def dp_sep(X: Array, budget: Budget, seed: int) -> tuple[Posterior, Spec]:
    """Private message passing in rounds."""
    spec = sep_spec(budget, len(X))
    randomness, prior = SeededRandomness(seed), Prior(PRIOR_PRECISION)
    release = run_message_passing(spec, SITE, X, np.zeros(len(X)), randomness, prior=prior, refinement=_CENTRED)
    return _posterior(release.posterior), spec


def dp_em(X: Array, budget: Budget, seed: int) -> tuple[Posterior, Spec]:
    """Private expectation maximisation, its posterior with the privacy noise in it."""
    algorithm = ExpectationMaximisation(
        records=len(X),
        steps=EM_ROUNDS,
        sampling=Sampling.FULL,
        clip=EM_CLIP,
        components=COMPONENTS,
        noise_multiplier=ConstantSchedule(budget.multiplier(1.0, EM_ROUNDS)),
    )
    spec = Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)
    options = EmOptions(prior_precision=PRIOR_PRECISION, least_count=100.0)
    release = run_em(spec, GaussianMixture(weights=WEIGHTS, spread=SPREAD), X, SeededRandomness(seed), options=options)
    found = release.posterior
    covariances = np.stack([np.diag(part) for part in np.reshape(found.variance, (COMPONENTS, DIM))])
    return Posterior(found.mean.reshape(COMPONENTS, DIM), covariances), spec


def _posterior(found: GaussianPosterior) -> Posterior:
    blocks = found.covariance.reshape(COMPONENTS, DIM, COMPONENTS, DIM)
    covariances = np.stack([blocks[k, :, k] for k in range(COMPONENTS)])
    return Posterior(found.mean.reshape(COMPONENTS, DIM), covariances)
