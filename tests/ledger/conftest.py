"""Releases whose privacy loss is known exactly, and a ledger to charge them to."""

from dataclasses import replace

import pytest

from sordino import Ledger, Spec
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound
from sordino.core.guarantee import Guarantee

RECORDS = 1000


def make_gaussian_release(mu: float, relation: str = "replace-one") -> tuple[Bound, Spec]:
    """One full-batch step with noise for exactly `mu` (up to rounding), and its bound."""
    chain = {"kind": "noisy-gradient", "steps": 1, "step_size": 1.0, "start": {"kind": "point"}}
    noise = {"kind": "gaussian", "scale": 1.0 / (RECORDS * mu)}
    chain |= {"noise": noise, "batch": {"scheme": "full", "size": RECORDS}}
    problem = {"n": RECORDS, "dim": 2, "gradient_sensitivity": 1.0, "gradient_bound": 1.0}
    run = {"algorithm": chain, "problem": problem, "relation": relation, "view": "all-iterates"}
    spec = Spec.from_dict(run)
    bound = evaluate(theorem_named("composition.gaussian"), spec)
    assert isinstance(bound, Bound)
    return bound, spec


def make_release_with(guarantee: Guarantee) -> tuple[Bound, Spec]:
    """A release with any guarantee; its spec does not say how it came about."""
    bound, spec = make_gaussian_release(0.1)
    return replace(bound, guarantee=guarantee, theorem="declared.by-hand"), spec


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


@pytest.fixture
def ledger(path):
    return Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)


@pytest.fixture(scope="session")
def gaussian_release():
    return make_gaussian_release


@pytest.fixture(scope="session")
def release_with():
    return make_release_with
