"""Every release says one thing about floating point: that it is covered, or that it is not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino.core.bound import (
    FLOATING_POINT,
    NOT_COVERED,
    Evidence,
    exactly_computed,
    floating_point_line,
    with_floating_point,
)
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError
from sordino.estimators import METHODS, ArrayBounds, PrivateLinearRegression, PrivateLogisticRegression
from sordino.estimators.situation import Task
from sordino.ledger.release import read_release, write_release

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
SPECS = Path(__file__).parents[2] / "examples" / "specs"
# Noise is added to sums on the host; a chain is compiled, in single precision.
EXACT = {"statistics", "gradients", "constant"}
FITTED = ["statistics", *sorted(name for name, method in METHODS.items() if Task.CLASSIFICATION in method.tasks)]


def fitted(name: str):
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (800, 2))
    kind = PrivateLinearRegression if name == "statistics" else PrivateLogisticRegression
    bounds = ArrayBounds(-1, 1, target=(-1, 1), classes=None if name == "statistics" else (0, 1))
    y = X[:, 0] if name == "statistics" else (X[:, 0] > 0).astype(int)
    return kind(schema=bounds, method=name, **BUDGET).fit(X, y).release_


@pytest.mark.parametrize("name", FITTED)
def test_a_release_has_one_line_and_keeps_it_in_its_folder(name, tmp_path):
    release, stated = fitted(name), METHODS[name].floating_point
    proved = stated.evidence is Evidence.PROVED
    for found in (release, read_release(write_release(tmp_path / "release", release))):
        lines = [one for one in found.bound.certificates if one.constant == FLOATING_POINT]
        assert lines == [stated]
        assert ("not covered" in stated.reason) == (not proved)
        assert stated.value == 0.0  # covered at no cost, or assumed to cost nothing
    document = json.loads((tmp_path / "release" / "release.json").read_text())
    assert document["floating_point"]["evidence"] == ("proved" if proved else "assumed")
    # A reader of version 1.0 knows no such constant: the line stands apart, under a key that it skips.
    assert all(one["constant"] != FLOATING_POINT.name for one in document["bound"]["certificates"])
    assert document["version"] == "2.1"


def test_no_compiled_method_claims_to_be_exact():
    covered = {name for name, method in METHODS.items() if method.floating_point.evidence is Evidence.PROVED}
    assert covered >= EXACT
    assert "chain" not in covered


def test_a_release_that_is_silent_does_not_cover_it(tmp_path):
    folder = write_release(tmp_path / "release", fitted("constant"))
    document = json.loads((folder / "release.json").read_text())
    del document["floating_point"]
    (folder / "release.json").write_text(json.dumps(document | {"version": "1.0"}))
    assert floating_point_line(read_release(folder).bound) == NOT_COVERED


def test_a_spec_cannot_assume():
    stated = {"value": 1.0, "evidence": "assumed", "reason": "hope", "reads_private_data": False}
    spec = read_spec(SPECS / "full-last-iterate.json").to_dict()
    spec["problem"]["gradient_sensitivity"] = stated
    with pytest.raises(InputError, match="evidence"):
        Spec.from_dict(spec)


def test_the_weakest_of_several_lines_counts_and_one_stays():
    bound = fitted("constant").bound
    both = replace(bound, certificates=(exactly_computed("said twice"), NOT_COVERED, *bound.certificates))
    assert floating_point_line(both) == NOT_COVERED
    assert with_floating_point(both, NOT_COVERED).certificates[-1:] == (NOT_COVERED,)
    assert sum(one.constant == FLOATING_POINT for one in with_floating_point(both, NOT_COVERED).certificates) == 1


def test_the_bits_of_a_released_chain_end_at_the_grid():
    """A thousandth of the noise of the last step; a float has many bits below that."""
    release = fitted("chain")
    point = release.arrays["means"]
    tau = float(release.spec.algorithm.noise.scale.values(release.spec.algorithm.steps)[-1])
    spacing = 2.0 ** np.floor(np.log2(tau / 1024))
    assert np.array_equal(np.rint(point / spacing), point / spacing)
