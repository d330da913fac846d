# pyright: reportAttributeAccessIssue=false
"""Every release says one thing about floating point: that it is covered, or that it is not."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, Spec, read_spec
from sordino.accounting.evaluate import explain
from sordino.core.bound import (
    FLOATING_POINT,
    NOT_COVERED,
    Evidence,
    exactly_computed,
    floating_point_line,
    with_floating_point,
)
from sordino.estimators import METHODS
from sordino.fitting.gradient_runs import chain_line, fit_chain
from sordino.fitting.tasks.base import TASKS
from sordino.ledger.release import read_release, write_release
from sordino.models import Logistic
from tests.release_kinds import KINDS

SPECS = Path(__file__).parents[2] / "examples" / "specs"
FITTED = sorted(TASKS["classification"].methods)


def fitted(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is seeded
        return KINDS[f"logistic {name}"]()


@pytest.mark.every(2)
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


def test_every_method_of_the_estimators_is_covered():
    """What is not is named on the page of evidence: stable noise, posterior draws, and real-number bounds."""
    assert all(method.floating_point.evidence is Evidence.PROVED for method in METHODS.values())


def own_spec(**changed):
    """The spec of a chain, changed here and there."""
    given = {
        "algorithm": {
            "kind": "noisy-gradient", "steps": 5, "step_size": 0.1, "noise": {"kind": "gaussian", "scale": 0.1},
            "batch": {"scheme": "full"}, "clipping": {"kind": "residual", "bound": 1.0},
        },
        "problem": {
            "n": 40, "dim": 2, "gradient_sensitivity": 2.0, "gradient_bound": 1.0, "strong_convexity": 0.5,
            "smoothness": 1.0, "regulariser": {"strong_convexity": 0.5, "smoothness": 0.5},
        },
        "relation": "replace-one", "view": "last-iterate", "delta": 1e-5,
    }  # fmt: skip
    return Spec.from_dict(given).with_values(changed)


def own_line(**changed):
    """What a fit of a custom loss says."""
    return chain_line(explain(own_spec(**changed), 1e-5), Logistic(weight_decay=0.5))


def test_a_chain_says_what_its_bound_rests_on():
    """Contraction of hidden steps is about real numbers, unless roundings are stated; noised sums are exact anyway."""
    assert own_line() == NOT_COVERED
    assert own_line(**{"algorithm.rounding": 1e-6}).evidence is Evidence.PROVED
    seen = own_line(view="all-iterates")
    assert seen.evidence is Evidence.PROVED
    assert "lattice" in seen.reason


def test_a_release_that_is_silent_does_not_cover_it(tmp_path):
    folder = write_release(tmp_path / "release", fitted("constant"))
    document = json.loads((folder / "release.json").read_text())
    del document["floating_point"]
    (folder / "release.json").write_text(json.dumps(document))
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
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    spec = own_spec(**{"algorithm.rounding": 1e-6})
    release = fit_chain(spec, Logistic(weight_decay=0.5), X, np.sign(X[:, 0]), epsilon=1.0, random_state=0)
    point = release.arrays["draws"]
    tau = float(release.spec.algorithm.noise.scale.values(release.spec.algorithm.steps)[-1])
    spacing = 2.0 ** np.floor(np.log2(tau / 1024))
    assert np.array_equal(np.rint(point / spacing), point / spacing)
