# pyright: reportArgumentType=false
"""A dossier answers twenty questions by itself, and any change of it is found."""

import json
import os
import re
import shutil
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from sordino import InputError, Ledger
from sordino.cli import main
from sordino.core.guarantee import GaussianDP
from sordino.ledger.release import read_release
from sordino.ledger.signed_folder import sign_folder, verify_folder
from sordino.ledger.signing_keys import read_key
from sordino.report import dossier as evidence
from sordino.report import page
from sordino.report.dossier import source_digest
from sordino.report.dossier_questions import TESTS
from tests.cli.console import refusal
from tests.report.example_releases import edited, last_iterate, written
from tests.report.handed_over import BUDGET, DELTA, EPSILON, RECORDS, STATEMENTS, HandedOver, handed_over
from tests.report.test_page import Outline

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The replay, cut short, and the curves of one release are made once, by the code, and then remembered."""
    replay, curves, known = evidence.replay_release, page.step_bounds, {}

    def replayed(release, **options):
        known[release.digest] = known.get(release.digest) or replay(release, **options | {"seconds": 3.0})
        return known[release.digest]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "replay_release", replayed)
        patch.setattr(page, "step_bounds", cache(curves))
        yield handed_over(tmp_path_factory.mktemp("handed"))


@pytest.fixture(scope="module")
def answers(made) -> dict[str, dict]:
    """What a reviewer has: the folder, and nothing else."""
    return {one["id"]: one for one in json.loads((made.dossier / "answers.json").read_text())["answers"]}


def test_there_are_twenty_questions_each_with_an_answer_and_what_shows_it(answers, made):
    assert len(answers) == 20
    for one in answers.values():
        assert one["answer"], one["id"]
        assert all(words.strip() for words in one["answer"])
        assert one["evidence"], one["id"]
        assert not one["open"]
        for link in one["evidence"]:
            if link["target"] is not None:
                name, _, place = link["target"].partition("#")
                text = (made.dossier / name).read_text()
                assert not place or f'id="{place}"' in text, link


AGE = ["age", "18 to 95; values outside are clipped", "stops the run"]
# A reviewer's checklist: what is asked, and the answer that is known because the test chose it.
CHECKLIST = {
    "whom does it protect": lambda a: a["unit"]["facts"]["unit"] == "record",
    "which tables are neighbours": lambda a: a["relation"]["facts"]["relation"] == "replace-one",
    "what does the observer see": lambda a: a["relation"]["facts"]["view"] == "all-iterates",
    "epsilon": lambda a: 0.99 * EPSILON < a["parameters"]["facts"]["epsilon"] <= EPSILON,
    "delta": lambda a: a["parameters"]["facts"]["delta"] == DELTA,
    "delta against records": lambda a: a["delta"]["facts"]["delta_times_records"] == pytest.approx(DELTA * RECORDS),
    "which variant": lambda a: a["variant"]["facts"] == {"variant": "gaussian", "model": "central"},
    "which theorem": lambda a: a["theorem"]["facts"]["theorem"] == "composition.adaptive",
    "what is taken on trust": lambda a: a["evidence"]["facts"]["weakest"] == "proved",
    "charged where": lambda a: a["composition"]["facts"]["dataset"] == "clinic-2026",
    "charged as what": lambda a: a["composition"]["facts"]["entry"] == 1,
    "is it the release that was charged": lambda a: a["composition"]["facts"]["names_this_release"] is True,
    "what is left": lambda a: 0 < a["budget"]["facts"]["fits"] < a["budget"]["facts"]["epsilon"] == BUDGET,
    "what read the rows": lambda a: len(a["mechanism"]["facts"]["ran"]) > 2,
    "declared bounds of age": lambda a: AGE in a["bounds"]["facts"]["columns"],
    "was the noise secret": lambda a: a["randomness"]["facts"]["private"] is True,
    "what was learned": lambda a: "logistic regression of readmitted from age, ward, dose" in a["learned"]["answer"][0],
    "coverage": lambda a: re.search(r"the truth \d+ to \d+ % of the time", a["learned"]["facts"]["coverage"]),
    "was the code tried": lambda a: a["implementation"]["facts"]["verdict"] == "consistent",
    "lower bound": lambda a: 0 < a["audit"]["facts"]["lower_bound"] <= a["parameters"]["facts"]["epsilon"],
    "purpose": lambda a: a["collection"]["facts"]["purpose"] == STATEMENTS["purpose"],
    "who is asked": lambda a: a["collection"]["facts"]["contact"] == STATEMENTS["contact"],
    "floating point": lambda a: a["floating-point"]["facts"]["evidence"] == "proved",
    "what is not covered": lambda a: "time" in a["side-channels"]["facts"]["not_covered"],
    "is it signed": lambda a: a["security"]["facts"]["signed"] and a["security"]["facts"]["release_signed_by"],
}  # fmt: skip


def test_a_reviewer_answers_from_the_dossier_alone(answers):
    assert [asked for asked, right in CHECKLIST.items() if not right(answers)] == []


def test_page_and_machine_say_the_same_and_nothing_is_fetched(made, answers):
    text = (made.dossier / "index.html").read_text()
    plain = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    for one in answers.values():
        assert one["question"] in plain
    assert "May it be published? Yes" in plain
    assert "claims no conformance with any standard" in plain
    assert not re.findall(r"(?:src|href)=[\"'](?!#|report\.html|[a-z]+\.json)", text)

    Outline(text)


def test_the_folder_is_a_release_folder_and_the_registry_entry_says_what_the_release_does(made):
    stored = read_release(made.dossier)
    entry = json.loads((made.dossier / "registry.json").read_text())
    assert entry["release_sha256"] == stored.digest == read_release(made.release).digest
    assert (entry["unit"], entry["relation"], entry["delta"]) == ("record", "replace-one", DELTA)
    assert entry["epsilon"] >= stored.epsilon * (1 - 1e-9)
    assert entry["composition"]["budget_epsilon"] == BUDGET
    assert main(["report", str(made.dossier), "--ledger", str(made.ledger), "--out", str(made.place / "r.html")]) == 0


def copied(made: HandedOver, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.dossier, tmp_path / "copy"))


def verified(folder: Path, *more: str) -> int:
    return main(["sign", "verify", str(folder), *more])


def test_verify_says_by_whom_or_only_that_nothing_changed(made, capsys):
    assert verified(made.dossier, "--key", made.fingerprint) == 0
    assert "The key is the one that you named." in capsys.readouterr().out
    assert verified(made.dossier) == 0
    assert "Only integrity was checked" in capsys.readouterr().out
    assert verified(made.dossier, "--json") == 0
    assert json.loads(capsys.readouterr().out)["checked"] == "integrity only"
    assert verified(made.release, "--key", made.fingerprint) == 0


def test_tampering_with_any_file_is_found(made, tmp_path, capsys):
    folder = copied(made, tmp_path)
    names = sorted(path.name for path in folder.iterdir())
    assert {"index.html", "report.html", "answers.json", "registry.json", "checks.json", "ledger.json", "audit.json",
            "release.json", "arrays.safetensors", "manifest.json", "signature.json"} <= set(names)  # fmt: skip
    for name in names:
        content = (folder / name).read_bytes()
        for place in (0, len(content) // 3, len(content) - 1):
            (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            assert verified(folder, "--key", made.fingerprint) == 2, (name, place)
        (folder / name).unlink()
        assert verified(folder, "--key", made.fingerprint) == 2, name
        (folder / "zz.json").write_bytes(content)
        assert verified(folder, "--key", made.fingerprint) == 2, name
        (folder / "zz.json").rename(folder / name)
    for first, second in pairwise(names):
        both = (folder / first).read_bytes(), (folder / second).read_bytes()
        (folder / first).write_bytes(both[1])
        (folder / second).write_bytes(both[0])
        assert verified(folder, "--key", made.fingerprint) == 2, (first, second)
        (folder / first).write_bytes(both[0])
        (folder / second).write_bytes(both[1])
    assert verified(folder, "--key", made.fingerprint) == 0
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("sordino: ")


def resigned(made: HandedOver, folder: Path) -> Path:
    """Signed again by the owner's own key, whatever it says now."""
    sign_folder(
        folder, "dossier" if (folder / "answers.json").exists() else "release", read_key(made.key), replace=True
    )
    return folder


def test_verify_computes_the_certificate_again_and_compares_the_entry(made, tmp_path, capsys):
    """A signature says who; these folders are signed, and what they say is not so."""
    assert verified(made.dossier, "--ledger", str(made.ledger)) == 0
    said = capsys.readouterr().out
    assert "computed again" in said
    assert "as entry 1 of clinic-2026, compared with the ledger that was named" in said
    assert verified(made.dossier) == 0
    assert "compared with ledger.json of the dossier" in capsys.readouterr().out
    cheaper = edited(copied(made, tmp_path / "a"), lambda document: document["bound"]["guarantee"].update(mu=0.01))
    assert verified(resigned(made, cheaper)) == 2
    assert "claims epsilon" in capsys.readouterr().err
    for name, change in {
        "sequence": lambda entry: entry.update(sequence=2),
        "digest": lambda entry: entry.update(digest="0" * 64),
        "release": lambda entry: entry.update(release="0" * 64),
        "spec": lambda entry: entry["spec"].update(view="last-iterate"),
        "nothing": lambda entry: entry.clear(),
    }.items():
        folder = copied(made, tmp_path / name)
        document = json.loads((folder / "ledger.json").read_text())
        change(document["entry"])
        (folder / "ledger.json").write_text(json.dumps(document))
        assert verified(resigned(made, folder)) == 2, name
        assert "to contain the entry of its release" in capsys.readouterr().err
    other = Ledger.open(tmp_path / "other.ledger", "clinic-2026", "replace-one", 1.0, 1e-5)
    assert verified(made.dossier, "--ledger", str(other.path)) == 2
    assert "The folder claims entry" in capsys.readouterr().err


def test_a_dossier_of_another_key_passes_for_itself_only(made, tmp_path, capsys):
    """Somebody else's dossier of the same release is whole, and not the one that was promised."""
    assert main(["sign", "key", str(tmp_path / "other.key")]) == 0
    out = tmp_path / "theirs"
    words = ["sign", "dossier", str(made.release), "--key", str(tmp_path / "other.key"), "--out", str(out)]
    assert main(words) == 0
    assert verified(out) == 0
    assert verified(out, "--key", made.fingerprint) == 2
    assert "do not trust it" in capsys.readouterr().err
    ours = copied(made, tmp_path)
    for name in ("manifest.json", "signature.json"):
        shutil.copy(out / name, ours / name)
        assert verified(ours, "--key", made.fingerprint) == 2
    assert verify_folder(made.dossier, made.fingerprint).about == "dossier"


def test_without_a_key_ledger_and_statements_it_says_what_is_missing(made, tmp_path, capsys):
    bare = shutil.copytree(made.release, tmp_path / "bare")
    for name in ("manifest.json", "signature.json"):
        (bare / name).unlink()
    capsys.readouterr()
    assert main(["sign", "dossier", str(bare), "--out", str(tmp_path / "d"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["signer"], answer["open"]) == (None, ["security", "collection"])
    assert main(["sign", "dossier", str(bare), "--out", str(tmp_path / "again")]) == 0
    missing = "purpose, collection, access, contact"
    assert f"open      security, collection: give {missing} in --statements" in capsys.readouterr().out
    page = (tmp_path / "d" / "index.html").read_text()
    assert "Not signed." in page
    assert "This is what the folder claims" in page
    assert page.count('class="unanswered"') == 4
    capsys.readouterr()
    assert verified(tmp_path / "d") == 2
    said = capsys.readouterr().err
    assert "for a signed folder" in said
    assert "`sordino sign release`" in said


def test_a_release_that_was_changed_after_it_was_charged_has_no_dossier(made, tmp_path, capsys):
    for place, change in enumerate((
        lambda d: d.update(cautions=["All is well."]),  # its description and arrays are as they were
        lambda d: d.update(epsilon=0.1),
        lambda d: d["settings"].update(method="better"),
    )):  # fmt: skip
        folder = shutil.copytree(made.release, tmp_path / str(place))
        for name in ("manifest.json", "signature.json"):
            (folder / name).unlink()
        edited(folder, change)
        out = tmp_path / f"out-{place}"
        assert main(["sign", "dossier", str(folder), "--ledger", str(made.ledger), "--out", str(out)]) == 2
        assert "has the digest of another release" in capsys.readouterr().err
        assert not out.exists()


def test_whoever_reads_a_release_says_that_its_signature_is_broken(made, tmp_path, capsys, monkeypatch):
    """Its certificate and its arrays are as they were, so nothing else would find the change."""
    monkeypatch.chdir(tmp_path)
    intact, folder = (Path(shutil.copytree(made.release, tmp_path / name)) for name in ("intact", "changed"))
    edited(folder, lambda document: document.update(cautions=["All is well."]))
    rows = str(made.place / "patients.csv")
    for verb, *more in (["show"], ["predict", rows], ["audit"], ["audit", "--method", "replay"], ["report"]):
        if verb != "audit":  # which takes longer, and is done elsewhere
            assert main([verb, str(intact), *more]) == 0
        capsys.readouterr()
        assert main([verb, str(folder), *more]) == 2, verb
        streams = capsys.readouterr()
        assert "release.json was changed" in streams.err
        assert verb == "report" or streams.out == ""
    (page,) = (path for path in tmp_path.glob("*.html") if "The signature is not valid." in path.read_text())
    assert '<p class="word">No</p>' in page.read_text()
    with pytest.raises(InputError, match="was changed"):
        read_release(folder)
    assert "release.json was changed" in refusal(capsys, "sign", "dossier", folder, "--out", tmp_path / "out")
    assert main(["sign", "release", str(folder), "--key", str(made.key), "--replace"]) == 0
    assert main(["show", str(folder)]) == 0


def test_a_program_that_is_replayed_and_contradicts_has_no_dossier(made, tmp_path, monkeypatch, capsys):
    real = evidence.replay_release
    monkeypatch.setattr(
        evidence, "replay_release", lambda *a, **k: replace(real(*a, **k), refuted=("the noise is half",))
    )
    assert "Do not hand it over" in refusal(capsys, "sign", "dossier", made.release, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


KEY = ("--key", "{key}")
BAD = (
    (["{place}/nothing"], "readable file"),
    (["{place}/patients.csv"], "Not a directory"),
    (["{release}", "--out", "{place}"], "exists already"),
    (["{release}", "--out", "{place}/a/b"], "make"),
    (["{release}", "--key", "{place}/patients.csv"], "owner only|private key file"),
    (["{release}", "--key", "{key}.pub"], "owner only|private key file"),
    (["{release}", *KEY, "--passphrase-file", "{place}/words"], "Omit"),
    (["{release}", *KEY, "--passphrase-file", "{place}/no"], "readable key file"),
    (["{release}", "--statements", "{place}/list.json"], "to be an object"),
    (["{release}", "--statements", "{place}/strange.json"], "got 'mood'"),
    (["{release}", "--statements", "{place}/number.json"], "to be a text"),
    (["{release}", "--ledger", "{place}/schema.json"], "is not a ledger"),
    (["{release}", "--audit", "{place}/schema.json"], "sordino audit --json"),
)  # fmt: skip


def test_bad_input_of_a_dossier_is_one_sentence_and_leaves_nothing(made, tmp_path, capsys):
    for name, content in (("list", []), ("strange", {"mood": "good"}), ("number", {"purpose": 3})):
        (made.place / f"{name}.json").write_text(json.dumps(content))
    (made.place / "words").touch(0o600)
    (made.place / "words").write_text("correct horse battery\n")
    for given, message in BAD:
        words = [word.format(place=made.place, release=made.release, key=made.key) for word in given]
        out = [] if "--out" in words else ["--out", str(tmp_path / "out")]
        error = refusal(capsys, "sign", "dossier", *words, *out)
        assert re.search(message, error), error
        assert os.listdir(tmp_path) == []


def test_what_must_not_leave_has_no_dossier(tmp_path, capsys):
    seeded = written(tmp_path, "seeded", last_iterate(private=False))
    too_good = last_iterate()
    claim = written(tmp_path, "claim", replace(too_good, bound=replace(too_good.bound, guarantee=GaussianDP(0.01))))
    for folder, message in ((seeded, "anyone who knows the seed"), (claim, "claims epsilon")):
        assert message in refusal(capsys, "sign", "dossier", folder, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_dossier_names_tests_that_are_there_and_claims_no_run_of_them(answers, made):
    """It believed a file beside the package, into which whoever made the dossier could write any number."""
    named = [name for names in TESTS.values() for name in names]
    assert len(set(named)) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
    words = [link["words"] for one in answers.values() for link in one["evidence"] if link["kind"] == "test"]
    assert sorted(words) == sorted(named)
    assert json.loads((made.dossier / "answers.json").read_text())["source_sha256"] == source_digest()
    assert source_digest()[:16] in (made.dossier / "index.html").read_text()
