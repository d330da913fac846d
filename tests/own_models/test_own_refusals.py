"""What is public is refused before a debit; what private numbers decide leaves no trace beside the charged release."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import sordino
from sordino.algorithm import dp_sgd
from sordino.core.spec import Batch, Problem
from sordino.estimators.own_model import _built
from sordino.model.own.base import front_end_for
from sordino.model.own.records import pack, read_layout

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
DATA = {"x": np.zeros(4000), "y": np.zeros(4000), "person": np.arange(4000) // 2}
POINT = {"slope": jnp.zeros(())}


def scaled(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x, sigma), obs=y)


def four_latents(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        own = [numpyro.sample(f"own{k}", dist.Normal(0.0, 1.0)) for k in range(4)]
        numpyro.sample("y", dist.Normal(x + sum(own), sigma), obs=y)


def loss(params, x, y):
    return 0.5 * (params["slope"] * x - y) ** 2


def branching(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0 if x[0] > 100.0 else 1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x, sigma), obs=y)


def pair():
    return {name: DATA[name] for name in ("x", "y")}


@pytest.mark.parametrize(
    ("model", "data", "options", "words"),
    [
        (scaled, pair(), {"start": {"tau": 1.0}}, "start to name sites"),
        (scaled, pair(), {"start": {"sigma": -1.0}}, "finite values to begin from"),
        (four_latents, pair(), {}, "latents of one unit"),
        (branching, pair(), {}, "JAX can trace, got a TracerBool"),
        (loss, pair(), {"params": POINT, "options": {"optimiser": optax.adamw(1.0)}}, "needs gradients alone"),
        (loss, pair(), {"params": POINT, "options": {"optimiser": "adam"}}, "optax gradient transformation"),
        (loss, pair(), {"params": POINT, "epsilon": 1e-6, "options": {"rounds": 10**5}}, "Expected noise of at most"),
        (loss, pair(), {"params": POINT, "records": 3999}, "records to be 4000"),
        (
            loss,
            {**DATA, "person": np.zeros(3999)},
            {"params": POINT, "unit": "person", "most_records": 2, "records": 2000},
            "to hold one unit for each record",
        ),
    ],
)
def test_a_public_mistake_is_refused_before_the_debit(model, data, options, words, tmp_path):
    ledger = sordino.Ledger.open(tmp_path / "a.ledger", "people", "replace-one", 2.2, 2e-6)
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(model, data, **{**BUDGET, **options}, ledger=ledger)
    assert ledger.entries() == ()


def test_the_type_of_a_list_follows_from_private_numbers_and_is_no_part_of_a_release():
    """With y = [0, 1, 0.5, ...] a release would say that y is real, with [0, 1, 1, ...] that it is whole."""
    for private in ([0, 1] * 2000, [0, 1] * 1999 + [0, 0.5]):
        with pytest.raises(sordino.InputError, match=r"data\['y'\] to be an array, whose type is public, got a list"):
            sordino.fit(loss, {"x": DATA["x"], "y": private}, params=POINT, **BUDGET)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_table_without_records_is_a_table(rows):
    """Under add-remove it is the neighbour of a table of one record, so it may not fail where that does not."""
    data = {"x": np.zeros((0, 2)), "y": np.zeros(0, int)}
    layout = read_layout(data, rows)
    assert pack(layout, data, np.zeros(0, np.intp)).shape == (0, layout.columns)
    assert pack(read_layout(data), data).shape == (0, 3)


def test_whole_numbers_that_a_model_would_not_get_as_they_are_are_refused():
    layout = read_layout({"y": np.zeros(2, np.int64)})
    assert pack(layout, {"y": np.array([2**31 - 1, -5])}).tolist() == [[2.0**31 - 1], [-5.0]]
    with pytest.raises(sordino.InputError, match=r"below 2\^31"):
        pack(layout, {"y": np.array([2**31, 0])})


def test_a_chain_that_is_refused_because_of_its_rows_says_what_was_seen():
    problem = Problem(n=50, dim=1, gradient_sensitivity=2.0, gradient_bound=1.0)
    spec = dp_sgd(
        problem,
        step_size=0.3,
        batch=Batch("full"),
        noise_multiplier=1.0,
        clip_norm=1.0,
        steps=4,
        relation="replace-one",
        view="all-iterates",
        delta=1e-5,
    )
    features = np.zeros((50, 1))
    features[7] = np.nan
    with pytest.raises(sordino.InputError, match=r"finite.*NON-PRIVATE: this was seen in private rows"):
        sordino.fit_chain(spec, lambda theta, x, y: (x @ theta - y) ** 2, features, np.zeros(50), epsilon=2.0)


def test_a_model_that_reads_another_number_than_before_is_another_model():
    height = 1.0

    public, layout = {"params": None, "prior_scale": 2.0}, read_layout(pair())

    def of(x, y=None):
        return scaled(height * x, y)

    front = front_end_for(of, public)
    first = _built(front, of, layout, public)
    assert _built(front, of, layout, public) is first
    height = 2.0
    assert _built(front, of, layout, public) is not first
