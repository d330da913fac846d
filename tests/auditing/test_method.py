"""The registry of audits."""

import json
import re
import sys
from pathlib import Path

import pytest

from sordino.auditing import methods
from sordino.auditing.lower_bound import method_names
from sordino.cli import main
from sordino.core.spec import read_spec

SPEC = str(Path(__file__).parents[2] / "examples" / "specs" / "full-last-iterate.json")


PAGE = Path(__file__).parents[2] / "docs" / "developer" / "adding-an-audit.md"


@pytest.fixture
def folder(tmp_path_factory, monkeypatch):
    """A folder whose files are audits beside those of the package."""
    before, place = set(sys.modules), tmp_path_factory.mktemp("methods")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(place)])
    yield place
    for name in set(sys.modules) - before:
        if name.startswith(f"{methods.__name__}."):
            del sys.modules[name]


def test_the_file_that_the_page_shows_is_an_audit_without_any_other_edit(folder, tmp_path, capsys):
    """Named after the audit, and found by its place; it agrees with the exact audit, which knows the same law."""
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "one_step.py").write_text(code, encoding="utf-8")
    assert "one-step" in method_names()
    path = tmp_path / "spec.json"
    path.write_text(read_spec(Path(SPEC)).with_values({"algorithm.steps": 1}).to_json(), encoding="utf-8")
    answers = {}
    for method in ("one-step", "exact"):
        assert main(["audit", str(path), "--method", method, "--json"]) == 0
        answers[method] = json.loads(capsys.readouterr().out)
    assert answers["one-step"]["method"] == "one-step"
    assert answers["one-step"]["verdict"]["kind"] == "tightness-of-description"
    epsilons = [answer["lower_bound"]["epsilon"] for answer in answers.values()]
    assert epsilons[0] == pytest.approx(epsilons[1], rel=1e-12)
    assert main(["audit", SPEC, "--method", "one-step"]) == 2
    assert "one full-batch step" in capsys.readouterr().err
