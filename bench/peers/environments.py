"""Peer libraries live in environments of their own, made on demand under bench/envs and never in the runtime."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import task

ENVS = Path(__file__).parents[1] / "envs"
SCRIPTS = Path(__file__).parent
# What is installed, in order: Opacus would otherwise pull a build of torch for accelerators.
PACKAGES = {
    "opacus": ("torch==2.13.0", "opacus"),
    "jax-privacy": ("jax-privacy",),
    "prv-accountant": ("prv-accountant",),
}
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, made and filled if it is not there yet."""
    folder = ENVS / peer
    ready = folder / ".ready"
    python = folder / "bin" / "python"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        for package in PACKAGES[peer]:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True)
        ready.touch()
    return str(python)


def on_one_core(python: str, script: str) -> dict[str, Any]:
    """Run a script of this folder on one core, with one thread, and read what it reports."""
    core = max(os.sched_getaffinity(0))
    finished = subprocess.run(
        [python, str(SCRIPTS / script)],
        env=os.environ | ONE_THREAD,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    [line] = [line for line in finished.stdout.splitlines() if line.startswith(task.WORD)]
    return json.loads(line.removeprefix(task.WORD))
