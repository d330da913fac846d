"""Fleets on a dataset and its neighbours come out as the canonical chain, any part of them the same bit for bit."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papers.heller_fetaya.fleet import FanInStart, FleetRecords, Members, Replacement, train_fleet
from papers.heller_fetaya.lenet import scores_of
from sordino import InputError
from sordino.auditing import fleet as engine
from sordino.auditing.fleet import FleetPlan
from sordino.core.spec import Batch, Scheme
from sordino.models.families.networks import MLPClassification

gaussians = jax.jit(engine.gaussians, static_argnums=2)
MODEL = MLPClassification((5,), classes=3, weight_decay=0.1)
N, FEATURES = 10, 4
PLAN = FleetPlan(0.3, 0.05, Batch(Scheme.RESHUFFLED, 4), 3, seed=5, clip_norm=1.0, start=FanInStart())
EVERYONE = Members(tuple(range(70)), tuple(number % 2 == 1 for number in range(70)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scores:
    """Every output of the network at every point, flattened."""

    points: jax.Array

    def __call__(self, network, parts):
        scores = scores_of(network, parts, self.points)
        return scores.reshape(scores.shape[0], -1)


def _records(row: int | None = 3) -> FleetRecords:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(N, FEATURES)), generator.integers(0, 3, N)
    if row is None:
        return FleetRecords(X, y)
    return FleetRecords(X, y, (Replacement(row, -2.0 * np.ones(FEATURES), 2.0),))


RECORDS = _records()
PROBES = {"scores": Scores(jnp.asarray(RECORDS.features[:2]))}


@pytest.fixture(scope="module")
def everyone():
    return train_fleet(MODEL, RECORDS, PLAN, EVERYONE, PROBES)


def test_any_subset_comes_out_the_same_bit_for_bit(everyone) -> None:
    chosen = [68, 3, 12]
    members = Members(tuple(chosen), tuple(EVERYONE.neighbour[number] for number in chosen))
    found = train_fleet(MODEL, RECORDS, PLAN, members, PROBES)
    assert np.array_equal(found.theta, everyone.theta[chosen])
    assert np.array_equal(found.readings["scores"], everyone.readings["scores"][:, chosen])


def test_models_of_several_neighbours_in_one_fleet_come_out_as_in_fleets_of_their_own() -> None:
    others = tuple(Replacement(row, np.full(FEATURES, float(row), np.float32), 1.0) for row in (3, 7, 3))
    together = FleetRecords(RECORDS.features, RECORDS.target, others)
    which = (0, 1, 2, 3, 2, 0)
    found = train_fleet(MODEL, together, PLAN, Members(tuple(range(6)), which), PROBES)
    for number, place in enumerate(which):
        alone = FleetRecords(RECORDS.features, RECORDS.target, others[place - 1 : place])
        member = Members((number,), (int(place > 0),))
        assert np.array_equal(found.theta[number], train_fleet(MODEL, alone, PLAN, member, PROBES).theta[0])
    with pytest.raises(InputError, match="neighbour"):
        train_fleet(MODEL, together, PLAN, Members((0,), (4,)), PROBES)


def test_a_watched_fleet_ends_when_it_is_told_to_with_the_numbers_of_a_shorter_one(everyone) -> None:
    told: list[tuple[int, tuple[int, ...]]] = []

    def watch(epoch: int, readings) -> bool:
        told.append((epoch, readings["scores"].shape))
        return epoch < 2

    watched = train_fleet(MODEL, RECORDS, PLAN, EVERYONE, PROBES, watch=watch)
    assert told == [(1, (70, 6)), (2, (70, 6))]
    assert np.array_equal(watched.readings["scores"], everyone.readings["scores"][:2])
    shorter = train_fleet(MODEL, RECORDS, replace(PLAN, epochs=2), EVERYONE, PROBES)
    assert np.array_equal(watched.theta, shorter.theta)
