"""Processes that are killed, politely or not, leave a state from which the run ends with the same bits."""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sordino.mechanisms import Interrupted
from sordino.mechanisms.checkpoint_file import read_record

SCRIPT = Path(__file__).parent / "resumable.py"
ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def script():
    """The script as a module, for the parts of a story that need no process of their own."""
    described = importlib.util.spec_from_file_location("resumable", SCRIPT)
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


def killed(folder, number, after, scheme="poisson"):
    """Begin or take up the run in a process, send it a signal some time after its first block, say how it ended."""
    (folder / "begun").unlink(missing_ok=True)
    command = [sys.executable, str(SCRIPT), str(folder), "0.02", scheme]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "begun").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(after)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    return process.returncode, said


def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path, script):
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = script.iterates(tmp_path / "whole")
    moments = random.Random(1)
    for _ in range(2):
        assert killed(tmp_path / "cut", signal.SIGKILL, moments.uniform(0.0, 0.15))[0] == -signal.SIGKILL
    assert 0 <= read_record(tmp_path / "cut" / "run.checkpoint").values["step"] < script.STEPS
    np.testing.assert_array_equal(script.iterates(tmp_path / "cut"), whole)
    assert [entry.name for entry in (tmp_path / "cut").iterdir()] == ["begun"]


def test_control_c_stops_a_process_with_one_sentence(tmp_path):
    code, said = killed(tmp_path, signal.SIGINT, 0.05)
    assert code == 130
    assert said.startswith("Stopped after step ")
    assert said.endswith(f"run the same command again to go on from '{tmp_path / 'run.checkpoint'}'.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_can_be_taken_up_and_handlers_are_put_back(tmp_path, script, number):
    (tmp_path / "whole").mkdir()
    whole = script.iterates(tmp_path / "whole")
    before = signal.getsignal(number)

    def stop(progress):
        if progress.step == 40:
            signal.raise_signal(number)

    with pytest.raises(Interrupted) as stopped:
        script.iterates(tmp_path, stop)
    assert signal.getsignal(number) is before
    assert 40 <= stopped.value.step < script.STEPS
    assert stopped.value.step == read_record(stopped.value.path).values["step"]
    np.testing.assert_array_equal(script.iterates(tmp_path), whole)


def test_asking_twice_stops_at_once(tmp_path, script):
    # A shell starts jobs in the background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            script.iterates(tmp_path, stop)
    finally:
        signal.signal(signal.SIGINT, before)
    assert read_record(tmp_path / "run.checkpoint").values["step"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["full", "reshuffled", "without-replacement", "poisson"])
def test_kills_at_six_random_moments_change_nothing(tmp_path, script, scheme):
    """24 kills in all; whenever one comes too late, the run was complete."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = script.iterates(tmp_path / "whole", scheme=scheme)
    moments = random.Random(scheme)
    codes = [killed(tmp_path / "cut", signal.SIGKILL, moments.uniform(0.0, 0.1), scheme)[0] for _ in range(6)]
    assert codes.count(-signal.SIGKILL) >= 3
    np.testing.assert_array_equal(script.iterates(tmp_path / "cut", scheme=scheme), whole)
