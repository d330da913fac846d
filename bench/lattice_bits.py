"""Bits of a release do not depend on the order of records: runs on permuted rows, on whatever device is here.

python bench/lattice_bits.py
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "mnist"))

from sordino.core.spec import Spec
from sordino.mechanisms import SeededRandomness, run
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.models import GaussianMixture, Logistic, MLPRegression

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


def network_sums(block: int, records: int) -> dict[str, bool]:
    """Contributions of the network of bench/networks.py: permuted, one record left out, other blocks of it."""
    import digits  # noqa: PLC0415

    key = jax.random.key(0)
    params = digits.network_start(key)
    images = np.asarray(jax.random.uniform(key, (records, 28, 28)))
    labels = np.asarray(jax.random.randint(key, (records,), 0, 10))
    one = (jax.ShapeDtypeStruct((28, 28), np.float32), jax.ShapeDtypeStruct((), np.int32))

    def loss(params: Any, example: Any) -> Any:
        return digits.cross_entropy(digits.network_scores(params, example[0]), example[1])

    sums = WholeSums(loss, 0.1, params, one, block, 1.0, records)
    plainly = sums.places_alike(params, np.random.default_rng(0))
    if not plainly:
        sums = WholeSums(loss, 0.1, params, one, block, 1.0, records, own_bits=True)
    alike = sums.places_alike(params, np.random.default_rng(0))

    def total(order: Any) -> Any:
        found = sums.zeros()
        for first in range(0, len(order), block):
            some = order[first : first + block]
            present = (np.arange(block) < len(some)).astype(np.float32)
            padded = np.pad(some, (0, block - len(some)))
            found = sums.plus(found, params, (images[padded], labels[padded]), present)
        return np.asarray(found)

    whole, order = total(np.arange(records)), np.random.default_rng(1).permutation(records)
    alone = total(order[:1])
    return {
        "places alike": alike,
        "with products of the device's own": plainly,
        "permuted": bool(np.array_equal(total(order), whole)),
        "one left out": bool(np.array_equal(total(order[1:]), whole - alone)),
        "cut elsewhere": bool(np.array_equal(total(order[:777]) + total(order[777:]), whole)),
        "not zero": bool(alone.any()),
    }


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
    print("clipped gradients of a network, equal bits:", network_sums(1024, 5000))
    print("mixture by EM, permuted rows, equal bits:", bool(np.array_equal(first, turned)))


if __name__ == "__main__":
    main()
