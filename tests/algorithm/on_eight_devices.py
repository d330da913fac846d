"""Runs on eight virtual devices, in a process of its own because devices are counted when JAX starts.

Prints, as JSON, how far each way of sharing the work is from one device, by batch scheme.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import numpy as np

from papers.round_words import stated_spec
from sordino.algorithm import ChainParallel, Checkpoint, DataParallel, Interrupted, SeededRandomness, run
from sordino.algorithm.chain.rows import Workload
from sordino.algorithm.rounds.variational import VariationalOptions, run_variational
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.model.families.classification import Logistic

ROWS, WIDTH, CHAINS, STEPS = 1003, 7, 16, 20
VARIATIONAL_ROWS = 7 * 512 + 3


def spec_of(scheme: str) -> Spec:
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": STEPS,
                "step_size": 0.3,
                "noise": {"kind": "stable", "alpha": 1.8, "scale": 0.01},
                "batch": {"scheme": scheme} | ({} if scheme == "full" else {"size": 50}),
                "clipping": {"kind": "norm", "bound": 0.5},
                "projection": {"kind": "ball", "radius": 1.0},
                "chains": CHAINS,
                "keep": {"burn_in": 2, "thin": 3},
            },
            "problem": {"n": ROWS, "dim": WIDTH},
            "relation": "replace-one",
            "view": "all-iterates",
        }
    )


def main() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(ROWS, WIDTH)), generator.choice([-1.0, 1.0], ROWS)
    Workload.rows_per_block = 64  # several blocks on every device

    def iterates(scheme: str, **options) -> np.ndarray:
        return run(spec_of(scheme), Logistic(), X, y, SeededRandomness(1), **options).iterates

    answer: dict = {"devices": len(jax.devices()), "apart": {}}
    for scheme in sys.argv[1:]:
        one = iterates(scheme)
        answer["apart"][scheme] = {
            "chains": float(np.abs(iterates(scheme, placement=ChainParallel()) - one).max()),
            "rows": float(np.abs(iterates(scheme, placement=DataParallel()) - one).max()),
            "largest": float(np.abs(one).max()),
        }
    answer["resumed"] = resumed(iterates)
    try:
        run(spec_of("full"), Logistic(), X, y, SeededRandomness(1), placement=ChainParallel(3))
    except InputError as refused:
        answer["refused"] = str(refused)
    answer["variational"] = [variational(draws) for draws in (1, 2)]
    try:
        posterior(1, DataParallel(), sampling="poisson", batch=50)
    except InputError as refused:
        answer["variational refused"] = str(refused)
    sys.stdout.write(json.dumps(answer))


def posterior(draws: int, placement: DataParallel | None, **others) -> np.ndarray:
    """phi after every round of a variational fit on rows of which the last device has few."""
    generator = np.random.default_rng(1)
    X, y = generator.normal(size=(VARIATIONAL_ROWS, WIDTH)), generator.choice([-1.0, 1.0], VARIATIONAL_ROWS)
    algorithm = {
        "kind": "variational",
        "records": VARIATIONAL_ROWS,
        "steps": STEPS,
        "sampling": "full",
        "clip": 0.5,
        "noise_multiplier": 0.7,
        "step_size": 0.05,
    }
    described = {"algorithm": algorithm | others, "relation": "replace-one", "view": "all-iterates"}
    options = VariationalOptions(draws=draws)
    spec, randomness = stated_spec(described), SeededRandomness(3)
    found = run_variational(spec, Logistic(), X, y, randomness, options=options, placement=placement)
    assert found.iterates is not None
    return found.iterates


def variational(draws: int) -> dict[str, float]:
    """How far variational fits on eight and on three devices are from that on one, and how far that moves."""
    one = posterior(draws, None)
    apart = [float(np.abs(posterior(draws, DataParallel(devices)) - one).max()) for devices in (8, 3)]
    return {"apart": max(apart), "moved": float(np.abs(one[-1] - one[0]).max())}


def resumed(iterates) -> bool:
    """Whether a run on many devices that was stopped ends with the bits of one that was not."""
    common = {"placement": ChainParallel(4), "steps_per_block": 4}
    whole = iterates("poisson", **common)

    def stop(progress) -> None:
        if progress.step == 8:
            raise Interrupted(Path(), 8, STEPS)

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "c", every=0.0)
        try:
            iterates("poisson", checkpoint=checkpoint, progress=stop, **common)
        except Interrupted:
            return bool(np.array_equal(iterates("poisson", checkpoint=checkpoint, **common), whole))
    return False


if __name__ == "__main__":
    main()
