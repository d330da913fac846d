"""Every random spec is answered within seconds, with a bound or a sentence; and runs that once were not."""

import json
from typing import Any

import numpy as np
import pytest

from sordino.core.spec.document import updated
from tests.fuzz.random_specs import EXAMPLES, answered, random_spec


def _check(seed: int, number: int) -> None:
    generator, counts = np.random.default_rng(seed), {True: 0, False: 0, None: 0}
    for place in range(number):
        document = random_spec(generator)
        try:
            counts[answered(document)] += 1
        except Exception as error:
            error.add_note(f"spec {place} of seed {seed}: {json.dumps(document)}")
            raise
    # Enough of them are runs at all, and enough of those have a bound.
    assert counts[True] > number / 5
    assert counts[None] < 0.7 * number


def test_random_specs_are_answered() -> None:
    _check(20260501, 40)


@pytest.mark.slow
def test_many_random_specs_are_answered() -> None:
    _check(20260502, 10_000)


def _changed(name: str, delta: float = 1e-6, **values: Any) -> dict[str, Any]:
    document = json.loads((EXAMPLES / f"{name}.json").read_text()) | {"delta": delta}
    return updated(document, {key.replace("__", "."): value for key, value in values.items()})


# 2,000 laws of mixtures at a delta that only far sketches see, and a record in one of 400 batches of very many.
FALLING_NOISE: dict[str, Any] = {
    "view": "last-iterate",
    "relation": "replace-one",
    "algorithm__steps": 2000,
    "algorithm__step_size": {"kind": "polynomial", "initial": 0.1, "offset": 1335252605.65, "power": 0.55},
    "algorithm__noise__scale": {"kind": "polynomial", "initial": 0.0316, "offset": 0.456, "power": 0.275},
    "algorithm__batch": {"scheme": "truncated-poisson", "size": 100},
    "problem__n": 2_228_283_096,
}
VERY_LONG: dict[str, Any] = {
    "algorithm__steps": 774_901_974_117_263,
    "algorithm__batch__size": 200_376_725_316,
    "algorithm__step_size": 1.6e-26,
    "algorithm__noise__scale": 3.7e-4,
    "problem": {
        "n": 88_209_586_013_061,
        "dim": 510_042,
        "gradient_sensitivity": 5.4e-3,
        "strong_convexity": 1.3e-11,
        "smoothness": 7.8e12,
    },
}


@pytest.mark.parametrize(
    "document",
    [
        _changed(
            "noised-sums-random-allocation",
            relation="add-remove",
            algorithm__noise_multiplier=1.1,
            algorithm__records=1_000_000,
            algorithm__rounds=3906,
            algorithm__sampling__size=256,
        ),
        _changed("noised-sums-random-allocation", algorithm__records=30_000, algorithm__rounds=600),
        _changed(
            "average-gaussian",
            algorithm__keep={"burn_in": 0, "thin": 1000},
            algorithm__steps=100_000,
            problem__smoothness=5.0,
            algorithm__step_size=1.0,
        ),
        _changed("truncated-poisson", algorithm__noise__scale=1e-6),
        _changed("average-poisson", average__noise={"kind": "laplace", "scale": 1e-9}),
        _changed("posterior-rejection-bounded", algorithm__potential__lipschitz=0),
        _changed("posterior-metropolis", algorithm__potential__lipschitz=0),
        _changed("posterior-metropolis", algorithm__drawn__oscillation=1e4),
        _changed("gaussian-answer", algorithm__noise={"kind": "gaussian", "scale": 1e305}),
        _changed("kept-draws-poisson", delta=1e-100),
        _changed(
            "banded-sampled-groups",
            delta=1e-9,
            algorithm__participation={"scheme": "poisson", "separation": 4, "rate": 0.04, "cap": 20, "units": 250},
        ),
        _changed("heavy-tail-without-replacement", delta=0.7, algorithm__noise__scale=3e-9),
        pytest.param(_changed("heavy-tail-poisson", delta=2.6e-26, algorithm__batch__size=24), marks=pytest.mark.slow),
        _changed("truncated-poisson", delta=1.8e-23, problem__n=30_753_171_713_950),
        pytest.param(
            _changed("truncated-poisson-replace-one", delta=5.1e-24, problem__n=7_231_592_460_417),
            marks=pytest.mark.slow,
        ),
        _changed("banded-random-allocation", algorithm__steps=10_000_000),
        _changed("noised-sums-random-allocation", algorithm__rounds=771_114, algorithm__noise_multiplier=3.5e10),
        pytest.param(_changed("truncated-poisson", delta=7.8e-19, **FALLING_NOISE), marks=pytest.mark.slow),
        pytest.param(_changed("without-replacement-last-iterate", delta=0.005, **VERY_LONG), marks=pytest.mark.slow),
        _changed(
            "sparse-vector",
            delta=9e-10,
            algorithm__repetitions=333_128_205_691_204,
            algorithm__sensitivity=1.44e-14,
            algorithm__positives=18,
            algorithm__threshold_scale=2.43e-4,
            algorithm__query_scale=2e14,
            algorithm__answer_scale=1.6e8,
        ),
        pytest.param(_changed("blt-balls-in-bins", algorithm__steps=10_000_000), marks=pytest.mark.slow),
        # A pass of 80 billion batches, of which few are steps.
        _changed(
            "cyclic-decaying-partial",
            problem__n=2_000_000_000_000,
            algorithm__batch={"scheme": "reshuffled", "size": 25},
        ),
    ],
    ids=lambda document: document["algorithm"]["kind"],
)
def test_runs_that_once_failed_or_took_minutes(document: dict[str, Any]) -> None:
    assert answered(document) is not None
