"""What it costs to have a library: import time in a cold process, bytes of a fresh environment, number of packages.

    python bench/install.py [--full]

Import time is CPU time of `python -c "import ..."` less that of `python -c pass`, everyone in turns on one core.
"""

import sys
from pathlib import Path
from typing import Any

import area
from rows import Question, Row

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

OURS = "Sordino"
_COLD = "CPU time of a fresh process that does only this, less that of one that does nothing; files in the page cache"
NAME_ONLY = Question(
    "install",
    "import",
    "import of the package by name",
    "CPU seconds",
    f"{_COLD}. Sordino loads what is used when it is used; the next rows load something to use",
    more_is_better=False,
)
ACCOUNTANT = Question("install", "import accountant", "import of an accountant", "CPU seconds", _COLD, False)
TRAINER = Question("install", "import trainer", "import of what trains or samples", "CPU seconds", _COLD, False)
ESTIMATOR = Question("install", "import estimator", "import of an estimator", "CPU seconds", _COLD, False)
SIZE = Question(
    "install",
    "size",
    "bytes of a fresh environment",
    "MB",
    "Everything pip installs for the package, compiled files included, less pip and setuptools themselves",
    more_is_better=False,
)
PACKAGES = Question("install", "packages", "packages of a fresh environment", "packages", SIZE.how, False)

# Question, our statement, and the peers' environments and statements.
IMPORTS = (
    (
        NAME_ONLY,
        "import sordino",
        {
            "dp-accounting": "import dp_accounting",
            "opacus": "import opacus",
            "jax-privacy": "import jax_privacy",
            "diffprivlib": "import diffprivlib",
            "numpyro": "import numpyro",
            "blackjax": "import blackjax",
            "riskcal": "import riskcal",
        },
    ),
    (
        ACCOUNTANT,
        "from sordino.accounting import LossDistribution, explain",
        {
            "dp-accounting": "from dp_accounting.pld import PLDAccountant",
            "prv-accountant": "from prv_accountant import PRVAccountant",
            "autodp": "from autodp.mechanism_zoo import GaussianMechanism",
        },
    ),
    (
        TRAINER,
        "from sordino.algorithm import run, dp_sgd",
        {
            "opacus": "from opacus import PrivacyEngine",
            "jax-privacy": "from jax_privacy.clipping import clipped_grad",
            "blackjax": "from blackjax import sgld",
            "numpyro": "from numpyro.infer import MCMC, SVI",
        },
    ),
    (
        ESTIMATOR,
        "from sordino import PrivateLinearRegression",
        {"diffprivlib": "from diffprivlib.models import LinearRegression"},
    ),
)
SIZED = ("opacus", "jax-privacy", "dp-accounting", "prv-accountant", "autodp", "riskcal", "diffprivlib", "blackjax",
         "numpyro", "d3p")  # fmt: skip
_NOT_COUNTED = {"pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth"}


def imports(repetitions: int) -> list[Row]:
    rows = []
    for question, ours, peers in IMPORTS:
        statements = {OURS: ("sordino", ours)} | {peer: (peer, text) for peer, text in peers.items()}
        taken, reasons = _in_turns(statements, repetitions)
        for peer in peers:
            reason = reasons.get(OURS) or reasons.get(peer)
            rows.append(question.missing(peer, reason) if reason else question.row(peer, taken[OURS], taken[peer]))
    return rows


def _in_turns(
    statements: dict[str, tuple[str, str]], repetitions: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    taken: dict[str, list[float]] = {name: [] for name in statements}
    reasons: dict[str, str] = {}
    for repetition in range(repetitions + 1):
        for name, (environment, statement) in statements.items():
            if name in reasons:
                continue
            try:
                python = environments.python_of(environment)
                nothing = environments.cold(python, "-c", "pass").cpu_seconds
                spent = environments.cold(python, "-c", statement).cpu_seconds
            except environments.CouldNotRunError as failure:
                reasons[name] = str(failure)
                continue
            if repetition:  # the first reads the files into the page cache
                taken[name].append(max(spent - nothing, 1e-4))
    return taken, reasons


def sizes() -> tuple[list[Row], dict[str, Any], dict[str, Any]]:
    found, reasons = {}, {}
    for name in ("sordino", *SIZED):
        try:
            environments.python_of(name)
            found[name] = _held(environments.ENVS / name)
        except environments.CouldNotRunError as failure:
            reasons[name] = str(failure)
    rows = []
    for question, key in ((SIZE, "megabytes"), (PACKAGES, "packages")):
        for peer in SIZED:
            reason = reasons.get("sordino") or reasons.get(peer)
            if reason is not None:
                rows.append(question.missing(peer, reason))
            else:
                rows.append(question.row(peer, [found["sordino"][key]], [found[peer][key]]))
    figures = {name: {key: held[key] for key in ("megabytes", "packages")} for name, held in found.items()}
    return rows, figures, {name: held["versions"] for name, held in found.items()}


def _held(environment: Path) -> dict[str, Any]:
    [folder] = (environment / "lib").glob("python*/site-packages")
    size, versions = 0, {}
    for entry in folder.iterdir():
        name, _, rest = entry.name.partition("-")
        if entry.name in _NOT_COUNTED or name in _NOT_COUNTED:
            continue
        size += sum(
            path.stat().st_size for path in (entry.rglob("*") if entry.is_dir() else (entry,)) if path.is_file()
        )
        if rest.endswith(".dist-info"):
            versions[name.replace("_", "-").lower()] = rest.removesuffix(".dist-info")
    return {"megabytes": size / 1e6, "packages": len(versions), "versions": dict(sorted(versions.items()))}


def measure(full: bool) -> area.Measured:
    size_rows, figures, versions = sizes()
    return area.Measured(
        [*imports(environments.rounds_of(9 if full else 5)), *size_rows], {"environments": figures}, versions
    )


if __name__ == "__main__":
    area.main("install", measure, __doc__)
