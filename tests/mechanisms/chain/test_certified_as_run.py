"""The spec that ran is the spec that is certified: what a run writes, `sordino certify` reads unchanged."""

import json

import numpy as np

from sordino.cli import main
from sordino.core.bound import Relation, View
from sordino.data.example_tables import logistic
from sordino.mechanisms import SeededRandomness, noisy_gd, run
from sordino.model import Domain, Logistic


def test_certify_accepts_the_spec_a_run_carries(tmp_path, capsys):
    data = logistic(np.random.default_rng(0), 200, 3)
    model = Logistic(weight_decay=0.1)
    spec = noisy_gd(
        model.problem(200, Domain.from_schema(data.schema)),
        step_size=0.5,
        noise_scale=0.05,
        steps=20,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
    )
    release = run(spec, model, data.features, data.target, SeededRandomness(0))
    file = tmp_path / "spec.json"
    file.write_text(release.spec.to_json())
    assert main(["certify", str(file), "--delta", "1e-5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tightest"]["epsilon"] > 0
