"""The README is executed: its Python blocks in order, in one namespace, and every `sordino` command it shows."""

import re
import shlex
from pathlib import Path

import pytest

from sordino.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line.strip()]


def test_the_python_blocks_run_in_order(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {}
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert "95 % interval" in capsys.readouterr().out


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
    shown = next(text for kind, text in BLOCKS if kind == "text")
    for line in shown.splitlines():
        theorem, epsilon, status = line.split()[:3]
        assert re.search(rf"^{re.escape(theorem)}\s+{re.escape(epsilon)}\s+{status}", printed, re.MULTILINE)
