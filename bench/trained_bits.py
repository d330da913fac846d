"""A whole training run in whole numbers on whatever device is here: what it says, whether bits hold, and an attack.

    python bench/trained_bits.py [--out FILE] [--rows 20000] [--block 4096] [--only attack]

The network is the convolutional one of bench/networks.py, on a GPU the kind whose own convolutions have other bits in
other places of a block. In turn: the check of compiled sums, as it is and with a wrong sum planted; a run that is free
to choose how it sums, which must say *proved* if it says so anywhere; the same on permuted rows; in single precision;
and the attack on last bits of tests/noise/test_last_bits.py on every noised sum of such a run. FILE is written
after each, so that a run that is cut off keeps what it had.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "mnist"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import digits

from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.networks.training import Descent, Trained, Training, train
from sordino.models import clip as compiled
from tests.noise.test_last_bits import Watched, Watching, told_apart

STEPS = 20
NOISE = 20.0
# Under attack noise is as short as one record's numbers: a flaw in the last bits of a sum then shows.
SHORT = 0.005


def spec_of(rows: int, steps: int, noise: float) -> Spec:
    """Every noised sum of clipped gradients released, all records in each."""
    algorithm = {
        "kind": "noised-sums",
        "query": "clipped gradients of a network",
        "records": rows,
        "rounds": steps,
        "sampling": {"scheme": "full"},
        "contribution": 0.1,
        "noise_multiplier": noise,
    }
    return Spec.from_dict({"algorithm": algorithm, "relation": "add-remove", "view": "all-iterates", "delta": 1e-5})


def weighted_loss(params: Any, example: Any) -> Any:
    """The loss of one image; an image of weight 0 contributes nothing."""
    return example[2] * digits.cross_entropy(digits.network_scores(params, example[0]), example[1])


def examples_of(rows: int) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(0)
    images = generator.random((rows, 28, 28), np.float32)
    return images, generator.integers(0, 10, rows).astype(np.int32), np.ones(rows, np.float32)


def sums_checked() -> dict[str, bool]:
    """Whether the check of compiled sums accepts this device, and refuses one with a planted wrong sum."""
    found, summed = {}, compiled._summed
    for name, program in (("accepted", summed), ("planted", lambda x, v: summed(x, v).at[511].add(1.0))):
        compiled._summed = program
        compiled.check_sums.cache_clear()
        try:
            compiled.check_sums()
            found[name] = True
        except InputError:
            found[name] = False
    compiled._summed = summed
    compiled.check_sums.cache_clear()
    return {"accepted": found["accepted"], "planted wrong sum refused": not found["planted"]}


def trained(examples: Any, steps: int, block: int, source: Any, noise: float = NOISE) -> tuple[Trained, float]:
    """A run, and its seconds, compilation included."""
    begun, params = time.monotonic(), digits.network_start(jax.random.key(0))
    training = Training(Descent(2.0, 0.9), microbatch=block)
    found = train(spec_of(len(examples[1]), steps, noise), weighted_loss, params, examples, source, training)
    return found, round(time.monotonic() - begun, 1)


def attacked(rows: int, block: int) -> dict[str, float]:
    """P-values: nobody contributes, against one record that does; whole numbers, and single precision."""
    images, labels, _ = examples_of(rows)
    answer = {}
    for name, exact in (("whole numbers", True), ("single precision", False)):
        samples = []
        for second in (False, True):
            source = type("Source", (Watched,), {"port_in_use": Watching(), "exactly": exact})
            weights = np.zeros(rows, np.float32)
            weights[0] = second
            trained((images, labels, weights), 3, block, source(10 + second), SHORT)
            jax.effects_barrier()
            samples.append(np.concatenate(source.port_in_use.seen))
        answer[name] = told_apart(*samples)
        answer["numbers"] = len(samples[0])
    return answer


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path)
    asked.add_argument("--rows", type=int, default=20_000)
    asked.add_argument("--block", type=int, default=4096)
    asked.add_argument("--only", choices=("runs", "attack"), help="leave out the other")
    given = asked.parse_args()
    found: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__}

    def keep(name: str, value: Any) -> None:
        found[name] = value
        print(name, value, flush=True)
        if given.out is not None:
            given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    keep("sums", sums_checked())
    if given.only != "attack":
        _runs(keep, given.rows, given.block)
    if given.only != "runs":
        keep("attack", attacked(min(given.rows, 2048), min(given.block, 1024)))


def _runs(keep: Callable[[str, Any], None], rows: int, block: int) -> None:
    examples = examples_of(rows)
    turned = tuple(leaf[np.random.default_rng(1).permutation(rows)] for leaf in examples)
    first, seconds = trained(examples, STEPS, block, SeededRandomness(1))
    said = first.floating_point.evidence.name.lower()
    keep("run", {"steps": STEPS, "rows": rows, "block": block, "says": said, "seconds": seconds})
    other, _ = trained(turned, STEPS, block, SeededRandomness(1))
    pairs = zip(jax.tree.leaves(first.params), jax.tree.leaves(other.params), strict=True)
    keep("permuted rows, equal bits", all(bool(np.array_equal(one, two)) for one, two in pairs))


if __name__ == "__main__":
    main()
