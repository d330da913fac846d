"""Batch schemes draw what they say. Chi-square tests at level 1e-7 each: below 1e-6 for this file."""

import math
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sordino import InputError, Relation, read_spec, theorems
from sordino.core.spec import Scheme
from sordino.mechanisms import SeededRandomness, run
from sordino.mechanisms.chain.batches import Sampling, batches_for, planned_capacity, uniform_subsets
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.models import JaxModel

LEVEL = 1e-7


def stream(scheme, rows=5, size=2, chains=1, steps=1000, rate=None, seed=0):
    generator = np.random.default_rng(seed)
    return batches_for(scheme, Sampling(rows, size, size / rows if rate is None else rate, chains, steps, generator))


def drawn(batches, steps):
    block = batches.take(steps)
    return [
        [block.records[start : start + count].tolist() for start, count in zip(starts, counts, strict=True)]
        for starts, counts in zip(block.starts, block.counts, strict=True)
    ]


def uniform_over(outcomes, seen):
    counts = np.array([sum(1 for s in seen if s == outcome) for outcome in outcomes])
    assert counts.sum() == len(seen)
    return stats.chisquare(counts).pvalue > LEVEL


def test_cyclic_batches_follow_the_file_order_with_a_partial_last_one():
    assert drawn(stream(Scheme.CYCLIC, chains=3), 5) == [[[0, 1]], [[2, 3]], [[4]], [[0, 1]], [[2, 3]]]


def test_shuffle_once_keeps_one_uniform_order_for_each_chain():
    first, again = stream(Scheme.SHUFFLE_ONCE, 3, 1, 6000), stream(Scheme.SHUFFLE_ONCE, 3, 1, 6000)
    passes = drawn(first, 6)
    assert passes[:3] == passes[3:]
    orders = [tuple(batch[0] for batch in column) for column in zip(*passes[:3], strict=True)]
    assert uniform_over(list(permutations(range(3))), orders)
    assert drawn(again, 6) == passes


def test_reshuffled_passes_are_independent_uniform_orders():
    columns = list(zip(*drawn(stream(Scheme.RESHUFFLED, 3, 1, 3000), 6), strict=True))
    orders = [tuple(batch[0] for batch in column) for column in columns]
    pairs = [first + second for first in permutations(range(3)) for second in permutations(range(3))]
    assert uniform_over(pairs, orders)


@pytest.mark.parametrize(("rows", "size"), [(5, 2), (9, 2), (5, 5)])
def test_subsets_are_uniform_in_both_ways_of_drawing(rows, size):
    seen = uniform_subsets(np.random.default_rng(1), rows, size, 20_000)
    assert np.all(np.diff(np.sort(seen, axis=1), axis=1) > 0)
    outcomes = list(combinations(range(rows), size))
    subsets = [tuple(sorted(map(int, subset))) for subset in seen]
    assert len(outcomes) == 1 or uniform_over(outcomes, subsets)


@pytest.mark.parametrize("rate", [0.02, 0.4, 1.0])
def test_poisson_sizes_are_binomial(rate):
    rows, batches = 200, 20_000
    block = stream(Scheme.POISSON, rows, 10, chains=4, rate=rate).take(batches // 4)
    sizes = block.counts.ravel()
    if rate == 1.0:
        assert np.all(sizes == rows)
        return
    law = stats.binom(rows, rate)
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 13)))
    cells = np.searchsorted(edges, sizes)  # the number of edges below a size
    expected = _cells(law, edges)
    assert stats.chisquare(np.bincount(cells, minlength=len(expected)), expected * batches).pvalue > LEVEL


def _cells(law, edges):
    """Probabilities of size <= edges[0], edges[0] < size <= edges[1], ..., size > edges[-1]."""
    return np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))


def test_poisson_records_enter_independently_and_equally():
    """All 2^3 subsets of three records have their product probabilities."""
    rate = 0.3
    seen = [tuple(batch[0]) for batch in drawn(stream(Scheme.POISSON, 3, 1, rate=rate), 40_000)]
    subsets = [subset for length in range(4) for subset in combinations(range(3), length)]
    expected = [rate ** len(subset) * (1 - rate) ** (3 - len(subset)) for subset in subsets]
    counts = [seen.count(subset) for subset in subsets]
    assert stats.chisquare(counts, np.array(expected) * len(seen)).pvalue > LEVEL


def test_a_tiny_poisson_rate_gives_empty_batches():
    assert drawn(stream(Scheme.POISSON, 100, 1, rate=1e-300), 20) == [[[]]] * 20


@pytest.mark.parametrize("scheme", [scheme for scheme in Scheme if scheme != Scheme.FULL])
@pytest.mark.parametrize("chains", [1, 3])
def test_a_stream_does_not_depend_on_how_it_is_cut(scheme, chains):
    whole = drawn(stream(scheme, 11, 3, chains), 30)
    cut, later = stream(scheme, 11, 3, chains), stream(scheme, 11, 3, chains)
    assert drawn(cut, 7) + drawn(cut, 1) + drawn(cut, 22) == whole
    later.skip(8, 3)
    assert drawn(later, 22) == whole[8:]


def test_planned_capacity_bounds_the_tail_of_the_sizes():
    for mean, rows, batches in [(256.0, 20_000, 10**6), (3.0, 50, 100), (0.01, 10**6, 10)]:
        capacity = planned_capacity(mean, batches)
        assert batches * stats.binom(rows, mean / rows).sf(capacity - 1) < 1e-12
        assert capacity < mean + 12.0 * np.sqrt(mean) + 64.0


def test_a_batch_beyond_the_planned_capacity_loses_no_record(quadratic, monkeypatch):
    """With a plan that is far too small the run gives the same chains: the capacity grows, nothing is dropped."""
    large = replace(quadratic, rows=np.tile(quadratic.rows, (40, 1)), target=np.tile(quadratic.target, 40), size=100)
    spec = large.spec(Scheme.POISSON, 20, 3)
    planned = run(spec, large.model, large.rows, large.target, SeededRandomness(4)).iterates
    monkeypatch.setattr("sordino.mechanisms.chain.batches.planned_capacity", lambda mean, batches: 16)
    overflowing = run(spec, large.model, large.rows, large.target, SeededRandomness(4)).iterates
    np.testing.assert_allclose(overflowing, planned, rtol=1e-5, atol=1e-6)


def test_without_replacement_refuses_a_batch_larger_than_the_data():
    with pytest.raises(InputError, match="at most the number of rows"):
        stream(Scheme.WITHOUT_REPLACEMENT, rows=2, size=3, rate=0.5)


def test_records_are_allocated_to_the_steps_of_a_round_one_by_one():
    """Nine equally likely pairs of steps for two records, in every round of three; all rounds hold all records."""
    steps = drawn(stream(Scheme.RANDOM_ALLOCATION, rows=2, size=1, chains=1, steps=12_000), 12_000)
    assert uniform_over([(0, 0), (0, 1), (1, 0), (1, 1)], _places(steps, 2))


def test_a_record_is_used_as_often_as_the_spec_says():
    """Three uses of a round of four, at uniform places; the declared round counts, not the rows there are."""
    sampling = Sampling(1, 1, 0.75, 1, 4000, np.random.default_rng(3), round=4, uses=3)
    batches = batches_for(Scheme.RANDOM_ALLOCATION, sampling)
    used = [tuple(k for k in range(4) if block[k][0]) for block in _chunks(drawn(batches, 4000), 4)]
    assert uniform_over(list(combinations(range(4), 3)), used)


def _chunks(listed, length):
    return [listed[first : first + length] for first in range(0, len(listed), length)]


def _places(steps, length):
    rounds = _chunks([step[0] for step in steps], length)
    return [tuple(next(k for k, batch in enumerate(one) if record in batch) for record in (0, 1)) for one in rounds]


def test_records_drawn_with_replacement_are_uniform_and_may_repeat():
    seen = [tuple(batch[0]) for batch in drawn(stream(Scheme.WITH_REPLACEMENT, rows=3, size=2), 9000)]
    assert uniform_over([(i, j) for i in range(3) for j in range(3)], seen)


def test_truncated_batches_refuse_more_records_than_their_certificate_counts():
    """In a larger table batches are full more often, so the certified delta would be too small."""
    spec = read_spec(Path(__file__).parents[3] / "examples" / "specs" / "truncated-poisson.json")
    model = JaxModel(lambda theta, x, y: theta @ theta, spec.dim)
    assert spec.relation is Relation.ADD_REMOVE
    ChainPlan(spec, model).check_rows(spec.n + 1, 3)
    with pytest.raises(InputError, match=f"at most {spec.n + 1}, .* got 'more'"):
        ChainPlan(spec, model).check_rows(spec.n + 2, 3)
    poisson = spec.with_values({"algorithm.batch.scheme": "poisson", "algorithm.batch.cap": None})
    ChainPlan(poisson, model).check_rows(10 * spec.n, 3)
    theorem = next(one for one in theorems() if one.id == "composition.truncated-poisson")
    assert any("full more often" in one.statement and one.concerns(spec) for one in theorem.assumptions)


def test_a_truncated_batch_keeps_the_first_records_of_the_table():
    sampling = Sampling(6, 3, 0.5, 1, 4000, np.random.default_rng(5), cap=4)
    truncated = drawn(batches_for(Scheme.TRUNCATED_POISSON, sampling), 4000)
    whole = drawn(stream(Scheme.POISSON, 6, 3, steps=4000, rate=0.5, seed=5), 4000)
    assert [batch[0] for batch in truncated] == [batch[0][:4] for batch in whole]
    assert any(len(batch[0]) > 4 for batch in whole)


@pytest.mark.parametrize(("separation", "rate"), [(1, 0.2), (4, 0.3), (7, 1.0)])
def test_uses_are_kept_apart_and_every_step_expects_as_many(separation: int, rate: float) -> None:
    """2,000 records, 40 steps: waits of the right length and law, from the first step on (five standard errors)."""
    sampling = Sampling(2000, 1, rate, 1, 40, np.random.default_rng(7), separation=separation)
    batches = drawn(batches_for(Scheme.MIN_SEPARATION, sampling), 40)
    uses = np.zeros((2000, 40), bool)
    for step, batch in enumerate(batches):
        uses[np.asarray(batch[0]), step] = True
    expected = rate / (1 + (separation - 1) * rate)
    assert (np.abs(uses.mean(axis=0) - expected) <= 5 * math.sqrt(expected * (1 - expected) / 2000)).all()
    assert np.concatenate([np.diff(np.flatnonzero(row)) for row in uses]).min() >= separation
    free = np.concatenate([np.diff(np.flatnonzero(row[: 40 - separation])) for row in uses])
    assert (free == separation).mean() >= rate - 5 * math.sqrt(rate * (1 - rate) / len(free))
