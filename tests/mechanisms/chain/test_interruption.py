"""Processes that are killed leave a state from which the run ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sordino.mechanisms.checkpoint import read_record
from tests.mechanisms.chain import resumable

ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu"}


def killed(folder, after, scheme="poisson", number=signal.SIGKILL):
    """Begin or take up the run in a process, kill it some time after its first block, say how it ended."""
    (folder / "begun").unlink(missing_ok=True)
    command = [sys.executable, resumable.__file__, str(folder), "0.02", scheme]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "begun").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(after)
    process.send_signal(number)
    process.communicate(timeout=120)
    return process.returncode


def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path):
    """At once, or as a system asks for it."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = resumable.iterates(tmp_path / "whole")
    moments = random.Random(1)
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert killed(tmp_path / "cut", moments.uniform(0.0, 0.15), number=number) == -number
    assert 0 <= read_record(tmp_path / "cut" / "run.checkpoint").values["step"] < resumable.STEPS
    np.testing.assert_array_equal(resumable.iterates(tmp_path / "cut"), whole)
    assert [entry.name for entry in (tmp_path / "cut").iterdir()] == ["begun"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["full", "reshuffled", "without-replacement", "poisson"])
def test_kills_at_six_random_moments_change_nothing(tmp_path, scheme):
    """24 kills in all; whenever one comes too late, the run was complete."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = resumable.iterates(tmp_path / "whole", scheme=scheme)
    moments = random.Random(scheme)
    codes = [killed(tmp_path / "cut", moments.uniform(0.0, 0.1), scheme) for _ in range(6)]
    assert codes.count(-signal.SIGKILL) >= 3
    np.testing.assert_array_equal(resumable.iterates(tmp_path / "cut", scheme=scheme), whole)
