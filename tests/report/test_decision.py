"""The strip on top of a page: what is decided, why, and what is left to people."""

import re
from dataclasses import replace

import pytest

from sordino.accounting.evaluate import for_group
from sordino.core.gaussian import show_up
from sordino.core.guarantee import GaussianDP, RenyiDP
from sordino.data import Boolean, Category, Date, DeclaredUnit, Feature, Number, Ordered, Schema, Target
from sordino.ledger import Ledger
from sordino.report.decision import decide, declared_rows, learned, why_budgets_do_not_add
from sordino.report.page import report_page
from sordino.report.subject import open_subject
from tests.report.example_releases import charged, coefficients, columns, gaussians, last_iterate, written

pytestmark = pytest.mark.usefixtures("quick")


def facts(subject) -> dict[str, str]:
    return {fact.name: f"{fact.value} | {fact.remark}" for fact in decide(subject).facts}


@pytest.fixture
def book(tmp_path) -> Ledger:
    return Ledger.open(tmp_path / "clinic.ledger", "clinic", "replace-one", 3.0, 1e-5)


def test_the_strip_names_unit_loss_ledger_evidence_lesson_date_and_versions(book, tmp_path):
    release, entry = charged(book, last_iterate())
    subject = open_subject(written(tmp_path, "one", release), ledger=book)
    found = facts(subject)
    assert found["protects"].startswith("one record | relation replace-one")
    assert "at most 1.009" in found["epsilon"]
    assert "10⁻⁵" in found["epsilon"]
    assert found["charged"] == "entry 1 of clinic | compared with the ledger"
    assert re.search(
        r"a release of epsilon [\d.]+ \| budget 3, spent [\d.]+; all three at delta 10⁻⁵", found["budget left"]
    )
    assert found["made"].startswith(entry.time[:10])
    assert found["weakest evidence"].split(" |")[0] == subject.bound.evidence.word
    assert "Sordino" in found["versions"]
    page = report_page([subject])
    strip = page.split('class="decision yes"')[1].split("</section>")[0]
    for fact in decide(subject).facts:
        assert fact.name in strip
    assert strip.index("May it be published?") < strip.index("Signature")
    assert page.count("about other kinds of runs, relations or views") == 1
    assert "do not apply, and why" not in page
    # The strip is the first thing after the name.
    assert page.index('class="decision') < page.index('class="hero"')


def test_without_a_ledger_people_are_asked(tmp_path, book):
    bare = decide(open_subject(written(tmp_path, "bare", last_iterate())))
    assert any("No ledger was charged" in question for question in bare.look_at)
    assert any("Does each person have only one?" in question for question in bare.look_at)
    release, _ = charged(book, last_iterate())
    charged_once = decide(open_subject(written(tmp_path, "charged_once", release)))
    assert any("No ledger was given" in question for question in charged_once.look_at)
    assert facts(open_subject(tmp_path / "charged_once"))["budget left"].startswith("not known here")
    assert facts(open_subject(tmp_path / "charged_once"))["charged"].endswith("as the folder claims")
    assert any("Only the caller knows" in question for question in charged_once.look_at)


def test_budget_spent_and_what_fits_add_in_squares(book, tmp_path):
    """Known case: a Gaussian ledger adds squared mus, so what is left is the leg of a right triangle."""
    release, _ = charged(book, gaussians())
    subject = open_subject(written(tmp_path, "one", release), ledger=book)
    balance = subject.balance
    assert balance is not None
    guarantee = release.bound.guarantee
    assert isinstance(guarantee, GaussianDP)
    assert balance.spent_mu == pytest.approx(guarantee.mu, rel=1e-9)
    # The whole is what the budget affords in noise at the part of delta that the filter has for it.
    rule = book._standing().rule
    assert balance.spent_mu**2 + balance.largest_mu**2 == pytest.approx(rule.mu**2, rel=1e-9)
    assert GaussianDP(rule.mu).epsilon(rule.gaussian_delta) == pytest.approx(3.0, rel=1e-6)
    assert balance.spent_epsilon + balance.largest_epsilon > balance.budget.epsilon
    words = why_budgets_do_not_add(subject)
    assert ("at its own delta" in words) is (release.delta != balance.budget.delta)
    gone, left, whole = map(float, re.search(r"([\d.]+)² \(spent\) \+ ([\d.]+)² \(left\) = ([\d.]+)²", words).groups())
    assert gone**2 + left**2 == pytest.approx(whole**2, rel=1e-3)
    assert gone == pytest.approx(guarantee.mu, rel=1e-3)
    assert words in report_page([subject]).replace("&#39;", "'")
    assert why_budgets_do_not_add(open_subject(written(tmp_path, "bare", gaussians()))) == ""
    # A ledger that counts by curves, because no Gaussian dominates its first release, says so.
    other = Ledger.open(tmp_path / "r.ledger", "clinic", "replace-one", 3.0, 1e-5)
    release = gaussians()
    other.debit(replace(release.bound, guarantee=RenyiDP((2.0, 9.0, 40.0), (1e-9, 5e-9, 2e-8))), release.spec)
    release, _ = charged(other, release)
    by_curves = open_subject(written(tmp_path, "curves", release), ledger=other)
    assert by_curves.balance.spent_mu is None
    assert "order by order" in why_budgets_do_not_add(by_curves)


def test_declared_bounds_and_categories_are_shown(tmp_path):
    schema = Schema(
        records=5000,
        features=(
            Feature("age", Number(0.0, 110.0)),
            Feature("day", Date("2020-01-01", "2021-01-01")),
            Feature("stage", Ordered(("I", "II", "III"))),
            Feature("smoker", Boolean()),
            Feature("ward", Category(("medicine", "<b>surgery</b>"))),
        ),
        target=Target("readmitted", Boolean()),
        intercept=True,
    )
    rows = {name: values for name, values, _ in declared_rows(schema)}
    assert rows["age"].startswith("0 to 110")
    assert rows["day"].startswith("2020-01-01 to 2021-01-01")
    assert rows["stage"] == "I, II, III, in this order"
    assert "medicine" in rows["ward"]
    assert "readmitted (target)" in rows
    subject = open_subject(written(tmp_path, "one", coefficients()))
    page = report_page([subject])
    for words in ("0 to 110; values outside are clipped", "medicine, surgery", "Effects in the units of the table"):
        assert words in page
    assert "Density of" not in page
    assert re.search(r"95 % intervals of this method contained the truth \d+ to \d+ % of the time", page)
    assert learned(subject.release) == "logistic regression of readmitted from age, days, smoker, ward"
    listed = subject.release.schema
    more = tuple(Feature(f"c{place}", Boolean()) for place in range(3))
    for count, words in ((1, "ward, c0"), (3, "ward, and 3 more")):
        wider = replace(subject.release, schema=replace(listed, features=(*listed.features, *more[:count])))
        assert learned(wider).endswith(words)


def test_records_that_belong_together_are_asked_about_with_their_epsilon(tmp_path):
    """One record has epsilon 1.009; for five that change together the certificate says what the box asks about."""
    schema = columns(("age",), last_iterate().spec.n, unit=DeclaredUnit(most_records=5))
    subject = open_subject(written(tmp_path, "one", last_iterate(schema=schema)))
    group = for_group(subject.bound, subject.release.spec, 5).epsilon(subject.release.delta)
    asked = f"belong together: for 5 of them epsilon is at most {show_up(group)} at delta"
    (question,) = (words for words in decide(subject).look_at if asked in words)
    assert question.endswith("Is that acceptable?")
    assert not any("Does each person have only one?" in question for question in decide(subject).look_at)


def test_no_finite_epsilon_is_asked_about(tmp_path):
    subject = open_subject(written(tmp_path, "one", last_iterate()))
    empty = replace(subject, explanation=replace(subject.explanation, bounds=()))
    assert empty.bound is None
    assert decide(empty).look_at[0].startswith("No theorem gives a finite epsilon")
    assert "no finite bound" in facts(empty)["epsilon"]
