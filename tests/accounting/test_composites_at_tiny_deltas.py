"""Lists at deltas that no loss distribution reaches: Rényi curves of all parts, none of which may fail."""

import math

import pytest

from sordino.accounting.convert import bounded_renyi, to_renyi
from sordino.accounting.evaluate import explain
from sordino.core.guarantee import ORDERS, LossDistribution
from sordino.core.loss.atomic_pairs import LaplacePair, PoissonLaplacePair, ResponsePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.spec import Spec

LAPLACE = {
    "algorithm": {
        "kind": "noised-answer",
        "repetitions": 10,
        "query": "a count",
        "sensitivity": 1.0,
        "noise": {"kind": "laplace", "scale": 2.0},
    }
}


def chain(batch: dict, n: int) -> dict:
    return {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": 1000,
            "step_size": 1.0,
            "noise": {"kind": "gaussian", "scale": 1.0 / batch["size"]},
            "batch": batch,
            "clipping": {"kind": "norm", "bound": 1.0},
        },
        "problem": {"n": n, "dim": 2, "gradient_sensitivity": 2.0, "gradient_bound": 1.0},
    }


def epsilon(parts: list[dict], delta: float) -> float:
    run = {"kind": "composite", "parts": parts}
    spec = {"algorithm": run, "relation": "add-remove", "view": "all-iterates", "delta": delta}
    return explain(Spec.from_dict(spec), delta).epsilon


@pytest.mark.parametrize(
    ("batch", "n", "delta"),
    [({"scheme": "poisson", "size": 1}, 10**8, 1e-100), ({"scheme": "random-allocation", "size": 100}, 10_000, 1e-12)],
)
def test_a_part_with_a_pure_guarantee_leaves_the_others_their_curves(batch: dict, n: int, delta: float) -> None:
    """Ten answers at epsilon 1/2 add at most 5 to what the chain costs; a loss distribution says thousands, or inf."""
    alone = epsilon([chain(batch, n)], delta)
    both = epsilon([chain(batch, n), LAPLACE], delta)
    assert alone < both <= alone + 5.0 + 1e-6


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
