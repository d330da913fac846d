"""Every subcommand's help is complete: each option in words, defaults, an example that parses, the exit codes."""

import re
import shlex
import subprocess
import sys

from sordino.cli.main import main
from sordino.cli.shared import EXIT_CODES, epilog
from tests.cli.every_subcommand import EVERY, NAMED


def help_of(capsys, *path: str) -> str:
    capsys.readouterr()
    assert main([*path, "--help"]) == 0
    return capsys.readouterr().out


def shown_examples(text: str) -> list[list[str]]:
    """The commands below "Example:", continued lines joined, as words; redirections left out."""
    below = re.search(r"Examples?:\n(.*?)\n\n", text, re.DOTALL)
    assert below is not None
    joined = re.sub(r"\s*\\\n\s*", " ", below.group(1))
    return [shlex.split(line.split(" > ")[0]) for line in joined.splitlines()]


@NAMED
def test_every_argument_and_option_is_explained(capsys, path, command):
    text = help_of(capsys, *path)
    assert text.startswith(f"Usage: sordino {' '.join(path)}")
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert parameter.help.endswith("."), parameter.name
        # A default that is a value is shown; flags, and options whose absence means something, say so in words.
        if parameter.default not in {None, False} and not parameter.required:
            assert f"[default: {parameter.default}" in " ".join(text.split()), parameter.name


@NAMED
def test_every_subcommand_answers_a_machine(capsys, path, command):
    assert "--json" in [option for parameter in command.params for option in parameter.opts]


@NAMED
def test_every_help_has_examples_that_parse_and_the_exit_codes(capsys, path, command):
    text = help_of(capsys, *path)
    assert " ".join(text.split()).endswith(EXIT_CODES)
    examples = shown_examples(text)
    assert examples
    for words in examples:
        assert words[: 1 + len(path)] == ["sordino", *path]
        # Parsing refuses unknown options, missing ones and values of the wrong kind; nothing runs.
        command.make_context(path[-1], words[1 + len(path) :])


@NAMED
def test_a_terminal_of_eighty_columns_is_wide_enough(capsys, path, command):
    assert max(len(line) for line in help_of(capsys, *path).splitlines()) <= 80


def test_the_list_of_subcommands_is_not_cut_short(capsys):
    for group in ((), ("schema",), ("ledger",)):
        text = help_of(capsys, *group)
        assert "..." not in text.split("Commands:")[1].split("Example")[0]


def test_the_first_help_shows_the_way_from_a_table_to_a_report(capsys):
    known = {path[0] for path, _ in EVERY}
    examples = shown_examples(help_of(capsys))
    assert [words[1] for words in examples] == ["demo", "schema", "fit", "report"]
    assert known >= {words[1] for words in examples}


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


def test_there_are_at_most_16_commands_and_those_of_the_contract_are_there():
    names = {path[0] for path, _ in EVERY} - {"sites"}
    assert names >= CONTRACT
    assert names - CONTRACT == {"start", "explore", "sign"}
    assert len(names) <= 16


def test_the_command_line_starts_without_jax():
    code = "import sys, sordino.cli.main; sys.exit(any(name in sys.modules for name in ('jax', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
