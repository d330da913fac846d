"""Every subcommand's help is complete: each option in words, defaults, an example that parses, the exit codes."""

import re
import shlex
import subprocess
import sys

import pytest

from sordino.cli import main
from sordino.cli.shared import EXIT_CODES, epilog
from tests.cli.console import EVERY, NAMED, shown


def shown_examples(text: str) -> list[list[str]]:
    """The commands below "Example:", continued lines joined, as words; redirections left out."""
    below = re.search(r"Examples?:\n(.*?)\n\n", text, re.DOTALL)
    assert below is not None
    joined = re.sub(r"\s*\\\n\s*", " ", below.group(1))
    return [shlex.split(line.split(" > ")[0]) for line in joined.splitlines()]


@NAMED
def test_every_help_explains_every_option_and_has_examples_that_parse(capsys, path, command):
    text = shown(capsys, *path, "--help")
    assert text.startswith(f"Usage: sordino {' '.join(path)}")
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert words.endswith(EXIT_CODES)
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert parameter.help.endswith("."), parameter.name
        # A default that is a value is shown; flags, and options whose absence means something, say so in words.
        if parameter.default not in {None, False} and not parameter.required:
            assert f"[default: {parameter.default}" in words, parameter.name
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    for example in shown_examples(text):
        assert example[: 1 + len(path)] == ["sordino", *path]
        # Parsing refuses unknown options, missing ones and values of the wrong kind; nothing runs.
        command.make_context(path[-1], example[1 + len(path) :])


def test_the_first_help_shows_the_way_from_a_table_to_a_report(capsys):
    for group in ((), ("schema",), ("ledger",)):
        assert "..." not in shown(capsys, *group, "--help").split("Commands:")[1].split("Example")[0]
    assert [words[1] for words in shown_examples(shown(capsys, "--help"))] == ["demo", "schema", "fit", "report"]


def test_long_examples_are_folded_so_that_they_can_be_copied():
    words = "sordino fit linear data.csv " + " ".join(f"--option-{place} value" for place in range(9))
    lines = epilog(words).split("\n")[2:-2]
    assert len(lines) > 1
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert " ".join(" ".join(lines).replace("\\", "").split()) == words


# What the command line promises; the others are groups and the wizard.
CONTRACT = {
    "demo", "fit", "predict", "certify", "calibrate", "audit", "ledger", "plan", "look", "show", "report", "reproduce",
    "schema",
}  # fmt: skip


def test_the_commands_are_those_of_the_contract_and_three_more():
    assert {path[0] for path, _ in EVERY} == CONTRACT | {"start", "explore", "sign"}


def test_the_command_line_starts_without_jax():
    code = "import sys, sordino.cli.main; sys.exit(any(name in sys.modules for name in ('jax', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


COMPLETED = {
    "re": {"report", "reproduce"},
    "schema n": {"new"},
    "fit --rel": {"--relation"},
    "fit li": {"linear"},
    "calibrate x --over ": {"batch", "noise", "steps"},
    "audit x --method e": {"exact"},
    "certify examp": set(),
}


@pytest.mark.parametrize("words", COMPLETED)
def test_the_tab_key_offers_what_can_follow(capsys, monkeypatch, words):
    given = {"_SORDINO_COMPLETE": "complete_bash", "COMP_WORDS": f"sordino {words}"}
    for name, value in (given | {"COMP_CWORD": str(len(words.split(" ")))}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert set(capsys.readouterr().out.split()) == COMPLETED[words]
