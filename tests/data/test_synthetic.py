"""Synthetic data: the schema holds by construction, and the truth is the truth.

Statistical tests compare a standardised statistic with 5: a false alarm has probability below 6e-7 each.
"""

import math

import numpy as np
import pytest
from scipy import special

from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.data import encode
from sordino.data.example_tables import (
    GENERATORS,
    contaminated,
    generator,
    linear,
    logistic,
    mixture,
    poisson,
    probit,
    softmax,
)

MANY = 40_000


def rng(seed: int = 20) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("word", sorted(GENERATORS))
@pytest.mark.parametrize("dim", [1, 2, 7])
def test_encoding_under_the_schema_changes_nothing(word, dim):
    drawn = GENERATORS[word](rng(), 5000, dim)
    encoded = encode(drawn.schema, drawn.table, Relation.REPLACE_ONE)
    np.testing.assert_array_equal(encoded.features, drawn.features)
    np.testing.assert_array_equal(encoded.target, drawn.target)
    assert encoded.report.rows_clipped == 0
    assert all(counts.clipped == counts.missing == counts.unseen == 0 for counts in encoded.report.columns.values())
    bound = drawn.schema.feature_norm_certificate()
    assert not bound.reads_private_data
    assert np.linalg.norm(drawn.features, axis=1).max() <= bound.value


@pytest.mark.parametrize("word", sorted(GENERATORS))
def test_the_seed_decides_everything(word):
    first, again, other = (GENERATORS[word](rng(seed), 50, 3) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.target, again.target)
    assert not np.array_equal(first.features, other.features)
    with pytest.raises(TypeError):
        first.truth["theta"] = 0


@pytest.mark.parametrize("word", sorted(GENERATORS))
@pytest.mark.parametrize(("records", "dim"), [(0, 3), (10, 0), (2.5, 3)])
def test_sizes_are_counts(word, records, dim):
    with pytest.raises(InputError, match=r"records|dim"):
        GENERATORS[word](rng(), records, dim)


def test_a_generator_registers_once():
    with pytest.raises(InputError, match="already registered"):
        generator("linear")(linear)


def standardised_score(features, residual, variance) -> np.ndarray:
    """Sum of (1, x) * residual over its standard deviation, per coordinate: standard normal at the truth."""
    design = np.column_stack([np.ones(len(features)), features])
    return (design.T @ residual) / np.sqrt((design**2).T @ variance)


def test_linear_residuals_are_the_noise():
    drawn = linear(rng(), MANY, 4, noise=0.3, signal=2.0)
    theta = drawn.truth["theta"]
    assert np.linalg.norm(theta) == pytest.approx(2.0)
    residual = drawn.target - drawn.features @ theta
    assert np.abs(standardised_score(drawn.features, residual, np.full(MANY, 0.09))).max() < 5
    assert abs(np.mean((residual / 0.3) ** 2) - 1) * math.sqrt(MANY / 2) < 5


@pytest.mark.parametrize(("draw", "link"), [(logistic, special.expit), (probit, special.ndtr)])
def test_binary_labels_follow_their_link(draw, link):
    drawn = draw(rng(), MANY, 4)
    chance = link(drawn.features @ drawn.truth["theta"])
    residual = (drawn.target + 1) / 2 - chance
    assert set(np.unique(drawn.target)) == {-1.0, 1.0}
    assert np.abs(standardised_score(drawn.features, residual, chance * (1 - chance))).max() < 5


def test_the_two_links_differ():
    # The same test must reject the other link, or it could not fail.
    drawn = probit(rng(), MANY, 4)
    chance = special.expit(drawn.features @ drawn.truth["theta"])
    residual = (drawn.target + 1) / 2 - chance
    assert np.abs(standardised_score(drawn.features, residual, chance * (1 - chance))).max() > 5


def test_softmax_codes_follow_their_logits():
    drawn = softmax(rng(), MANY, 3, classes=4)
    chances = special.softmax(drawn.features @ drawn.truth["theta"], axis=1)
    for code in range(4):
        residual = (drawn.target == code) - chances[:, code]
        variance = chances[:, code] * (1 - chances[:, code])
        assert np.abs(standardised_score(drawn.features, residual, variance)).max() < 5


def test_poisson_counts_follow_their_mean():
    drawn = poisson(rng(), MANY, 3)
    mean = np.exp(drawn.features @ drawn.truth["theta"])
    assert np.abs(standardised_score(drawn.features, drawn.target - mean, mean)).max() < 5
    assert drawn.target.max() < drawn.truth["count_bound"]
    with pytest.raises(InputError, match=r"cap \* signal"):
        poisson(rng(), 10, 2, cap=5.0, signal=3.0)


@pytest.mark.parametrize("mean", [1.0, 4.5, 20.0, 148.0, 22026.5])
def test_the_poisson_bound_is_never_felt(mean):
    bound = math.ceil(mean + 10 * math.sqrt(mean) + 30)
    assert special.pdtrc(bound, mean) < 1e-9


def test_mixture_components_have_their_means_and_weights():
    drawn = mixture(rng(), MANY, 2, components=3, spread=0.5)
    means, weights = drawn.truth["means"], drawn.truth["weights"]
    for code in range(3):
        chosen = drawn.target == code
        count = chosen.sum()
        assert abs(count - MANY * weights[code]) / math.sqrt(MANY * weights[code] * (1 - weights[code])) < 5
        error = drawn.features[chosen].mean(axis=0) - means[code]
        assert np.abs(error).max() * math.sqrt(count) / 0.5 < 5
    squares = ((drawn.features - means[drawn.target]) / 0.5) ** 2
    assert abs(squares.mean() - 1) * math.sqrt(squares.size / 2) < 5


def test_contamination_hits_its_fraction_and_nothing_else():
    drawn = contaminated(rng(), MANY, 3, fraction=0.1, noise=0.05)
    gross = drawn.truth["contaminated"]
    assert abs(gross.sum() - 0.1 * MANY) / math.sqrt(MANY * 0.09) < 5
    residual = drawn.target - drawn.features @ drawn.truth["theta"]
    assert abs(np.mean((residual[~gross] / 0.05) ** 2) - 1) * math.sqrt((~gross).sum() / 2) < 5
    assert np.std(residual[gross]) > 5 * 0.05
    with pytest.raises(InputError, match="fraction"):
        contaminated(rng(), 10, 2, fraction=1.0)
