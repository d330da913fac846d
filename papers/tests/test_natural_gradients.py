"""Natural gradients in rounds: exact derivatives, bounded contributions, and noise of the stated size."""

import numpy as np
import pytest

from papers.round_words import rounds
from papers.vinaroz_park.natural_gradients import NaturalRule, SkipNetwork, hidden_units, run_natural_gradients
from sordino import InputError, Relation, View
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.mechanisms import SeededRandomness

NETWORK = SkipNetwork(3, start_scale=0.7)


def _spec(records: int, *, steps: int = 1, clip: float = 0.5, multiplier: float = 1e-9, relation=Relation.REPLACE_ONE):
    algorithm = rounds(
        "variational",
        relation,
        records=records,
        steps=steps,
        sampling=Scheme.FULL,
        clip=clip,
        noise_multiplier=ConstantSchedule(multiplier),
        step_size=ConstantSchedule(0.2),
    )
    return Spec(algorithm=algorithm, relation=relation, view=View.POSTERIOR_PARAMETERS)


def test_derivatives_are_those_of_the_output():
    rng = np.random.default_rng(0)
    theta, rows = NETWORK.start(4, rng), rng.normal(size=(6, 4)).astype(np.float32)
    theta[-5:] = 0.3
    predicted, found = NETWORK.derivatives(theta, rows)
    np.testing.assert_allclose(predicted, NETWORK.predict(theta, rows), rtol=1e-5)
    step = 1e-2
    for place in range(NETWORK.size(4)):
        moved = np.zeros_like(theta)
        moved[place] = step
        slope = (NETWORK.predict(theta + moved, rows) - NETWORK.predict(theta - moved, rows)) / (2 * step)
        np.testing.assert_allclose(found[:, place], slope, atol=2e-3)


@pytest.mark.parametrize(("relation", "clips"), [(Relation.REPLACE_ONE, 2.0), (Relation.ADD_REMOVE, 1.0)])
def test_one_round_moves_by_noise_of_the_stated_size(relation, clips):
    """600 seeds, no gradient: standard deviations to 15 %, five standard errors of one of 8 parameters (1e-5)."""
    network = SkipNetwork(1, start_scale=0.0, output_scale=0.0)
    X, y = np.zeros((50, 1)), np.zeros(50)
    rule = NaturalRule(momentum=0.0, damping=1.0, reference_rows=2)
    spec = _spec(50, multiplier=3.0, relation=relation)
    moved = [run_natural_gradients(spec, network, X, y, SeededRandomness(k), rule=rule).theta for k in range(600)]
    # Hidden weights move nothing at the start, so the metric there is the damping alone: 1.
    expected = 0.2 * 3.0 * clips * 0.5 / 50
    np.testing.assert_allclose(np.std(moved, axis=0)[:2], expected, rtol=0.15)


def test_without_noise_it_fits_what_a_line_cannot():
    X = np.random.default_rng(2).normal(size=(800, 2))
    y = np.tanh(2.0 * X[:, 0]) * 0.8 - np.tanh(X[:, 1])
    rule = NaturalRule(momentum=0.5, damping=0.01)
    found = run_natural_gradients(
        _spec(800, steps=150, clip=2.0), SkipNetwork(8), X, y, SeededRandomness(0), rule=rule
    ).predict(X)
    line = np.column_stack([X, np.ones(800)])
    left = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    assert np.std(y - found) < 0.4 * np.std(left)


def test_absurd_noise_ends_in_finite_numbers():
    X, y = np.ones((20, 2)), np.ones(20)
    found = run_natural_gradients(
        _spec(20, steps=30, multiplier=1e8), NETWORK, X, y, SeededRandomness(0), rule=NaturalRule()
    )
    assert np.isfinite(found.theta).all()
    assert np.isfinite(found.predict(X)).all()


def test_hidden_units_fit_the_number_of_parameters():
    for parameters in (30, 57, 200):
        units = hidden_units(parameters, 5)
        assert SkipNetwork(units).size(5) <= parameters < SkipNetwork(units + 1).size(5)
    assert hidden_units(1.0, 5) == 1


def test_batches_and_other_numbers_of_rows_are_refused():
    X, y, spec = np.ones((20, 2)), np.ones(20), _spec(20)
    batches = spec.with_values({"algorithm.sampling": {"scheme": "poisson", "size": 5}})
    for wrong, rows in ((batches, 20), (spec, 19)):
        with pytest.raises(InputError):
            run_natural_gradients(wrong, NETWORK, X[:rows], y[:rows], SeededRandomness(0), rule=NaturalRule())
