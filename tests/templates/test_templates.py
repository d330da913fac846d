"""Each page on adding something shows one file that, put into the package and nothing else, works end to end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import sordino

ROOT = Path(__file__).parents[2]
PACKAGE = Path(sordino.__file__).parent
STEPS = {"steps": 1, "step_size": 0.5, "noise": {"kind": "gaussian", "scale": 0.1}, "batch": {"scheme": "full"}}
CHAIN = {"algorithm": {"kind": "noisy-gradient", **STEPS}, "problem": {"n": 10, "dim": 1, "gradient_sensitivity": 2.0}}
CHAIN |= {"relation": "replace-one", "view": "all-iterates", "delta": 1e-5}
# The page, where each of its files goes, and a program that uses them from the outside, with the spec above as SPEC.
TEMPLATES = {
    "a-theorem": (
        ("accounting/theorems/order_two.py",),
        """
        answer = sordino.certify(SPEC)
        epsilons = {bound.theorem: epsilon for bound, epsilon in answer.bounds}
        assert answer.tightest.theorem != "example.order-two"
        assert epsilons["example.order-two"] >= sordino.accounting.GaussianDP(1.0).epsilon(1e-5)
        assert main(["certify", "spec.json", "--json"]) == 0
        """,
    ),
    "a-method": (
        ("fitting/methods/strong_prior.py",),
        """
        X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
        estimator = sordino.PrivateLinearRegression(
            epsilon=2.0, delta=1e-6, relation="replace-one", method="strong-prior", random_state=0,
            schema=sordino.ArrayBounds(-1, 1, target=(-1, 1)),
        ).fit(X, X[:, 0])
        assert estimator.method_ == "strong-prior"
        assert 0.2 < estimator.predict([[1.0, 0.0]])[0] - estimator.predict([[-1.0, 0.0]])[0] < 2.1
        assert estimator.release_.epsilon <= 2.0
        sordino.write_release("out", estimator.release_)
        assert sordino.read_release("out").kind == "regression/strong-prior"
        """,
    ),
    "a-task": (
        ("fitting/tasks/square_root.py",),
        """
        import pathlib
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, 3000)
        area = np.clip((3.0 + x + 0.1 * rng.standard_normal(3000)) ** 2, 0, 25)
        pathlib.Path("plots.csv").write_text("x,area\\n" + "".join(f"{a},{b}\\n" for a, b in zip(x, area)))
        from sordino.data import declared_lines, write_schema
        write_schema(declared_lines("records = 3000\\nx: -1..1\\narea: 0..25 [target]"), "plots.json")
        words = "plots.csv --schema plots.json --epsilon 4 --delta 1e-6 --relation replace-one --seed 1"
        assert main(["fit", "root", *words.split(), "--prior-precision", "2", "--out", "roots"]) == 0
        fitted = sordino.read_release("roots")
        assert fitted.kind == "root-regression/dp-vi" and fitted.settings["asked"]["prior_precision"] == 2.0
        intercept, slope = (line.estimate for line in fitted.summary().lines)
        assert abs(intercept - 3.0) < 0.3 and abs(slope - 1.0) < 0.3
        assert main(["show", "roots"]) == 0
        assert main(["predict", "roots", "plots.csv", "--out", "predicted.csv"]) == 0
        rows = pathlib.Path("predicted.csv").read_text().splitlines()
        predicted = [float(row.split(",")[0]) for row in rows[1:]]
        assert rows[0].startswith("mean,") and np.corrcoef(predicted, area)[0, 1] > 0.95
        found = sordino.explore.check(fitted, {"x": x, "area": area}, public=True)
        assert max(abs(band.off) for band in found.bands if band.count > 100) < 0.5
        assert main(["report", "roots", "--out", "roots.html"]) == 0
        assert "Square-root regression" in pathlib.Path("roots.NON-PRIVATE.html").read_text()
        assert main(["audit", "roots", "--seconds", "5", "--json"]) == 0
        """,
    ),
    "a-family": (
        ("models/families/log_cosh.py",),
        """
        from sordino.core.spec import NamedModel
        from sordino.models import Domain
        from sordino.models.registry import MODELS, build_model
        model = build_model(NamedModel("log-cosh", ()))
        assert "log-cosh" in MODELS
        problem = model.problem(10, Domain(1, 1.0, 1.0))
        assert problem.gradient_bound.value == problem.smoothness.value == 1.0
        instance = SPEC.with_values({
            "algorithm.noise.scale": 0.01,
            "instance": {
                "model": {"name": "log-cosh", "parameters": {}},
                "dataset": {"kind": "synthetic", "generator": "linear", "records": 10, "features": 1, "seed": 1},
                "neighbour": {"kind": "zero", "position": 0},
            },
        })
        lower = sordino.audit(instance, method="attack", models=60, seed=1)
        assert 0.0 <= lower.epsilon <= sordino.certify(instance).epsilon
        """,
    ),
    "an-audit": (
        ("auditing/methods/one_step.py",),
        """
        lower, exact = sordino.audit(SPEC, method="one-step"), sordino.accounting.GaussianDP(1.0).epsilon(1e-5)
        assert 0.99 * exact < lower.epsilon <= exact
        assert main(["audit", "spec.json", "--method", "one-step", "--json"]) == 0
        """,
    ),
    "a-reader": (
        ("data/sources/json_lines.py", "data/columns/share.py"),
        """
        import pathlib
        from sordino.core.bound import Relation
        from sordino.data.schema import FORMAT, VERSION, schema_from_dict, schema_to_dict
        from sordino.data.schema_check import json_schema
        from sordino.data.encode import encode
        from sordino.data.sources.registry import column_names, read_table
        pathlib.Path("rates.jsonl").write_text('{"rate": 50, "ill": 1}\\n{"rate": 250, "ill": 0}\\n')
        assert column_names("rates.jsonl") == ("rate", "ill")
        share = lambda name, percent: {"name": name, "kind": "share", "percent": percent, "missing": "refuse"}
        document = {"format": FORMAT, "version": VERSION, "records": 2, "columns": [share("rate", True)]}
        schema = schema_from_dict(document | {"target": share("ill", False), "intercept": True})
        assert schema_to_dict(schema)["columns"] == document["columns"]
        assert "Share" in json_schema()["$defs"]
        encoded = encode(schema, read_table("rates.jsonl"), Relation.REPLACE_ONE)
        assert encoded.features.tolist() == [[1.0, 0.5], [1.0, 1.0]]
        assert encoded.target.tolist() == [1.0, 0.0]
        assert schema.target_certificates()[1].value == 1.0
        pathlib.Path("rates.jsonl").write_text("secret")
        try:
            read_table("rates.jsonl")
        except sordino.InputError as refused:
            assert "an object on each line" in str(refused) and "secret" not in str(refused)
        """,
    ),
}
HEAD = """
import numpy as np
import sordino
from sordino.cli import main
SPEC = sordino.read_spec("spec.json")
"""


def shown(page: str) -> list[str]:
    """The files that a page shows: its blocks of Python."""
    text = (ROOT / "docs" / "developer" / f"adding-{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_one_file_is_enough(tmp_path):
    """Of each kind, side by side in one copy of the package and one process; a failure ends with the page's name."""
    copied = tmp_path / "src" / "sordino"
    shutil.copytree(PACKAGE, copied)
    (tmp_path / "spec.json").write_text(json.dumps(CHAIN), encoding="utf-8")
    program = HEAD
    for page, (places, use) in TEMPLATES.items():
        for place, file in zip(places, shown(page), strict=False):
            assert not (copied / place).exists()
            (copied / place).write_text(file, encoding="utf-8")
        program += f"print({page!r})\n" + re.sub(r"^ {8}", "", use, flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(copied.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    assert set(TEMPLATES) <= set(done.stdout.split())
