"""The Flower example, in an environment of its own: the bits of the joined table, and what the hunter finds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ["flwr[simulation]", "jax", "scipy", "pyarrow", "jinja2", "safetensors", "threadpoolctl"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


@pytest.mark.slow
def test_sites_under_flower_give_the_bits_of_the_joined_table(tmp_path) -> None:
    # Flower asks for an older typer than Sordino's command line, which the example does not use.
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "flower"], check=True)
    python = tmp_path / "flower" / "bin" / "python"
    made = subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("Flower cannot be installed here")
    script = ROOT / "examples" / "flower" / "federated.py"
    answer = subprocess.run([python, script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "certified epsilon 1.0000" in answer.stdout
    assert "the same bits as the joined table: True" in answer.stdout


@pytest.mark.slow
def test_the_hunter_refutes_client_level_accounting_that_forgets_the_replaced_client() -> None:
    script = ROOT / "examples" / "flower" / "client_level.py"
    answer = subprocess.run([sys.executable, script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Violated" in answer.stdout
