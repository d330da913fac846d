"""`sordino audit` on a network instance: a fleet on the plan that the spec gives, counted as every other attack is."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, Spec
from sordino.accounting.evaluate import explain
from sordino.auditing.experiment import ChainFit, Checkpoints, FitOnCluster
from sordino.auditing.instance import audit_instance, usual_method
from sordino.auditing.lower_bound import AuditOptions, Examined, VerdictKind, audit, verdict
from sordino.auditing.methods import fleet
from sordino.auditing.methods.fleet import FleetFit
from sordino.cli import main
from sordino.engines.local import Streamed
from sordino.models import MLPClassification
from tests.auditing.chains import chain

MODEL = MLPClassification(hidden=(4,), classes=3, weight_decay=0.1)
CLINIC = Path(__file__).parents[3] / "examples" / "data"
WIDTH = 8
START = 0.5 * np.random.default_rng(5).standard_normal(MODEL.dim(3))
OPTIONS = AuditOptions(delta=0.01, models=1000, seed=1)


def described(noise: float, **changed) -> Spec:
    """One pass over 24 records in batches of six, from a point at which hidden units differ."""
    network = {"hidden": [4], "classes": 3, "weight_decay": 0.1}
    instance = {
        "model": {"name": "mlp-classification", "parameters": network},
        "dataset": {"kind": "synthetic", "generator": "softmax", "records": 24, "features": 3, "seed": 1},
        "neighbour": {"kind": "worst", "position": 23},
    }
    start = {"kind": "point", "values": START.tolist()}
    steps = {"clipping": {"kind": "norm", "bound": 0.2}, "start": start}
    decay = {"strong_convexity": 0.1, "smoothness": 0.1}
    pulls = {"gradient_sensitivity": 0.4, "gradient_bound": 0.2, "regulariser": decay}
    run = {"steps": 4, "step_size": 1.0, "noise": noise, "algorithm": steps, "instance": instance}
    return chain("cyclic", 6, **run, n=24, dim=MODEL.dim(3), **pulls).with_values({"delta": 0.01} | changed)


def certified(spec: Spec):
    bound = explain(spec, OPTIONS.delta).tightest
    assert bound is not None
    return bound


def test_an_honest_network_is_not_accused_and_the_answer_says_what_ran() -> None:
    """95 % confidence, fixed seed."""
    spec = described(0.08)
    lower = audit(spec, "fleet", OPTIONS)
    assert verdict(certified(spec), lower).kind in {VerdictKind.CONSISTENT, VerdictKind.INCONCLUSIVE}
    assert (lower.method, lower.examined, lower.confidence) == ("fleet", Examined.RUN, 0.95)
    assert dict(lower.counts)["models"] == 1000
    assert lower.evidence.startswith("Run by this code: the described chain, trained as a fleet, on mlp-classification")
    assert 0.0 < lower.epsilon <= lower.cap


@pytest.mark.parametrize(
    "mutation",
    [
        lambda plan: replace(plan, noise_scale=plan.noise_scale / 10),
        lambda plan: replace(plan, clip_norm=None),
        lambda plan: replace(plan, step_size=6 * plan.step_size),
    ],
    ids=["a tenth of the noise", "no clipping", "the sum for the mean"],
)
def test_a_fleet_that_does_not_do_what_the_spec_says_is_caught(mutation, monkeypatch) -> None:
    """The plan is changed behind the spec's back; the certificate is the spec's. 95 % confidence, fixed seed."""
    spec, honest = described(0.08), fleet.plan_of
    monkeypatch.setattr(fleet, "plan_of", lambda *given, **named: mutation(honest(*given, **named)))
    assert verdict(certified(spec), audit(spec, "fleet", OPTIONS)).kind is VerdictKind.VIOLATED


def test_models_of_a_fleet_are_distributed_as_those_of_the_chain() -> None:
    """Means and deviations of 400 models by the fleet and by the kernel, within five of their standard errors."""
    _distributed_alike(described(0.08), MODEL, 400)


def _distributed_alike(spec, model, count) -> None:
    data, seeds = audit_instance(spec).pair.first, np.arange(count, dtype=np.uint64)
    ours, theirs = FleetFit(spec, model)(data, seeds), ChainFit(spec, model)(data, seeds)
    spread = np.sqrt(ours.var(axis=0) / count + theirs.var(axis=0) / count)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * spread).all()
    assert (np.abs(np.log(ours.std(axis=0) / theirs.std(axis=0))) < 5 * np.sqrt(1 / count)).all()


def test_what_is_kept_and_blocks_of_models_change_nothing(tmp_path, monkeypatch) -> None:
    spec = described(0.08)
    monkeypatch.setattr(fleet, "_MODELS_IN_A_BLOCK", 5)
    few = replace(OPTIONS, models=24)
    lower = audit(spec, "fleet", few)
    kept = replace(few, fit_sides=FitOnCluster(Streamed(1), tmp_path / "kept"))
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "remove", lambda self, count: None)
        assert audit(spec, "fleet", kept) == lower
    torn, *_ = files = sorted((tmp_path / "kept").iterdir())
    assert len(files) == 6
    torn.write_bytes(torn.read_bytes()[:100])
    assert audit(spec, "fleet", kept) == lower
    assert not (tmp_path / "kept").exists()
    data, seeds = audit_instance(spec).pair.first, np.arange(12, dtype=np.uint64)
    releases = FleetFit(spec, MODEL)(data, seeds)
    assert len(np.unique(releases, axis=0)) == 12
    assert np.array_equal(FleetFit(spec, MODEL)(data, seeds[5:10]), releases[5:10])


def test_a_network_is_audited_by_a_fleet_unless_another_method_is_named(tmp_path, capsys) -> None:
    path = tmp_path / "spec.json"
    path.write_text(described(0.08).to_json(), encoding="utf-8")
    assert main(["audit", str(path), "--models", "40", "--seed", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["method"], answer["examined"]) == ("fleet", "run")
    assert usual_method(described(0.08)) == "fleet"
    assert (
        usual_method(described(0.08, **{"instance.model": {"name": "softmax", "parameters": {"classes": 3}}}))
        == "exact"
    )
    assert usual_method(described(0.08, instance=None)) == "exact"


def test_a_file_with_labels_of_two_signs_is_audited_like_the_chain_reads_it(tmp_path) -> None:
    """Signs are classes for a network: the targets -1 and +1 of the file become 0 and 1, as in a chain."""
    network = MLPClassification(hidden=(3,), classes=2)
    dataset = {"kind": "file", "path": str(CLINIC / "clinic.csv"), "schema": str(CLINIC / "clinic.schema.json")}
    spec = described(
        0.01,
        **{
            "problem.n": 600,
            "problem.dim": network.dim(WIDTH),
            "problem.regulariser": None,
            "algorithm.batch.size": 150,
            "algorithm.start": {"kind": "gaussian", "scale": 0.5},
            "instance.model": {"name": "mlp-classification", "parameters": {"hidden": [3], "classes": 2}},
            "instance.dataset": dataset,
            "instance.neighbour": {"kind": "worst", "position": 599},
        },
    )
    assert set(audit_instance(spec).pair.first.target.tolist()) == {-1.0, 1.0}
    _distributed_alike(spec, network, 200)
    assert audit(spec, "fleet", replace(OPTIONS, models=40)).evidence.count("600 records of a file") == 1


def test_rows_beyond_what_the_constants_hold_for_are_refused() -> None:
    """A chain shortens rows to the length that its constants were certified for; a fleet takes them as they are."""
    linear = {"name": "logistic", "parameters": {"weight_decay": 0.1}}
    spec = described(
        0.3,
        **{
            "problem.dim": 3,
            "problem.gradient_sensitivity": 1e-3,
            "problem.gradient_bound": 1e-3,
            "algorithm.clipping": None,
            "algorithm.start": {"kind": "point"},
            "instance.model": linear,
            "instance.dataset.generator": "logistic",
        },
    )
    with pytest.raises(InputError, match="rows and targets of the instance"):
        audit(spec, "fleet", OPTIONS)
