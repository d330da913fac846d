"""`sordino audit python:module:callable --claim`: exit codes, a line for refusals, a script for what is found."""

import json

import pytest

from tests.cli.console import answer, refusal, shown

MECHANISM = """
import random

def leaking(table):
    return len(table)

def private(table):
    return random.choice([0, 1])

def same(table):
    return object()
"""
CLAIM = '{"epsilon": 1, "relation": "add-remove", "domain": {"records": {"low": 0, "high": 1}, "size": [0, 4]}}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("code.py", "mechanism_here.py"):
        (tmp_path / name).write_text(MECHANISM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_false_claim_exits_with_4_and_leaves_a_script(folder, capsys):
    audit = ("audit", "python:mechanism_here:leaking", "--claim", CLAIM, "--seed", "1")
    said = shown(capsys, *audit, "--script", "found.py", code=4)
    assert said.startswith("Violated: python:mechanism_here:leaking claims epsilon 1")
    assert "FIRST = " in (folder / "found.py").read_text()
    found = answer(capsys, *audit, "--out", "answer.json", code=4)
    assert json.loads((folder / "answer.json").read_text()) == found
    assert found["verdict"]["kind"] == "violated"
    assert found["epsilon"] > 1.0
    assert found["counterexample"]["hits"] > found["counterexample"]["other_hits"]


def test_a_module_may_say_itself_what_its_callables_claim(folder, capsys):
    (folder / "adapter.py").write_text(f"{MECHANISM}\nCLAIMS = {{'leaking': {CLAIM}}}\n")
    audit = ("audit", "python:adapter.py:leaking", "--seed", "1")
    assert answer(capsys, *audit, code=4)["claim"]["epsilon"] == 1.0
    stricter = CLAIM.replace('"epsilon": 1,', '"epsilon": 2,')
    assert answer(capsys, *audit, "--claim", stricter, code=4)["claim"]["epsilon"] == 2.0


def test_a_claim_that_is_not_refuted_exits_with_0(folder, capsys):
    (folder / "claim.json").write_text(CLAIM)
    said = shown(capsys, "audit", "python:code.py:private", "--claim", "claim.json", "--seconds", "1")
    assert "Not refuted" in said


BAD = {
    "python:code.py:leaking": "This callable has no claim",
    "python:code.py:leaking --claim {}": "epsilon is missing",
    "python:code.py:leaking --claim nothing.json": "nothing.json",
    "python:code.py:none --claim CLAIM": "AttributeError",
    "python:nowhere:f --claim CLAIM": "ModuleNotFoundError",
    "python:code.py:same --claim CLAIM": "an object of type object",
    "python:code.py:leaking --claim CLAIM --seconds -1": "seconds",
    "program:nothing --claim CLAIM": "a program that can be run",
    "spec.json --claim CLAIM": "python:module:callable",
}


def test_bad_input_is_one_line_and_exit_code_2(folder, capsys):
    for line, words in BAD.items():
        given = [CLAIM if word == "CLAIM" else word for word in line.split()]
        assert words in refusal(capsys, "audit", *given), line
    left = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    assert left == ["code.py", "mechanism_here.py"]
