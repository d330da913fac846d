"""A composite is certified by the best composition of its parts' bounds, quickly, and only up to a size."""

import math
from itertools import product
from typing import Any

import pytest

from sordino import InputError, Spec
from sordino.accounting.convert import bounded_renyi, compose, to_renyi
from sordino.accounting.evaluate import bounds_of, explain
from sordino.accounting.theorems.composites import adaptive
from sordino.core.guarantee import ORDERS, LossDistribution, RenyiDP, TotalVariation
from sordino.core.loss.atomic_pairs import LaplacePair, PoissonLaplacePair, ResponsePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.spec.document import MOST_PARTS
from tests.accounting.described import composite, curved, noisy_chain, refusal

DELTA = 1e-5


def chain(scale: float = 400.0, steps: int = 100, scheme: str = "full", **problem: Any) -> dict[str, Any]:
    given = {"n": 1000, "gradient_sensitivity": 2.0, **curved(0.5)} | problem
    batch = {"scheme": scheme, "size": None if scheme == "full" else 10}
    spec = noisy_chain(steps, 1.0, scale, batch, given).to_dict()
    return {"algorithm": spec["algorithm"], "problem": spec["problem"]}


def listed(*parts: dict[str, Any]) -> Spec:
    return composite(*parts, view="last-iterate", delta=DELTA)


def single(part: dict[str, Any], **algorithm: Any) -> Spec:
    run = {**part, "algorithm": part["algorithm"] | algorithm}
    return Spec.from_dict({**run, "relation": "replace-one", "view": "last-iterate", "delta": DELTA})


# A total variation of 8e-6, free at delta 1e-5 by itself, beside a Gaussian bound.
QUIET = chain(scale=200.0)


def test_total_variations_that_are_free_alone_do_not_win_together() -> None:
    alone = explain(single(QUIET), DELTA)
    assert alone.tightest is not None
    assert isinstance(alone.tightest.guarantee, TotalVariation)
    assert 4 * alone.tightest.guarantee.value > DELTA
    together = explain(listed(*[QUIET] * 4), DELTA).epsilon
    # One run of four chains is the same mechanism; the old choice made this infinite.
    assert together == pytest.approx(explain(single(QUIET, chains=4), DELTA).epsilon, rel=1e-9)
    assert 0.0 < together < 0.01


@pytest.mark.parametrize(
    "parts",
    [
        [QUIET, QUIET],
        [QUIET, chain(scale=10.0)],
        [QUIET, chain(scale=2.0, scheme="cyclic"), chain(scale=900.0)],
        [chain(scale=1.0, scheme="without-replacement", steps=5), QUIET],
    ],
)
def test_the_composed_epsilon_is_that_of_the_best_choice(parts: list[dict[str, Any]]) -> None:
    """Every choice of one bound with a dominating pair for each part, by brute force."""
    spec = listed(*parts)
    said = [[one.guarantee for one in bounds_of(part)] for part in spec.runs()]
    options = [[one for one in found if not isinstance(one, RenyiDP)] for found in said]
    best = min(compose([(one, 1) for one in choice]).epsilon(DELTA) for choice in product(*options))
    # Brackets of loss distributions are a part in 10^3 wide.
    assert explain(spec, DELTA).epsilon <= best * (1 + 2e-3)


def test_more_parts_than_the_most_are_refused_with_their_number() -> None:
    with pytest.raises(
        InputError, match=rf"algorithm\.parts to have at most {MOST_PARTS} entries, got {MOST_PARTS + 1}"
    ):
        listed(*[QUIET] * (MOST_PARTS + 1))


def test_a_part_without_a_bound_is_named() -> None:
    assert "part 2 has none" in refusal(adaptive, listed(QUIET, QUIET, chain(gradient_sensitivity=None)))


# Deltas that no loss distribution reaches: Rényi curves of all parts, none of which may fail.

LAPLACE = {"kind": "noised-answer", "repetitions": 10, "query": "a count", "sensitivity": 1.0}
LAPLACE |= {"noise": {"kind": "laplace", "scale": 2.0}}


def clipped(batch: dict[str, Any], n: int) -> dict[str, Any]:
    clipping = {"clipping": {"kind": "norm", "bound": 1.0}}
    problem = {"n": n, "gradient_sensitivity": 2.0, "gradient_bound": 1.0}
    spec = noisy_chain(1000, 1.0, 1.0 / batch["size"], batch, problem, algorithm=clipping).to_dict()
    return {"algorithm": spec["algorithm"], "problem": spec["problem"]}


def epsilon(parts: list[dict[str, Any]], delta: float) -> float:
    return explain(composite(*parts, relation="add-remove", delta=delta), delta).epsilon


@pytest.mark.parametrize(
    ("batch", "n", "delta"),
    [({"scheme": "poisson", "size": 1}, 10**8, 1e-100), ({"scheme": "random-allocation", "size": 100}, 10_000, 1e-12)],
)
def test_a_part_with_a_pure_guarantee_leaves_the_others_their_curves(batch: dict, n: int, delta: float) -> None:
    """Ten answers at epsilon 1/2 add at most 5 to what the chain costs; a loss distribution says thousands, or inf."""
    alone = epsilon([clipped(batch, n)], delta)
    assert alone < epsilon([clipped(batch, n), {"algorithm": LAPLACE}], delta) <= alone + 5.0 + 1e-6


def laplace_renyi(order: float, epsilon: float) -> float:
    """Mironov 2017, Proposition 6."""
    first = order / (2 * order - 1) * math.exp((order - 1) * epsilon)
    return math.log(first + (order - 1) / (2 * order - 1) * math.exp(-order * epsilon)) / (order - 1)


def test_curves_by_the_largest_loss_never_fail_and_are_above() -> None:
    found = bounded_renyi(LossDistribution(((LaplacePair(0.5), 10),)))
    assert found is not None
    assert found.failure == 0.0
    for order, value in zip(ORDERS, found.values, strict=True):
        if order * 0.5 < 600:
            assert 10 * laplace_renyi(order, 0.5) <= value <= 10 * 0.5 * (1 + 1e-9)
    # Randomised response is its own largest loss, and a sampled answer has a smaller one than an answer.
    answer = LossDistribution(((ResponsePair(0.5, 0.0), 3),))
    own = bounded_renyi(answer)
    assert own is not None
    assert own.values == pytest.approx(to_renyi(answer).values, rel=1e-9)
    sampled = bounded_renyi(LossDistribution(((PoissonLaplacePair(0.1, 0.5), 10),)))
    assert sampled is not None
    assert sampled.epsilon(1e-100) < found.epsilon(1e-100) / 5
    assert bounded_renyi(LossDistribution(((GaussianPair(1.0), 1),))) is None
    assert bounded_renyi(LossDistribution(((ResponsePair(0.5, 1e-9), 1),))) is None
