"""The R script drives the command line and reads releases, with whatever R is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.example_releases import coefficients, written

ROOT = Path(__file__).parents[2]
RSCRIPT = shutil.which("Rscript")


def has_jsonlite():
    found = subprocess.run([str(RSCRIPT), "-e", "library(jsonlite)"], capture_output=True, check=False)
    return found.returncode == 0


if RSCRIPT is None:
    pytestmark = pytest.mark.skip(reason="no Rscript here: apt-get install r-base-core r-cran-jsonlite")
elif not has_jsonlite():
    pytestmark = pytest.mark.skip(reason="R has no jsonlite here: apt-get install r-cran-jsonlite")

SCRIPT = """
source("{script}")
table <- sordino_coefficients("release")
stopifnot(identical(table$name, c("intercept", "age", "days", "smoker", "ward=surgery")))
stopifnot(all(table$low < table$estimate & table$estimate < table$high))
effects <- sordino_effects("release", at = "ward=surgery")
stopifnot(effects$value[1] == "50 more")
stopifnot(nrow(sordino_margins("release", c("age", "ward"))) == 7)
draws <- sordino_draws("release", draws = 20, seed = 1)
stopifnot(identical(dim(draws), c(20L, 5L)), "ward=surgery" %in% names(draws))
stopifnot(sordino_release("release")$spec$relation %in% c("replace-one", "add-remove"))
sordino("ledger", "open", "book", dataset = "stays", relation = "replace-one", epsilon = 1, delta = 1e-5)
stopifnot(file.exists("book"))
refused <- tryCatch(sordino("show", "nowhere"), sordino_error = function(error) error)
stopifnot(inherits(refused, "sordino_error"), refused$code == 2, grepl("Expected", conditionMessage(refused)))
cat("all of it\\n")
"""


@pytest.mark.slow
def test_r_reads_a_release_and_gets_refusals_as_conditions(tmp_path, monkeypatch):
    written(tmp_path, "release", coefficients())
    monkeypatch.setenv("SORDINO", f"{sys.executable} -m sordino")
    script = SCRIPT.replace("{script}", str(ROOT / "examples" / "r" / "sordino.R"))
    (tmp_path / "run.R").write_text(script)
    done = subprocess.run([str(RSCRIPT), "run.R"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all of it\n")
