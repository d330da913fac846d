"""dp-accounting's events and loss distributions in, ours out; its traps avoided (theory.md section 9)."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from sordino.accounting.dp_accounting_adapter import from_dp_accounting, guarantee_from_event, to_dp_accounting
from sordino.core.bound import Relation
from sordino.core.validate import InputError

DELTA = 1e-5
GAUSSIAN = dp_accounting.GaussianDpEvent(1.0)
GOLDEN = dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(0.01, GAUSSIAN), 1000)


@pytest.mark.parametrize(
    ("event", "relation", "expected"),
    [
        (GAUSSIAN, Relation.ADD_REMOVE, 4.3772),
        (GAUSSIAN, Relation.REPLACE_ONE, 9.9973),  # the Rényi accountant's trap: 4.73 there
        (GOLDEN, Relation.ADD_REMOVE, 1.8282),
        (GOLDEN, Relation.REPLACE_ONE, 2.8434),
        (dp_accounting.NoOpDpEvent(), Relation.ADD_REMOVE, 0.0),
    ],
)
def test_events_give_the_golden_values(event, relation, expected):
    epsilon = guarantee_from_event(event, relation).epsilon(DELTA)
    assert expected - 1e-4 <= epsilon <= expected * 1.001 + 1e-4


EVENTS = {
    "gaussian": GAUSSIAN,
    "laplace": dp_accounting.LaplaceDpEvent(2.0),
    "poisson": dp_accounting.PoissonSampledDpEvent(0.2, GAUSSIAN),
    "without-replacement": dp_accounting.SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN),
}


@pytest.mark.parametrize("name", EVENTS)
def test_self_composition_equals_a_list(name):
    event = EVENTS[name]
    many = guarantee_from_event(dp_accounting.SelfComposedDpEvent(event, 5), Relation.REPLACE_ONE)
    listed = guarantee_from_event(dp_accounting.ComposedDpEvent([event] * 5), Relation.REPLACE_ONE)
    assert many == listed
    assert many.epsilon(DELTA) > guarantee_from_event(event, Relation.REPLACE_ONE).epsilon(DELTA)


def test_without_replacement_has_no_add_remove_guarantee():
    with pytest.raises(InputError, match="replace-one"):
        guarantee_from_event(EVENTS["without-replacement"], Relation.ADD_REMOVE)


@pytest.mark.parametrize("event", [dp_accounting.NonPrivateDpEvent(), dp_accounting.GaussianDpEvent(0.0)])
def test_events_without_a_guarantee_are_refused(event):
    with pytest.raises(InputError):
        guarantee_from_event(event, Relation.ADD_REMOVE)


def test_a_foreign_distribution_comes_in_no_smaller_and_not_much_larger():
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, value_discretization_interval=1e-3, sampling_prob=0.1
    ).self_compose(20)
    ours = from_dp_accounting(theirs)
    for epsilon in np.linspace(0.0, 4.0, 23):
        exact = theirs.get_delta_for_epsilon(float(epsilon))
        assert ours.delta(float(epsilon)) >= exact * (1 - 1e-12)
    assert ours.epsilon(DELTA) <= theirs.get_epsilon_for_delta(DELTA) * 1.01


@pytest.mark.parametrize("name", ["laplace", "poisson"])
def test_our_distribution_goes_out_pessimistically(name):
    ours = guarantee_from_event(dp_accounting.SelfComposedDpEvent(EVENTS[name], 8), Relation.ADD_REMOVE)
    theirs = to_dp_accounting(ours, spacing=1e-3)
    low, high = ours.epsilon_bracket(DELTA).low, ours.epsilon_bracket(DELTA).high
    assert low <= theirs.get_epsilon_for_delta(DELTA) <= high * 1.01
    assert theirs.get_delta_for_epsilon(0.0) >= ours.delta_bracket(0.0).low
