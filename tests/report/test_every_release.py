"""`sordino show` and `read_release` read every kind of release that Sordino writes."""

import json
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sordino
from sordino import Ledger, write_release
from sordino.cli import main
from sordino.fitting.custom_methods import natural_cautions
from sordino.inference.summary import Summary
from sordino.ledger.release.coverage import FAR, HIDDEN_SLOPES, SLOPES_NOISE, withheld
from sordino.ledger.release.folder import release_digest
from sordino.ledger.signed_folder import sign_folder, verify_folder
from sordino.ledger.signing_keys import new_key
from sordino.report.decision import decide
from sordino.report.page import report_page
from sordino.report.subject import open_subject
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_json
from tests.golden.cases import _table
from tests.release_kinds import KINDS

# What each kind must say beside its epsilon, and the number of lines for kinds with one line a parameter.
WORDS = {
    "look": "count",
    "check": "Check on private rows",
    "comparison": "Models compared",
    "chain": "parameter[1]",
    "custom natural": "weights[1]",
    "custom variational": "weights[1]",
    "custom loss": "w[1]",
    "network": "['w'] [2]",
}


class Folders(dict[str, Path]):
    """A release of each kind, made when it is first asked for."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place

    def __truediv__(self, name: str) -> Path:
        if name not in self:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self[name] = write_release(self.place / name, KINDS[name]())
        return self[name]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    return Folders(tmp_path_factory.mktemp("kinds"))


# What differs in nothing but the method, and takes its time, is read among the slow tests.
LONG = ("dp-vi", "dp-sep", "robust bounded-influence", "classes bounded-influence", "network-classifier natural")
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * any(one in name for one in LONG)) for name in KINDS]
)


def test_a_model_of_the_callers_is_called_a_custom_model(folders):
    """The stored kind and query have an older word, which no reader sees."""
    subject = open_subject(folders / "custom loss")
    assert subject.release.kind.startswith("own-model/")
    read = report_page([subject], non_private=True).split("Description of the run (SPEC.json)")[0]
    assert "Gradients of the objective of a custom model" in read
    assert "Release of kind custom-model/" in read
    assert "own model" not in read
    assert "own-model" not in read


@EVERY
def test_show_reads_it(folders, name, capsys):
    release = sordino.read_release(folders / name)
    assert main(["show", str(folders / name)]) == 0
    text = capsys.readouterr().out
    assert WORDS.get(name, "Epsilon") in text
    assert str(release.summary()) in text.strip("\n")
    for form in ("csv", "latex", "html"):
        assert main(["show", str(folders / name), "--format", form]) == 0
    capsys.readouterr()
    assert main(["show", str(folders / name), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["release"] == str(folders / name)


@pytest.mark.parametrize("name", ["linear ridge", "logistic bounded-influence", "mixture em", "cox bounded-influence"])
def test_a_fit_that_was_read_predicts(folders, name):
    release = sordino.read_release(folders / name)
    task = name.split()[0]
    rows = {key: values[:5] for key, values in _table(task, "records").items() if key != "y"}
    ((target, drawn),) = release.predict(rows, draws=7).items()
    assert (target, drawn.shape) == (("component", (5, 2)) if task == "mixture" else ("y", (7, 5)))
    np.testing.assert_array_equal(drawn, release.predict(rows, draws=7)[target])


@EVERY
def test_a_report_finds_nothing_against_it(folders, name):
    subject = open_subject(folders / name)
    assert subject.discrepancies == ()
    assert replace(subject, release=replace(subject.release, private=True, document=None)).may_leave


def test_what_predicts_nothing_says_so(folders):
    for name in ("look", "check", "chain", "network"):
        with pytest.raises(sordino.InputError, match="predicts no rows"):
            sordino.read_release(folders / name).predict({"a": [0.0]})


def lines_of(release, level=0.95):
    found = release.summary(level)
    assert isinstance(found, Summary)
    return found.lines


def test_parameters_are_those_of_the_release(folders):
    release = sordino.read_release(folders / "custom natural")
    draws = release.arrays["site_draws"].reshape(-1, 3)
    lines = lines_of(release, 0.8)
    assert [line.name for line in lines] == ["weights[0]", "weights[1]", "sigma"]
    assert [line.estimate for line in lines] == pytest.approx(draws.mean(axis=0))
    assert [line.low for line in lines] == pytest.approx(np.quantile(draws, 0.1, axis=0))
    assert [line.high for line in lines] == pytest.approx(np.quantile(draws, 0.9, axis=0))
    # A chain knows no interval, and a network shows each of its arrays by its path.
    chain = sordino.read_release(folders / "chain")
    assert [line.estimate for line in lines_of(chain)] == pytest.approx(chain.arrays["draws"].ravel())
    assert all(line.low is None for line in lines_of(chain))
    network = sordino.read_release(folders / "network")
    assert lines_of(network)[0].estimate == pytest.approx(float(network.arrays["leaf_000"].mean()))


@pytest.mark.parametrize("name", ["linear constant", "cox bounded-influence", "check", "choice", "chain"])
def test_a_release_that_lost_any_key_must_not_leave(folders, name, tmp_path):
    """Also where a key is null: schema, model, cautions and settings are those that this version writes."""
    folder = write_release(tmp_path / "one", replace(sordino.read_release(folders / name), private=True))
    whole = json.loads((folder / "release.json").read_text())
    assert open_subject(folder).may_leave
    changed = [{one: value for one, value in whole.items() if one != key} for key in whole]
    changed += [whole | {key: None} for key in whole if whole[key] is not None]
    changed += [whole | {"cautions": []}] * bool(whole["cautions"])
    for document in changed:
        (folder / "release.json").write_text(json.dumps(document))
        with suppress(sordino.InputError):  # what cannot be read at all
            assert not open_subject(folder).may_leave, set(whole) - set(document)


@tried(20, 500)
@pytest.mark.parametrize("name", ["look", "check", "comparison", "network", "custom natural", "linear ridge"])
def test_changed_settings_are_printed_or_refused(folders, name, tmp_path, examples):
    folder = write_release(tmp_path / "one", sordino.read_release(folders / name))
    whole = json.loads((folder / "release.json").read_text())

    def check(settings: object) -> None:
        (folder / "release.json").write_text(json.dumps(whole | {"settings": settings}))
        with suppress(sordino.InputError):
            assert str(sordino.read_release(folder).summary())
            open_subject(folder)

    explore(examples, changed_json(whole["settings"]), check)


def test_an_unsigned_folder_that_no_ledger_names_says_what_is_not_verified(folders, tmp_path, capsys):
    folder = write_release(tmp_path / "one", replace(sordino.read_release(folders / "look"), private=True))
    said = "results, settings and cautions are not verified"
    assert any(said in words for words in decide(open_subject(folder)).look_at)
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "report.html: may be published; the charge was not compared with a ledger (--ledger)" in printed
    assert said in (tmp_path / "report.html").read_text()
    sign_folder(folder, "release", new_key(tmp_path / "key"))
    # Who edits a folder can sign it anew, with a key of their own.
    signer = verify_folder(folder).signer
    assert any(f"the key {signer} signed them" in words for words in decide(open_subject(folder)).look_at)


def test_a_caution_that_follows_from_noised_answers_cannot_be_dropped(folders, tmp_path):
    """Where the released numbers say so again, without any ledger; where they do not, the entry's digest tells."""
    natural = replace(sordino.read_release(folders / "custom natural"), private=True)
    look = replace(sordino.read_release(folders / "look"), private=True)
    moving = dict(natural.settings) | {"changed": 3.0}
    asked = {"word": "bounds", "columns": ["a"], "question": "bounds: a"}
    row = {"name": "low", "value": 0.0, "low": None, "high": None}
    hidden, coarse = (dict(look.settings) | {"answers": [asked | {"rows": rows}]} for rows in ([], [row]))
    odd = replace(natural, settings=dict(natural.settings) | {"doubt": "small"})
    regression = replace(sordino.read_release(folders / "linear bounded-influence"), private=True)
    far, noisy = (dict(regression.settings) | {name: 9.0} for name in (FAR, SLOPES_NOISE))
    choice = replace(sordino.read_release(folders / "choice"), private=True)
    loss = replace(sordino.read_release(folders / "custom loss"), private=True)
    named_otherwise = [replace(look, settings=hidden), replace(look, settings=coarse), choice, loss]
    follow = [replace(natural, settings=moving), odd, replace(regression, settings=far), replace(natural, delta=0.5)]
    for number, release in enumerate([*(replace(one, cautions=("Another.",)) for one in named_otherwise), *follow]):
        subject = open_subject(write_release(tmp_path / str(number), release))
        assert any("incomplete" in title and "cautions" in words for title, words in subject.discrepancies), number
    assert withheld(replace(regression, settings=noisy)) == HIDDEN_SLOPES
    said = replace(natural, settings=moving, cautions=natural_cautions(moving["doubt"], 3.0))
    assert open_subject(write_release(tmp_path / "said", said)).may_leave


def test_the_entry_of_a_ledger_is_for_a_release_with_all_its_cautions(folders, tmp_path):
    release = replace(
        sordino.read_release(folders / "linear bounded-influence"), private=True, cautions=("Not settled.",)
    )
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 9.0, 1e-5)
    entry = ledger.debit(release.bound, release.spec)
    paid = replace(release, ledger={"dataset": "clinic", "entry": entry.sequence, "digest": entry.digest})
    ledger.name_release(entry, release_digest(paid))
    whole = open_subject(write_release(tmp_path / "one", paid), ledger=ledger)
    assert (whole.may_leave, whole.unverified) == (True, "")
    assert any("identifies exactly this release" in reason for reason in decide(whole).why)
    dropped = write_release(tmp_path / "two", replace(paid, cautions=()))
    assert "has the digest of another release" in open_subject(dropped, ledger=ledger).discrepancy
    assert "cautions are not verified" in open_subject(dropped).unverified


def test_intervals_that_a_plan_withholds_stay_withheld(folders, tmp_path):
    release = replace(sordino.read_release(folders / "cox bounded-influence"), private=True)
    assert "budget is too small" in release.settings["withheld_because"]
    settings = {name: value for name, value in release.settings.items() if name != "withheld_because"}
    assert open_subject(write_release(tmp_path / "one", release)).may_leave
    assert not open_subject(write_release(tmp_path / "two", replace(release, settings=settings))).may_leave
