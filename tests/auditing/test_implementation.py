"""The test of the implementation: sound code is consistent, and each kind of mistake is violated at 99 %.

Mistakes are made in the running code. Over seeds, noise and participation give a false alarm once in 100.
"""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from sordino import InputError, PrivateLinearRegression, write_release
from sordino.auditing.lower_bound import VerdictKind
from sordino.auditing.replay.plan import _many_times
from sordino.auditing.replay.tables import replay_chain
from sordino.cli import main
from sordino.core.spec import Scheme, read_spec
from sordino.data import Category, Feature, Number, Schema, Target
from sordino.estimators.replay import replay_release
from sordino.mechanisms.chain import batches, kernel
from sordino.noise import port
from tests.auditing.chains import chain as described

RECORDS = 80
FEATURES = (Feature("age", Number(20.0, 80.0)), Feature("ward", Category(("a", "bb", "ccc"))))
SCHEMA = Schema(records=RECORDS, features=FEATURES, target=Target("stay", Number(0.0, 30.0)), intercept=True)


def fitted(relation="replace-one", method="constant"):
    rng = np.random.default_rng(2)
    columns = {
        "age": rng.uniform(20, 80, RECORDS),
        "ward": rng.choice(["a", "bb", "ccc"], RECORDS),
        "stay": rng.uniform(0, 30, RECORDS),
    }
    model = PrivateLinearRegression(
        epsilon=1.0, delta=1e-6, relation=relation, schema=SCHEMA, method=method, random_state=4
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the seed and about the budget
        return model.fit(columns).release_


def kind(found):
    return found.verdict.kind


@pytest.mark.parametrize(
    ("method", "relation"), [("constant", "add-remove"), pytest.param("ridge", "replace-one", marks=pytest.mark.slow)]
)
def test_sound_fits_are_consistent(method, relation):
    found = replay_release(fitted(relation, method), confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.CONSISTENT
    assert 0.6 < found.ratio <= 1.0 + 1e-9
    assert found.realised <= found.planned * (1 + 1e-9)
    assert 1.0 <= found.noise < 1.4
    assert found.drawn >= 120


def halved_scale(patch):
    own = port.CheckedSum.scales.fget
    patch.setattr(port.CheckedSum, "scales", property(lambda total: 0.5 * own(total)))


def noise_of_the_port_alone(patch):
    """Noise is right where it is recorded, and half of it is added where it is not."""
    patch.setattr(port.NoisePort, "answer", lambda self, call, draw: 0.5 * np.asarray(draw()))


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (halved_scale, "less noise than the spec says"),
        (noise_of_the_port_alone, "is not what the recorded noise gives"),
    ],
)
def test_mistakes_in_a_fit_are_violations(mistake, said, monkeypatch):
    release = fitted("add-remove")
    mistake(monkeypatch)
    found = replay_release(release, confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.VIOLATED
    assert said in found.verdict.evidence


def chain(scheme, relation="replace-one", steps=96):
    more = {"clipping": {"kind": "norm", "bound": 0.25}, "keep": "all"}
    if scheme == "min-separation":
        more["batch"] = {"scheme": scheme, "size": 8, "separation": 4}
    size, pulls = None if scheme == "full" else 8, {"gradient_sensitivity": 0.5, "gradient_bound": 0.25}
    run = {"relation": relation, "view": "all-iterates", "algorithm": more}
    return described(scheme, size, steps=steps, step_size=0.5, noise=0.05, n=64, dim=4, **run, **pulls)


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [
        ("full", "replace-one"),
        ("poisson", "add-remove"),
        *(pytest.param(scheme.value, "replace-one", marks=pytest.mark.slow) for scheme in Scheme),
    ],
)
def test_sound_chains_are_consistent(scheme, relation):
    found = replay_chain(chain(scheme, relation), confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.CONSISTENT, found.refuted
    assert found.ratio <= 1.0 + 1e-9
    if scheme != "with-replacement":
        assert found.ratio >= 0.999


@pytest.mark.parametrize(
    ("scheme", "instead", "said"),
    [
        ("poisson", "reshuffled", "takes part once in every pass"),
        pytest.param("without-replacement", "cyclic", "takes part once", marks=pytest.mark.slow),
        pytest.param("reshuffled", "cyclic", "kept their places", marks=pytest.mark.slow),
        pytest.param("shuffle-once", "reshuffled", "changed its place", marks=pytest.mark.slow),
        pytest.param("cyclic", "without-replacement", "once in every pass", marks=pytest.mark.slow),
        pytest.param("random-allocation", "without-replacement", "not used 1 times", marks=pytest.mark.slow),
        pytest.param("min-separation", "poisson", "again after fewer than 4 steps", marks=pytest.mark.slow),
    ],
)
def test_another_sampler_than_described_is_a_violation(scheme, instead, said, monkeypatch):
    monkeypatch.setitem(batches._SCHEMES, Scheme(scheme), batches._SCHEMES[Scheme(instead)])
    found = replay_chain(chain(scheme), confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.VIOLATED
    assert said in found.verdict.evidence


def test_a_sum_divided_by_the_size_of_its_batch_is_a_violation(monkeypatch):
    """Noise included, so that no shift over scale tells: what leaves depends on who was in the batch."""
    drawn, batch, drift = {}, kernel.StepBatch, kernel.drift

    def counted(records, starts, counts):
        drawn["sizes"] = counts.astype(float)[:, None]
        return batch(records, starts, counts)

    def by_size(program, constants, *rest):
        sizes = drawn["sizes"]
        return drift(program, constants._replace(divisor=jnp.where(sizes > 0, sizes, constants.divisor)), *rest)

    monkeypatch.setattr(kernel, "StepBatch", counted)
    monkeypatch.setattr(kernel, "drift", by_size)
    found = replay_chain(chain("poisson", "add-remove", steps=24), confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.VIOLATED
    assert "iterates differs in what leaves (the same rows in other batches)" in found.verdict.evidence


@pytest.mark.every(5)
@pytest.mark.parametrize("seed", range(20))
def test_draws_with_replacement_tell_a_record_that_moves_sums_twice_as_far(seed):
    """A false alarm once in 10,000 for each seed; 320 batches of 8 of 64 records, four records looked at."""
    times = np.random.default_rng(seed).binomial(8, 1 / 64, (4, 320)) / 8
    assert not _many_times(list(times), 8, 64, 1e-4)
    assert "does not hold" in _many_times(list(2 * times), 8, 64, 1e-2)[0]


def test_a_chain_that_does_not_clip_is_a_violation(monkeypatch):
    monkeypatch.setattr(kernel, "shortened", lambda parts, reach: parts)
    monkeypatch.setattr(kernel, "grid_total", lambda parts, present, reach, cut: kernel.plain_total(parts, present))
    found = replay_chain(chain("full", steps=7), confidence=0.99, seed=1)
    assert kind(found) is VerdictKind.VIOLATED
    assert "as far as planned" in found.verdict.evidence
    assert "times as long as the clip" in found.verdict.evidence


@pytest.mark.parametrize("name", ["posterior-bounded", "propose-test-sample", "heavy-tail-ridge"])
def test_what_cannot_be_replayed_is_named(name, specs):
    with pytest.raises(InputError, match=r"replay|noisy gradient chain"):
        replay_chain(specs(name), confidence=0.99, seed=1)


@pytest.fixture
def specs():
    folder = Path(__file__).parents[2] / "examples" / "specs"
    return lambda name: read_spec(folder / f"{name}.json")


def test_a_release_is_described_and_its_code_is_tested(tmp_path, capsys):
    folder = tmp_path / "release"
    write_release(folder, fitted())
    assert main(["audit", str(folder), "--seed", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"]["kind"] == "tightness-of-description"
    assert answer["implementation"]["verdict"]["kind"] == "consistent"
    assert answer["implementation"]["confidence"] == 0.9999  # sound code is called broken once in ten thousand audits
    assert answer["implementation"]["shift"]["largest_over_plan"] <= 1.0 + 1e-9
    assert main(["audit", str(folder), "--method", "replay", "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    assert "consistent: on" in shown
    assert "tables drawn from the schema" in shown


def test_a_violation_ends_with_code_4_and_names_the_pair(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "release"
    write_release(folder, fitted())
    halved_scale(monkeypatch)
    assert main(["audit", str(folder), "--method", "replay", "--seed", "1", "--confidence", "0.99"]) == 4
    assert "spread: with a corner or with" in capsys.readouterr().out


def test_a_release_that_does_not_say_what_was_asked_is_refused_in_one_line(tmp_path, capsys):
    release = fitted()
    old = {name: value for name, value in release.settings.items() if name != "asked"}
    write_release(tmp_path / "release", replace(release, settings=old))
    assert main(["audit", str(tmp_path / "release"), "--method", "replay"]) == 2
    shown = capsys.readouterr()
    assert "record the settings" in shown.err
    assert shown.err.count("\n") == 1
    assert main(["audit", str(tmp_path / "release"), "--json"]) == 2
    assert "record the settings" in json.loads(capsys.readouterr().out)["implementation"]["not_replayable"]
