"""Private expectation maximisation: plain EM without noise, its noise, and better than the prior."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from sordino import InputError, Spec
from sordino.accounting.evaluate import explain
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.models import GaussianMixture
from sordino.noise.randomness import Purpose, SeededRandomness
from tests.mechanisms.specs import rounds_spec

MODEL = GaussianMixture(weights=(0.3, 0.3, 0.4), spread=0.5)
MEANS = np.array([[2.0, 0.0], [-1.0, 1.5], [-1.0, -1.5]])


def described(records: int, steps: int, **values) -> Spec:
    return rounds_spec("em", records, **{"steps": steps, "clip": 4.0, "components": 3, **values})


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(12)
    which = rng.choice(3, 1000, p=MODEL.weights)
    return MEANS[which] + MODEL.spread * rng.standard_normal((1000, 2))


def plain_em(rows, means, weights, steps, precision):
    for _ in range(steps):
        squared = ((rows[:, None] - means) ** 2).sum(-1)
        shares = special.softmax(np.log(weights) - squared / (2 * MODEL.spread**2), axis=1)
        counts = shares.sum(0)
        means = shares.T @ rows / (counts + precision * MODEL.spread**2)[:, None]
        weights = counts / counts.sum()
    return means, weights


def test_without_noise_it_is_expectation_maximisation(rows):
    options = EmOptions(learn_weights=True, prior_precision=0.5, start_scale=1.0)
    release = run_em(described(len(rows), 15), MODEL, rows, SeededRandomness(3), options=options)
    start = np.asarray(SeededRandomness(3).gaussians(Purpose.START, 0, 1, (3, 2), jnp.float32)[0])
    means, weights = plain_em(rows, start, np.array(MODEL.weights), 15, 0.5)
    assert release.means == pytest.approx(means, abs=2e-4)
    assert release.weights == pytest.approx(weights, abs=2e-4)


def test_the_noise_left_in_the_sums_is_the_one_that_is_stated():
    """Rows at zero leave the sums with noise alone. 2 x 600 numbers; false-alarm rate about 1e-6."""
    model = GaussianMixture(weights=(0.5, 0.5), spread=1.0)
    spec = described(20, 3, clip=1.0, noise_multiplier=0.01, components=2)
    options = EmOptions(rate=0.5, prior_precision=0.0, start_scale=0.0)
    release = run_em(spec, model, np.zeros((20, 600)), SeededRandomness(1), options=options)
    sums = release.means * release.counts[:, None]
    assert np.std(sums) == pytest.approx(release.mean_noise, rel=4.9 / np.sqrt(2 * sums.size))
    # Weights 1/4, 1/4, 1/2 of three rounds with noise .01 * 2.
    assert release.mean_noise == pytest.approx(0.02 * np.sqrt(1 / 16 + 1 / 16 + 1 / 4), rel=1e-6)


def test_a_private_mixture_is_closer_than_the_prior(rows):
    """Epsilon 5 on 1,000 records; the distance of the prior's means, all zero, is that of the true means."""
    spec = described(len(rows), 10, clip=2.5, noise_multiplier=2.6)
    assert explain(spec, 1e-5).epsilon < 6
    options = EmOptions(start_scale=1.5)
    errors = []
    for seed in range(5):
        release = run_em(spec, MODEL, rows, SeededRandomness(seed), options=options)
        order = [np.linalg.norm(release.means - mean, axis=1).min() for mean in MEANS]
        errors.append(np.sqrt(np.sum(np.square(order))))
        assert (release.posterior.variance > 0.0).all()
    assert np.median(errors) < 0.5 * np.linalg.norm(MEANS)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_sampled_rounds_scale_their_statistics_up(rows, sampling):
    spec = described(len(rows), 60, sampling=sampling, batch=200, view="all-iterates", clip=4.0)
    release = run_em(spec, MODEL, rows, SeededRandomness(3), options=EmOptions(rate=0.2, start_scale=1.5))
    assert release.iterates is not None
    assert release.iterates.shape == (60, 6)
    assert release.counts.sum() == pytest.approx(len(rows), rel=0.1)


def test_the_number_of_components_is_stated_twice_alike(rows):
    with pytest.raises(InputError, match="components"):
        run_em(described(len(rows), 2, components=2), MODEL, rows, SeededRandomness(0), options=EmOptions())
