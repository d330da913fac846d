"""The bug hunter against published bugs: libraries as they were, one claim a function, written before any hunt.

    python bench/hunter.py hunt [--only NAME,...] [--seconds 60] [--out bench/recorded/hunter.jsonl]
    python bench/hunter.py fixed [--runs 40] [--calls 1000] [--out bench/recorded/hunter-fixed.jsonl]
    python bench/hunter.py page

`hunt` tries every bug below with the version that has it; `fixed` hunts the fixed versions, again and again with other
seeds, and counts alarms: so many calls each, whatever else the machine does, in processes that stay from hunt to hunt
(most of a short hunt would go into importing a library); `page` writes bench/pages/hunter.md from both. Results are
lines of JSON under bench/recorded, which are kept, and a run goes on where its file ends. Libraries live in
environments under bench/envs, made on demand; another version of a library is a folder that is searched first. What a
function claims is in bench/claims, one file a library.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hunter_page

from sordino.auditing.hunter.processes import HunterOptions
from sordino.auditing.hunter.search import hunt
from sordino.core.validate import InputError

HERE = Path(__file__).parent
CLAIMS, ENVS, RESULTS = HERE / "claims", HERE / "envs", HERE / "recorded"
PAGE = HERE / "pages" / "hunter.md"
CONFIDENCE, CALL_SECONDS, BLOCK = 0.999, 120.0, 20
# Packages of each environment, and where one needs it the version of Python: old releases have no wheels for new ones.
ENVIRONMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "diffprivlib": ("", ("diffprivlib==0.6.6", "scikit-learn>=1.5,<1.6")),
    "old": ("3.8", ("diffprivlib==0.3.0", "scikit-learn<0.24", "numpy<1.20", "scipy<1.6")),
    "opendp": ("", ("numpy", "scikit-learn<1.7", "opendp==0.14.2")),
    "smartnoise": ("", ("smartnoise-sql==1.0.6",)),
    "torch": ("", ("torch==2.13.0", "opacus==1.5.4")),
    "jax": ("", ("jax-privacy==1.0.0", "jax==0.6.2", "jaxlib==0.6.2", "chex<0.1.91", "optax<0.2.6")),
    "jax2": ("", ("jax-privacy==2.0.0",)),
}
HERE_ENVIRONMENT = "here"


@dataclass(frozen=True)
class Version:
    """A library as installed: the environment, another version laid over it, and a patch applied at run time."""

    environment: str
    release: str
    over: str = ""
    patch: str = ""

    @property
    def words(self) -> str:
        """For the page."""
        return self.release + (f" with `patches.{self.patch}`" if self.patch else "")


@dataclass(frozen=True)
class Bug:
    """A published bug: the claim it breaks, the version that has it, and one that does not.

    Attributes:
        name: for the command line.
        library: whose it is.
        claims: file under bench/claims.
        function: the claim.
        published: where it was reported.
        words: what is wrong.
        buggy: version with it.
        fixed: version without it; None where nothing fixes it in one line.
        other_leak: what refutes the claim instead of the bug that was looked for.
    """

    name: str
    library: str
    claims: str
    function: str
    published: str
    words: str
    buggy: Version
    fixed: Version | None
    other_leak: str = ""


def _dpl(patch: str = "", release: str = "0.6.6", over: str = "", environment: str = "diffprivlib") -> Version:
    return Version(environment, release, over, patch)


def _opacus(release: str, patch: str = "") -> Version:
    return Version("torch", release, f"opacus=={release}", patch)


def _opendp(release: str, patch: str = "", environment: str = "opendp") -> Version:
    return Version(environment, release, f"opendp=={release}", patch)


def _paper(patch: str = "") -> Version:
    return Version(HERE_ENVIRONMENT, "as written", "", patch)


_FLOAT = "noise is added in floating point, so the last bits of the answer tell what it was added to"
_IBM = "IBM/differential-privacy-library"
BUGS = (
    Bug("dpl-regression-bounds", "diffprivlib", "diffprivlib_claims", "linear_regression", f"{_IBM} 105",
        "sensitivity of squared features from the lower bound alone", _dpl(), _dpl("bounds_linear_regression")),
    Bug("dpl-regression-centring", "diffprivlib", "diffprivlib_claims", "linear_regression_intercept", f"{_IBM} 104",
        "means of X and y each spend what was set aside for both", _dpl("bounds_linear_regression_intercept"),
        _dpl("centring_linear_regression_intercept")),
    Bug("dpl-laplace", "diffprivlib", "diffprivlib_claims", "laplace", f"{_IBM} 94", _FLOAT, _dpl(),
        _dpl("grid_laplace")),
    Bug("dpl-gaussian", "diffprivlib", "diffprivlib_claims", "gaussian", f"{_IBM} 94", _FLOAT, _dpl(),
        _dpl("grid_gaussian")),
    Bug("dpl-gaussian-analytic", "diffprivlib", "diffprivlib_claims", "gaussian_analytic", f"{_IBM} 94", _FLOAT, _dpl(),
        _dpl("grid_gaussian_analytic")),
    Bug("dpl-wishart-pca", "diffprivlib", "diffprivlib_claims", "pca", f"{_IBM} 23",
        "the Wishart mechanism does not give the privacy claimed", _dpl(release="0.3.0", environment="old"),
        _dpl(release="0.4.1", over="diffprivlib==0.4.1", environment="old")),
    Bug("dpl-wishart-regression", "diffprivlib", "diffprivlib_claims", "linear_regression", f"{_IBM} 23",
        "the Wishart mechanism does not give the privacy claimed", _dpl(release="0.3.0", environment="old"), None,
        other_leak="an exception for a table of zeros"),
    Bug("dpl-objective", "diffprivlib", "diffprivlib_claims", "logistic_regression_both_classes", f"{_IBM} 71",
        "objective perturbation scaled for another regulariser", _dpl(release="0.6.5", over="diffprivlib==0.6.5"),
        _dpl()),
    Bug("dpl-k-means", "diffprivlib", "diffprivlib_claims", "k_means", f"{_IBM} 104",
        "clusters without records are not noised", _dpl(), None),
    Bug("opacus-divisor", "Opacus", "opacus_claims", "one_step", "meta-pytorch/opacus 571",
        "the sum is divided by the size of the data set", _opacus("1.6.0"), _opacus("1.6.0", "divisor_one_step")),
    Bug("opacus-divisor-1.0", "Opacus", "opacus_claims", "one_step", "meta-pytorch/opacus 571",
        "the same in the first release with this interface", _opacus("1.0.2"), _opacus("1.0.2", "divisor_one_step")),
    Bug("opacus-batch-divisor", "Opacus", "opacus_claims", "one_epoch", "meta-pytorch/opacus 128",
        "the sum and the noise are divided by the realised size of a Poisson batch", _opacus("0.12.0"),
        _opacus("1.6.0", "divisor_one_epoch")),
    Bug("opacus-batch-divisor-step", "Opacus", "opacus_claims", "one_step", "meta-pytorch/opacus 128",
        "the same, one step on everything", _opacus("0.12.0"), _opacus("1.6.0", "divisor_one_step")),
    Bug("opacus-fixed-batches", "Opacus", "opacus_claims", "one_epoch_fixed_batches", "meta-pytorch/opacus 80",
        "batches in order, accounted as Poisson batches", _opacus("1.6.0", "divisor_one_epoch_fixed_batches"),
        _opacus("1.6.0", "divisor_one_epoch")),
    Bug("opendp-theil-sen", "OpenDP", "opendp_claims", "theil_sen", "opendp/opendp 2950",
        "an added record changes two predictions, the map counts one", _opendp("0.15.1"),
        _opendp("0.15.1", "pairs_theil_sen")),
    Bug("opendp-noisy-max", "OpenDP", "opendp_claims", "noisy_max_concentrated", "opendp/opendp 2911",
        "permute-and-flip with the map of the exponential mechanism", _opendp("0.15.1"), _opendp("0.16.0")),
    Bug("opendp-noisy-max-two", "OpenDP", "opendp_claims", "noisy_max_two", "opendp/opendp 2911",
        "the same, two scores and more noise", _opendp("0.15.1"), _opendp("0.16.0")),
    Bug("opendp-float-laplace", "OpenDP", "opendp_claims", "float_sum", "opendp/opendp 266, its page of limitations",
        _FLOAT, _opendp("0.1.0", environment="old"), _opendp("0.15.1")),
    Bug("opendp-float-gaussian", "OpenDP", "opendp_claims", "float_sum_gaussian",
        "opendp/opendp 266, its page of limitations", _FLOAT, _opendp("0.1.0", environment="old"), _opendp("0.15.1")),
    Bug("smartnoise-covariance", "SmartNoise", "smartnoise_claims", "covariance", "opendp/smartnoise-sdk 622",
        "data are clipped, and the data before clipping are used",
        Version("smartnoise", "synth 1.0.4", "smartnoise-synth==1.0.4"),
        Version("smartnoise", "synth 1.0.8", "smartnoise-synth==1.0.8")),
    Bug("jax-privacy-nan", "JAX Privacy", "jax_privacy_claims", "one_step_nan", "its documentation of `nan_safe`",
        "a gradient that is NaN passes the clipping of the gradient computer", Version("jax", "1.0.0"),
        Version("jax2", "2.0.0")),
    Bug("jax-privacy-overflow", "JAX Privacy", "jax_privacy_claims", "one_step_any_features",
        "its documentation of `nan_safe`", "a gradient that overflows passes it as well", Version("jax", "1.0.0"),
        Version("jax2", "2.0.0")),
    Bug("numpy-laplace", "NumPy", "naive_claims", "numpy_laplace", "Mironov 2012", _FLOAT, _paper(),
        _paper("grid_numpy_laplace")),
    Bug("inverse-laplace", "textbook", "naive_claims", "inverse_laplace", "Mironov 2012", _FLOAT, _paper(),
        _paper("grid_inverse_laplace")),
    Bug("numpy-gaussian", "NumPy", "naive_claims", "numpy_gaussian", "Jin et al. 2022", _FLOAT, _paper(),
        _paper("grid_numpy_gaussian")),
    Bug("noisy-max-value", "paper", "naive_claims", "noisy_max_value", "Ding et al. 2018",
        "the noisy value of the largest answer is released too", _paper(), None),
    Bug("sparse-vector-3", "paper", "naive_claims", "sparse_vector_3", "Lyu et al. 2017",
        "noisy answers are released with the comparison", _paper(), None),
    Bug("sparse-vector-4", "paper", "naive_claims", "sparse_vector_4", "Lyu et al. 2017",
        "noise does not grow with the number of answers", _paper(), None),
    Bug("sparse-vector-5", "paper", "naive_claims", "sparse_vector_5", "Lyu et al. 2017", "no noise on queries",
        _paper(), None),
    Bug("sparse-vector-6", "paper", "naive_claims", "sparse_vector_6", "Lyu et al. 2017", "does not stop", _paper(),
        None),
)  # fmt: skip
# Not published, as far as a search of issue threads shows: what hunts of all claims of a library found besides.
NEW = (
    Bug("opacus-adaptive", "Opacus", "opacus_claims", "adaptive_clipping", "new",
        "the noisy share of unclipped records is taken of the true number of records",
        _opacus("1.6.0", "divisor_adaptive_clipping"), _opacus("1.6.0", "count_adaptive_clipping")),
    Bug("opacus-nan", "Opacus", "opacus_claims", "one_step_any_features", "new",
        "a gradient that overflows is not shortened and turns all weights into NaN",
        _opacus("1.6.0", "divisor_one_step_any_features"), _opacus("1.6.0", "finite_one_step_any_features")),
    Bug("dpl-one-class", "diffprivlib", "diffprivlib_claims", "logistic_regression", "new",
        "logistic regression raises an exception for a table of one class, and only then", _dpl(), None),
    Bug("dpl-regression-clipping", "diffprivlib", "diffprivlib_claims", "linear_regression_any_rows", "new",
        "without an intercept, rows are not clipped to the declared bounds", _dpl("bounds_linear_regression_any_rows"),
        None),
)  # fmt: skip


def python_of(environment: str) -> str:
    """The interpreter of an environment, made and filled if it is not there yet."""
    if environment == HERE_ENVIRONMENT:
        return sys.executable
    version, packages = ENVIRONMENTS[environment]
    folder = ENVS / f"hunt-{environment}"
    if not (folder / "bin" / "python").exists():
        base = f"python{version}" if version else sys.executable
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        _pip(folder, *packages)
    return str(folder / "bin" / "python")


def folder_of(version: Version) -> tuple[str, ...]:
    """Where another release of the library lies, installed without what it depends on."""
    if not version.over:
        return (str(CLAIMS),)
    folder = ENVS / "over" / version.over.replace("==", "-")
    if not folder.exists():
        _pip(ENVS / f"hunt-{version.environment}", "--no-deps", "--target", str(folder), version.over)
    return str(folder), str(CLAIMS)


def _pip(folder: Path, *arguments: str) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


def options_of(version: Version, seed: int, seconds: float, calls: int | None) -> HunterOptions:
    """How to hunt in a version's environment."""
    return HunterOptions(
        confidence=CONFIDENCE,
        seconds=seconds,
        calls=calls,
        seed=seed,
        python=python_of(version.environment),
        folders=folder_of(version),
        call_seconds=CALL_SECONDS,
    )


def target_words(bug: Bug, version: Version) -> str:
    """Which callable is hunted: the claim's own, or its patched twin."""
    file, function = ("patches", version.patch) if version.patch else (bug.claims, bug.function)
    return f"python:{CLAIMS / file}.py:{function}"


def hunted(bug: Bug, version: Version, options: HunterOptions) -> dict[str, Any]:
    """One hunt, as a line of JSON."""
    sys.path.insert(0, str(CLAIMS))
    claim = importlib.import_module(bug.claims).CLAIMS[bug.function]
    limit = {"seconds": options.seconds} if options.calls is None else {"limit": options.calls}
    line: dict[str, Any] = {"name": bug.name, "version": version.words, "seed": options.seed} | limit
    try:
        report = hunt(target_words(bug, version), claim, options)
    except InputError as error:
        return line | {"refused": str(error).replace(str(HERE.parent), ".")}
    found = report.refutation
    return line | {
        "violated": report.violated,
        "claimed": claim["epsilon"],
        "delta": claim["delta"],
        "epsilon": report.epsilon,
        "wall": round(report.wall_seconds, 1),
        "cpu": round(report.cpu_seconds, 1),
        "calls": report.calls,
        "pairs": report.pairs,
        "tests": report.tests,
        "event": found.event.words if found else "",
        "counts": [found.hits, found.other_hits, found.runs] if found else [],
        "tables": [repr(table) for table in found.pair] if found else [],
        "likelier": found.event.likelier if found else 0,
        "load": round(os.getloadavg()[0], 1),
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    """What has been run so far."""
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({(line["name"], line["version"], line["seed"]): line for line in found}.values())


def kept(path: Path, line: dict[str, Any]) -> None:
    """Add a result to the file, and say it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    said = line.get("refused") or ("VIOLATED" if line["violated"] else "not refuted")
    print(line["name"], line["version"], f"seed {line['seed']}:", said, line.get("cpu", ""), flush=True)


def hunts(path: Path, wanted: set[str], seconds: float, calls: int | None) -> None:
    """Every bug, once, in the version that has it."""
    done = {(line["name"], line["version"]) for line in lines_of(path)}
    for bug in (*BUGS, *NEW):
        if (not wanted or bug.name in wanted) and (bug.name, bug.buggy.words) not in done:
            kept(path, hunted(bug, bug.buggy, options_of(bug.buggy, 1, seconds, calls)))


def fixed_hunts(path: Path, wanted: set[str], runs: int, calls: int) -> None:
    """Fixed versions, twenty seeds of each in turn, so that a run that is cut short has seen them all."""
    done = {(line["name"], line["version"], line["seed"]) for line in lines_of(path)}
    fixed = [(bug, bug.fixed) for bug in (*BUGS, *NEW) if bug.fixed is not None and (not wanted or bug.name in wanted)]
    for first in range(2, 2 + runs, BLOCK):
        for bug, version in fixed:
            seeds = range(first, min(first + BLOCK, 2 + runs))
            left = [seed for seed in seeds if (bug.name, version.words, seed) not in done]
            if left:
                for seed in left:
                    kept(path, hunted(bug, version, options_of(version, seed, 1.0, calls)))


def main() -> None:
    """Hunt, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("hunt", "fixed", "page"))
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--calls", type=int, help="of a hunt at most; `fixed` has 1000 unless told")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "page":
        PAGE.write_text(
            hunter_page.page(BUGS, NEW, lines_of(RESULTS / "hunter.jsonl"), lines_of(RESULTS / "hunter-fixed.jsonl"))
        )
        return
    path = given.out or RESULTS / ("hunter.jsonl" if given.what == "hunt" else "hunter-fixed.jsonl")
    wanted = set(filter(None, given.only.split(",")))
    if given.what == "hunt":
        hunts(path, wanted, given.seconds, given.calls)
    else:
        fixed_hunts(path, wanted, given.runs, given.calls or 1000)


if __name__ == "__main__":
    main()
