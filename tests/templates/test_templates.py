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
CHAIN = {
    "algorithm": {
        "kind": "noisy-gradient",
        "steps": 1,
        "step_size": 0.5,
        "noise": {"kind": "gaussian", "scale": 0.1},
        "batch": {"scheme": "full"},
    },
    "problem": {"n": 10, "dim": 1, "gradient_sensitivity": 2.0},
    "relation": "replace-one",
    "view": "all-iterates",
    "delta": 1e-5,
}
# The page, where its file goes, and a program that uses it from the outside, with the spec above as SPEC.
TEMPLATES = {
    "a-theorem": (
        "accounting/theorems/order_two.py",
        """
        answer = sordino.certify(SPEC)
        epsilons = {bound.theorem: epsilon for bound, epsilon in answer.bounds}
        assert answer.tightest.theorem != "example.order-two"
        assert epsilons["example.order-two"] >= sordino.accounting.GaussianDP(1.0).epsilon(1e-5)
        assert main(["certify", "spec.json", "--json"]) == 0
        """,
    ),
    "a-method": (
        "estimators/methods/strong_prior.py",
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
    "a-family": (
        "model/families/log_cosh.py",
        """
        from sordino.core.spec import NamedModel
        from sordino.model import Domain
        from sordino.model.registry import MODELS, build_model
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
        "auditing/methods/one_step.py",
        """
        lower, exact = sordino.audit(SPEC, method="one-step"), sordino.accounting.GaussianDP(1.0).epsilon(1e-5)
        assert 0.99 * exact < lower.epsilon <= exact
        assert main(["audit", "spec.json", "--method", "one-step", "--json"]) == 0
        """,
    ),
}
HEAD = """
import numpy as np
import sordino
from sordino.cli import main
SPEC = sordino.read_spec("spec.json")
"""


def shown(page: str) -> str:
    """The file that a page shows: its first block of Python."""
    text = (ROOT / "docs" / "developer" / f"adding-{page}.md").read_text(encoding="utf-8")
    [file, *_] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return file


def test_one_file_is_enough(tmp_path):
    """Of each kind, side by side in one copy of the package and one process; a failure ends with the page's name."""
    copied = tmp_path / "src" / "sordino"
    shutil.copytree(PACKAGE, copied)
    (tmp_path / "spec.json").write_text(json.dumps(CHAIN), encoding="utf-8")
    program = HEAD
    for page, (place, use) in TEMPLATES.items():
        assert not (copied / place).exists()
        (copied / place).write_text(shown(page), encoding="utf-8")
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
