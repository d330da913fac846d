"""Sums of compiled programs: the flag that keeps them right, and the refusal where it came too late."""

import os
import subprocess
import sys
from importlib import import_module

import jaxlib
import pytest

from sordino.core.fused_sums import FLAG, installed_release, with_flag
from sordino.mechanisms import SeededRandomness
from sordino.models import clip as compiled
from sordino.models.clip import check_sums

LATE = """
import jax, jax.numpy as jnp
jnp.zeros(3).block_until_ready()
import numpy as np, sordino
from sordino.mechanisms import SeededRandomness, noisy_gd
from sordino.models import Domain, Logistic
model = Logistic(weight_decay=0.1)
spec = noisy_gd(model.problem(8, Domain(2, 1.0)), step_size=1.0, noise_scale=0.01, steps=2, relation="replace-one",
    view="last-iterate")
try:
    sordino.run(spec, model, np.zeros((8, 2)), np.ones(8), SeededRandomness(0))
except sordino.InputError as refused:
    print(refused)
"""
CHECKED = "from sordino.models.clip import check_sums; check_sums(); print('right')"
SOON = f"import jax, sordino.mechanisms; {CHECKED}"
# As pages of the docs begin: names of `sordino` are used only after the first computation.
IMPORTED_FIRST = f"import jax.numpy as jnp, sordino; jnp.ones(()).block_until_ready(); {CHECKED}"


def said(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=True, timeout=120
    )
    return answer.stdout


def test_sums_are_right_where_the_flag_came_in_time_and_a_run_is_refused_where_it_came_too_late():
    assert said(IMPORTED_FIRST, JAX_PLATFORMS="cpu") == "right\n"
    usual = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    assert said(SOON, JAX_PLATFORMS="cpu", XLA_FLAGS=usual) == "right\n"
    # Where a later release of XLA is right without the flag, nothing is refused and this test says so.
    assert "JAX ran a computation before Sordino was loaded." in said(LATE, JAX_PLATFORMS="cpu")


def test_the_import_sets_the_flag_without_jax_and_keeps_what_is_there():
    program = "import os, sys, sordino; print(os.environ.get('XLA_FLAGS'), 'jax' in sys.modules)"
    assert with_flag("", installed_release()) in said(program)
    assert said(program, XLA_FLAGS="--xla_a=1") == f"{with_flag('--xla_a=1', installed_release())} False\n"


def test_the_release_of_jaxlib_is_read_from_its_files():
    assert ".".join(map(str, installed_release())) == jaxlib.__version__


def test_whoever_chose_otherwise_is_believed_and_refused_if_it_is_wrong():
    chosen = "--xla_cpu_experimental_ynn_fusion_type=+reduce"
    assert with_flag(chosen, (0, 10, 2)) == chosen
    assert f"Set XLA_FLAGS={FLAG} before" in said(LATE, JAX_PLATFORMS="cpu", XLA_FLAGS=chosen)


@pytest.mark.parametrize(
    ("version", "known"),
    [((0, 9, 2), False), ((0, 10, 0), True), ((0, 11, 2), True), ((0, 11, 3), False), ((0, 12, 0), False)],
)
def test_only_releases_that_know_the_flag_are_given_it(version, known):
    assert with_flag("--xla_a=1", version) == (f"{FLAG} --xla_a=1" if known else "--xla_a=1")


def test_a_wrong_sum_is_seen(monkeypatch):
    summed = compiled._summed
    # One of 512 sums is off by one.
    monkeypatch.setattr(compiled, "_summed", lambda x, v: summed(x, v).at[511].add(1.0))
    check_sums.cache_clear()
    with pytest.raises(compiled.InputError, match="wrong sum of products"):
        check_sums()
    monkeypatch.undo()
    check_sums()


ENTRIES = {
    "mechanisms.chain.run": lambda module: module.run(None, None, None, None, None),
    "mechanisms.chain.functional": lambda module: module.chain(None, None),
    "mechanisms.rounds": lambda module: module.run_sums(None, None, None, None, None),
    "mechanisms.networks.training": lambda module: module.train(None, None, None, None, SeededRandomness(0), None),
    "fitting.problem": lambda module: module.Sources(0).ready(),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_way_in_asks_before_anything_else(monkeypatch, name):
    module = import_module(f"sordino.{name}")

    def wrong():
        raise compiled.InputError("wrong sums")

    monkeypatch.setattr(module, "check_sums", wrong)
    with pytest.raises(compiled.InputError, match="wrong sums"):
        ENTRIES[name](module)
