"""Mistakes that break a guarantee without changing a word of its certificate, and what an audit of a release says.

    python bench/mutations.py [--page bench/pages/mutations.md]

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

from mutations_page import CONFIDENCE, LONGER, RECORDS, SECONDS, page

ROOT = Path(__file__).parents[1]
SEED = 5
# Of an audit; after the first table no further one is begun. A run that a mistake keeps from ending is given up.
PATIENCE = 100


class Case(NamedTuple):
    """An estimator by one of its methods; `words` tells variants apart."""

    model: str
    method: str
    relation: str = "add-remove"
    classes: int = 0
    words: str = ""

    @property
    def name(self) -> str:
        return ", ".join([self.model + (f" {self.words}" if self.words else ""), self.method, self.relation])


# One estimator for each method, under both relations, and variants whose sums are others.
_BOTH = (
    ("linear", "bounded-influence", 0),
    ("linear", "constant", 0),
    ("linear", "ridge", 0),
    ("logistic", "bounded-influence", 2),
    ("logistic", "constant", 2),
    ("logistic", "ridge", 2),
    ("poisson", "bounded-influence", 0),
    ("network-regressor", "dp-vi", 0),
    ("network-classifier", "dp-vi", 2),
    ("mixture", "em", 0),
)
CASES = (
    *(Case(model, method, "add-remove", classes) for model, method, classes in _BOTH),
    Case("logistic", "constant", classes=3, words="3 classes"),
    Case("logistic", "bounded-influence", classes=2, words="people"),
    Case("poisson", "bounded-influence", words="overdispersed"),
    Case("cox", "bounded-influence"),
    *(Case(model, method, "replace-one", classes) for model, method, classes in _BOTH),
)


class Edit(NamedTuple):
    """In `file` of the package, `old`, which occurs there, becomes `new`."""

    file: str
    old: str
    new: str


_SUMS, _KERNEL, _LOOP = "noise/port.py", "mechanisms/chain/kernel.py", "mechanisms/rounds.py"
_STATISTICS, _CONSTANT = "mechanisms/regression/statistics.py", "fitting/methods/constant.py"
_ROWS_FILE = "mechanisms/regression/rows.py"
MISTAKES: dict[str, tuple[Edit, ...]] = {
    "as it is": (),
    "half the noise is drawn": (
        Edit(_SUMS, "(cells + drawn).astype", "(cells + drawn // 2).astype"),
        Edit(
            _SUMS,
            "value + whole_laplace(self.generator, scale))",
            "value + whole_laplace(self.generator, scale) // 2)",
        ),
        # Whole numbers on the lattice of the sums, and stable noise, which has none.
        Edit("noise/randomness.py", "padded = scales[np", "padded = 0.5 * scales[np"),
        Edit(
            _KERNEL,
            "isinstance(noise, LatticeNoise) else -noise)",
            "isinstance(noise, LatticeNoise) else -0.5 * noise)",
        ),
    ),
    "half the noise is asked for": (
        Edit(_SUMS, "self.multiplier * self.moved * HAIR", "0.5 * self.multiplier * self.moved * HAIR"),
        Edit(
            _SUMS,
            "call = NoisedCall(Law.LAPLACE,",
            "scale = 0.5 * scale\n    call = NoisedCall(Law.LAPLACE,",
        ),
        Edit(_KERNEL, "total, scales[:, None]", "total, 0.5 * scales[:, None]"),
        Edit(_KERNEL, "mean), scales[:, None]", "mean), 0.5 * scales[:, None]"),  # hidden iterates
        Edit(_LOOP, "total, block.scales[k]", "total, 0.5 * block.scales[k]"),
    ),
    "nothing is cut or clipped": (
        Edit("data/columns/number.py", "np.clip(values, self.low, self.high, out=values)", "pass"),
        Edit("data/columns/number.py", "return np.clip(values, *self.limits, out=values)", "return values"),
        Edit("data/scaling.py", "rows[long] *= (safe / lengths[long])[:, None]", "rows[long] *= 1.0"),
        Edit(
            "noise/lattice.py",
            "return grid_total(shortened(parts, reach, weights), present, reach)",
            "return plain_total(parts, present)",
        ),
        Edit(_KERNEL, "within = shortened(parts, constants.reach)", "return plain_total(parts, rows.present)"),
        Edit("fitting/methods/constant.py", "np.clip(y / bound, -1.0, 1.0)", "y / bound"),
        Edit(
            "fitting/methods/ridge.py",
            "np.clip(y / target_bound(problem), -1.0, 1.0)",
            "y / target_bound(problem)",
        ),
        # Rows into the ball, and every vector that is shortened; targets.
        Edit(
            "noise/whole_rows.py",
            "return values * (most / np.maximum(row_lengths(values), most))[:, None]",
            "return values",
        ),
        Edit("mechanisms/statistics/second_moments.py", "np.clip(y[part], -1.0, 1.0)", "y[part]"),
        # Bounded influence: cells, a person's rows together, and slopes.
        Edit(
            "mechanisms/regression/declaration.py",
            "np.clip(column, -1.0, 1.0, out=column)",
            "pass",
        ),
        Edit(_ROWS_FILE, "np.minimum(1.0, np.minimum(tau / safe, (tau / safe) * (far / safe)))", "np.ones_like(safe)"),
        Edit(
            _ROWS_FILE,
            "return found * rows.shares(row_lengths(found), INSIDE * self.gradient_bound)[:, None]",
            "return found",
        ),
        Edit(
            _STATISTICS,
            "np.minimum(np.sqrt(weights) * lengths, INSIDE * math.sqrt(asked.tau * asked.far))",
            "np.sqrt(weights) * lengths",
        ),
        # Classes are counted: there is nothing to cut, so each label is counted twice.
        Edit(_CONSTANT, "int(np.where(y > 0, 1, -1).sum())", "int(np.where(y > 0, 2, -2).sum())"),
        Edit(
            _CONSTANT,
            "class_codes(y, classes), minlength=classes)",
            "class_codes(y, classes).repeat(2), minlength=classes)",
        ),
    ),
}
_ROWS = (
    Edit(
        "mechanisms/chain/run.py",
        "constants = run_constants(spec, algorithm, model)",
        "constants = run_constants(spec, algorithm, model)._replace(divisor=jnp.asarray(rows.count, float))",
    ),
    Edit(
        _KERNEL,
        "drift = noised_drift(program, constants, theta,",
        "count = block.counts[k].astype(jnp.float64)[:, None]\n"
        "    divisor = jnp.where(count > 0, count, constants.divisor)\n"
        "    drift = noised_drift(program, constants._replace(divisor=divisor), theta,",
    ),
    Edit(_LOOP, "(bound, algorithm.records, algorithm.batch_size)", "(bound, run.rows, run.rows)"),
    Edit(
        "fitting/methods/newton.py",
        "options.row_norm**2 * sums.noise, problem.records",
        "options.row_norm**2 * sums.noise, len(X)",
    ),
    Edit(
        "mechanisms/regression/ridge.py",
        "self._sums.exponent) / self.algorithm.records",
        "self._sums.exponent) / len(self._sums._lengths)",
    ),
    Edit(
        "mechanisms/regression/gradients.py",
        "self._sums.exponent) / self.algorithm.records",
        "self._sums.exponent) / len(self._sums._y)",
    ),
    Edit(
        "mechanisms/regression/release.py",
        "summed = total(statistic)",
        "summed = total(statistic)\n        _RUN.gi_frame.f_locals['self'].n = float(summed.units)",
    ),
    Edit(
        "mechanisms/regression/release.py",
        "statistic = next(run)",
        "statistic = next(run)\n    globals()['_RUN'] = run",
    ),
    Edit(
        "fitting/methods/dp_vi.py",
        "(noised + rounds.scale(0)) / problem.records",
        "(noised + rounds.scale(0)) / len(residuals)",
    ),
    Edit("fitting/methods/constant.py", "_shrunk(count / problem.records,", "_shrunk(count / len(y),"),
    Edit("fitting/methods/constant.py", "second / problem.records", "second / len(y)"),
)
MISTAKES["divided by the number of rows"] = _ROWS
# Of chains: batches are drawn in another way than described.
OF_CHAINS: dict[str, tuple[Edit, ...]] = {
    "another sampler": (
        Edit("mechanisms/chain/batches.py", "Scheme.CYCLIC: Cyclic,", "Scheme.CYCLIC: Reshuffled,"),
        Edit("mechanisms/chain/batches.py", "Scheme.SHUFFLE_ONCE: Passes,", "Scheme.SHUFFLE_ONCE: Reshuffled,"),
        Edit("mechanisms/chain/batches.py", "Scheme.RESHUFFLED: Reshuffled,", "Scheme.RESHUFFLED: Cyclic,"),
        Edit("mechanisms/chain/batches.py", "Scheme.POISSON: Poisson,", "Scheme.POISSON: Reshuffled,"),
        Edit(
            "mechanisms/chain/batches.py",
            "Scheme.WITHOUT_REPLACEMENT: WithoutReplacement,",
            "Scheme.WITHOUT_REPLACEMENT: Reshuffled,",
        ),
        Edit(
            "mechanisms/chain/batches.py",
            "Scheme.WITH_REPLACEMENT: WithReplacement,",
            "Scheme.WITH_REPLACEMENT: Reshuffled,",
        ),
        Edit(
            "mechanisms/chain/batches.py",
            "Scheme.RANDOM_ALLOCATION: RandomAllocation,",
            "Scheme.RANDOM_ALLOCATION: WithoutReplacement,",
        ),
        Edit(
            "mechanisms/chain/batches.py",
            "Scheme.TRUNCATED_POISSON: TruncatedPoisson,",
            "Scheme.TRUNCATED_POISSON: Reshuffled,",
        ),
        Edit("mechanisms/chain/batches.py", "Scheme.MIN_SEPARATION: MinSeparation,", "Scheme.MIN_SEPARATION: Poisson,"),
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
    "truncated-poisson",
    "min-separation",
)
# Schemes whose number of records is public, and what else some need.
_REPLACE_ONLY = ("cyclic", "shuffle-once", "reshuffled", "without-replacement", "with-replacement")
_MORE: dict[str, dict[str, Any]] = {"truncated-poisson": {"cap": 24}, "min-separation": {"separation": 4}}


def _releases(seconds: float) -> Any:
    """Every case, fitted to drawn rows: its name, and a function that tests it."""
    import numpy as np  # noqa: PLC0415

    from sordino.auditing.replay.port import Recorder  # noqa: PLC0415
    from sordino.estimators import ArrayBounds  # noqa: PLC0415
    from sordino.estimators.fit import ESTIMATORS  # noqa: PLC0415
    from sordino.estimators.replay import replay_release  # noqa: PLC0415

    recorder, rng = Recorder(), np.random.default_rng(1)
    X = rng.uniform(-1, 1, (RECORDS, 3))
    counts = rng.poisson(2.0, RECORDS).clip(0, 8)

    def tested(case: Case) -> Any:
        ranges = {"poisson": (0.0, 8.0), "cox": (0.0, 1.0), "mixture": None}
        target = None if case.classes else ranges.get(case.model, (-1.0, 1.0))
        classes = tuple(range(case.classes)) if case.classes else None
        y = np.arange(RECORDS) % (case.classes or 2) if classes or case.model == "cox" else X[:, 0]
        more: dict[str, Any] = {"hidden": (4,)} if case.model.startswith("network") else {}
        more |= {"time": 0, "bins": (-1.0, 0.0, 1.0)} if case.model == "cox" else {}
        more |= {"overdispersed": True} if case.words == "overdispersed" else {}
        schema: Any = ArrayBounds(-1, 1, target=target, classes=classes, records=RECORDS)
        rows: tuple[Any, ...] = (X, counts if case.model == "poisson" else y)
        if case.words == "people":
            schema, rows = _of_people(X, y)
        fitted = ESTIMATORS[case.model](
            epsilon=1.0,
            delta=1e-6,
            relation=case.relation,
            schema=schema,
            method=case.method,
            random_state=1,
            **more,
        ).fit(*(rows[:1] if case.model == "mixture" else rows))
        return replay_release(fitted.release_, confidence=CONFIDENCE, seed=SEED, seconds=seconds, recorder=recorder)

    for case in CASES:
        yield case.name, lambda case=case: tested(case)


def _of_people(X: Any, y: Any) -> tuple[Any, tuple[Any, ...]]:
    """The same rows as a table of people who have two each."""
    import numpy as np  # noqa: PLC0415

    from sordino.data import Category, Feature, Number, Schema, Target  # noqa: PLC0415
    from sordino.data.units import DeclaredUnit  # noqa: PLC0415

    schema = Schema(
        records=RECORDS // 2,
        features=tuple(Feature(f"x{place}", Number(-1.0, 1.0)) for place in range(X.shape[1])),
        target=Target("y", Category(("0", "1"))),
        unit=DeclaredUnit(column="person", most_records=2),
        intercept=True,
    )
    cells = {f"x{place}": column for place, column in enumerate(X.T)}
    return schema, ({**cells, "y": y.astype(str), "person": (np.arange(len(y)) // 2).astype(str)},)


def _chains() -> Any:
    from sordino.auditing.replay.tables import replay_chain  # noqa: PLC0415
    from sordino.core.spec import Spec  # noqa: PLC0415

    both = [(scheme, relation) for relation in ("replace-one", "add-remove") for scheme in SCHEMES]
    for scheme, relation in both:
        if relation == "add-remove" and scheme in _REPLACE_ONLY:
            continue
        batch = {"scheme": scheme} | ({} if scheme == "full" else {"size": 8}) | _MORE.get(scheme, {})
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


def answer(chains_only: bool, seconds: float, only: str) -> None:
    """In the copy of the package: a line of JSON for each case."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _give_up)
    for cases in [_chains()] if chains_only else [_releases(seconds), _chains()]:
        for name, tested in cases:
            if only not in name:
                continue
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


def measured(mistake: str, edits: tuple[Edit, ...], *, chains_only: bool, only: str = "") -> dict[str, dict[str, Any]]:
    """What the audit says of every case with a mistake."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src" / "sordino"
        shutil.copytree(ROOT / "src" / "sordino", package)
        for edit in edits:
            text = (package / edit.file).read_text(encoding="utf-8")
            if edit.old not in text:
                raise SystemExit(f"{mistake}: {edit.old!r} is not in {edit.file} any more.")
            (package / edit.file).write_text(text.replace(edit.old, edit.new), encoding="utf-8")
        command = [
            sys.executable,
            __file__,
            "--answer",
            str(LONGER if edits else SECONDS),
            *(["--chains"] if chains_only else []),
            "--only",
            only,
        ]
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=ROOT)
    found = {row["case"]: row for row in map(json.loads, done.stdout.splitlines())}
    if done.returncode or not found:
        raise SystemExit(f"{mistake}: {done.stderr[-400:]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "bench" / "pages" / "mutations.md")
    parser.add_argument("--processes", type=int, default=2, help="copies that are tested at the same time")
    parser.add_argument("--resume", action="store_true", help="go on after a stop, with what was measured before")
    parser.add_argument("--only", default="", help="cases whose name has these words; the others stay as they were")
    parser.add_argument("--answer", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--chains", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        answer(given.chains, given.answer, given.only)
        return
    kept = ROOT / "bench" / "drafts" / "mutations.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(kept.read_text(encoding="utf-8")) if (given.resume or given.only) and kept.exists() else {}
    wanted = MISTAKES | OF_CHAINS

    def measure(name: str) -> None:
        again = measured(name, wanted[name], chains_only=name in OF_CHAINS, only=given.only)
        found[name] = found.get(name, {}) | again
        kept.write_text(json.dumps(found, indent=1), encoding="utf-8")

    with ThreadPoolExecutor(given.processes) as pool:
        list(pool.map(measure, [name for name in wanted if given.only or name not in found]))
    given.page.write_text(page({name: found[name] for name in wanted}), encoding="utf-8")


if __name__ == "__main__":
    main()
