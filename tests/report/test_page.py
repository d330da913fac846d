"""The page says what is certified, escapes its input, and keeps what must not be published off the page that may."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sordino import Ledger, Spec
from sordino.accounting.evaluate import explain
from sordino.cli import main
from sordino.core.gaussian import show_up
from sordino.ledger.release import StoredRelease, read_release
from sordino.report.page import non_private_path, report_page, write_report
from sordino.report.subject import Subject, open_subject
from tests.cli.console import answer, refusal
from tests.report.example_releases import (
    DELTA,
    FORMULA,
    HOSTILE,
    charged,
    columns,
    edited,
    gaussians,
    kept_draws,
    last_iterate,
    release_of,
    spec_named,
    written,
)

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Tags in order, the nesting checked, attributes kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("releases")
    written(made, "clinic", kept_draws())
    written(made, "gaussians", gaussians())
    written(made, "seeded", last_iterate(private=False))
    return made


@pytest.fixture(scope="module")
def page(folder) -> str:
    return report_page([open_subject(folder / "clinic")])


def test_user_strings_are_escaped_and_nothing_is_fetched_or_runs(page, folder):
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4
    assert HOSTILE not in page
    assert FORMULA in page
    for name in open_subject(folder / "clinic").release.schema.feature_names:
        assert name.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;") in page
    assert "the mean of 60 draws" in page
    assert not re.findall(r"(?:src|href)=[\"'](?!#)", page)
    assert not re.findall(r"\son\w+=|javascript:|@import|url\((?!#)", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert " style=" not in page
    assert len(page.encode()) < 300_000
    assert report_page([open_subject(folder / "clinic")]) == page  # built again it is the same


def test_it_is_well_formed_with_headings_in_order_and_described_figures(page):
    outline = Outline(page)
    headings = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    idents = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(idents) == len(set(idents))
    assert {str(held["href"])[1:] for tag, held in outline.tags if tag == "a"} <= set(idents)
    for tag, held in outline.tags:
        if tag == "svg" and held.get("aria-hidden") != "true":
            assert held["role"] == "img"
            assert set(str(held["aria-labelledby"]).split()) <= set(idents)
        if tag == "th":
            assert held["scope"] in {"row", "col"}
    assert page.count("<table") == page.count("<caption")
    for drawing in re.findall(r"<svg class=\"figure\".*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)


def test_the_certificate_is_in_words_and_numbers(page, folder):
    subject = open_subject(folder / "clinic")
    assert f"<strong>{1.91:.3f}</strong>" in page
    assert subject.release.bound.theorem in page
    assert "An attacker is anyone who sees this release".lower() in page.lower()
    assert "The attacker knows everything else" in page
    assert "two tables of equal size: one has a certain record" in page
    for certificate in subject.release.bound.certificates:
        assert certificate.constant.name in page
        assert certificate.evidence.word in page
    # One sentence for the theorems that do not apply, with their number.
    assert f"The other {len(subject.explanation.inapplicable)} theorems are about other kinds of runs" in page
    for bound, _ in subject.explanation.bounds:
        assert f"ref-{bound.citation.key}" in page


def test_a_seeded_release_is_only_on_the_watermarked_page(folder, tmp_path, capsys):
    out = tmp_path / "report.html"
    subjects = [open_subject(folder / "gaussians"), open_subject(folder / "seeded")]
    found = write_report(subjects, out)
    assert found.non_private is not None
    assert found.non_private.name == "report.NON-PRIVATE.html"
    leaving, staying = out.read_text(), found.non_private.read_text()
    assert "seeded" not in leaving
    assert "NON-PRIVATE" not in leaving
    assert "<title>NON-PRIVATE" in staying
    assert 'class="watermark"' in staying
    assert "anyone who knows the seed" in staying
    assert 'class="decision no"' in staying
    assert '<p class="word">No</p>' in staying
    alone = answer(capsys, "report", folder / "seeded", "--out", tmp_path / "alone.html")
    assert alone["private"] is None
    assert not (tmp_path / "alone.html").exists()
    assert alone["releases"][0]["may_leave"] is False


def test_an_inferred_schema_keeps_a_release_in(tmp_path):
    release = kept_draws()
    inferred = columns(tuple(f"c{k}" for k in range(release.spec.dim - 1)), 10, reads_private_data=True)
    subject = open_subject(written(tmp_path, "one", replace(release, schema=inferred)))
    assert not subject.may_leave


def test_several_releases_are_composed(folder, tmp_path):
    other = written(tmp_path, "another", last_iterate())
    first, second = open_subject(folder / "clinic"), open_subject(other)
    text = report_page([first, second])
    together = re.search(r"together, if of one dataset.*?≤ ([\d.]+)", text, re.DOTALL)
    assert together is not None
    assert max(first.epsilon, second.epsilon) < float(together[1]) <= first.epsilon + second.epsilon


@pytest.fixture
def book(tmp_path) -> Ledger:
    return Ledger.open(tmp_path / "book.ledger", "<clinic & co>", "replace-one", 90.0, 1e-5)


def reported(folder: Path, ledger: Ledger, *more: str) -> tuple[int, str]:
    """Exit code of a report beside the folder, and the page that was written, whichever it is."""
    out = folder.parent / "report.html"
    for page in (out, non_private_path(out)):
        page.unlink(missing_ok=True)
    code = main(["report", str(folder), "--ledger", str(ledger.path), "--out", str(out), *more])
    assert out.exists() == (code == 0)
    return code, (out if out.exists() else non_private_path(out)).read_text()


def test_the_balance_of_a_ledger_is_shown_with_the_entry_that_paid(book, tmp_path, quick):
    charged(book, last_iterate())
    code, text = reported(written(tmp_path, "one", charged(book, gaussians())[0]), book)
    assert code == 0
    assert "&lt;clinic &amp; co&gt;" in text
    assert "left: one release of up to" in text
    assert "Entry 2 of this ledger" in text
    assert 'role="alert"' not in text


def less_loss(document) -> None:
    """Ten times the noise, and the bound, the answers and the headline that go with it: consistent, and not true."""
    spec = Spec.from_dict(document["spec"])
    better = spec.with_values({"algorithm.noise.scale": 10 * spec.algorithm.noise.scale.value})
    bound = explain(better, document["delta"]).tightest
    assert bound is not None
    document |= {"spec": better.to_dict(), "bound": bound.to_dict(), "epsilon": bound.guarantee.epsilon(1e-5)}


def test_a_description_that_was_changed_after_the_debit_is_red_and_exits_2(book, tmp_path, capsys, quick):
    release = last_iterate()
    folder = edited(written(tmp_path, "one", charged(book, release)[0]), less_loss)
    claimed = read_release(folder)
    assert claimed.epsilon < 0.2 * release.epsilon
    code, text = reported(folder, book)
    assert code == 2
    assert "a different run from the one charged as entry 1" in capsys.readouterr().err
    assert 'class="alert" role="alert"><p><strong>The ledger contradicts the folder.' in text
    # What was charged is what the page is about; the claim is on it in no place.
    assert f"<strong>{show_up(release.epsilon)}</strong>" in text
    assert f"≤ <strong>{show_up(claimed.epsilon)}</strong>" not in text
    assert "left: one release of up to" not in text
    more = ("--ledger", book.path, "--out", tmp_path / "a.html")
    (found,) = answer(capsys, "report", folder, *more, code=2)["releases"]
    assert (found["as_charged"], found["may_leave"]) == (False, False)
    assert found["epsilon"] == pytest.approx(release.epsilon)


OTHER = {"dataset": "survey", "entry": 1}
UNPAID = {
    "never charged": (None, "charged neither to the given ledger of '<clinic & co>'"),
    "another dataset": (OTHER, "the ledger of 'survey'"),
    "no such entry": ({"dataset": "<clinic & co>", "entry": 2}, "claims entry '2', but the ledger"),
    "no entry at all": ({"dataset": "<clinic & co>"}, "claims entry 'None'"),
    "an odd entry": ({"dataset": "<clinic & co>", "entry": True}, "claims entry 'True'"),
    "another ledger": ({"dataset": "<clinic & co>", "entry": 1, "digest": "00"}, "not of the given one"),
    "another run": ({"dataset": "<clinic & co>", "entry": 1}, "a different run from the one charged"),
}


def test_a_release_that_was_not_charged_to_the_ledger_is_red_and_exits_2(book, tmp_path, capsys, quick):
    charged(book, last_iterate())
    for case, (words, message) in UNPAID.items():
        code, text = reported(written(tmp_path, case, gaussians(ledger=words)), book)
        assert code == 2
        assert message in capsys.readouterr().err
        assert "The ledger contradicts the folder." in text
        assert "NON-PRIVATE" in text
        assert "left: one release of up to" not in text  # the balance of a ledger it has nothing to do with


def test_one_debit_pays_for_one_release(book, tmp_path, capsys, quick):
    paid = charged(book, last_iterate())[0]
    first, copy = written(tmp_path, "first", paid), written(tmp_path, "copy", paid)
    draws = {"draws": paid.arrays["draws"] + np.float32(1)}
    second = written(tmp_path, "second", replace(paid, arrays=draws))
    more = ["--ledger", str(book.path), "--out", str(tmp_path / "report.html")]
    assert main(["report", str(first), str(copy), *more]) == 0
    assert main(["report", str(first), str(second), *more]) == 2
    assert "claims entry 1, which pays for first" in capsys.readouterr().err


def test_where_an_audit_finds_its_rows_is_not_told(tmp_path, quick):
    document = spec_named("logistic-instance").to_dict()
    document["instance"]["dataset"] = {"kind": "file", "path": "/secret/place.csv", "schema": "/secret/schema.json"}
    spec = Spec.from_dict(document)
    release = replace(last_iterate(), spec=spec, bound=explain(spec, DELTA).bounds[0][0])
    text = report_page([open_subject(written(tmp_path, "one", release))])
    assert "/secret" not in text
    assert "noisy-gradient" in text


def test_bad_input_is_one_sentence(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for arguments, message in (
        (["clinic", "--out", "report.pdf"], "ends in .html"),
        (["clinic", "gaussians", "--audit", "a.json"], "`--audit` is for one release"),
        (["nothing"], "readable file"),
        (["clinic", "--audit", "clinic/release.json"], "sordino audit --json"),
    ):
        assert message in refusal(capsys, "report", *arguments)
    assert not (folder / "report.html").exists()


KINDS = (
    "average-laplace", "composite", "em", "heavy-tail-sgd", "message-passing-passes", "posterior-bounded",
    "posterior-linear-regression", "propose-test-sample", "ula-transfer", "variational",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_run_makes_a_page(name, quick):
    """The curves against steps, which take the time, have tests of their own."""
    spec = spec_named(name)
    found = explain(spec, DELTA)
    release = StoredRelease("any", spec, found.bounds[0][0], DELTA, True, {"draws": np.zeros((1, 1, 2))})
    text = report_page([Subject(name, release, found)])
    Outline(text)
    assert spec.view.value in text
    assert str(found.bounds[0][0].citation.key) in text


def test_the_certificate_begins_in_plain_words_with_the_number_of_the_table(tmp_path):
    subjects = [
        open_subject(written(tmp_path, f"{private}", last_iterate(private=private))) for private in (True, False)
    ]
    begun: list[str] = []
    write_report(subjects, tmp_path / "report.html", begun.append)
    assert begun == ["True", "False"]  # a person who waits sees which release is worked on
    page = (tmp_path / "report.html").read_text()
    plain = re.search(r'<p class="plain">(.*?)</p>', page, re.DOTALL)
    assert plain is not None
    assert "In plain words" in plain[1]
    (most,) = re.findall(r"at most <strong>([\d.]+ %)</strong>", plain[1])
    assert f'<td class="n">50 %</td><td class="n">{most}</td>' in page.split("an even chance")[1]
    # Nothing on the page praises the number: how strong it is, the reader decides.
    assert "cannot tell" not in page


def test_the_page_says_what_only_people_can_check_of_every_part(tmp_path):
    """Of a composite, too: the theorems of its parts ask, not the one that puts them together."""
    declared = spec_named("without-replacement-all-iterates").with_values(
        {"algorithm.clipping": None, "problem.gradient_bound": None}
    )
    part = {key: declared.to_dict()[key] for key in ("algorithm", "problem")}
    whole = {"algorithm": {"kind": "composite", "parts": [part]}, "relation": "replace-one", "view": "all-iterates"}
    draws = {"draws": np.zeros((1, 1, declared.dim), dtype=np.float32)}
    for place, spec in enumerate((declared, Spec.from_dict({**whole, "delta": 1e-5}))):
        text = report_page([open_subject(written(tmp_path, f"one-{place}", release_of(spec, draws)))])
        assert "No program can check these statements. Check them yourself:" in text
        assert "any two records there may be" in text
