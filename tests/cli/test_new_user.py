"""A new user with a nasty file gets to the end by answering questions in a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_new_user_gets_from_a_nasty_file_to_the_end(tmp_path):
    script = [sys.executable, str(ROOT / "bench" / "new_user.py"), "--record", str(tmp_path / "figures.md")]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("reached a signed dossier")
    assert "sordino fit logistic stays.csv" in (tmp_path / "figures.md").read_text()
