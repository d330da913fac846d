"""Seeded releases, their noised calls and the printed text of commands are those on record.

`python -m tests.golden.record --check` compares bytes; here numbers may differ in the last digits, as they may on
another processor. A change that is meant is recorded again, and stands under "Numbers" in the changelog.
"""

import json
import re

import numpy as np
import pytest

from sordino.auditing.replay import Recorder
from tests.golden.cases import cases, run_case
from tests.golden.printed import TEXTS, printed
from tests.golden.record import TABLE

_NUMBER = re.compile(r"(-?\d+\.\d+(?:e-?\d+)?)")
KNOWN = json.loads(TABLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    """One for all cases: kernels are compiled for a recorder."""
    return Recorder()


def test_every_case_is_on_record():
    assert set(cases()) == set(KNOWN)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_seeded_release_is_the_one_on_record(name, recorder):
    now, known = run_case(name, recorder), KNOWN[name]
    assert [call[:2] for call in now["calls"]] == [call[:2] for call in known["calls"]]
    np.testing.assert_allclose([c[2] for c in now["calls"]], [c[2] for c in known["calls"]], rtol=1e-6)
    assert set(now["left"]) == set(known["left"])
    for key, value in known["left"].items():
        if "first" in value:
            np.testing.assert_allclose(now["left"][key]["first"], value["first"], rtol=1e-5, atol=1e-9, err_msg=key)
        elif key != "certificate":
            assert now["left"][key]["digest"] == value["digest"], key


def test_commands_print_what_is_on_record():
    """The report of a release is compared too; dates, digests and timings are left out."""
    pytest.importorskip("randomgen", reason="a release needs the extra secure")
    now, known = (
        re.split(_NUMBER, text) for text in ("\n\n".join(printed()) + "\n", TEXTS.read_text(encoding="utf-8"))
    )
    assert now[::2] == known[::2]
    # The last digit that is printed may be another processor's; counts and signs may not.
    for one, other in zip(now[1::2], known[1::2], strict=True):
        assert one == other or float(one) == pytest.approx(float(other), rel=2e-5, abs=1e-9), (one, other)
