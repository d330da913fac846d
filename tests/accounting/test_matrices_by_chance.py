"""Matrix mechanisms whose units take part by secret chance: reductions that are exact, and laws listed by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sordino import InputError, Spec
from sordino.accounting.bounds import matrix
from sordino.auditing.methods.exact import findings
from sordino.core.guarantee import RenyiDP
from sordino.core.spec.matrices import Strategy
from tests.accounting.described import described, guarantee, noised_sums
from tests.soundness.compare import violations
from tests.soundness.instances.matrices import cells, patterns
from tests.soundness.registry import draw

BANDED = {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.25]}


def run(participation: dict[str, Any], relation: str = "add-remove", **changes: Any) -> Spec:
    stated = {"steps": 12, "strategy": BANDED, "contribution": 1.0, "noise_multiplier": 2.0, "delta": 1e-5} | changes
    return described("matrix-mechanism", relation, participation=participation, **stated)


RELATIONS = pytest.mark.parametrize("relation", ["add-remove", "replace-one"])


@RELATIONS
def test_capped_groups_are_capped_poisson_steps(relation: str) -> None:
    """3,000 steps in three groups of 1,000 units, 20 a step at most: the steps of composition.truncated-poisson."""
    participation = {"scheme": "poisson", "separation": 3, "rate": 0.01, "cap": 20, "units": 1000}
    spec = run(participation, relation, steps=3000, noise_multiplier=math.sqrt(1.3125))
    batch = {"scheme": "truncated-poisson", "size": 10, "rate": 0.01, "cap": 20}
    chain = noised_sums(1000, 1000, 1.0, batch, relation=relation, delta=1e-5)
    for matrices, batches in (("matrix.sampled", "truncated-poisson"), ("matrix.renyi", "truncated-poisson-renyi")):
        found = guarantee(matrices, spec).epsilon(1e-5)
        assert found == pytest.approx(guarantee(f"composition.{batches}", chain).epsilon(1e-5), rel=2e-3)
        open_end = spec.with_values({"algorithm.participation.cap": None, "algorithm.participation.units": None})
        assert found > guarantee(matrices, open_end).epsilon(1e-5)


def test_a_unit_that_takes_the_place_of_another_moves_twice() -> None:
    """Listed laws of two units and one place a step: no theorem is below, and capped as if open some would be."""
    drawn = [draw("matrix-capped", seed) for seed in (4, 5, 6)]
    assert [str(one) for each in drawn for one in violations(each)] == []
    key = "algorithm.participation"
    uncapped = [replace(each, spec=each.spec.with_values({f"{key}.cap": None, f"{key}.units": None})) for each in drawn]
    below = {one.theorem for each in uncapped for one in violations(each)}
    assert below == {"matrix.gaussian", "matrix.renyi", "matrix.sampled"}


def test_steps_that_share_rows_need_more_noise() -> None:
    """At every step, and in groups of two turns that overlap: three and two parts of the noise."""
    found = [
        matrix.sampled_steps(run({"scheme": "poisson", "separation": every, "rate": 0.1}).algorithm)[0]  # pyright: ignore
        for every in (1, 2, 3, 4)
    ]
    assert [round(move**2 / 1.3125, 6) for move in found] == [3.0, 2.0, 1.0, 1.0]


@RELATIONS
@pytest.mark.parametrize(
    "participation",
    [
        {"scheme": "poisson", "rate": 0.3},
        {"scheme": "min-separation", "separation": 2, "rate": 0.5},
        {"scheme": "balls-in-bins", "separation": 2},
        {"scheme": "random-allocation", "separation": 2},
    ],
)
def test_no_bound_is_below_adaptive_contributions(participation: dict[str, Any], relation: str) -> None:
    """Two rows, a contribution to the second that follows the sign of the first; both directions, on a fine grid."""
    name = "matrix.sampled" if "rate" in participation else "matrix.allocated"
    spec = run(participation, relation, steps=2, strategy=BANDED | {"coefficients": [1.0, 0.5]})
    bound, curve = guarantee(name, spec), guarantee("matrix.renyi", spec)
    z = np.linspace(-9, 9, 301)
    weights = np.multiply.outer(*[np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()] * 2)
    first, second = np.meshgrid(z, z, indexing="ij")
    for early, late in ((1.0, 1.0), (1.0, np.sign(first)), (-1.0, -np.sign(first))):
        ratios = []
        for sign in (1.0, -1.0):
            total = np.zeros_like(first)
            for chance, uses in patterns(participation, 2):
                one = sign * early * (0 in uses) / 2
                other = sign * (0.5 * early * (0 in uses) + late * (1 in uses)) / 2
                total += chance * np.exp(one * first - one**2 / 2 + other * second - other**2 / 2)
            ratios.append(total)
        base = 1.0 if relation == "add-remove" else ratios[1]
        for epsilon in (0.0, 0.3, 1.0):
            y = math.exp(epsilon)
            told = max(
                (weights * np.maximum(ratios[0] - y * base, 0)).sum(),
                (weights * np.maximum(base - y * ratios[0], 0)).sum(),
            )
            assert told <= bound.delta(epsilon) * (1 + 1e-4)
            assert told <= curve.delta(epsilon)


def test_without_shared_moves_it_would_be_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: places that share rows are not hidden as if they shared none."""
    spec = run({"scheme": "balls-in-bins", "separation": 4}, steps=4, strategy=BANDED | {"coefficients": [1.0] * 4})
    rows = np.tril(np.ones((4, 4))) / 2
    listed = patterns({"scheme": "balls-in-bins", "separation": 4}, 4)
    own, none = (cells(rows, one, np.ones(4)) for one in (listed, [(1.0, ())]))
    truth = float(np.maximum(own - none, 0).sum())
    assert truth <= guarantee("matrix.allocated", spec).delta(0.0)
    monkeypatch.setattr(matrix, "_own_products", lambda moves, length, *_: np.eye(1, length)[0] * (moves @ moves))
    assert guarantee("matrix.allocated", spec.with_values({"algorithm.contribution": 2.0})).delta(0.0) < truth


@RELATIONS
@pytest.mark.parametrize(
    ("participation", "name", "share"),
    [
        ({"scheme": "poisson", "separation": 4, "rate": 0.1}, "matrix.sampled", 0.99),
        ({"scheme": "poisson", "rate": 0.1}, "matrix.sampled", 0.05),
        ({"scheme": "min-separation", "separation": 4, "rate": 0.1}, "matrix.sampled", 0.05),
        ({"scheme": "balls-in-bins", "separation": 12}, "matrix.allocated", 0.3),
        ({"scheme": "random-allocation", "separation": 12}, "matrix.allocated", 0.1),
    ],
)
def test_what_one_unit_shows_is_below(participation: dict[str, Any], name: str, share: float, relation: str) -> None:
    spec = run(participation, relation, steps=48)
    shown = findings(spec)[0].leak.epsilon(1e-5)
    certified = guarantee(name, spec).epsilon(1e-5)
    assert share * certified * (1 if relation == "add-remove" else 0.3) <= shown <= certified


def test_any_matrix_has_places_and_chance_never_costs() -> None:
    """Toeplitz and the same matrix row by row agree; balls in bins are not worse than a known place."""
    column = np.array([1.0, 0.5, 0.25] + [0.0] * 9)
    rows = [[float(column[i - j]) for j in range(i + 1)] for i in range(12)]
    for participation in (
        {"scheme": "balls-in-bins", "separation": 6},
        {"scheme": "random-allocation", "separation": 6},
    ):
        found = [
            guarantee("matrix.allocated", run(participation, strategy=strategy)).epsilon(1e-5)
            for strategy in (BANDED, {"kind": "dense", "rows": rows})
        ]
        assert found[1] == pytest.approx(found[0], rel=1e-3)
        assert found[0] < guarantee("matrix.gaussian", run(participation)).epsilon(1e-5)


@RELATIONS
@pytest.mark.parametrize(
    "participation",
    [
        {"scheme": "poisson", "separation": 4, "rate": 0.1},
        {"scheme": "balls-in-bins", "separation": 24},
        {"scheme": "random-allocation", "separation": 24},
    ],
)
def test_no_delta_is_too_small(participation: dict[str, Any], relation: str) -> None:
    """Finite and growing down to 1e-300, above the loss distribution where that answers, below a known place."""
    spec = run(participation, relation, steps=96)
    curve, known = guarantee("matrix.renyi", spec), guarantee("matrix.gaussian", spec)
    loss = guarantee("matrix.sampled" if "rate" in participation else "matrix.allocated", spec)
    assert loss.epsilon(1e-6) < curve.epsilon(1e-6) < 2.5 * loss.epsilon(1e-6)
    found = [curve.epsilon(delta) for delta in (1e-6, 1e-14, 1e-300)]
    assert found == sorted(found)
    assert found[1] < known.epsilon(1e-14)
    assert math.isfinite(found[-1])


def test_at_the_largest_order_nothing_is_hidden() -> None:
    """There the curve is that of a known place, the first column of prefix sums: order mu^2 / 2, twice that mu."""
    strategy = BANDED | {"coefficients": [1.0] * 12}
    for relation, ways in (("add-remove", 1), ("replace-one", 2)):
        spec = run({"scheme": "balls-in-bins", "separation": 12}, relation, strategy=strategy)
        curve = guarantee("matrix.renyi", spec)
        assert isinstance(curve, RenyiDP)
        assert curve.values[-1] == pytest.approx(curve.orders[-1] * 12 * (ways / 2) ** 2 / 2, rel=1e-9)


BAD = [
    ({"scheme": "poisson"}, "participation.rate to be given for poisson participation, got None"),
    ({"scheme": "epochs", "separation": 3, "rate": 0.1}, "rate to be absent for epochs participation, got 0.1"),
    ({"scheme": "balls-in-bins"}, "separation to be given for balls-in-bins participation"),
    ({"scheme": "balls-in-bins", "separation": 6, "cap": 3, "units": 9}, "cap to be absent for balls-in-bins"),
    ({"scheme": "poisson", "rate": 0.1, "cap": 3}, "units to be given with cap"),
    ({"scheme": "poisson", "rate": 0.1, "units": 3}, "cap to be given with units"),
    ({"scheme": "balls-in-bins", "separation": 13}, "separation to be at most the 12 steps, got 13"),
    ({"scheme": "random-allocation", "separation": 4, "uses": 2}, "uses to be absent for random-allocation"),
    ({"scheme": "min-separation", "separation": 4, "rate": 0.1, "uses": 2}, "uses to be absent where a rate decides"),
]


def test_participation_that_contradicts_its_scheme() -> None:
    for participation, sentence in BAD:
        with pytest.raises(InputError) as raised:
            run(participation)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("participation", "steps", "name"),
    [
        ({"scheme": "poisson", "rate": 0.5}, 3, "matrix.sampled"),
        ({"scheme": "random-allocation", "separation": 2}, 4, "matrix.allocated"),
    ],
)
def test_uses_that_share_rows_need_noise_in_parts(
    participation: dict[str, Any], steps: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefix sums, whose columns all overlap: with the noise taken as whole the bound falls below listed patterns."""
    spec = run(participation, steps=steps, strategy=BANDED | {"coefficients": [1.0] * steps})
    rows = np.tril(np.ones((steps, steps))) / 2
    own, none = (cells(rows, one, np.ones(steps)) for one in (patterns(participation, steps), [(1.0, ())]))
    truth = float(np.maximum(own - math.e * none, 0).sum())
    assert truth <= guarantee(name, spec).delta(1.0)
    monkeypatch.setattr(Strategy, "reach", lambda *_: 1)
    assert guarantee(name, spec.with_values({"algorithm.contribution": 2.0})).delta(1.0) < truth
