"""Every mistake in the tables makes its fast tests fail, and the tables fit the package."""

import ast
import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
from tests.mutations.in_cells import IN_CELLS
from tests.mutations.in_choices import IN_CHOICES
from tests.mutations.in_estimators import IN_ESTIMATORS
from tests.mutations.in_files import IN_FILES
from tests.mutations.in_looks import IN_LOOKS
from tests.mutations.in_regression import IN_REGRESSION
from tests.mutations.in_runs import IN_RUNS
from tests.mutations.in_sampling import IN_SAMPLING
from tests.mutations.in_secure import IN_SECURE
from tests.mutations.in_units import IN_UNITS
from tests.mutations.mutation import mutated, places
from tests.mutations.survived import SURVIVED

ROOT = Path(__file__).parents[2]
PACKAGE = Path(sordino.__file__).parent
PASSED, FAILED = 0, 1
MUTATIONS = (
    *SURVIVED,
    *IN_ESTIMATORS,
    *IN_RUNS,
    *IN_SAMPLING,
    *IN_SECURE,
    *IN_REGRESSION,
    *IN_UNITS,
    *IN_LOOKS,
    *IN_CHOICES,
    *IN_CELLS,
    *IN_FILES,
)
NAMES = [mutation.name for mutation in MUTATIONS]


def test_every_mutation_fits_one_place_of_the_package():
    """So that a change of the package cannot leave the tables behind."""
    fits = {mutation.name: places(PACKAGE, mutation) for mutation in MUTATIONS}
    assert {name: found for name, found in fits.items() if len(found) != 1} == {}
    for mutation in MUTATIONS:
        ast.parse(mutated(fits[mutation.name][0], mutation))
        paths = [ROOT / word for word in mutation.arguments if word.startswith("tests/")]
        assert paths, mutation.name
        assert all(path.exists() for path in paths), mutation.name


def test_the_tables_are_as_large_as_they_say():
    assert len(set(NAMES)) == len(NAMES)
    assert len(SURVIVED) >= 8
    assert len(MUTATIONS) - len(SURVIVED) >= 30


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the package to be changed, and a folder for what JAX compiles."""
    copy = tmp_path_factory.mktemp("mutations") / "src" / "sordino"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(copy, quiet=2)
    return copy


def run_tests(copy: Path, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """The fast tests that the arguments choose, with the copied package in the place of the package."""
    settings = {
        "PYTHONPATH": str(copy.parent),
        # What was compiled before a change must not be taken after it.
        "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_COMPILATION_CACHE_DIR": str(copy.parents[1] / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-m", "not slow", *arguments],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", sorted({mutation.arguments for mutation in MUTATIONS}), ids=" ".join)
def test_the_tests_pass_without_a_mutation(arguments, copied):
    done = run_tests(copied, arguments)
    assert done.returncode == PASSED, done.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=NAMES)
def test_every_mutation_makes_a_fast_test_fail(mutation, copied):
    """Tests fail, exit code 1; an interrupted or empty run has another code."""
    (place,) = places(PACKAGE, mutation)
    path = copied / place.file.relative_to(PACKAGE)
    path.write_text(mutated(place, mutation), encoding="utf-8")
    try:
        done = run_tests(copied, mutation.arguments)
    finally:
        path.write_bytes(place.file.read_bytes())
    assert done.returncode == FAILED, done.stdout[-2000:]
