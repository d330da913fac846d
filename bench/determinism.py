"""Seeded fits, the same ones many times over, with more processes than cores: are all answers equal to the last bit?

    python bench/determinism.py --out lines.jsonl [--seconds 300] [--processes 32] [--cases NAME ...] [--data DIR]
    python bench/determinism.py --out lines.jsonl --report

Every process repeats all cases in an order of its own until the time is over; a line has a digest of everything that an
answer is made of. Half of the processes keep their compiled programs in one folder that is empty at first, so that they
also race for it; half of them are pinned to one core each. With `--data` there is one case more, the very fit that once
gave another answer: DP-Adam on protein, split 4, 800 rounds over 41,157 records (12 s of a core each).

`--report` counts, for each case, repetitions and different answers, part by part: rows as they were read, whole-number
noise as it was drawn, the released parameters, predictions. It ends with 1 where there is more than one answer.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

Parts = dict[str, Any]
RECORDS, FEATURES, SEED = 1500, 8, 101
THE_FIT = "DP-Adam on protein, split 4"


def small_fold() -> Any:
    from papers.vinaroz_park.sets import teacher  # noqa: PLC0415  (JAX reads the environment when it is loaded)

    return teacher(RECORDS, FEATURES, SEED)


def own_method(name: str, **less: Any) -> Callable[[], Parts]:
    """A method of ours with its chosen settings, in fewer rounds."""

    def fitted() -> Parts:
        from papers.vinaroz_park import chosen, networks  # noqa: PLC0415
        from papers.vinaroz_park.own_methods import REPLACE  # noqa: PLC0415
        from papers.vinaroz_park.propagation import fit_rounds  # noqa: PLC0415

        fold = small_fold()
        if name == "natural":
            found = networks.fit_natural(replace(chosen.natural(), **less), fold, REPLACE, SEED)
        elif name == "rounds":
            found = fit_rounds(replace(chosen.rounds(), **less), fold, REPLACE, SEED)
        elif name == "linear":
            found = networks.fit_linear(chosen.linear(), fold, REPLACE, SEED)
        else:
            found = networks.fit_network(replace(chosen.network(name), **less), fold, REPLACE, SEED)
        return {"rows": (fold.X, fold.y), "predictions": (found.mean, found.variance)}

    return fitted


def message_passing() -> Parts:
    """EP, SEP and every reading of DP-SEP, one record at a time, as the regression tables run them."""
    from papers.vinaroz_park.record import run_messages  # noqa: PLC0415

    return {"scores": json.dumps([one.scores for one in run_messages(_problem(), passes=2)])}


def variational_lanes() -> Parts:
    """VI and DP-VI with the printed settings."""
    from papers.vinaroz_park.record import run_variational  # noqa: PLC0415

    return {"scores": json.dumps([one.scores for one in run_variational(_problem(), passes=2, most_draws=4)])}


def _problem() -> Any:
    import numpy as np  # noqa: PLC0415

    from papers.vinaroz_park.record import Problem  # noqa: PLC0415

    fold = small_fold()
    some = (fold.X[None, :300], fold.y[None, :300], fold.test_rows[None, :50], fold.test_y[None, :50])
    return Problem("kin8nm", 10, *some, np.ones((1, 1)))


def chain(scheme: str, **batch: Any) -> Callable[[], Parts]:
    """Four chains of noisy gradient descent in several blocks of steps, every iterate kept."""

    def run() -> Parts:
        import numpy as np  # noqa: PLC0415

        import sordino  # noqa: PLC0415
        from sordino.core.bound import Relation, View  # noqa: PLC0415
        from sordino.core.spec import Batch, Scheme  # noqa: PLC0415
        from sordino.core.validate import instance_of  # noqa: PLC0415
        from sordino.mechanisms import SeededRandomness, noisy_sgd  # noqa: PLC0415
        from sordino.mechanisms.chain.release import KeptIterates  # noqa: PLC0415
        from sordino.models import Domain, Logistic  # noqa: PLC0415

        model, X = Logistic(weight_decay=0.1), np.random.default_rng(0).uniform(-0.3, 0.3, (1024, 8))
        spec = noisy_sgd(
            model.problem(1024, Domain(8, 1.0)),
            step_size=0.5,
            noise_scale=0.01,
            steps=200,
            batch=Batch(Scheme(scheme), **batch),
            relation=Relation.REPLACE_ONE,
            view=View.ALL_ITERATES,
            chains=4,
        )
        # Rows in the precision and number that the device takes: they are handed over without a copy.
        found = sordino.run(
            spec, model, X.astype(np.float32), np.sign(X[:, 0]), SeededRandomness(SEED), steps_per_block=16
        )
        return {"iterates": instance_of("the release", found, KeptIterates).iterates}

    return run


def training() -> Parts:
    """A small network trained with exact sums and noise, Poisson batches."""
    import jax  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import optax  # noqa: PLC0415

    from sordino.core.spec import Spec  # noqa: PLC0415
    from sordino.mechanisms import SeededRandomness  # noqa: PLC0415
    from sordino.mechanisms.networks.training import Training, train  # noqa: PLC0415

    fold = small_fold()
    algorithm: dict[str, Any] = {"kind": "noised-sums", "query": "clipped gradients of a network", "records": RECORDS}
    algorithm |= {"rounds": 30, "sampling": {"scheme": "poisson", "size": 100}, "contribution": 0.3}
    algorithm |= {"noise_multiplier": 1.0}
    spec = Spec.from_dict({"algorithm": algorithm, "relation": "add-remove", "view": "all-iterates", "delta": 1e-5})
    generator = np.random.default_rng(SEED)
    start = {"w": generator.normal(size=(FEATURES, 10)) * 0.3, "v": generator.normal(size=10) * 0.3}

    def loss(params: Any, example: Any) -> Any:
        x, y = example
        return 0.5 * (jax.numpy.tanh(x @ params["w"]) @ params["v"] - y) ** 2

    rows = fold.X.astype(np.float32), fold.y.astype(np.float32)
    options = Training(optax.adam(0.02), microbatch=64, keep=(10, 20))
    found = train(spec, loss, start, rows, SeededRandomness(SEED), options)
    return {"parameters": [found.params, list(found.kept)]}


def noise() -> Parts:
    """Whole-number Gaussians of many pieces, drawn by threads where the process may use several cores."""
    import numpy as np  # noqa: PLC0415

    from sordino.mechanisms import Purpose, SeededRandomness  # noqa: PLC0415

    scales = np.full(1, 2.0**30)
    return {"noise": SeededRandomness(SEED).whole_gaussians(Purpose.NOISE, 0, 600, scales, 500)}


CASES: dict[str, Callable[[], Parts]] = {
    "DP-Adam, point": own_method("point", steps=100),
    "DP-Adam, whitened rows": own_method("whitened", steps=100),
    "DP-Adam, Gaussian weights (DP-VI)": own_method("gaussian", steps=100),
    "private full-batch rounds (SEP)": own_method("rounds", steps=40),
    "private natural gradients": own_method("natural", steps=40),
    "private linear": own_method("linear"),
    "EP, SEP and DP-SEP by record": message_passing,
    "VI and DP-VI lanes": variational_lanes,
    "chain, Poisson batches": chain("poisson", size=64),
    "chain, shuffled passes": chain("reshuffled", size=64),
    "chain, full batches": chain("full"),
    "network, exact training": training,
    "whole-number noise": noise,
}


def the_fit(data: Path) -> Callable[[], Parts]:
    """The fit that once gave another answer, with digests of all it is made of."""

    def fitted() -> Parts:
        from papers.vinaroz_park import chosen, networks  # noqa: PLC0415
        from papers.vinaroz_park.budget import scored  # noqa: PLC0415
        from papers.vinaroz_park.own_methods import REPLACE  # noqa: PLC0415
        from papers.vinaroz_park.sets import regression_set  # noqa: PLC0415
        from sordino.noise.randomness import SeededRandomness  # noqa: PLC0415

        drawn = []

        class Watched(SeededRandomness):
            def whole_gaussians(self, purpose: Any, first: int, steps: int, scales: Any, size: int) -> Any:
                found = super().whole_gaussians(purpose, first, steps, scales, size)
                drawn.append(digest(found))
                return found

        fold = regression_set("protein", data).fold(4)
        with patch.object(networks, "SeededRandomness", Watched):
            found = networks.fit_network(chosen.network("point"), fold, REPLACE, 4)
        parts: Parts = {"rows": (fold.X, fold.y, fold.test_rows), "noise": " ".join(drawn)}
        parts |= {"predictions": (found.mean, found.variance)}
        return parts | {"error": repr(scored(fold, found.mean, found.variance).rmse)}

    return fitted


def digest(value: Any) -> str:
    """Twelve hexadecimal digits of every bit of a tree of arrays, or of a text."""
    import jax  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    taken = hashlib.sha256()
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, str):
            taken.update(leaf.encode())
        else:
            array = np.ascontiguousarray(leaf)
            taken.update(f"{array.dtype.str}{array.shape}".encode())
            taken.update(array.tobytes())
    return taken.hexdigest()[:12]


def work(number: int, names: list[str], data: Path | None, until: float, cache: str, lines: Any) -> None:
    """One process: cases in an order of its own, again and again."""
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"})
    pinned, shared = number % 2 == 0, number % 4 < 2
    if pinned:
        own = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {own[number // 2 % len(own)]})
    if shared:
        os.environ |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        os.environ |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
    import jax  # noqa: PLC0415

    cases = CASES | ({} if data is None else {THE_FIT: the_fit(data)})
    order = random.Random(number)
    while True:
        order.shuffle(names)
        for name in names:
            if time.time() > until:
                return
            begun = time.process_time()
            if order.random() < 0.5:  # the next fit is compiled, or loaded, anew
                jax.clear_caches()
            try:
                found = {part: digest(value) for part, value in cases[name]().items()}
            except Exception as error:
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            line = {"case": name, "process": number, "pinned": pinned, "cache": shared, "found": found}
            lines.put(line | {"seconds": round(time.process_time() - begun, 2)})


def collect(given: argparse.Namespace) -> None:
    """Start the processes, and write lines as they come."""
    names, data = list(given.cases or CASES), given.data
    names += [THE_FIT] * given.weight if data is not None else []
    context = get_context("spawn")
    lines, until = context.Queue(), time.time() + given.seconds
    with tempfile.TemporaryDirectory() as cache, given.out.open("a") as file:
        started = [
            context.Process(target=work, args=(number, names, data, until, cache, lines), daemon=True)
            for number in range(given.processes)
        ]
        for one in started:
            one.start()
        while any(one.is_alive() for one in started) or not lines.empty():
            try:
                file.write(json.dumps(lines.get(timeout=2.0)) + "\n")
                file.flush()
            except Exception:  # nothing came
                if time.time() > until + given.patience:
                    break
        for one in started:
            one.kill()


def report(path: Path) -> int:
    """Print counts, and answer with how many cases have more than one answer."""
    answers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in map(json.loads, path.read_text().splitlines()):
        answers[line["case"]].append(line)
    several = 0
    print(f"{'case':36}  fits  processes  answers  seconds of a core")
    for name, lines in sorted(answers.items()):
        counts: dict[str, int] = defaultdict(int)
        for line in lines:
            counts[json.dumps(line["found"], sort_keys=True)] += 1
        several += len(counts) > 1
        processes, seconds = {line["process"] for line in lines}, sum(line["seconds"] for line in lines)
        print(f"{name:36}  {len(lines):4}  {len(processes):9}  {len(counts):7}  {seconds:.0f}")
        if len(counts) > 1:
            for words, count in sorted(counts.items(), key=lambda pair: -pair[1]):
                print(f"    {count} times {words}")
    total = sum(map(len, answers.values()))
    print(f"{total} fits, {len(answers)} cases, {several} with more than one answer")
    return several


def main() -> None:
    """Collect, then report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for fits that were begun in time")
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--cases", nargs="*", choices=list(CASES))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weight", type=int, default=3, help="how often a round has the fit of --data")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if not given.report:
        collect(given)
    sys.exit(1 if report(given.out) else 0)


if __name__ == "__main__":
    main()
