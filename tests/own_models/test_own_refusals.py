"""What is public is refused before a debit; what private numbers decide leaves no trace beside the charged release."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pandas as pd
import polars as pl
import pytest

import sordino
from sordino.core.spec import Batch, Problem
from sordino.estimators import NonPrivateWarning
from sordino.fitting.custom_model import _built, named_arrays, packed_rows
from sordino.mechanisms import dp_sgd
from sordino.models.custom.base import front_end_for, pack, read_layout

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


@pytest.fixture
def ledger(tmp_path):
    return sordino.Ledger.open(tmp_path / "a.ledger", "people", "replace-one", 2.2, 2e-6)


def pair():
    return {name: DATA[name] for name in ("x", "y")}


@pytest.mark.parametrize(
    ("model", "data", "options", "words"),
    [
        (scaled, pair(), {"start": {"tau": 1.0}}, "start to name sites"),
        (scaled, pair(), {"start": {"sigma": -1.0}}, "starting values must be finite"),
        (four_latents, pair(), {}, "latents of one unit"),
        (branching, pair(), {}, "JAX cannot trace .* TracerBool"),
        (loss, pair(), {"params": POINT, "options": {"optimiser": optax.adamw(1.0)}}, "must need gradients alone"),
        (loss, pair(), {"params": POINT, "options": {"optimiser": "adam"}}, "optax gradient transformation"),
        (loss, pair(), {"params": POINT, "epsilon": 1e-6, "options": {"rounds": 10**5}}, "Expected noise of at most"),
        (loss, pair(), {"params": POINT, "records": 3999}, "records to be 4000"),
        (
            loss,
            {**DATA, "person": np.zeros(3999)},
            {"params": POINT, "unit": "person", "most_records": 2, "records": 2000},
            "to hold one unit for each record",
        ),
        (
            loss,
            DATA,
            {"params": POINT, "unit": "person", "most_records": 2, "records": 2001},
            "the number of units to be records = 2001 under replace-one, got 2000",
        ),
    ],
)
def test_a_public_mistake_is_refused_before_the_debit(model, data, options, words, ledger):
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


@pytest.mark.parametrize(
    ("cells", "packed"),
    [
        (np.array([2**31 - 1, -5]), [2.0**31 - 1, -5.0]),
        (np.array([2**31, -(2**62)]), [2.0**31 - 1, 1.0 - 2.0**31]),
        (np.array([2**64 - 1, 3], np.uint64), [2.0**31 - 1, 3.0]),
        (np.array([-128, 127], np.int8), [-128.0, 127.0]),
        (np.array([True, False]), [1.0, 0.0]),
        (np.array([np.nan, 0.1]), [0.0, 0.1]),
        (np.array([np.inf, 1e308]), [float(np.finfo(np.float32).max)] * 2),
        (np.array([-np.inf, 2.0], np.float16), [-65504.0, 2.0]),
    ],
)
def test_a_number_that_no_model_gets_as_it_is_counts_as_a_public_one(cells, packed):
    assert pack(read_layout({"y": cells}), {"y": cells})[:, 0].tolist() == packed


ODD = {
    "NaN": ("x", np.nan),
    "infinity": ("x", -np.inf),
    "the largest float": ("x", 1e308),
    "a whole number of 2^31": ("y", 2**31),
}


@pytest.mark.parametrize(("name", "cell"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("method", ["rounds", "training", pytest.param("natural", marks=pytest.mark.slow)])
def test_no_number_stops_a_fit_after_the_debit(method, name, cell, ledger):
    """A refusal told that one record holds such a number, and the debit was spent."""
    data = {"x": np.linspace(-1.0, 1.0, 4000), "y": np.arange(4000) % 3}
    data[name][7] = cell
    own = {"model": scaled} if method == "natural" else {"model": loss, "params": POINT, "options": {"rounds": 2}}
    with pytest.warns(NonPrivateWarning, match="NON-PRIVATE"):
        sordino.fit(data=data, method=method, ledger=ledger, **own, **BUDGET)
    assert len(ledger.entries()) == 1


def test_rows_from_afar_make_a_release_that_can_be_read(tmp_path):
    """The exponential of a deviation was infinite, and the folder that was paid for was refused by every reader."""
    data = {"x": np.zeros(4000), "y": np.full(4000, -1e308)}
    with pytest.warns(NonPrivateWarning, match="NON-PRIVATE"):
        found = sordino.fit(scaled, data, method="variational", draws=20, **BUDGET)
    (line,) = sordino.read_release(found.write(tmp_path / "release")).summary().lines
    assert 1e6 < line.estimate < np.inf


def test_a_run_that_diverged_ends_in_a_sentence_and_not_in_a_folder_that_cannot_be_read(ledger):
    options = {"rounds": 3, "clip": 100.0, "optimiser": optax.sgd(1e308)}
    far = {"x": np.ones(4000), "y": np.full(4000, 1e4)}
    with pytest.raises(sordino.InputError, match=r"The run diverged.*The debit remains"):
        sordino.fit(loss, far, params=POINT, options=options, ledger=ledger, **BUDGET)
    assert len(ledger.entries()) == 1


KINDS = {"pandas whole": (pd, "Int64"), "pandas boolean": (pd, "boolean"), "polars whole": (pl, pl.Int64)}


@pytest.mark.parametrize(("library", "dtype"), KINDS.values(), ids=KINDS)
def test_one_missing_cell_of_a_frame_changes_no_type(library, dtype):
    """Int64 without a missing cell was whole, with one it was real: another model for every record."""
    cells = [1, 0, 1] * 20
    full, gap = (
        (library.Series("y", some, dtype) for some in (cells, [*cells[:-1], None]))
        if library is pl
        else (library.Series(some, dtype=dtype, name="y") for some in (cells, [*cells[:-1], None]))
    )
    for wrap in (dict, library.DataFrame):
        first, second = (named_arrays(wrap({"y": one}), ("y",)) for one in (full, gap))
        assert read_layout(first) == read_layout(second)
        np.testing.assert_array_equal(second["y"], [*cells[:-1], 0])
        np.testing.assert_array_equal(first["y"], cells)
        assert {first["y"].dtype.kind, second["y"].dtype.kind} <= set("biu")


def test_units_of_a_model_are_told_apart_by_every_digit():
    keys = [2**60 + place for place in range(50)]
    layout = read_layout({"x": np.zeros(50)}, 2)
    rows = {"x": np.arange(50.0)}
    before = packed_rows(layout, ("x",), rows | {"who": keys}, "who")
    after = packed_rows(layout, ("x",), rows | {"who": [None, *keys[1:]]}, "who")
    np.testing.assert_array_equal(before, after)
    for floats in (np.array(keys, float), pd.Series(keys, dtype=float)):
        with pytest.raises(sordino.InputError, match="to hold text or integers, got double values"):
            sordino.fit(
                loss,
                {"x": np.zeros(50), "y": np.zeros(50), "who": floats},
                params=POINT,
                unit="who",
                most_records=2,
                records=50,
                **BUDGET,
            )


def test_a_chain_is_not_refused_because_of_its_rows():
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
    features, target = np.ones((50, 1)), np.linspace(-1.0, 1.0, 50)
    odd, plain = features.copy(), features.copy()
    odd[7], plain[7] = np.nan, 0.0

    def fitted(rows):
        return sordino.fit_chain(
            spec, lambda theta, x, y: (x @ theta - y) ** 2, rows, target, epsilon=2.0, random_state=0
        ).arrays

    with pytest.warns(NonPrivateWarning, match="NON-PRIVATE"):
        found = fitted(odd)
    for name, array in fitted(plain).items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(sordino.InputError, match="features to be an array, whose type is public, got a list"):
        fitted(features.tolist())


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
