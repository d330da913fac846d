"""An audit file is read back as it was written, compared again, and kept in when it read private rows."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sordino import InputError, Spec, read_schema
from sordino.auditing.instance import audit_instance
from sordino.auditing.lower_bound import AuditOptions, Examined, VerdictKind, audit
from sordino.cli.audit import described
from sordino.report.page import report_page, write_report
from sordino.report.subject import open_subject, read_audit, reads_rows
from tests.report.example_releases import EXAMPLES, last_iterate, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("releases"), "one", last_iterate())


@pytest.fixture(scope="module")
def answer(folder) -> dict:
    target = folder.parent / "answer.json"
    lower = audit(described(folder)[0], "exact", AuditOptions(delta=1e-5))
    target.write_text(json.dumps(lower.answer(last_iterate().bound)))
    return {"path": target, "lower": lower, "document": json.loads(target.read_text())}


def test_both_sides_are_on_the_page_and_agree(folder, answer, tmp_path):
    assert read_audit(answer["path"]) == answer["lower"]
    subject = open_subject(folder, answer["path"])
    assert subject.verdict is not None
    assert subject.verdict.kind is VerdictKind.TIGHTNESS
    assert write_report([subject], tmp_path / "report.html").non_private is None
    text = (tmp_path / "report.html").read_text()
    for words in (
        "description ≥ 0.795",
        "best tests of the description",
        "<strong>tightness of the description.</strong>",
        "description only",
        "a program that leaves noise out would not be noticed here",
    ):
        assert words in text
    # Nothing that a person reads calls it audited; the class of a line in a figure is not read.
    assert "audited" not in re.sub(r"<style.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)


def test_a_replay_beside_the_lower_bound_is_on_the_page(folder, answer, tmp_path):
    """An exact audit runs no code, and the same file may say what a replay of the code found."""
    path = tmp_path / "audit.json"
    for kind, shown in (("consistent", True), ("inconclusive", True), ("invented", False), (None, False)):
        found = {"implementation": {"verdict": {"kind": kind, "evidence": "on 9 pairs <of> neighbours."}}}
        path.write_text(json.dumps(answer["document"] | (found if kind else {})))
        text = report_page([open_subject(folder, path)])
        words = f"Verdict: <strong>{kind}</strong>. On 9 pairs &lt;of&gt; neighbours."
        assert (words in text) is shown
        assert "No code was run for this." in text


def test_what_was_examined_is_read_back_and_a_stored_verdict_is_not_believed(answer, tmp_path):
    path = tmp_path / "audit.json"
    for method, stated, examined in (
        ("exact", "run", Examined.DESCRIPTION),  # which never ran anything
        ("attack", "description", Examined.DESCRIPTION),
        ("one-run", "run", Examined.RUN),
    ):
        path.write_text(json.dumps(answer["document"] | {"method": method, "examined": stated}))
        assert read_audit(path).examined is examined
    # Found in the folder; it says that it is tight, and its numbers say violated.
    folder = written(tmp_path, "two", last_iterate())
    (folder / "audit.json").write_text(json.dumps(answer["document"]))
    assert open_subject(folder).audit == answer["lower"]
    lower = answer["document"]["lower_bound"] | {"epsilon": 9.0}
    (folder / "audit.json").write_text(json.dumps(answer["document"] | {"lower_bound": lower}))
    assert open_subject(folder).verdict.kind is VerdictKind.VIOLATED


def test_an_audit_of_private_rows_stays_off_the_page_that_may_leave(folder, answer, tmp_path):
    subject = open_subject(folder, answer["path"])
    private = replace(answer["lower"], evidence="ridge on 400 records of a file, worst neighbour", epsilon=0.123456)
    found = write_report([replace(subject, audit=private)], tmp_path / "report.html")
    assert found.non_private is not None
    leaving, staying = (tmp_path / "report.html").read_text(), found.non_private.read_text()
    assert "0.1234" not in leaving
    assert "400 records of a file" not in leaving
    assert "read private rows" in leaving
    assert "0.1234" in staying


def test_the_words_of_an_audit_of_a_file_are_recognised(answer):
    """Audits say with the instance's description what they trained on; one of a file has the words that keep it in."""
    document = json.loads((EXAMPLES / "specs" / "logistic-instance.json").read_text())
    schema = EXAMPLES / "data" / "clinic.schema.json"
    path = str(EXAMPLES / "data" / "clinic.csv")
    document["instance"]["dataset"] = {"kind": "file", "path": path, "schema": str(schema)}
    declared = read_schema(schema)
    document["problem"] |= {"n": declared.records, "dim": len(declared.feature_names)}
    spec = Spec.from_dict(document)
    read = replace(answer["lower"], evidence=f"{audit_instance(spec).description}; a linear score")
    assert reads_rows(read, last_iterate().spec)
    assert reads_rows(answer["lower"], spec)
    assert not reads_rows(answer["lower"], last_iterate().spec)


STATED = {"epsilon": 1.0, "evidence": "x", "curve": []}
BAD = (
    *({"relation": "other"}, {"delta": 2.0}, {"confidence": "high"}, {"lower_bound": 3}, {"cap": "none"}),
    *({"counts": [1]}, {"counts": {"models": "many"}}, {"method": 3}, {"examined": "the code"}),
    *({"lower_bound": STATED | change} for change in ({"epsilon": -1.0}, {"evidence": "x" * 5000}, {"curve": {}})),
    *({"lower_bound": STATED | {"curve": curve}} for curve in ([[0.1]], [[0.1, 7]])),
)


def test_other_files_are_refused_in_one_sentence(answer, tmp_path):
    path = tmp_path / "audit.json"
    for change in BAD:
        path.write_text(json.dumps(answer["document"] | change))
        with pytest.raises(InputError) as refused:
            read_audit(path)
        assert "\n" not in str(refused.value)
