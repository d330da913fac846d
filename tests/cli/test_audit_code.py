"""`sordino audit python:module:callable --claim`: exit codes, a line for refusals, a script for what is found."""

import json
from pathlib import Path

import pytest

from sordino.cli import main

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
    Path(tmp_path / "code.py").write_text(MECHANISM)
    (tmp_path / "mechanism_here.py").write_text(MECHANISM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_false_claim_exits_with_4_and_leaves_a_script(folder, capsys):
    assert (
        main(["audit", "python:mechanism_here:leaking", "--claim", CLAIM, "--script", "found.py", "--seed", "1"]) == 4
    )
    said = capsys.readouterr().out
    assert said.startswith("Violated: python:mechanism_here:leaking claims epsilon 1")
    assert "FIRST = " in (folder / "found.py").read_text()


def test_the_machine_readable_answer(folder, capsys):
    arguments = ["audit", "python:code.py:leaking", "--claim", CLAIM, "--json", "--out", "answer.json", "--seed", "1"]
    assert main(arguments) == 4
    answer = json.loads(capsys.readouterr().out)
    assert json.loads((folder / "answer.json").read_text()) == answer
    assert answer["verdict"]["kind"] == "violated"
    assert answer["epsilon"] > 1.0
    assert answer["counterexample"]["hits"] > answer["counterexample"]["other_hits"]


def test_a_module_may_say_itself_what_its_callables_claim(folder, capsys):
    (folder / "adapter.py").write_text(f"{MECHANISM}\nCLAIMS = {{'leaking': {CLAIM}}}\n")
    assert main(["audit", "python:adapter.py:leaking", "--seed", "1", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["claim"]["epsilon"] == 1.0
    stricter = CLAIM.replace('"epsilon": 1,', '"epsilon": 2,')
    assert main(["audit", "python:adapter.py:leaking", "--claim", stricter, "--seed", "1", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["claim"]["epsilon"] == 2.0
    assert main(["audit", "python:adapter.py:private", "--seed", "1"]) == 2
    assert "neither a claim" in capsys.readouterr().err


def test_a_claim_that_is_not_refuted_exits_with_0(folder, capsys):
    (folder / "claim.json").write_text(CLAIM)
    assert main(["audit", "python:code.py:private", "--claim", "claim.json", "--seconds", "2"]) == 0
    assert "Not refuted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["python:code.py:leaking"], "neither a claim (--claim) nor CLAIMS in its module"),
        (["python:code.py:leaking", "--claim", "{}"], '"epsilon"'),
        (["python:code.py:leaking", "--claim", "nothing.json"], "nothing.json"),
        (["python:code.py:none", "--claim", CLAIM], "AttributeError"),
        (["python:nowhere:f", "--claim", CLAIM], "ModuleNotFoundError"),
        (["python:code.py:same", "--claim", CLAIM], "an object of type object"),
        (["python:code.py:leaking", "--claim", CLAIM, "--seconds", "-1"], "seconds"),
        (["program:nothing", "--claim", CLAIM], "a program that can be run"),
        (["spec.json", "--claim", CLAIM], "python:module:callable"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, capsys, arguments, words):
    assert main(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert words in captured.err
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == [
        "code.py",
        "mechanism_here.py",
    ]
