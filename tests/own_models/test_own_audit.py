"""A release of a model of one's own is audited from its folder: its fit is run again on drawn tables, model at hand."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import sordino
from sordino.auditing.lower_bound import VerdictKind
from sordino.cli.main import app
from sordino.core.validate import InputError
from sordino.estimators.replay import replay_custom_release
from sordino.mechanisms.variational import evidence_bound as guided_gradients

RUNNER = CliRunner()
MODULE = """
import jax.numpy as jnp

def loss(params, x, y):
    return 0.5 * (x @ params["slope"] - y) ** 2

given = {"model": loss, "params": {"slope": jnp.zeros(2)}}
other = {"model": loss, "params": {"slope": jnp.zeros(3)}}
nothing = {"params": {}}
"""


def loss(params, x, y):
    return 0.5 * (x @ params["slope"] - y) ** 2


def fitted(relation="replace-one", **given):
    x = np.random.default_rng(3).normal(size=(200, 2))
    data = {"x": x, "y": x @ [1.0, -1.0]}
    options = {"rounds": 3, "clip": 1.0, **given.pop("options", {})}
    if relation == "add-remove":
        given["records"] = 200
    return sordino.fit(
        loss, data, params={"slope": jnp.zeros(2)}, epsilon=4.0, delta=1e-6, relation=relation, random_state=0,
        options=options, **given,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A release folder beside a module with its model."""
    place = tmp_path_factory.mktemp("own")
    fitted().write(place / "release")
    (place / "audited_model.py").write_text(MODULE, "utf-8")
    return place


def audited(folder, *given, monkeypatch):
    monkeypatch.chdir(folder)
    return RUNNER.invoke(app, ["audit", "release", *given])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_fit_is_replayed_on_tables_that_differ_in_one_unit(relation):
    found = replay_custom_release(fitted(relation), confidence=0.999, seed=1)
    assert found.verdict.kind is VerdictKind.CONSISTENT
    assert found.complete
    assert found.calls == 3
    assert 0.6 < found.ratio <= 1.0  # a unit far out moves a sum by all it may, and the one it replaces by a part
    assert found.noise > 1.0


def test_gradients_that_are_not_clipped_are_found(monkeypatch):
    release = fitted(options={"rounds": 2, "clip": 1.5})  # an own program: nothing compiled before is used
    right = guided_gradients.clipped_total

    def longer(parts, present, bound, weights):
        return right(parts, present, 2.0 * bound, weights=weights)

    monkeypatch.setattr(guided_gradients, "clipped_total", longer)
    assert replay_custom_release(release, confidence=0.999, seed=1).verdict.kind is VerdictKind.VIOLATED


def test_the_command_line_takes_the_model_from_a_module(folder, monkeypatch):
    given = ("--method", "replay", "--seed", "1", "--model", "audited_model:given", "--json")
    answer = audited(folder, *given, monkeypatch=monkeypatch)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["verdict"]["kind"] == "consistent"


def test_without_the_model_the_description_is_audited_and_the_rest_is_said(folder, monkeypatch):
    answer = audited(folder, "--json", monkeypatch=monkeypatch)
    assert answer.exit_code == 0
    assert "--model MODULE:NAME" in json.loads(answer.stdout)["implementation"]["not_replayable"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("audited_model", "MODULE:NAME"),
        ("audited_model:absent", "imported"),
        ("no_such_module:model", "imported"),
        ("audited_model:other", "loss must take one record"),
        ("audited_model:nothing", "without a model"),
    ],
)
def test_what_is_no_model_of_the_release_is_refused(folder, model, words, monkeypatch):
    answer = audited(folder, "--method", "replay", "--model", model, monkeypatch=monkeypatch)
    assert isinstance(answer.exception, InputError)  # which the program answers with one sentence and exit code 2
    assert words in str(answer.exception)


def test_a_chain_is_replayed_step_by_step():
    chain = fitted(method="sgld", options={"steps": 4, "clip": 3.0})
    found = replay_custom_release(chain, confidence=0.999, seed=1)
    assert found.verdict.kind is VerdictKind.CONSISTENT
    assert found.calls >= 4


def test_what_cannot_be_replayed_says_why():
    earlier = fitted()
    earlier.settings.pop("asked")
    with pytest.raises(InputError, match="record the settings"):
        replay_custom_release(earlier, confidence=0.999, seed=1)


def test_a_folder_is_opened_with_its_model_in_a_process_that_fitted_nothing(folder):
    program = (
        "import sordino, audited_model as own; "
        "print(sordino.reopen('release', own.loss, params=own.given['params']).own.size)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "2", done.stderr
