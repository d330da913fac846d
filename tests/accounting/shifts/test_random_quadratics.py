"""On random quadratics, whose laws are known exactly, no shift theorem reports less than the truth."""

import math
from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate, theorems
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, Quadratics, chain_law

THEOREMS = ("shifted.full", "shifted.cyclic", "composition.kept")


def random_run(generator: np.random.Generator, scheme: str, keep: Any) -> tuple[Spec, Quadratics, Quadratics]:
    """A chain in the plane with curvatures of its own for every record; step sizes may be too large to contract."""
    n, size = int(generator.integers(3, 9)), int(generator.integers(1, 4))
    decay, steps = float(generator.choice([0.0, 0.3])), int(generator.integers(1, 12))
    rotations = np.linalg.qr(generator.standard_normal((n, 2, 2)))[0]
    curvatures = rotations @ (generator.uniform(0.1, 2.0, (n, 2, 1)) * np.swapaxes(rotations, 1, 2))
    curvatures = (curvatures + np.swapaxes(curvatures, 1, 2)) / 2
    pulls = generator.standard_normal((n, 2))
    other, position = pulls.copy(), int(generator.integers(n))
    other[position] += generator.standard_normal(2)
    spectrum = np.linalg.eigvalsh(curvatures)
    step: Any = float(generator.uniform(0.05, 1.4))
    if generator.random() < 0.5:
        step = {"kind": "list", "values": generator.uniform(0.05, 1.4, steps).tolist()}
    scales = generator.uniform(0.3, 1.0, steps).tolist()
    spec = {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": steps,
            "step_size": step,
            "noise": {"kind": "gaussian", "scale": {"kind": "list", "values": scales}},
            "batch": {"scheme": scheme, "size": n if scheme == "full" else size},
            "keep": keep if keep is None or steps > 2 else "all",
        },
        "problem": {
            "n": n,
            "dim": 2,
            # The set of all records is these and the other one: its sensitivity is that of the pair at `position`.
            "gradient_sensitivity": float(np.linalg.norm(other[position] - pulls[position])),
            "strong_convexity": float(spectrum.min()) + decay - 1e-12,
            "smoothness": float(spectrum.max()) + decay + 1e-12,
            "regulariser": {"strong_convexity": decay, "smoothness": decay},
        },
        "relation": "replace-one",
        "view": "last-iterate" if keep is None else "all-iterates",
    }
    return (
        Spec.from_dict(spec),
        Quadratics.from_records(curvatures, pulls, decay),
        Quadratics.from_records(curvatures, other, decay),
    )


def exact_mu(spec: Spec, first: Quadratics, second: Quadratics) -> float:
    """Only the pulls differ, so the two Gaussian laws have one covariance, and a mu."""
    one, other = chain_law(spec, first), chain_law(spec, second)
    assert isinstance(one, GaussianLaw)
    assert isinstance(other, GaussianLaw)
    assert one.covariance == pytest.approx(other.covariance, rel=1e-12)
    apart = one.mean - other.mean
    return math.sqrt(float(apart @ np.linalg.solve(one.covariance, apart)))


@pytest.mark.parametrize("keep", [None, {"burn_in": 1, "thin": 2}])
@pytest.mark.parametrize("scheme", ["full", "cyclic"])
def test_no_bound_is_below_the_exact_mu(scheme: str, keep: Any) -> None:
    generator = np.random.default_rng(41)
    ratios = []
    for _ in range(150):
        spec, first, second = random_run(generator, scheme, keep)
        exact = exact_mu(spec, first, second)
        for theorem in theorems():
            answer = evaluate(theorem, spec) if theorem.id in THEOREMS else None
            if isinstance(answer, Bound):
                assert isinstance(answer.guarantee, GaussianDP)
                assert exact <= answer.guarantee.mu * (1 + 1e-9), (theorem.id, spec.to_json())
                ratios.append(answer.guarantee.mu / exact if exact > 1e-9 else math.inf)
    assert len(ratios) == 150
    assert min(ratios) < 1.3, "a bound that is never close to the truth would not be worth much"
