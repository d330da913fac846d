"""SGLD as a method of `fit`: its certificate, its noise, where it settles, and that it reports no intervals."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino.core.bound import Relation
from sordino.core.spec import Unit
from sordino.fitting.custom_methods import CustomProblem
from sordino.fitting.custom_training import LangevinChains, UnitLoss
from sordino.mechanisms import SeededRandomness, run
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import pack, read_layout
from sordino.models.custom.modules import PytreeFrontEnd

N = 3000
BUDGET = {"epsilon": 4.0, "delta": 1e-5, "relation": "replace-one"}
PARAMS = {"slope": jnp.zeros(())}


def loss(params, x, y):
    return 0.5 * (params["slope"] * x - y) ** 2


def data():
    generator = np.random.default_rng(2)
    x = generator.normal(size=N)
    return {"x": x, "y": 0.7 * x + generator.normal(size=N)}


DATA = data()
LAYOUT = read_layout(DATA)
OWN = PytreeFrontEnd().build(loss, LAYOUT, {"params": PARAMS})
ROWS = np.asarray(pack(LAYOUT, DATA))


def planned(mu=1.0, relation=Relation.REPLACE_ONE, **options):
    sizes = Sizes(N, OWN.size, mu, relation, 1e-5, Unit.RECORD)
    return LangevinChains().plan(CustomProblem(OWN, sizes, 4.0, {"clip": 3.0, **options}))


def test_fit_releases_draws_with_a_certificate_and_without_intervals():
    options = {"clip": 3.0, "steps": 120, "chains": 2}
    release = sordino.fit(
        loss, DATA, params=PARAMS, **BUDGET, method="sgld", options=options, draws=100, random_state=0
    )
    assert release.kind == "own-model/sgld"
    assert 3.99 < release.epsilon <= 4.0
    assert not release.private
    assert release.sites["slope"].shape == (2, 60)
    assert abs(release.sites["slope"].mean() - 0.7) < 0.2
    assert any("too low coverage in simulations, so they are withheld" in caution for caution in release.cautions)
    assert all(line.low is line.high is None for line in release.summary(0.9).lines)


def test_secure_keys_make_a_private_release():
    options = {"clip": 3.0, "steps": 20, "chains": 1}
    release = sordino.fit(loss, DATA, params=PARAMS, **BUDGET, method="sgld", options=options)
    assert release.private
    assert np.isfinite(release.sites["slope"]).all()


@pytest.mark.parametrize("relation", list(Relation))
def test_all_steps_of_all_chains_are_certified_together(relation):
    several, one = (planned(relation=relation, steps=steps, chains=chains) for steps, chains in ((50, 3), (150, 1)))
    bounds = [sordino.certify(spec).epsilon for spec in (several, one)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)
    allowed = sordino.accounting.GaussianDP(1.0).epsilon(1e-5)
    assert allowed * (1 - 1e-6) <= bounds[0] <= allowed * (1 + 1e-9)


def test_the_step_moves_by_the_naive_clipped_sum_and_has_the_noise_of_the_plan():
    spec = planned(mu=2.0, clip=1.2, steps=1, chains=400)
    each = -(DATA["y"] - 0.0 * DATA["x"]) * DATA["x"]
    step = float(spec.algorithm.noise.scale.values(1)[0]) ** 2
    expected, deviation = -step / 2 * np.clip(each, -1.2, 1.2).sum(), math.sqrt(step)
    found = run(spec, UnitLoss(OWN, N), ROWS, np.zeros(N), SeededRandomness(1)).iterates[:, 0, 0]
    assert (np.abs(each) > 1.2).sum() > 100
    # Noise of clip * multiplier on the sum, the multiplier that 400 steps at mu 2 need between two replaced records.
    assert 2.0 / deviation == pytest.approx(1.2 * 2.0 / 2.0 * math.sqrt(400), rel=1e-6)
    # 400 draws: 5 errors of the mean, and 18 % of the deviation; false alarms below 1e-6.
    assert abs(found.mean() - expected) < 5.0 * deviation / 20.0
    assert abs(found.std() / deviation - 1.0) < 0.18


def test_a_chain_with_short_steps_settles_at_the_posterior_with_its_width():
    """Little is clipped and the posterior known: mean within 5 errors, deviation within 15 % (false alarms < 1e-5)."""
    x, y = DATA["x"], DATA["y"]
    precision = float(np.sum(x * x))
    mean, deviation = np.sum(x * y) / precision, 1.0 / math.sqrt(precision)
    # A step of 0.4 over the precision: noise of 2 / sqrt(step) on the sum.
    steps, clip = 4000, 30.0
    spec = planned(
        mu=2.0 * clip * math.sqrt(steps) / (2.0 / math.sqrt(0.4 / precision)), clip=clip, steps=steps, chains=1
    )
    draws = run(spec, UnitLoss(OWN, N), ROWS, np.zeros(N), SeededRandomness(5)).iterates[0, 500:, 0]
    assert abs(draws.mean() - mean) < 5.0 * deviation / math.sqrt(len(draws) / 40.0)
    # Euler steps of contraction 0.2 widen the law by 1 / sqrt(0.9).
    assert abs(draws.std() / deviation * math.sqrt(0.9) - 1.0) < 0.15


def test_small_columns_beside_large_ones_are_read_as_they_are():
    """They are not cut by the largest number of their row."""
    assert not ChainPlan(planned(steps=1), UnitLoss(OWN, N)).row_limits(2).cut


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clip": None}, "options need clip"),
        ({"clip": -1.0}, "clip"),
        ({"steps": 0}, "steps"),
        ({"warmup": 600}, "warmup"),
    ],
)
def test_what_no_chain_can_be_is_refused(options, words):
    with pytest.raises(sordino.InputError, match=words):
        planned(**options)


def test_units_of_several_records_are_refused():
    given = {**DATA, "who": np.arange(N) // 2}
    with pytest.raises(sordino.InputError, match="protects single records"):
        sordino.fit(
            loss,
            given,
            params=PARAMS,
            **BUDGET,
            method="sgld",
            options={"clip": 3.0},
            unit="who",
            most_records=2,
            records=N // 2,
        )
