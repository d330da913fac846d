"""Modules of Equinox and Flax: fitted in one call, read back, and refused with the layer named if they mix examples."""

import json

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import sordino
from sordino.cli import main
from sordino.core.bound import floating_point_line
from sordino.fitting.gradient_runs import classification_quality
from sordino.models.custom.base import front_end_for, pack, read_layout
from sordino.noise.lattice import in_doubles

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 1, (1200, 2)).astype(np.float32)
LABEL = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(np.int32)
DATA = {"x": X, "label": LABEL}
BUDGET = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}


def loss(scores, label):
    return optax.softmax_cross_entropy_with_integer_labels(scores, label)


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.tanh(nn.Dense(4, name="hidden")(x))
        return nn.Dense(2, name="head")(hidden)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.head = nnx.Linear(2, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.head(jnp.tanh(self.hidden(x)))


def equinox_network():
    return eqx.nn.MLP(2, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))


MODULES = {"equinox": equinox_network(), "linen": Linen(), "nnx": Nnx(nnx.Rngs(0))}
KERNELS = {"equinox": "layers.0.weight", "linen": "hidden.kernel", "nnx": "hidden.kernel"}


@pytest.mark.every(3)
@pytest.mark.parametrize("library", MODULES)
def test_a_module_is_fitted_with_an_optax_optimiser_and_comes_back(library, tmp_path):
    module = MODULES[library]
    release = sordino.fit(
        module, DATA, loss=loss, optimiser=optax.sgd(1.0, momentum=0.9), options={"rounds": 25}, **BUDGET
    )
    assert release.kind == "own-model/training"
    assert 7.9 < release.epsilon <= 8.0
    assert not release.private  # a seed was given
    assert floating_point_line(release.bound).evidence.word == "proved"
    assert release.sites[KERNELS[library]].size == 8
    output = release.predict({"x": X})["output"]
    assert output.shape == (1, 1200, 2)
    assert np.mean(output[0].argmax(axis=1) == LABEL) > 0.9  # one half without learning
    again = sordino.reopen(release.write(tmp_path / "release"), module, loss=loss)
    np.testing.assert_array_equal(again.predict({"x": X[:5]})["output"], release.predict({"x": X[:5]})["output"])


@pytest.mark.slow
def test_a_module_ends_in_a_report_with_quality_and_both_bounds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def measure(predict):
        return classification_quality(np.asarray(jax.nn.softmax(predict({"x": X}))), LABEL)

    release = sordino.fit(
        MODULES["linen"],
        (X, LABEL),
        loss=loss,
        options={"rounds": 10, "canaries": 60, "measure": measure, "batch": 400},
        epsilon=8.0,
        delta=1e-6,
        relation="add-remove",
        records=1200,
        random_state=0,
    )
    assert release.audit is not None
    assert release.audit.epsilon <= release.epsilon
    (release.write("release") / "audit.json").write_text(json.dumps(release.audit.answer(release.bound)))
    assert main(["report", "release", "--out", "report.html"]) == 0
    page = (tmp_path / "report.NON-PRIVATE.html").read_text("utf-8")
    for words in ("accuracy", "expected calibration error", "epsilon at least", f"{release.epsilon:.2f}"[:4]):
        assert words in page


@pytest.mark.every(3)
@pytest.mark.parametrize("library", MODULES)
def test_one_changed_example_moves_no_other_gradient(library):
    layout = read_layout(DATA)
    options = {"loss": loss, "arrays": ("x", "label")}
    model = front_end_for(MODULES[library], options).build(MODULES[library], layout, options)
    rows = pack(layout, DATA)[:30]
    other = rows.copy()
    other[7] = [30.0, -20.0, 1.0]
    with in_doubles():
        theta = jnp.asarray(model.start(), jnp.float64)
        one, two = (np.asarray(model.unit_gradients(theta, jnp.asarray(each))) for each in (rows, other))
    assert np.flatnonzero((one != two).any(axis=1)).tolist() == [7]
    assert np.abs(one).max() > 0.0


def linen_with(layer):
    class Around(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(layer()(nn.Dense(4)(x)))

    return Around()


class NnxAround(nnx.Module):
    def __init__(self, layer):
        self.first, self.layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0)), layer

    def __call__(self, x):
        return self.layer(self.first(x))


def sequential(layer):
    return eqx.nn.Sequential([eqx.nn.Linear(2, 2, key=jax.random.key(0)), layer])


class Counted(eqx.Module):
    weight: jax.Array
    other: jax.Array

    def __call__(self, x):
        return x @ self.weight


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (linen_with(lambda: nn.BatchNorm(use_running_average=False)), "the layer BatchNorm_0 keeps .*'batch_stats'"),
        (linen_with(lambda: nn.Dropout(0.5, deterministic=False)), "draws for a whole batch: Dropout_0"),
        (NnxAround(nnx.BatchNorm(2, rngs=nnx.Rngs(0))), "layer.mean keeps .*BatchStat"),
        (NnxAround(nnx.Dropout(0.5, rngs=nnx.Rngs(0))), "Dropout at layer"),
        (sequential(eqx.nn.BatchNorm(2, axis_name="batch", mode="ema")), r"the module\.layers\[1\] keeps .*BatchNorm"),
        (sequential(eqx.nn.Dropout(0.5)), r"Dropout at the module\.layers\[1\]"),
        (Counted(jnp.zeros((2, 2)), jnp.arange(3)), "int32 at other"),
        (Counted(jnp.zeros((2, 2)), jnp.zeros((0, 2))), "the empty other"),
    ],
)
def test_modules_that_mix_examples_or_cannot_be_learned_are_refused_with_the_layer(module, words):
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(module, DATA, loss=loss, **BUDGET)


def test_dropout_that_is_switched_off_is_no_reason():
    for module in (
        linen_with(lambda: nn.Dropout(0.5, deterministic=True)),
        NnxAround(nnx.Dropout(0.5, deterministic=True, rngs=nnx.Rngs(0))),
        sequential(eqx.nn.Dropout(0.5, inference=True)),
    ):
        options = {"loss": loss, "arrays": ("x", "label")}
        assert front_end_for(module, options).build(module, read_layout(DATA), options).size > 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"loss": None}, "A module needs loss"),
        ({"loss": lambda scores, label: scores}, "one number for one record"),
        ({"loss": lambda scores, kind: scores[kind]}, "got x, label"),
        ({"optimiser": "adam"}, "optimiser to have init and update"),
        ({"options": {"step": 1.0}}, "no option 'step'"),
        ({"options": {"clip": 0.0}}, "clip"),
        ({"unit": "label", "most_records": 3, "records": 2}, "units of several"),
        ({"options": {"canaries": -1}}, "canaries"),
    ],
)
def test_what_does_not_fit_a_module_is_refused_in_one_sentence(changed, words):
    given = {"loss": loss, **BUDGET, **changed}
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(MODULES["linen"], DATA, **given)
