"""Attacks on specs: never above the certificate, close to the exact law where it is known, refused where impossible."""

from pathlib import Path

import numpy as np
import pytest

from papers.extremal_pair import extremal_pair
from sordino import InputError, read_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.experiment import ChainFit
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.attack import attack
from sordino.auditing.quadratic import ConstantPull, exposed_position, extremal_decay, extremal_rows, on_few_axes
from sordino.models.exact import chain_law
from tests.auditing.chains import chain

SPECS = Path(__file__).parents[2] / "examples" / "specs"
FAST = ["cyclic-all-iterates", "full-last-iterate", "full-add-remove", "residual-clipping", "sgld-list"]


def spec(**changes):
    pulls = {"gradient_sensitivity": 2.0, "gradient_bound": 1.0, "strong_convexity": 0.5, "smoothness": 1.0}
    return chain("cyclic", 4, steps=6, step_size=0.3, noise=0.05, n=12, dim=3, **pulls).with_values(changes)


@pytest.mark.parametrize("name", FAST)
def test_an_attack_never_exceeds_a_certificate(name):
    """95 % confidence each, fixed seeds."""
    described = read_spec(SPECS / f"{name}.json")
    found = attack(described, AuditOptions(delta=1e-2, models=400, seed=1))
    assert found.epsilon <= explain(described, 1e-2).epsilon
    assert found.relation is described.relation
    assert found.view is described.view


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm.chains": 3, "view": "all-iterates"},
        {"view": "all-iterates", "algorithm.keep": {"burn_in": 2, "thin": 2}},
        {"algorithm.start": {"kind": "point", "values": [1.0, 2.0, 3.0]}},
        {"relation": "add-remove", "algorithm.batch": {"scheme": "full"}},
    ],
    ids=str,
)
def test_the_models_of_an_attack_have_the_exact_law(changes):
    """Means and standard deviations of 4000 releases against the exact Gaussian law, 6 standard errors each way."""
    described = on_few_axes(spec(**changes), 1)
    position = exposed_position(described)
    rows, pair = extremal_rows(described, position), extremal_pair(described, position)
    fit = ChainFit(described, ConstantPull(weight_decay=extremal_decay(described)))
    for data, exact in ((rows.first, pair.first), (rows.second, pair.second)):
        releases = fit(data, np.arange(4000, dtype=np.uint64))
        law = chain_law(described, exact)
        deviations = np.sqrt(np.diag(law.covariance))
        assert np.abs(releases.mean(axis=0) - law.mean).max() < (6 * deviations / np.sqrt(4000)).max()
        assert np.allclose(releases.std(axis=0), deviations, rtol=6 / np.sqrt(8000))


def test_the_record_of_the_last_step_is_attacked():
    assert exposed_position(spec()) == 11
    assert exposed_position(spec(**{"algorithm.steps": 4})) == 3
    assert exposed_position(spec(**{"algorithm.batch": {"scheme": "full"}})) == 11


def test_a_projected_run_keeps_its_coordinates():
    assert on_few_axes(spec(**{"algorithm.projection": {"kind": "ball", "radius": 1.0}}), 1).dim == 3
    assert on_few_axes(spec(), 1).dim == 1


@pytest.mark.parametrize("name", ["posterior-bounded", "composite", "em"])
def test_other_kinds_are_refused_in_one_sentence(name):
    with pytest.raises(InputError, match="noisy gradient chain"):
        attack(read_spec(SPECS / f"{name}.json"), AuditOptions(delta=1e-5))


def test_an_attack_nobody_would_wait_for_is_refused():
    with pytest.raises(InputError, match="at most 500 models"):
        attack(spec(**{"algorithm.steps": 2_000_000}), AuditOptions(delta=1e-5, models=1000))
