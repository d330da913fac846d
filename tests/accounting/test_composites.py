"""A composite is certified by the best composition of its parts' bounds, quickly, and only up to a size."""

from itertools import product
from typing import Any

import pytest

from sordino.accounting.convert import compose
from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.accounting.theorems.composites import adaptive
from sordino.core.bound import Bound
from sordino.core.guarantee import RenyiDP, TotalVariation
from sordino.core.spec import Spec
from sordino.core.spec.document import MOST_PARTS
from sordino.core.validate import InputError

DELTA = 1e-5


def chain(scale: float = 400.0, steps: int = 100, scheme: str = "full", **problem: Any) -> dict[str, Any]:
    return {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": steps,
            "step_size": 1.0,
            "noise": {"kind": "gaussian", "scale": scale},
            "batch": {"scheme": scheme, "size": None if scheme == "full" else 10},
        },
        "problem": {"n": 1000, "dim": 1, "gradient_sensitivity": 2.0, "strong_convexity": 0.5, "smoothness": 0.5}
        | problem,
    }


def composite(*parts: dict[str, Any]) -> Spec:
    run = {"algorithm": {"kind": "composite", "parts": list(parts)}, "relation": "replace-one", "view": "last-iterate"}
    return Spec.from_dict({**run, "delta": DELTA})


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
    together = explain(composite(*[QUIET] * 4), DELTA).epsilon
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
    spec = composite(*parts)
    options = [
        [
            answer.guarantee
            for answer in (evaluate(found, part) for found in theorems())
            if isinstance(answer, Bound) and not isinstance(answer.guarantee, RenyiDP)
        ]
        for part in spec.runs()
    ]
    best = min(compose([(one, 1) for one in choice]).epsilon(DELTA) for choice in product(*options))
    # Brackets of loss distributions are a part in 10^3 wide.
    assert explain(spec, DELTA).epsilon <= best * (1 + 2e-3)


def test_a_part_with_curves_only_still_composes() -> None:
    """Reshuffled passes of all iterates beside a chain: nothing but the same numbers in another order."""
    first, second = chain(scale=5.0, scheme="reshuffled"), chain(scale=3.0)
    forward, backward = (explain(composite(*parts), DELTA).epsilon for parts in ((first, second), (second, first)))
    assert forward == backward < float("inf")


def test_more_parts_than_the_most_are_refused_with_their_number() -> None:
    with pytest.raises(
        InputError, match=rf"algorithm\.parts to have at most {MOST_PARTS} entries, got {MOST_PARTS + 1}"
    ):
        composite(*[QUIET] * (MOST_PARTS + 1))


def test_a_part_without_a_bound_is_named() -> None:
    answer = evaluate(adaptive, composite(QUIET, QUIET, chain(gradient_sensitivity=None)))
    assert not isinstance(answer, Bound)
    assert "part 2 has none" in answer.reason
