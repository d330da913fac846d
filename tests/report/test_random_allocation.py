"""A run whose records are allocated at random: the kernel runs it, a theorem certifies it, an audit meets it."""

import json

import numpy as np

from sordino.accounting.evaluate import explain
from sordino.algorithm import SeededRandomness, run
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.cli import answers
from sordino.core.spec import NoisyGradient
from sordino.core.spec.instance import NamedModel
from sordino.ledger.release import StoredRelease, write_release
from sordino.model.families.classification import Logistic
from sordino.report.page import write_report
from sordino.report.subject import open_subject
from tests.report.example_releases import DELTA, spec_named


def test_run_certificate_and_audit_stand_in_one_report(tmp_path):
    named = spec_named("random-allocation")
    assert isinstance(named.algorithm, NoisyGradient)
    scale = 2 * named.algorithm.noise.scale.values(1000)[0]
    spec = named.with_values(
        {
            "problem.n": 500,
            "problem.dim": 3,
            "algorithm.batch.size": 50,
            "algorithm.steps": 20,
            "algorithm.noise.scale": scale,
        }
    )
    generator = np.random.default_rng(0)
    x, y = generator.uniform(-0.5, 0.5, (500, 3)), generator.choice([-1.0, 1.0], 500)
    released = run(spec, Logistic(), x, y, SeededRandomness(1)).iterates
    assert released.shape[-1] == 3
    assert np.isfinite(released).all()
    bound = explain(spec, DELTA).tightest
    assert bound is not None
    assert bound.theorem == "composition.random-allocation"
    lower = audit(spec, "exact", AuditOptions(delta=DELTA))
    upper = bound.guarantee.epsilon(DELTA)
    assert 0.99 * upper <= lower.epsilon <= upper
    draws = np.asarray(released, dtype=np.float32).reshape(1, -1, 3)
    release = StoredRelease("kept-iterates", spec, bound, DELTA, True, {"draws": draws}, model=NamedModel("logistic"))
    folder = write_release(tmp_path / "release", release)
    (tmp_path / "audit.json").write_text(json.dumps(answers.audit_as_json(lower, bound)))
    written = write_report([open_subject(folder, tmp_path / "audit.json")], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written is not None
    assert "composition.random-allocation" in text
    assert f"{lower.epsilon:.3g}"[:4] in text
    assert "drawn for it alone" in text
