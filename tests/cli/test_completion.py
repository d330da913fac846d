"""Shell completion: what the Tab key offers."""

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
        (("fit", "mixture", "data.csv", "--method", ""), {"auto", "dp-sep", "dp-vi", "em"}),
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
    assert completion.methods(_Named("linear"), "rid") == ["ridge"]


class _Named:
    """A parsed command line with a model."""

    def __init__(self, model):
        self.params = {"model": model}
        self.args = []
