"""The kernel is compiled once: nothing that leaves the amount of work alone traces it again."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from sordino.mechanisms import SeededRandomness, run
from sordino.models.families.classification import Logistic
from tests.mechanisms.specs import chain_spec


@dataclass(frozen=True)
class Traced(Logistic):
    """Counts how often its gradient is traced: once or twice a compilation, never in a compiled call."""

    traces: ClassVar[list[int]] = []

    def record_gradients(self, theta, X, Y, sizes=None):
        self.traces.append(1)
        return super().record_gradients(theta, X, Y, sizes)


def runs(n, batch, seed=0, steps=100, eta=0.1, noise=None, clip=1.0, radius=2.0, weight_decay=0.1):
    """How many traces one run causes."""
    rng = np.random.default_rng(seed)
    spec = chain_spec(
        n,
        3,
        steps=steps,
        step_size=eta,
        noise=noise or {"kind": "gaussian", "scale": 0.1},
        batch=batch,
        clipping={"kind": "norm", "bound": clip},
        projection={"kind": "ball", "radius": radius},
        chains=2,
    )
    before = len(Traced.traces)
    model = Traced(weight_decay=weight_decay)
    run(spec, model, rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n), SeededRandomness(seed))
    return len(Traced.traces) - before


@pytest.mark.parametrize(
    "batch",
    [
        {"scheme": "full"},
        {"scheme": "cyclic", "size": 20},
        {"scheme": "poisson", "size": 20},
        # Of one size, as those of a cyclic order are.
        *(
            pytest.param({"scheme": scheme, "size": 20}, marks=pytest.mark.slow)
            for scheme in ("shuffle-once", "reshuffled", "without-replacement")
        ),
    ],
    ids=lambda batch: batch["scheme"],
)
def test_seed_scales_bound_and_number_of_rows_do_not_compile_again(batch):
    runs(210, batch)
    assert runs(210, batch, seed=1) == 0
    assert runs(200, batch) == 0
    assert runs(222, batch, eta=0.2, noise={"kind": "gaussian", "scale": 0.7}) == 0
    runs(210, batch, noise={"kind": "stable", "alpha": 1.5, "scale": 0.7})  # noise off the lattice: another program
    assert runs(210, batch, seed=1, noise={"kind": "stable", "alpha": 1.7, "scale": 0.3}) == 0
    assert runs(210, batch, eta={"kind": "polynomial", "initial": 0.3, "offset": 2.0, "power": 0.5}) == 0
    assert runs(210, batch, clip=0.3, radius=7.0) == 0
    assert runs(210, batch, steps=128) == 0


def test_the_count_sees_a_compilation():
    """Another batch size, another bucket of rows, another model: each compiles."""
    batch = {"scheme": "cyclic", "size": 17}
    assert runs(300, batch) > 0
    assert runs(300, batch) == 0
    assert runs(300, batch | {"size": 18}) > 0
    assert runs(3000, batch) > 0
    assert runs(300, batch, weight_decay=0.2) > 0
