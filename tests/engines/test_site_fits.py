"""Sites that fit together through a folder: the release of the pooled table, one debit at each, joint noise."""

import threading
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from sordino.algorithm.engines.sites import Coordinator, JointCoordinator, JointShare, Site
from sordino.algorithm.influence.asked import InMemory
from sordino.algorithm.influence.release import release_sums
from sordino.algorithm.noise.joint import joint_distance, seen_by_colluders, share, share_scales
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.algorithm.noise.sums import with_total_variation
from sordino.core.bound import Relation, floating_point_line
from sordino.core.validate import InputError
from sordino.data import BooleanTarget, Feature, Number, Schema, Target
from sordino.estimators.fitting import fit_table
from sordino.estimators.site_fits import _affordable, agreed, coordinate, join
from sordino.ledger import Ledger
from tests.engines.tables import ROWS, asked_in_memory, planned, written
from tests.engines.test_sites import NAMES, site_rows

FAMILY = "logistic"


def rounded(sigma: float, reach: int) -> np.ndarray:
    from scipy.special import ndtr

    edges = np.arange(-reach, reach + 2) - 0.5
    return np.diff(ndtr(edges / sigma))


@pytest.mark.parametrize("sites", [2, 3, 5])
@pytest.mark.parametrize("share_scale", [1.5, 4.0, 20.0])
def test_the_distance_of_joint_noise_is_no_less_than_the_true_one(sites, share_scale):
    """Laws of sums of rounded Gaussians by convolution, against one rounded Gaussian of the same variance."""
    reach = int(45 * share_scale)
    one = rounded(share_scale, reach)
    law = one
    for _ in range(sites - 1):
        law = np.convolve(law, one)
    other = rounded(share_scale * np.sqrt(sites), sites * reach)
    true = 0.5 * np.abs(law - other).sum()
    assert true <= joint_distance([share_scale], sites)
    assert true > 0.0


def test_joint_noise_is_as_large_as_it_is_said_to_be():
    """Sums of 5 shares of 4,000 numbers: their variance is off by more than 6 errors in one of 5e8 draws."""
    scales, exponent = np.full(4000, 3.0), -30
    shares = share_scales(scales, exponent, 5)
    total = sum(share(SeededRandomness(seed), shares) for seed in range(5))
    found = np.ldexp(total.astype(float), exponent)
    assert abs(found.var() / 9.0 - 1.0) < 6 * np.sqrt(2 / 4000)
    assert joint_distance(shares, 5) < 1e-12
    with pytest.raises(InputError, match="units of its sums"):
        share_scales(scales, 0, 5)
    assert seen_by_colluders(1.0, 4, 3) == pytest.approx(2.0, rel=1e-12)


def joint_sites(relation, afford=lambda _: None):
    made, encoded = planned(FAMILY, relation, unit=False)
    public = relation is Relation.REPLACE_ONE
    found = []
    for place, (name, rows) in enumerate(zip(NAMES, site_rows(FAMILY), strict=True)):
        sources = iter(range(1000 * place, 1000 * place + 900))
        joint = JointShare(NAMES, lambda sources=sources: SeededRandomness(next(sources)), public, afford)
        found.append(Site(name, InMemory(made, encoded.given(rows)), joint))
    return made, found


@pytest.mark.parametrize("relation", list(Relation))
def test_sums_of_sites_with_joint_noise_have_the_noise_of_the_plan(relation):
    """No sum comes without noise; over all numbers the noise has the planned size within 6 errors."""
    made, sites = joint_sites(relation)
    total = JointCoordinator(Coordinator(sites), public_units=relation is Relation.REPLACE_ONE)
    released = release_sums(made, total, SeededRandomness(1))
    asked, exact = asked_in_memory(FAMILY, relation, False)[0]
    scale = released.followed.scales(asked.name)
    noise = released[asked.name] - np.ldexp(exact.sums.integers().astype(float), exact.exponent)
    assert (noise != 0.0).all()
    assert (np.abs(noise) < 6 * scale).all()
    assert 0.0 < total.distance < 1e-15


def test_joint_noise_needs_every_site():
    _, sites = joint_sites(Relation.ADD_REMOVE)
    asked, _ = asked_in_memory(FAMILY, Relation.ADD_REMOVE, False)[0]
    with pytest.raises(InputError, match="all sites"):
        Coordinator(sites[:4])(asked, np.full(asked.numbers, 1.0))  # a coordinator that leaves one out
    _, sites = joint_sites(Relation.ADD_REMOVE)
    with pytest.raises(InputError, match="deviations of the noise"):
        Coordinator(sites)(asked)  # or asks for sums without noise
    _, sites = joint_sites(Relation.ADD_REMOVE)
    keys = {site.name: site.begin(b"0" * 16) for site in sites[:3]}
    with pytest.raises(InputError, match="keys of all sites"):
        sites[0].shared(keys)  # or unmasks the sum of three, and says later that all five answered


def test_keys_that_a_coordinator_forged_are_refused():
    made, encoded = planned(FAMILY, Relation.ADD_REMOVE, unit=False)
    total = InMemory(made, encoded.given(site_rows(FAMILY)[0]))
    sites = [Site(name, total, None, b"s" * 32) for name in NAMES]
    keys = {site.name: site.begin(b"0" * 16) for site in sites}
    sites[0].shared(keys)
    forged = keys | {"Graz": Site("Graz", total).begin(b"0" * 16)}
    with pytest.raises(InputError, match="forged"):
        sites[1].shared(forged)


def schema() -> Schema:
    return Schema(
        records=ROWS,
        features=(Feature("age", Number(0, 100)), Feature("dose", Number(-4, 4))),
        target=Target("ill", BooleanTarget()),
        intercept=True,
        extra_columns="ignore",
    )


@pytest.fixture
def folders(tmp_path):
    """Files of one table, one at each site, and the folder that all sites reach."""
    (tmp_path / "visits").mkdir()
    whole = written(tmp_path / "visits", FAMILY, files=3)
    found = {}
    for name, path in zip(("Graz", "Lyon", "Turku"), sorted(whole.glob("*.parquet")), strict=True):
        rows = pq.read_table(path)
        ill = [value > 0.5 for value in rows.column("y").to_pylist()]
        pq.write_table(rows.drop_columns(["y"]).append_column("ill", [ill]), path)
        found[name] = path
    (tmp_path / "shared").mkdir()
    return found, tmp_path


ASKED = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one"}


def fitted_together(folders, noise, seed=None, names=("Graz", "Lyon", "Turku"), **others):
    files, tmp_path = folders
    agreement = agreed("logistic", schema(), ("Graz", "Lyon", "Turku"), noise, **ASKED)
    outcomes: dict[str, object] = {}

    def one(name):
        ledger = Ledger.open(
            tmp_path / f"{name}.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5
        )
        try:
            join(tmp_path / "shared", name, files[name], schema(), ledger=ledger, patience=60.0, **others)
        except InputError as refused:
            outcomes[name] = str(refused)
        outcomes.setdefault(name, len(ledger.entries()))

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        return coordinate(agreement, tmp_path / "shared", patience=20.0, seed=seed), outcomes
    finally:
        for thread in threads:
            thread.join()


def test_three_sites_give_the_release_of_the_pooled_table(folders):
    release, outcomes = fitted_together(folders, "central", seed=4, secret=b"s" * 32)
    pooled = fit_table("logistic", folders[1] / "visits", schema=schema(), seed=4, method="bounded-influence", **ASKED)
    assert all(release.arrays[name].tobytes() == pooled.arrays[name].tobytes() for name in pooled.arrays)
    assert outcomes == {"Graz": 1, "Lyon": 1, "Turku": 1}  # every ledger paid once
    assert release.settings["where"] == {"sites": ["Graz", "Lyon", "Turku"], "noise": "central"}


@pytest.mark.parametrize("noise", ["central", "joint"])
def test_what_joint_noise_may_cost_is_left_of_the_agreed_delta(noise):
    """The distance counts 1 + e^epsilon times; the most that sites let pass and the Gaussian's delta stay within."""
    agreement = agreed("logistic", schema(), ("Graz", "Lyon", "Turku"), noise, **ASKED)
    situation, _, _, explanation = agreement.prepared()
    assert explanation.tightest is not None
    most = 0.0
    if noise == "joint":
        most = 0.999e-3 * situation.delta / (1.0 + np.exp(situation.epsilon))
        _affordable(situation)(most)
        with pytest.raises(InputError, match="thousandth of delta"):
            _affordable(situation)(1.002 * most)
    of_gaussian = explanation.tightest.guarantee.delta(ASKED["epsilon"])
    assert with_total_variation(ASKED["epsilon"], of_gaussian, most) <= ASKED["delta"]
    assert of_gaussian > 0.99 * ASKED["delta"]  # little is given away


@pytest.mark.slow
def test_three_sites_with_joint_noise_release_and_say_what_it_costs(folders):
    release, outcomes = fitted_together(folders, "joint")
    assert release.private
    line = floating_point_line(release.bound)
    assert 0.0 < line.value < 1e-12
    assert "3 sites" in line.reason
    assert "to delta and keeps it within the agreed 1e-06" in line.reason
    assert release.delta == pytest.approx(0.999e-6)
    assert outcomes == {"Graz": 1, "Lyon": 1, "Turku": 1}


def test_a_site_that_declares_otherwise_debits_nothing(folders):
    files, tmp_path = folders
    agreement = agreed("logistic", schema(), ("Graz", "Lyon", "Turku"), "central", **ASKED)
    (tmp_path / "shared" / "agreement.json").write_text(agreement.to_text())
    ledger = Ledger.open(tmp_path / "g.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5)
    other = replace(schema(), records=ROWS + 1)
    with pytest.raises(InputError, match="schema of the agreement"):
        join(tmp_path / "shared", "Graz", files["Graz"], other, ledger=ledger)
    with pytest.raises(InputError, match="a site of the agreement"):
        join(tmp_path / "shared", "Oslo", files["Graz"], schema(), ledger=ledger)
    assert not ledger.entries()


def test_a_question_that_departs_from_the_plan_is_refused(folders):
    from sordino.algorithm.engines.site_folder import Served

    made, encoded = planned(FAMILY, Relation.ADD_REMOVE, unit=False)
    site = Site("Graz", InMemory(made, encoded.given(site_rows(FAMILY)[0])))
    served = Served(site, made, lambda _: None)
    with pytest.raises(InputError, match="departs from the plan"):
        served._masked({"answered": {}, "question": "scatter", "digest": "0" * 64})
    with pytest.raises(InputError, match="in its order"):
        served._masked({"answered": {"scatter": [(1.0).hex()]}, "question": "centre", "digest": ""})
