"""Bits of a release do not depend on the order of records: runs on permuted rows, on whatever device is here.

python bench/lattice_bits.py
"""

import jax
import numpy as np

from sordino.algorithm import SeededRandomness, run
from sordino.algorithm.rounds.expected_statistics import EmOptions, run_em
from sordino.core.spec import Spec
from sordino.model import GaussianMixture, Logistic, MLPRegression

RECORDS, WIDTH = 3000, 12


def chain(dim: int) -> Spec:
    """Clipped gradients on all rows, every iterate released."""
    algorithm = {
        "kind": "noisy-gradient",
        "steps": 30,
        "step_size": 0.1,
        "noise": {"kind": "gaussian", "scale": 0.1 / RECORDS},
        "batch": {"scheme": "full"},
        "clipping": {"kind": "norm", "bound": 1.0},
    }
    problem = {"n": RECORDS, "dim": dim, "gradient_sensitivity": 2.0, "gradient_bound": 1.0}
    seen = {"relation": "add-remove", "view": "all-iterates", "delta": 1e-6}
    return Spec.from_dict({"algorithm": algorithm, "problem": problem, **seen})


def main() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(RECORDS, WIDTH)), generator.choice([-1.0, 1.0], RECORDS)
    order = generator.permutation(RECORDS)
    mixture = GaussianMixture((0.3, 0.7), 0.5)
    sums = {
        "kind": "noised-sums",
        "query": "expected statistics",
        "records": RECORDS,
        "rounds": 10,
        "sampling": {"scheme": "full"},
        "contribution": 1.0,
        "noise_multiplier": 2.0,
        "options": {"components": 2},
    }
    em = Spec.from_dict({"algorithm": sums, "relation": "add-remove", "view": "posterior-parameters", "delta": 1e-6})
    print("device", jax.devices()[0].device_kind, jax.__version__)
    for name, model in (("logistic chain", Logistic()), ("network chain", MLPRegression(hidden=(8,)))):
        spec = chain(model.dim(WIDTH))
        first, turned = (
            run(spec, model, rows, target, SeededRandomness(3)).iterates
            for rows, target in ((X, y), (X[order], y[order]))
        )
        print(name, "permuted rows, equal bits:", bool(np.array_equal(first, turned)))
    first, turned = (
        run_em(em, mixture, rows, SeededRandomness(3), options=EmOptions()).means for rows in (X, X[order])
    )
    print("mixture by EM, permuted rows, equal bits:", bool(np.array_equal(first, turned)))


if __name__ == "__main__":
    main()
