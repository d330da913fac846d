"""Mistakes that break a guarantee without changing a word of its certificate, and what an audit of a release says.

    python bench/mutations.py [--page docs/results/mutations.md]

Every mistake is made in a copy of the package, in all places at once. There every estimator is fitted by every method
and every chain is run in every scheme, and the test of `sordino audit --method replay` is asked, at 99 %.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
CONFIDENCE, SEED, RECORDS = 0.99, 5, 60
# Of an audit; after the first table no further one is begun. A run that a mistake keeps from ending is given up.
SECONDS, PATIENCE = 4.0, 90
# These run the code of another estimator's method.
TWINS = {
    ("robust", "bounded-influence"),
    ("robust", "constant"),
    ("logistic", "bounded-influence"),
    ("network-regressor", "constant"),
    ("network-classifier", "constant"),
    ("network-classifier", "variational"),
}
# Counting rows is no mistake under replace-one, where their number is public.
RELATIONS = ("add-remove",)


class Edit(NamedTuple):
    """In `file` of the package, `old`, which occurs there, becomes `new`."""

    file: str
    old: str
    new: str


_SUMS, _KERNEL, _LOOP = "algorithm/noise/sums.py", "algorithm/chain/kernel.py", "algorithm/rounds/loop.py"
MISTAKES: dict[str, tuple[Edit, ...]] = {
    "as it is": (),
    "half the noise is drawn": (
        Edit(_SUMS, "(cells + drawn).astype", "(cells + drawn // 2).astype"),
        Edit(
            "algorithm/noise/exact.py",
            "value + whole_laplace(randomness.generator(Purpose.NOISE), scale))",
            "value + whole_laplace(randomness.generator(Purpose.NOISE), scale) // 2)",
        ),
        Edit(_KERNEL, "scales[:, None], -gaussians)", "scales[:, None], -0.5 * gaussians)"),
        Edit(_LOOP, "block.scales[k], block.gaussians[k])", "block.scales[k], 0.5 * block.gaussians[k])"),
    ),
    "half the noise is asked for": (
        Edit(_SUMS, "_checked(scales, sums.shape)", "_checked(0.5 * np.asarray(scales), sums.shape)"),
        Edit(_SUMS, "_checked(scales, given.shape)", "_checked(0.5 * np.asarray(scales), given.shape)"),
        Edit(
            "algorithm/noise/exact.py",
            "call = NoisedCall(Law.LAPLACE,",
            "scale = 0.5 * scale\n    call = NoisedCall(Law.LAPLACE,",
        ),
        Edit(_KERNEL, "total, scales[:, None]", "total, 0.5 * scales[:, None]"),
        Edit(_LOOP, "total, block.scales[k]", "total, 0.5 * block.scales[k]"),
    ),
    "nothing is cut or clipped": (
        Edit("data/columns/number.py", "np.clip(values, self.low, self.high, out=values)", "pass"),
        Edit("data/columns/number.py", "return np.clip(values, *self.limits, out=values)", "return values"),
        Edit("data/scaling.py", "rows[long] *= (safe / lengths[long])[:, None]", "rows[long] *= 1.0"),
        Edit(
            "algorithm/noise/exact_sums.py",
            "return grid_total(shortened(parts, reach, weights), present, reach)",
            "return plain_total(parts, present)",
        ),
        Edit(_KERNEL, "within = shortened(parts, constants.reach)", "return plain_total(parts, rows.present)"),
        Edit("estimators/methods/constant.py", "np.clip(y / bound, -1.0, 1.0)", "y / bound"),
        Edit(
            "estimators/methods/ridge.py",
            "np.clip(y / target_bound(situation), -1.0, 1.0)",
            "y / target_bound(situation)",
        ),
        Edit("estimators/methods/output.py", "np.clip(y, -bound, bound)", "y"),
    ),
}
_ROWS = (
    Edit(
        "algorithm/chain/run.py",
        "constants = run_constants(spec, algorithm, model)",
        "constants = run_constants(spec, algorithm, model)._replace(divisor=jnp.asarray(rows.count, float))",
    ),
    Edit(_LOOP, "(bound, algorithm.records, algorithm.batch_size)", "(bound, run.rows, run.rows)"),
    Edit(
        "estimators/methods/newton.py",
        "options.row_norm**2 * sums.noise, situation.records",
        "options.row_norm**2 * sums.noise, len(X)",
    ),
    Edit(
        "algorithm/rounds/ridge.py",
        "self._sums.exponent) / self.algorithm.records",
        "self._sums.exponent) / len(self._sums._lengths)",
    ),
    Edit(
        "algorithm/rounds/gradients.py",
        "self._sums.exponent) / self.algorithm.records",
        "self._sums.exponent) / len(self._sums._y)",
    ),
    Edit(
        "algorithm/influence/release.py",
        "self.plan, self.rows, self.followed = plan, rows, Followed(plan)",
        "self.plan, self.rows, self.followed = plan, rows, Followed(plan)\n        vars(plan)['records'] = rows.units",
    ),
    Edit(
        "estimators/methods/variational.py",
        "(noised + rounds.scale(0)) / situation.records",
        "(noised + rounds.scale(0)) / len(X)",
    ),
    Edit("estimators/methods/constant.py", "_shrunk(count / situation.records,", "_shrunk(count / len(y),"),
    Edit("estimators/methods/constant.py", "second / situation.records", "second / len(y)"),
)
MISTAKES["divided by the number of rows"] = _ROWS
# Of chains: batches are drawn in another way than described.
OF_CHAINS: dict[str, tuple[Edit, ...]] = {
    "another sampler": (
        Edit("algorithm/chain/batches.py", "Scheme.CYCLIC: Cyclic,", "Scheme.CYCLIC: Reshuffled,"),
        Edit("algorithm/chain/batches.py", "Scheme.SHUFFLE_ONCE: ShuffleOnce,", "Scheme.SHUFFLE_ONCE: Reshuffled,"),
        Edit("algorithm/chain/batches.py", "Scheme.RESHUFFLED: Reshuffled,", "Scheme.RESHUFFLED: Cyclic,"),
        Edit("algorithm/chain/batches.py", "Scheme.POISSON: Poisson,", "Scheme.POISSON: Reshuffled,"),
        Edit(
            "algorithm/chain/batches.py",
            "Scheme.WITHOUT_REPLACEMENT: WithoutReplacement,",
            "Scheme.WITHOUT_REPLACEMENT: Reshuffled,",
        ),
        Edit(
            "algorithm/chain/batches.py",
            "Scheme.WITH_REPLACEMENT: WithReplacement,",
            "Scheme.WITH_REPLACEMENT: Reshuffled,",
        ),
        Edit(
            "algorithm/chain/batches.py",
            "Scheme.RANDOM_ALLOCATION: RandomAllocation,",
            "Scheme.RANDOM_ALLOCATION: WithoutReplacement,",
        ),
    ),
}
SCHEMES = (
    "full",
    "cyclic",
    "shuffle-once",
    "reshuffled",
    "without-replacement",
    "poisson",
    "with-replacement",
    "random-allocation",
)


def _releases() -> Any:
    """Every estimator by every method, fitted to drawn rows: its name, and a function that tests it."""
    import numpy as np  # noqa: PLC0415

    from sordino.auditing.replay import Recorder  # noqa: PLC0415
    from sordino.estimators import ArrayBounds  # noqa: PLC0415
    from sordino.estimators.named import ESTIMATORS, methods_of  # noqa: PLC0415
    from sordino.estimators.replayed import replay_release  # noqa: PLC0415

    recorder, rng = Recorder(), np.random.default_rng(1)
    X = rng.uniform(-1, 1, (RECORDS, 3))
    for model in ESTIMATORS:
        for method in methods_of(model):
            if method.startswith("auto") or (model, method) in TWINS:
                continue
            classes = (0, 1) if model in ("logistic", "network-classifier") else None
            target = None if classes or model == "mixture" else ((0.0, 8.0) if model == "poisson" else (-1.0, 1.0))
            y = (
                np.arange(RECORDS) % 2
                if classes
                else (rng.poisson(2.0, RECORDS).clip(0, 8) if model == "poisson" else X[:, 0])
            )
            more = {"hidden": (4,)} if model.startswith("network") else {}
            for relation in RELATIONS:
                bounds = ArrayBounds(-1, 1, target=target, classes=classes, records=RECORDS)

                def tested(model=model, method=method, relation=relation, bounds=bounds, more=more, y=y):
                    fitted = ESTIMATORS[model](
                        epsilon=1.0, delta=1e-6, relation=relation, schema=bounds, method=method, random_state=1, **more
                    ).fit(*((X,) if model == "mixture" else (X, y)))
                    return replay_release(
                        fitted.release_, confidence=CONFIDENCE, seed=SEED, seconds=SECONDS, recorder=recorder
                    )

                yield f"{model}, {method}, {relation}", tested


def _chains() -> Any:
    from sordino.auditing.replayed_chain import replay_chain  # noqa: PLC0415
    from sordino.core.spec import Spec  # noqa: PLC0415

    for scheme, relation in [(scheme, "replace-one") for scheme in SCHEMES] + [
        ("full", "add-remove"),
        ("poisson", "add-remove"),
    ]:
        batch = {"scheme": scheme} | ({} if scheme == "full" else {"size": 8})
        spec = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "noisy-gradient",
                    "steps": 160,
                    "step_size": 0.5,
                    "noise": {"kind": "gaussian", "scale": 0.05},
                    "batch": batch,
                    "clipping": {"kind": "norm", "bound": 0.25},
                    "keep": "all",
                },
                "problem": {"n": 64, "dim": 4, "gradient_sensitivity": 0.5, "gradient_bound": 0.25},
                "relation": relation,
                "view": "all-iterates",
            }
        )
        yield f"chain, {scheme}, {relation}", lambda spec=spec: replay_chain(spec, confidence=CONFIDENCE, seed=SEED)


def _give_up(*_: Any) -> None:
    raise TimeoutError("no answer in time")


def answer(chains_only: bool) -> None:
    """In the copy of the package: a line of JSON for each case."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _give_up)
    for cases in [_chains()] if chains_only else [_releases(), _chains()]:
        for name, tested in cases:
            begin = time.process_time()
            signal.alarm(PATIENCE)
            try:
                found = tested()
                kind, evidence = found.verdict.kind.value, found.verdict.evidence
            except Exception as error:  # a mistake may also end the run, which is not a verdict
                kind, evidence = f"ended: {type(error).__name__}", str(error)[:200]
            signal.alarm(0)
            seconds = time.process_time() - begin
            sys.stdout.write(json.dumps({"case": name, "kind": kind, "evidence": evidence, "seconds": seconds}) + "\n")
            sys.stdout.flush()


def measured(mistake: str, edits: tuple[Edit, ...], *, chains_only: bool) -> dict[str, dict[str, Any]]:
    """What the audit says of every case with a mistake."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src" / "sordino"
        shutil.copytree(ROOT / "src" / "sordino", package)
        for edit in edits:
            text = (package / edit.file).read_text(encoding="utf-8")
            if edit.old not in text:
                raise SystemExit(f"{mistake}: {edit.old!r} is not in {edit.file} any more.")
            (package / edit.file).write_text(text.replace(edit.old, edit.new), encoding="utf-8")
        command = [sys.executable, __file__, "--answer", *(["--chains"] if chains_only else [])]
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=ROOT)
    found = {row["case"]: row for row in map(json.loads, done.stdout.splitlines())}
    if done.returncode or not found:
        raise SystemExit(f"{mistake}: {done.stderr[-400:]}")
    return found


_INTRODUCTION = f"""# Mistakes in the code, and what an audit says

Written by `python bench/mutations.py`; do not edit. Each mistake is made in a copy of the package, in all places at
once, without changing a word of any certificate. Then an estimator is fitted by each method ({RECORDS} records, three
columns, epsilon 1), every chain runs 160 steps, and `sordino audit --method replay` is asked at {100 * CONFIDENCE:g} %.
The first column is the code as it is. Seconds are CPU time of the slowest audit of the row, the fit included.

A dash: the mistake cannot be made there. *Half the noise is asked for* is found by shifts over scales; *drawn* by the
size of what was added; *nothing is cut* by records far outside the declared bounds; *another sampler* by participation.
A cell that says *consistent* is a mistake that this audit does not find there; the notes say why.
"""
_NOTES = f"""
Notes. After {SECONDS:g} seconds no further table is begun, so an audit here tries 1 to 15 pairs; `sordino audit` has
100 seconds. *Nothing is cut*: methods that shorten rows or weigh residuals by a formula of their own (statistics,
newton, ridge, gradients, bounded influence) and counts of classes keep their bound without the cuts that this mistake
takes away, as far as these pairs show. With replacement a batch may hold a record in every place, so half the noise
asked for is within what some batch may move. *ended*: the mistake kept the fit from ending, which is no verdict. A
divisor of sampled batches is not tried: what is noised does not depend on it.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "mutations.md")
    parser.add_argument("--processes", type=int, default=2, help="copies that are tested at the same time")
    parser.add_argument("--resume", action="store_true", help="go on after a stop, with what was measured before")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--chains", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        answer(given.chains)
        return
    kept = ROOT / "bench" / "results" / "draft" / "mutations.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(kept.read_text(encoding="utf-8")) if given.resume and kept.exists() else {}
    wanted = MISTAKES | OF_CHAINS

    def measure(name: str) -> None:
        found[name] = measured(name, wanted[name], chains_only=name in OF_CHAINS)
        kept.write_text(json.dumps(found, indent=1), encoding="utf-8")

    with ThreadPoolExecutor(given.processes) as pool:
        list(pool.map(measure, [name for name in wanted if name not in found]))
    given.page.write_text(page({name: found[name] for name in wanted}), encoding="utf-8")


# Methods that divide by no number of records, so that there is none to put the rows' in place of.
_DIVIDES_BY_NOTHING = ("output", "statistics", "logistic, constant")


def _there(mistake: str, case: str) -> bool:
    """Whether the mistake changes anything there: full batches are not sampled, and n is public under replace-one."""
    if mistake == "another sampler":
        return "full" not in case
    if mistake != "divided by the number of rows":
        return True
    if case.startswith("chain"):
        return case.endswith("full, add-remove")
    return not any(words in case for words in _DIVIDES_BY_NOTHING)


def page(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The page, from what was measured."""
    lines = [
        _INTRODUCTION,
        "| case | " + " | ".join(found) + " | seconds |",
        "| --- |" + " --- |" * len(found) + " ---: |",
    ]
    for case in found["as it is"]:
        cells = [rows[case]["kind"] if case in rows and _there(name, case) else "-" for name, rows in found.items()]
        seconds = max(rows[case]["seconds"] for rows in found.values() if case in rows)
        shown = [f"**{cell}**" if cell == "violated" else cell for cell in cells]
        lines.append(f"| {case} | " + " | ".join(shown) + f" | {seconds:.1f} |")
    return "\n".join(lines) + "\n" + _NOTES


if __name__ == "__main__":
    main()
