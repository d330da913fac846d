"""The inventory of the papers against the papers' numbering, the items, the errata and the committed pages."""

import re
from collections import Counter
from pathlib import Path

import pytest

from papers.framework.figure import DOTS_PER_INCH, ONE_PANEL, PANELS
from papers.framework.inventory import Entry, entries, inventory, without_claim
from papers.framework.item import VerdictKind, every_item
from papers.framework.writing import found_pages, gallery_page, index_page
from sordino.core.bound import bibliography
from sordino.core.validate import SordinoError
from tests.errata.erratum import errata

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "papers"
INVENTORY = inventory()


def numbered(kind: str, *numbers: int | str, prefix: str = "") -> list[str]:
    return [f"{kind} {prefix}{number}" for number in numbers]


# What carries a number in the papers and states a claim, counted off their pages and not read from the inventory.
NUMBERED = {
    "ye2022differentially": [
        *("Algorithm 1", "Algorithm 2", "Figure 1", "Theorem 2.1", "Lemma 3.1", "Lemma 3.2", "Theorem 3.3"),
        *("Lemma 4.1", "Theorem 4.2", "Theorem 4.3", "Corollary 5.3", "Lemma D.1", "Lemma D.2", "Lemma D.3"),
        *("Theorem D.4", "Theorem D.5", "Theorem D.6", "Theorem D.7"),
        *("Proposition F.1 (5.1)", "Proposition F.2 (5.2)"),
    ],
    "bertazzi2025differential": [
        *numbered("Proposition", "3.2", "3.3", "3.4", "3.7", "3.10", "4.5", "4.6", "A.2", "A.3", "A.4", "A.6"),
        *numbered("Lemma", "4.1", "4.2", "B.1", "B.2", "B.3"),
        *numbered("Theorem", "5.2", "5.4", "5.6", "5.7", "5.8"),
        *("Section 5.3, last state", "Section 5.3, path"),
    ],
    "simsekli2024differential": [
        *numbered("Lemma", 5, 6, 7, 8, 13, 14, 15, 16, 17, 18),
        *numbered("Proposition", 3, 11, 12),
        *("Theorem 9", "Theorem 10", "Figure 1", "Figure 2", "Section 4.3"),
        *(*numbered("Assumption", 1, 2, 3), *numbered("Example", 1, 2)),
    ],
    "vinaroz2022differentially": [
        *(*numbered("Algorithm", 1, 2, 3), *numbered("Table", *range(1, 10)), "Figure 1"),
        *("Proposition 1", "Proposition 2", "Theorem 4.1", "Definition 4.1", "Definition 4.2", "Appendix A"),
    ],
    "heller2023can": [
        *(*numbered("Figure", 1, 2, 3), "Proposition III.4", "Theorem IV.1", "Algorithm 1", "Equation (33)"),
        *numbered("Lemma", *range(2, 8), prefix="IV."),
        *("Claim IV.8", "Claim IV.9", "Claim A.8"),
        *numbered("Lemma", 1, 2, 3, 4, 5, 6, 7, 9, prefix="A."),
        *numbered("Claim", 1, 2, 4, 5, 6, *range(9, 16), prefix="C."),
        *numbered("Corollary", 3, 16, 17, prefix="C."),
        *numbered("Claim", *range(1, 29), prefix="D."),
    ],
}


# What the papers claim between their numbers, and misprints, as a second reading of all pages counted them.
BETWEEN = {
    "ye2022differentially": [
        *("Appendix D, point initialisation", "Equations (130) to (132)", "Equation (134)", "Equation (177)"),
        *("Equations (145) and (146)", "Appendix D.6, first and last batch", "Appendix F.1, normalisation"),
        *("Figures and tables of Section 5", "Appendix C"),
    ],
    "bertazzi2025differential": [
        *("Section 1, the path", "Before Proposition 3.3", "Section 3.2, Laplace noise", "C_4, after Theorem 5.2"),
        *("Variance after Assumption 3.6", "After Theorem 5.6", "After Theorem 5.8, the size of a batch"),
        *("After Theorem 5.8, random batches", "Section 5.3, the theorems it names", "Section 6, the state space"),
        *("Assumption 3.1", "Remark 4.3"),
    ],
    "simsekli2024differential": [
        *("Section 1, the rate", "Section 1, time", "Section 2.3, moments", "After Lemma 7", "After Lemma 8"),
        *("Equation (16), mean length of the noise", "After Lemma 7, Assumption 3", "After Theorem 10"),
        *("After Theorem 9, the tail index", "After Theorem 9, other noises", "Appendix B.4, the range of sigma"),
        *("Section 5.1, the step", "Section 5.1, rho", "Section 5.1, the test error", "Section 5.1, SGD"),
        *("Section 5.2, the test error", "Section 5.2, the labels"),
    ],
    "vinaroz2022differentially": [
        *("Equations (3) and (4)", "Equation (5)", "Section 2, the Gaussian mechanism", "Section 3.3, beside DP-SGD"),
        *("Section 3.3, clipping as regularisation", "Section 4, the concentration of the noise"),
        *("Section 4 and Appendix B.1, many records", "Section 6.1, uncertainty", "Equations (14) and (16)"),
        *("Section 6.2, ADF", "Section 6.2, EP beside VI", "Section 6.2, SEP beside EP"),
        *("Section 6.2, DP-SEP beside SEP", "Section 6.2, DP-SEP beside DP-VI", "Tables 8 and 9, Year at C = 1"),
        *("Appendix C, DP-SEP beside point estimates", "Appendix D, equations (110) to (121)"),
    ],
    "heller2023can": [
        *("Section II, Wasserstein distances", "After Theorem IV.1", "Section IV, the order of the leak"),
        *("Section IV, the order of records", "Proof of Theorem IV.1, n_2", "After Lemma IV.3", "Equation (19)"),
        *("Equations (10) to (12)", "Section V-B, the cap", "Section V-B, epsilon 3", "Section V-B, clipping"),
        "Section V-B, the attack on clipped models",
    ],
}


def test_every_number_of_the_papers_and_every_claim_between_is_listed_once():
    listed = Counter((entry.paper, entry.place) for entry in INVENTORY)
    assert set(listed.values()) == {1}
    assert set(NUMBERED) == set(BETWEEN) == {entry.paper for entry in INVENTORY} <= set(bibliography())
    for paper, places in NUMBERED.items():
        assert [place for place in (*places, *BETWEEN[paper]) if (paper, place) not in listed] == []
    assert len(INVENTORY) == sum(map(len, NUMBERED.values())) + sum(map(len, BETWEEN.values()))


def test_definitions_and_assumptions_are_named_and_not_judged():
    """The paper's numbering has no gap: what is not a result of Bertazzi et al. is listed as such."""
    listed = {(entry.paper, entry.place) for entry in INVENTORY}
    named = {(paper, place) for paper, places in without_claim().items() for place in places}
    assert not listed & named
    # Numbers of sections 3 to 5 run through all kinds of statements.
    numbers = {place.split()[1] for paper, place in listed | named if paper == "bertazzi2025differential"}
    wanted = {f"3.{k}" for k in range(1, 11)} | {f"4.{k}" for k in range(1, 7)} | {f"5.{k}" for k in range(1, 9)}
    assert wanted <= numbers
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert "no claim, and not counted: Definition B.1, Definition B.2, Definition B.3." in page


def test_an_entry_names_items_errata_and_tests_that_exist():
    names, cases = {one.name: one.paper for one in every_item()}, {one.name: one.paper for one in errata()}
    for entry in INVENTORY:
        assert set(entry.items) <= set(names), entry.place
        assert {names[name] for name in entry.items} <= {entry.paper, None}, entry.place
        assert {cases.get(name) for name in entry.errata} <= {entry.paper}, entry.place
        for name in entry.tests:
            file, _, test = name.partition("::")
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8") if test else (ROOT / file).is_file(), (
                name
            )


def test_every_item_and_every_erratum_is_about_something_listed():
    items = {name for entry in INVENTORY for name in entry.items}
    assert {one.name for one in every_item() if one.paper is not None} <= items
    assert {one.name for one in errata()} == {name for entry in INVENTORY for name in entry.errata}


def test_every_remark_is_computed_and_every_computed_remark_is_listed():
    tests = {name.partition("::")[2] for entry in INVENTORY for name in entry.tests if "test_remarks.py" in name}
    text = (ROOT / "papers/tests/test_remarks.py").read_text(encoding="utf-8")
    assert tests == set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))


def test_the_verdict_of_a_page_is_that_of_a_result_on_it():
    for name, found in found_pages(RESULTS).items():
        words = {entry.verdict.value for entry in INVENTORY if name in entry.items}
        own = next(one for one in every_item() if one.name == name).paper is None
        assert found.verdict == "our own" if own else found.verdict in words, (name, found.verdict, words)


def test_an_entry_without_evidence_or_verdict_is_refused():
    with pytest.raises(SordinoError, match="items, errata or tests"):
        Entry("heller2023can", "Figure 9", "a figure", VerdictKind.SAME)
    with pytest.raises(SordinoError, match="what and verdict"):
        entries('[heller2023can]\n"Figure 9" = { what = "a figure", verdict = "exceeds", items = ["x"] }')


def test_the_committed_results_hold_every_item_and_the_page_is_up_to_date():
    assert set(found_pages(RESULTS)) >= {name for entry in INVENTORY for name in entry.items}
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert page == index_page(RESULTS)
    assert f"The {len(INVENTORY)} results, displays and remarks" in page


def test_the_gallery_shows_every_committed_figure_in_words_too():
    gallery = (RESULTS / "gallery.md").read_text(encoding="utf-8")
    assert gallery == gallery_page(RESULTS)
    for found in found_pages(RESULTS).values():
        for picture in (RESULTS / found.page.parent).glob("*.svg"):
            assert f"({picture.relative_to(RESULTS)})" in gallery
    images = [line for line in gallery.splitlines() if line.startswith("![")]
    assert len(images) >= 30
    assert all(len(line.partition("](")[0]) > 40 for line in images), "an image needs words that stand in for it"
    captions = [line for line in gallery.splitlines() if len(line) > 40 and not line.startswith(("![", "["))]
    assert not any(f"![{caption}]" in gallery for caption in captions), "a screen reader would hear a caption twice"
    assert all(line.startswith("![Chart of ") for line in images)


def test_verdicts_are_short():
    for name, found in found_pages(RESULTS).items():
        assert len(found.because.split()) <= 50, name


def test_every_figure_has_colours_for_a_dark_page():
    drawings = [path for found in found_pages(RESULTS).values() for path in (RESULTS / found.page).parent.glob("*.svg")]
    assert len(drawings) >= 30
    assert all("prefers-color-scheme: dark" in path.read_text(encoding="utf-8") for path in drawings)


def test_the_legend_names_every_verdict_that_is_used():
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    used = {found.verdict for found in found_pages(RESULTS).values()} | {entry.verdict for entry in INVENTORY}
    assert {kind for kind in VerdictKind if f"- **{kind}**: {kind.meaning}." in page} >= used


def test_the_committed_figures_are_of_two_widths_so_that_their_words_are_equally_large():
    pictures = [path for found in found_pages(RESULTS).values() for path in (RESULTS / found.page).parent.glob("*.png")]
    assert len(pictures) >= 30
    for picture in pictures:
        width = int.from_bytes(picture.read_bytes()[16:20], "big") / DOTS_PER_INCH
        if picture.stem != "canaries":  # pictures of digits, with hardly a word
            assert round(width, 2) in {ONE_PANEL[0], PANELS[0]}, picture


def test_the_committed_results_are_those_of_full_runs():
    pages = found_pages(RESULTS)
    assert len(pages) == len(every_item())
    for name, found in pages.items():
        assert "Quick mode" not in (RESULTS / found.page).read_text(encoding="utf-8"), name


def test_a_folder_with_a_few_items_has_no_inventory(tmp_path):
    page = "heller_fetaya/heller-fetaya-fig1/README.md"
    (tmp_path / page).parent.mkdir(parents=True)
    (tmp_path / page).write_bytes((RESULTS / page).read_bytes())
    assert "## Inventory" not in index_page(tmp_path)
    assert "heller-fetaya-fig1" in index_page(tmp_path)
