"""Peer libraries live in environments of their own, made on demand under bench/envs and never in the runtime."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import task

ROOT = Path(__file__).parents[2]
ENVS = Path(__file__).parents[1] / "envs"
SCRIPTS = Path(__file__).parent
# What is installed, one after another; each entry is one call of pip, so that its requirements are solved together.
PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sordino": ((str(ROOT),),),
    # Opacus would otherwise pull a build of torch for accelerators.
    "opacus": (("torch==2.13.0",), ("opacus>=1.6,<1.7",)),
    "jax-privacy": (("jax-privacy>=2.0,<3",),),
    "dp-accounting": (("dp-accounting>=0.6,<0.7",),),
    # Its loops are compiled where numba is there.
    "pld-accounting": (("PLD-accounting[performance]>=2.0,<3",),),
    "prv-accountant": (("prv-accountant>=0.2,<0.3",),),
    "autodp": (("autodp>=0.2.3,<0.3",),),
    "riskcal": (("riskcal>=1.5,<2",),),
    # It cannot be imported with scikit-learn 1.9 and says nothing of it.
    "diffprivlib": (("diffprivlib>=0.6.6,<0.7", "scikit-learn>=1.5,<1.6"),),
    # Not on PyPI; once called dp-econometrics.
    "dp-statsmodels": (("git+https://github.com/MaxGhenis/dp-statsmodels@ce4a47bea308f33c8a230def6e6d3704b02825cd",),),
    "interpret": (("interpret-core>=0.7,<0.8",),),
    "opendp": (("opendp>=0.16,<0.17", "numpy"),),
    "blackjax": (("blackjax>=1.7,<2",),),
    "numpyro": (("numpyro>=0.22,<0.23",),),
    # Its generator needs jax.core.Primitive, which current JAX has no more, and NumPyro of the same age.
    "d3p": (("d3p>=0.2,<0.3", "jax==0.4.30", "jaxlib==0.4.30", "numpyro>=0.15,<0.16", "scipy<1.13"),),
}
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
DRAFT = "SORDINO_BENCH_ROUNDS"


def rounds_of(wanted: int) -> int:
    """How many rounds to measure: as many as wanted, unless a draft asks for fewer."""
    return min(wanted, int(os.environ.get(DRAFT, wanted)))


class CouldNotRunError(Exception):
    """A peer that could not be installed or run, with the last line it said."""


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, made and filled if it is not there yet."""
    folder = ENVS / peer
    ready = folder / ".ready"
    python = folder / "bin" / "python"
    if not ready.exists():
        _checked([sys.executable, "-m", "venv", "--clear", str(folder)], f"{peer} could not be installed")
        for packages in PACKAGES[peer]:
            _checked(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                f"{peer} could not be installed",
            )
        ready.touch()
    return str(python)


def renew_own() -> None:
    """Install Sordino as it is now into its own environment, which is kept otherwise."""
    python = python_of("sordino")
    _checked(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall",
         *PACKAGES["sordino"][0]],
        "sordino could not be installed",
    )  # fmt: skip


def result_of(said: str) -> dict[str, Any]:
    """What a script reported on its one line for us."""
    lines = [line for line in said.splitlines() if line.startswith(task.WORD)]
    if len(lines) != 1:
        raise CouldNotRunError(f"a script reported {len(lines)} times, not once")
    return json.loads(lines[0].removeprefix(task.WORD))


def on_one_core(python: str, script: str, *arguments: str, seconds: float = 600.0) -> dict[str, Any]:
    """Run a script of this folder on one core, with one thread, and read what it reports."""
    with _one_core():
        said = _checked(
            [python, str(SCRIPTS / script), *arguments],
            f"{script} failed",
            env=environment_of(python) | ONE_THREAD,
            timeout=seconds,
        )
    return result_of(said)


@contextmanager
def _one_core() -> Iterator[None]:
    """Processes started inside stay on one core: they inherit it, and no code of ours runs between fork and exec."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


class Cost(NamedTuple):
    """What a whole process took, its start included, and what it said."""

    cpu_seconds: float
    wall_seconds: float
    said: str


def cold(python: str, *arguments: str, seconds: float = 300.0) -> Cost:
    """Run a fresh process on one core, with one thread, and measure all of it."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with _one_core():
        said = _checked(
            [python, *arguments],
            "a fresh process failed",
            env=environment_of(python) | ONE_THREAD,
            timeout=seconds,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, time.perf_counter() - begin, said)


def environment_of(python: str) -> dict[str, str]:
    """The variables of this process, less a search path that is meant for its own interpreter alone."""
    mine = python == sys.executable
    return {name: value for name, value in os.environ.items() if mine or name not in {"PYTHONPATH", "PYTHONHOME"}}


def _checked(command: list[str], failure: str, **options: Any) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    except subprocess.TimeoutExpired as found:
        raise CouldNotRunError(f"{failure}: not finished after {found.timeout:g} s") from found
    except OSError as found:
        raise CouldNotRunError(f"{failure}: {found}") from found
    if finished.returncode:
        said = [line for line in finished.stderr.splitlines() if line.strip()] or ["no message"]
        raise CouldNotRunError(f"{failure}: {said[-1].strip()[:200]}")
    return finished.stdout
