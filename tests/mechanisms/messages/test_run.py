"""A private run is reproducible, adds exactly the noise of its own damping, and is the non-private run without it."""

import numpy as np
import pytest
from scipy import stats

from papers.vinaroz_park.message_passing import stochastic_ep
from sordino import InputError, Relation
from sordino.core.spec import Scheme, Spec
from sordino.mechanisms import Purpose, SeededRandomness
from sordino.mechanisms.chain.batches import Sampling, batches_for
from sordino.mechanisms.messages import (
    CentredCoordinates,
    Messages,
    NaturalCoordinates,
    Prior,
    Refinement,
    Repair,
    gains,
    run_message_passing,
)
from sordino.mechanisms.rounds import Run
from sordino.models.message_passing.sites import GammaPrecision, GaussianSite, NetworkSite
from sordino.noise.lattice import in_doubles, in_precision
from tests.mechanisms.messages.conftest import executed

SAMPLINGS = ["full", "without-replacement", "poisson", "passes"]
REFINEMENTS = {
    "natural": Refinement(NaturalCoordinates(), start_scale=0.5),
    "centred": Refinement(CentredCoordinates(0.1), start_scale=0.5),
}


def released(described, site, rows, refinement, seed=0):
    return run_message_passing(described, site, *rows, SeededRandomness(seed), prior=Prior(1.0), refinement=refinement)


@pytest.mark.every(2)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("coordinates", ["natural", pytest.param("centred", marks=pytest.mark.slow)])
def test_without_noise_and_clip_a_private_run_is_stochastic_ep_bit_for_bit(spec, network, rows, sampling, coordinates):
    """What the private run feeds the kernel, with zero noise and an infinite clip, against the public function."""
    algorithm = spec(21, sampling).algorithm
    asked = Messages(network, Prior(1.0), REFINEMENTS[coordinates], 2)
    result = stochastic_ep(
        network,
        *rows,
        SeededRandomness(0),
        prior=Prior(1.0),
        refinement=REFINEMENTS[coordinates],
        steps=6,
        sampling=algorithm.sampling.scheme,
        batch=algorithm.sampling.size,
        damping=3.0,
    )
    whole = asked.kept(executed(asked, algorithm, rows, np.zeros(6), clipped=False))
    np.testing.assert_array_equal(result.posterior.natural, in_precision(whole, result.posterior.natural.dtype))


def test_a_sequential_run_is_the_published_algorithm(spec, rows):
    """Vinaroz & Park, Algorithm 3, line by line in NumPy, with the run's own noise and order."""
    X, y = rows
    described = spec(21, "passes", batch=1, steps=42, damping=20.0, noise_multiplier=0.5, clip=0.8)
    site, prior = GaussianSite(diagonal=True, noise_precision=0.5), 30.0
    release = run_message_passing(
        described, site, X, y, SeededRandomness(2), prior=Prior(prior), refinement=Refinement()
    )
    assert release.repairs.rounds == 0
    noise = SeededRandomness(2).whole_gaussians(Purpose.NOISE, 0, 64, np.full(1, 2.0**45), 4) * 2.0**-45
    order = batches_for(
        Scheme.RESHUFFLED, Sampling(21, 1, 1 / 21, 1, 42, SeededRandomness(2).generator(Purpose.BATCHES))
    )
    assert order is not None
    start = np.array([0.0, 0.0, prior, prior])
    theta, N, C, gamma, sigma = start.copy(), 21, 0.8, 20.0, 0.5
    for step, n in enumerate(order.take(42).records[:42]):
        factor = (theta - start) / N
        cavity = theta - factor
        mean, variance = cavity[:2] / cavity[2:], 1 / cavity[2:]
        total = X[n] ** 2 @ variance + 2.0
        new_mean = mean + variance * X[n] * (y[n] - X[n] @ mean) / total
        new_variance = variance - variance**2 * X[n] ** 2 / total
        message = np.concatenate([new_mean / new_variance - mean / variance, 1 / new_variance - 1 / variance])
        message *= min(1.0, C / np.linalg.norm(message))
        theta = theta + gamma / N * (message - factor) + sigma * 2 * gamma * C / N * noise[step]
        factor = (theta - start) / N
        theta = start + N * factor * min(1.0, C / np.linalg.norm(factor))
    np.testing.assert_allclose(release.natural, theta, rtol=2e-4)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("damping", [0.5, 7.0, {"kind": "polynomial", "initial": 9.0, "offset": 2.0, "power": 1.0}])
def test_step_and_noise_come_from_one_gamma(spec, relation, damping):
    algorithm = spec(30, "poisson", damping=damping, clip=0.7, relation=relation.value).algorithm
    clips = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    sensitivity = gains(algorithm) * algorithm.sensitivity(relation)
    np.testing.assert_allclose(sensitivity, clips * algorithm.schedule("damping").values(6) * 0.7 / 30, rtol=1e-12)
    np.testing.assert_allclose(gains(algorithm) * algorithm.sum_noise / sensitivity, 2.0, rtol=1e-12)


def test_a_run_adds_the_noise_it_states(spec, rows):
    """One full round of a Gaussian likelihood: what noise added, over 300 runs, has the stated deviation.

    900 independent coordinates; a chi-square test with false alarms below 1e-6.
    """
    site = GaussianSite(diagonal=True)
    described = spec(21, "full", steps=1, damping=7.0, clip=0.5)
    asked = Messages(site, Prior(40.0), Refinement(), 2)
    state = executed(asked, described.algorithm, rows, np.zeros(1))
    centre = np.asarray(state.prior) + np.asarray(state.messages)
    runs = [
        run_message_passing(described, site, *rows, SeededRandomness(seed), prior=Prior(40.0), refinement=Refinement())
        for seed in range(225)
    ]
    assert all(run.repairs.rounds == 0 for run in runs)
    noise = (
        np.array([run.natural - centre for run in runs]).ravel()
        / (gains(described.algorithm) * described.algorithm.sum_noise)[0]
    )
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    assert low < np.sum(noise**2) < high


def test_poisson_rounds_subtract_the_public_batch_size_not_the_realised_one(spec, line):
    """Where every record contributes 0, the messages shrink by the public share of each round, whatever was drawn."""
    rows = np.zeros((21, 2)), np.zeros(21)
    algorithm = spec(21, "poisson").algorithm
    asked = Messages(line, Prior(1.0), Refinement(start_scale=1.0), 2)
    with in_doubles() as dtype:
        run = Run(algorithm, 21, 2, np.zeros(6), SeededRandomness(5), dtype)
        start = np.asarray(asked.first(run).messages)
    kept = (1 - 3.0 / 21 * 4 / 21) ** 6
    moved = executed(asked, algorithm, rows, np.zeros(6), seed=5).messages
    np.testing.assert_allclose(np.asarray(moved), kept * start, rtol=1e-5, atol=1e-7)


def test_all_iterates_end_where_the_posterior_is_and_the_release_holds_the_spec_that_ran(spec, network, rows):
    described = spec(21, "passes", view="all-iterates", steps=11)
    release = released(described, network, rows, REFINEMENTS["natural"])
    assert release.iterates is not None
    assert release.iterates.shape == (11, release.family.size)
    np.testing.assert_array_equal(release.iterates[-1], release.natural)
    assert release.spec is described
    assert Spec.from_json(described.to_json()) == release.spec


def test_an_unknown_precision_is_learned_inside_the_clipped_vector(spec, rows):
    site = NetworkSite(3, GammaPrecision(6.0, 6.0))
    described = spec(21, "full", steps=30, damping=5.0, noise_multiplier=1e-4, clip=50.0)
    release = released(described, site, rows, Refinement(CentredCoordinates(0.1), start_scale=0.5))
    assert release.family.size == site.family(2).size == 2 * 13 + 2
    moments = release.posterior.moments
    assert moments.shape[0] > 6.0
    assert moments.rate[0] != 6.0


def test_bad_rows_and_public_choices_are_refused(spec, network, rows):
    X, y = rows
    for given, message in (
        ((X[:-1], y[:-1]), "to be algorithm.records = 21 under replace-one"),
        ((X[:, 0], y), "features"),
        ((X, y[:-1]), "target"),
        ((X * np.nan, y), "finite"),
    ):
        with pytest.raises(InputError, match=message):
            released(spec(21, "full"), network, given, REFINEMENTS["natural"])
    for build in (
        lambda: Refinement(start_scale=-1.0),
        lambda: CentredCoordinates(0.0),
        lambda: Prior(0.0),
        lambda: Repair(0.0),
    ):
        with pytest.raises(InputError, match="Expected"):
            build()
    with pytest.raises(InputError, match="prior mean"):
        run_message_passing(
            spec(21, "full"), network, *rows, SeededRandomness(0), prior=Prior(1.0, (0.0,)), refinement=Refinement()
        )
