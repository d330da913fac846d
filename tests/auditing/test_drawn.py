"""Lower bounds by simulation of a described law: below the truth, and near it."""

import math

import numpy as np
import pytest

from sordino import audit
from sordino.accounting.bounds.matrix import place_covariance
from sordino.accounting.evaluate import tightest
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods import drawn
from sordino.core.bound import Relation
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.allocation import AllocationPair, replaced_round
from sordino.core.spec import MatrixMechanism, Spec
from sordino.core.validate import InputError

DELTA = 1e-3


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "_DRAWS", 1 << 15)


def described(places: int, epochs: int = 1, relation: str = "add-remove", **participation: object) -> Spec:
    """A banded matrix, balls in bins."""
    algorithm = {
        "kind": "matrix-mechanism",
        "steps": places * epochs,
        "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.25]},
        "contribution": 1.0,
        "noise_multiplier": 1.5,
        "participation": {"scheme": "balls-in-bins", "separation": places} | participation,
    }
    return Spec.from_dict({"algorithm": algorithm, "relation": relation, "view": "all-iterates", "delta": DELTA})


def searched(covariance: np.ndarray, relation: Relation, seed: int, delta: float = DELTA) -> float:
    options = AuditOptions(delta=delta, seed=seed)
    return drawn._searched(covariance, relation, options, np.random.default_rng(seed))[0]


def test_places_without_a_shared_row_are_random_allocation() -> None:
    """The truth is known: the search is below it and reaches nine tenths."""
    exact = LossDistribution(((AllocationPair(20, 20, 0.5), 1),)).epsilon_bracket(DELTA, 1e-3)
    replaced = LossDistribution(((replaced_round(20, 0.5), 1),)).epsilon_bracket(DELTA, 1e-3)
    found = searched(np.eye(20) / 4, Relation.ADD_REMOVE, 3)
    assert 0.9 * exact.low < found <= exact.high
    assert 0.9 * replaced.low < searched(np.eye(20) / 4, Relation.REPLACE_ONE, 3) <= replaced.high


def _two_places(own: float, shared: float, way: str, epsilon: float) -> float:
    """delta by quadrature on a fine grid of the two coordinates; for `replaced` the opposite unit."""
    z = np.linspace(-10, 12, 1201)
    weight = np.exp(-(z[:, None] ** 2 + z[None, :] ** 2) / 2) * (z[1] - z[0]) ** 2 / (2 * math.pi)
    first = math.sqrt(own) * z[:, None]
    second = shared / math.sqrt(own) * z[:, None] + math.sqrt(own - shared**2 / own) * z[None, :]
    shown, opposite = ((np.exp(s * first - own / 2) + np.exp(s * second - own / 2)) / 2 for s in (1, -1))
    p, q = {"removed": (shown, 1.0), "added": (1.0, shown), "replaced": (shown, opposite)}[way]
    return float((np.maximum(p - math.exp(epsilon) * q, 0.0) * weight).sum())


@pytest.mark.parametrize("relation", list(Relation))
def test_places_that_share_rows_agree_with_quadrature(relation: Relation) -> None:
    own, shared = 0.8, 0.5
    ways = ("replaced",) if relation is Relation.REPLACE_ONE else ("removed", "added")
    # False alarms: each search errs with probability at most .05; the bound is far from attained.
    found = [searched(np.array([[own, shared], [shared, own]]), relation, seed) for seed in range(6)]
    assert max(_two_places(own, shared, way, max(found)) for way in ways) >= DELTA
    assert max(_two_places(own, shared, way, min(found) / 0.9) for way in ways) < DELTA


def test_the_covariance_is_that_of_the_uses_of_a_place() -> None:
    spec = described(4, epochs=3)
    run = spec.algorithm
    assert isinstance(run, MatrixMechanism)
    steps = run.steps
    matrix = np.array(
        [[[1.0, 0.5, 0.25][i - j] if 0 <= i - j < 3 else 0.0 for j in range(steps)] for i in range(steps)]
    )
    uses = np.stack([matrix[:, place::4].sum(axis=1) for place in range(4)]) / 1.5
    found = place_covariance(run)
    assert found is not None
    assert np.allclose(found, uses @ uses.T, rtol=1e-12)


def test_an_audit_lies_between_the_exact_one_and_the_certificate() -> None:
    spec = described(30, epochs=2)
    found = audit(spec, method="drawn", seed=1)
    bound = tightest(spec, DELTA)
    assert bound is not None
    assert audit(spec, method="exact").epsilon < found.epsilon < bound.guarantee.epsilon(DELTA)
    assert found.confidence == 0.95
    assert dict(found.counts)["draws"] == 2 * (3 << 14)


def test_rounds_with_a_place_drawn_anew_are_refused() -> None:
    spec = described(4, epochs=3, scheme="random-allocation")
    with pytest.raises(InputError, match="use the method exact"):
        audit(spec, method="drawn", seed=1)
