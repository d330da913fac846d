"""The README is executed: its Python blocks in order, in one namespace, and every `sordino` command it shows."""

import re
import shlex
from pathlib import Path

import pytest

from sordino.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TABLES = [text for kind, text in BLOCKS if kind == "text"]
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line.strip()]


def test_the_python_blocks_run_in_order(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {}
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "95 % interval" in printed
    header, *rows = [line.split() for line in TABLES[0].splitlines()]
    assert " ".join(header) in " ".join(printed.split())
    for name, *numbers in rows:
        # The digits are those of one version: another one may draw other noise from the same seed.
        low, high = float(numbers[2]), float(numbers[4])
        again = re.search(rf"^{name} +(-?[0-9.]+) ", printed, re.MULTILINE)
        assert again
        assert low < float(again[1]) < high


def test_it_is_a_screen_and_a_half_with_one_picture():
    assert len(README.splitlines()) <= 100
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).stat().st_size < 200_000


def test_the_commands_run_in_order(monkeypatch, tmp_path):
    pytest.importorskip("randomgen", reason="a release needs the extra secure")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 8
    for line in COMMANDS:
        program, *arguments = shlex.split(line)
        assert program == "sordino"
        # The replay of a release tries pairs of neighbours as long as it may.
        short = ["--seconds", "0.5"] if arguments[0] == "audit" else []
        assert main([*arguments, *short]) == 0, line


def test_the_table_shown_is_the_table_printed(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["certify", "examples/specs/golden-poisson.json"]) == 0
    printed = capsys.readouterr().out
    for line in TABLES[1].splitlines():
        theorem, epsilon, status = line.split()[:3]
        assert re.search(rf"^{re.escape(theorem)}\s+{re.escape(epsilon)}\s+{status}", printed, re.MULTILINE)
