"""The R package: its own tests and its vignette, with the R of this machine and the command line of this checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "r"
NEEDED = ("jsonlite", "testthat", "knitr")


def run(arguments: list[str], folder: Path, library: Path) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m sordino"
    environment = os.environ | {"SORDINO": command, "R_LIBS": str(library)}
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package in a library of its own; skipped where R or what it imports is missing."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    library = tmp_path_factory.mktemp("library")
    words = ", ".join(f"'{name}'" for name in NEEDED)
    if run(
        ["Rscript", "-e", f"stopifnot(all(c({words}) %in% rownames(installed.packages())))"], library, library
    ).returncode:
        pytest.skip(f"R lacks one of {', '.join(NEEDED)}")
    made = run(["R", "CMD", "INSTALL", "--no-test-load", "-l", str(library), str(PACKAGE)], library, library)
    assert made.returncode == 0, made.stderr
    return library


@pytest.mark.slow
def test_the_tests_of_the_package_pass(installed, tmp_path) -> None:
    shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    answer = run(["Rscript", "testthat.R"], tmp_path / "tests", installed)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "FAIL 0" in answer.stdout


@pytest.mark.slow
def test_the_vignette_runs(installed, tmp_path) -> None:
    shutil.copy(PACKAGE / "vignettes" / "sordino.Rmd", tmp_path)
    answer = run(["Rscript", "-e", "knitr::knit('sordino.Rmd')"], tmp_path, installed)
    assert answer.returncode == 0, answer.stderr
    page = (tmp_path / "sordino.md").read_text()
    assert "## Error" not in page
    assert "NON-PRIVATE" in page
