"""Shell completion: the scripts of bash, zsh and fish, and what the Tab key offers."""

import os
import shutil
import subprocess
import sys

import pytest

from papers.framework.item import every_item
from sordino.cli import main
from sordino.cli import shared as completion
from sordino.cli.fit import MODELS
from sordino.estimators import METHODS


def offered(capsys, monkeypatch, *words: str) -> list[str]:
    """What bash is told to offer for the last word."""
    monkeypatch.setenv("_SORDINO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("sordino", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("cal",), {"calibrate"}),
        (("re",), {"report", "reproduce"}),
        (("ledger", ""), {"open", "show", "verify", "export"}),
        (("schema", "n"), {"new"}),
        (("fit", "--rel"), {"--relation"}),
        (("fit", "li"), {"linear"}),
        (("fit", "linear", "data.csv", "--relation", "add"), {"add-remove"}),
        (("ledger", "open", "x", "--relation", ""), {"add-remove", "replace-one"}),
        (("ledger", "open", "x", "--filter", ""), {"either", "gaussian", "renyi"}),
        (("calibrate", "x", "--over", ""), {"batch", "clip", "noise", "steps"}),
        (("audit", "x", "--method", "e"), {"exact"}),
        (("reproduce", "heller-fetaya-f"), {"heller-fetaya-fig1"}),
        (("fit", "mixture", "data.csv", "--method", ""), {"auto", "em"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_tab_key_offers(capsys, monkeypatch, words, expected):
    assert set(offered(capsys, monkeypatch, *words)) == expected


def test_files_are_left_to_the_shell(capsys, monkeypatch):
    assert offered(capsys, monkeypatch, "certify", "examp") == []


def test_what_is_offered_is_what_is_registered():
    assert sorted(completion.items()) == sorted(one.name for one in every_item())
    assert completion.among(lambda: MODELS)("li") == ["linear"]
    assert set(completion.methods(_Named(None), "")) == {"auto", "auto-or-constant", *METHODS}
    assert completion.methods(_Named("linear"), "stat") == ["statistics"]


class _Named:
    """A parsed command line with a model."""

    def __init__(self, model):
        self.params = {"model": model}
        self.args = []


@pytest.fixture
def chosen_shell(monkeypatch, tmp_path):
    """Let a test name the shell, and give it a home of its own."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(capsys, chosen_shell, shell):
    with pytest.raises(SystemExit) as ended:
        main(["--show-completion", shell])
    script = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"_SORDINO_COMPLETE=complete_{shell}" in script
    assert "sordino" in script


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", ".bash_completions/sordino.sh"),
        ("zsh", ".zfunc/_sordino"),
        ("fish", ".config/fish/completions/sordino.fish"),
    ],
)
def test_completion_installs_itself(capsys, chosen_shell, shell, place):
    with pytest.raises(SystemExit) as ended:
        main(["--install-completion", shell])
    assert ended.value.code == 0
    assert f"{shell} completion installed" in capsys.readouterr().out
    assert "_SORDINO_COMPLETE" in (chosen_shell / place).read_text()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash_completes(capsys, chosen_shell, tmp_path):
    """Source the script, press Tab as bash does it, and look at what bash would offer."""
    with pytest.raises(SystemExit):
        main(["--show-completion", "bash"])
    (tmp_path / "completion.sh").write_text(capsys.readouterr().out)
    program = tmp_path / "sordino"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sordino "$@"\n')
    program.chmod(0o755)
    typed = "COMP_WORDS=(sordino ledger o); COMP_CWORD=2; _sordino_completion sordino; echo ${COMPREPLY[@]}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", f"source '{tmp_path}/completion.sh'; {typed}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert ran.stdout.split() == ["open"]
