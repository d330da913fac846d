"""Eight devices give what one gives: chains side by side to the bit, their rows in shares to the rounding of a sum.

Variational fits whose rows are shared give the same bits: shares are whole groups of rows, whose sums add up exactly.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.mechanisms import ChainParallel, DataParallel

SCRIPT = Path(__file__).parent / "on_eight_devices.py"
# Twenty steps, each of which may round a sum of the size of the iterates differently.
TOLERANCE = 20 * float(np.finfo(np.float32).eps)


def compared(*schemes):
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), *schemes],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(answer.stdout)


def check(answer):
    assert answer["devices"] == 8
    for apart in answer["apart"].values():
        assert apart["chains"] == 0.0
        assert apart["rows"] <= TOLERANCE
        assert apart["largest"] > 0.1
    assert answer["resumed"]
    assert "multiple of the 3 devices" in answer["refused"]
    for found in answer["variational"]:
        assert found["apart"] == 0.0
        assert found["moved"] > 0.1
    assert "to be full" in answer["variational refused"]


@pytest.mark.slow
def test_eight_devices_give_what_one_gives():
    check(compared("full", "poisson"))


@pytest.mark.slow
def test_eight_devices_give_what_one_gives_for_every_scheme():
    check(compared(*(str(scheme) for scheme in Scheme)))


def test_more_devices_than_there_are_is_refused():
    for placement in (ChainParallel, DataParallel):
        with pytest.raises(InputError, match="devices"):
            placement(1000)
