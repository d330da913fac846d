"""`sordino start` before a person: a pseudo-terminal types the answers, and Ctrl-C at every step spends nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.terminal import Terminal
from sordino import Ledger, read_release
from tests.cli.console import refusal

pytest.importorskip("pty")
ROOT = Path(__file__).parents[2]
START = (sys.executable, "-m", "sordino", "start", "stays.csv")
ANSWERS = [
    ("How many records", "3000"),
    ("age: such as", "18..100"),
    ("ward: such as", "medicine|surgery"),
    ("ill: such as", "yes/no"),
    ("Which words mean a missing cell", "-"),
    ("Which column is the outcome?", "ill"),
    ("Is the number of records public", "replace-one"),
    ("Check the rows", "n"),
    ("What is the dataset called?", "stays 2026"),
    ("Total epsilon", "3"),
    ("Total delta", "1e-5"),
    ("Open it?", "y"),
    ("Which model", "logistic"),
    ("Delta of the fit?", "1e-6"),
    ("Epsilon of the fit?", "2"),
    ("Fit with this epsilon?", "y"),
    ("Go on?", "y"),
    ("Answer a reviewer's twenty questions", "n"),
]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    age = rng.uniform(18, 100, 3000).round()
    ill = np.where(rng.random(3000) < 1 / (1 + np.exp(-(age - 60) / 10)), "yes", "no")
    ward = rng.choice(["medicine", "surgery"], 3000)
    rows = (f"{a:g};{w};{i}\n" for a, w, i in zip(age, ward, ill, strict=True))
    (tmp_path / "stays.csv").write_text("age;ward;ill\n" + "".join(rows))
    return tmp_path


def spent(folder):
    path = folder / "stays.ledger"
    return len(Ledger.at(path).entries()) if path.exists() else 0


def test_a_person_gets_from_a_table_to_a_report_by_answering(folder):
    terminal = Terminal(START, folder)
    for question, typed in ANSWERS:
        if question == "age: such as":  # a slip of the pen is said in a sentence and asked for again
            terminal.answer(question, "eighteen to hundred")
            terminal.expect("Expected what column 'age' may hold")
        if question == "ward: such as":  # a way back to the answer before
            terminal.answer(question, "back")
            terminal.answer("age: such as", "18..100")
        terminal.answer(question, typed)
    assert terminal.end() == 0, terminal.said[-2000:]
    assert "odds ratio" in terminal.said
    assert "$ sordino fit logistic stays.csv --schema stays.schema.json --epsilon 2.0" in terminal.said
    assert read_release(folder / "stays-release").private
    assert (folder / "stays.html").is_file()
    assert spent(folder) == 1


# What a new start asks before a question where that is not the question before it: yes and no are not kept.
BEFORE = {
    "How many records": [],
    "Is the number of records public": [],  # the schema was written
    "Check the rows": [("Is the number of records public", "replace-one")],
    "What is the dataset called?": [],
    "Go on?": [("Fit with this epsilon?", "y")],
}


def interrupted_at(folder, before, question):
    """Answer, wait for the question, and press Ctrl-C."""
    terminal = Terminal(START, folder)
    for earlier, typed in before:
        terminal.answer(earlier, typed)
    terminal.expect(question)
    terminal.interrupt()
    assert terminal.end() == 130, terminal.said[-2000:]
    assert terminal.said.rstrip().endswith("sordino: Interrupted.")
    assert spent(folder) == 0
    assert not (folder / "stays-release").exists()


def test_ctrl_c_spends_nothing_and_the_next_start_goes_on_there(folder):
    interrupted_at(folder, ANSWERS[:3], ANSWERS[3][0])
    assert (folder / "stays.lines.txt").read_text().splitlines()[1:] == ["age: 18..100", "ward: medicine|surgery"]
    interrupted_at(folder, ANSWERS[3:10], ANSWERS[10][0])
    interrupted_at(folder, ANSWERS[10:16], ANSWERS[16][0])
    assert json.loads((folder / "stays.start.json").read_text())["dataset"] == "stays 2026"
    terminal = Terminal(START, folder)
    for question, typed in (*BEFORE["Go on?"], ("Go on?", "n")):  # no is an answer, and spends nothing
        terminal.answer(question, typed)
    assert terminal.end() == 130
    assert spent(folder) == 0


@pytest.mark.slow
def test_a_new_user_gets_from_a_nasty_file_to_the_end(tmp_path):
    script = [sys.executable, str(ROOT / "bench" / "new_user.py"), "--record", str(tmp_path / "figures.md")]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("reached a signed dossier")
    assert "sordino fit logistic stays.csv" in (tmp_path / "figures.md").read_text()


@pytest.mark.slow
def test_ctrl_c_at_every_question_spends_nothing_and_loses_no_answer(folder):
    for place, (question, _) in enumerate(ANSWERS[:-1]):
        interrupted_at(folder, BEFORE.get(question, ANSWERS[place - 1 : place]), question)
    assert json.loads((folder / "stays.start.json").read_text())["epsilon"] == 2.0


@pytest.mark.every(2)
@pytest.mark.parametrize("corrected", ["lines", "schema"])
def test_a_table_that_does_not_fit_is_refused_before_the_debit_and_read_again_when_corrected(folder, corrected):
    """Whether the rows were checked before or not; the lines and the schema are read as they are by then."""
    answers = [(question, "2999" if question == "How many records" else typed) for question, typed in ANSWERS]
    terminal = Terminal(START, folder)
    for question, typed in answers[:16]:
        terminal.answer(question, typed)
    assert terminal.end() == 2, terminal.said[-2000:]
    assert "2999 records are declared and the table has 3000" in terminal.said
    assert spent(folder) == 0
    path = folder / ("stays.lines.txt" if corrected == "lines" else "stays.schema.json")
    path.write_text(path.read_text().replace("2999", "3000"))
    terminal = Terminal(START, folder)
    more = [("Check the rows", "y")] if corrected == "lines" else []
    for question, typed in (*more, ("Fit with this epsilon?", "y"), *ANSWERS[-2:]):
        terminal.answer(question, typed)
    assert terminal.end() == 0, terminal.said[-2000:]
    assert spent(folder) == 1


def test_without_a_terminal_it_is_one_sentence_and_code_2(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert "`sordino start` needs a terminal." in refusal(capsys, "start", "stays.csv")
    assert sorted(path.name for path in folder.iterdir()) == ["stays.csv"]
