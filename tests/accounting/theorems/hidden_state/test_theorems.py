"""The hidden-state theorems on specs: their references, the worst position, what they refuse, the truth."""

from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose

from sordino.accounting.evaluate import Theorem, evaluate, theorems
from sordino.core.bound import Bound, Inapplicable
from sordino.core.guarantee import ORDERS, RenyiDP
from sordino.core.spec import Spec, read_spec
from tests.accounting.described import noisy_chain

EXAMPLES = Path(__file__).parents[4] / "examples" / "specs"
HIDDEN = {theorem.id: theorem for theorem in theorems() if theorem.id.startswith("hidden-state.")}


def curve(theorem: Theorem, spec: Spec) -> RenyiDP:
    answer = evaluate(theorem, spec)
    assert isinstance(answer, Bound), answer
    assert isinstance(answer.guarantee, RenyiDP)
    assert answer.guarantee.orders == ORDERS
    return answer.guarantee


def chain(scheme: str, steps: int, n: int = 4, **values: Any) -> Spec:
    """A chain with contraction 0.8, kappa 0.5 / b and noise 1."""
    problem = {"n": n, "gradient_sensitivity": 2.5, "strong_convexity": 1.0, "smoothness": 2.0}
    batch = {"scheme": scheme, "size": None if scheme == "full" else 1}
    return noisy_chain(steps, 0.2, 1.0, batch, problem).with_values(values)


@pytest.mark.parametrize(
    ("name", "example", "order", "value"),
    [
        ("fixed", "cyclic-last-iterate", 2.0, 2 * 0.04014),
        ("fixed", "shuffle-once-last-iterate", 2.0, 2 * 0.04014),
        ("shuffle-once", "shuffle-once-last-iterate", 10.0, 0.2744),
    ],
)
def test_reference_values_from_the_example_specs(name: str, example: str, order: float, value: float) -> None:
    """The examples are the reference setting: c = 0.98, kappa = 0.2, ten batches, 100 passes."""
    found = curve(HIDDEN[f"hidden-state.{name}"], read_spec(EXAMPLES / f"{example}.json"))
    assert_allclose(found.at(order), value, rtol=2e-4)


def test_balle_takes_the_step_that_theorem_3_3_excludes() -> None:
    """At eta = 2 / (m + M) exactly: Theorem 3.3 asks for less, Balle et al. do not."""
    spec = chain("cyclic", 8, **{"algorithm.step_size": 0.25, "problem.smoothness": 7.0})
    assert isinstance(evaluate(HIDDEN["hidden-state.fixed"], spec), Inapplicable)
    assert isinstance(evaluate(HIDDEN["hidden-state.balle"], spec), Bound)
