"""Every claim on the security page names the tests that hold it, and those tests exist."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
TEXT = PAGE.read_text(encoding="utf-8")
DEFENDED = TEXT.split("\n## What is defended\n")[1].split("\n## ")[0]
CLAIMS = [
    row.strip("|").split("|")
    for row in DEFENDED.splitlines()
    if row.startswith("|") and not row.startswith(("| claim", "| ---"))
]


def test_the_page_has_claims():
    assert len(CLAIMS) >= 15
    assert all(len(claim) == 2 for claim in CLAIMS)


def test_every_claim_links_to_files_that_hold_tests():
    for claim, evidence in CLAIMS:
        links = re.findall(r"\]\(([^)]+)\)", evidence)
        assert links, claim
        texts = {link: (PAGE.parent / link).read_text(encoding="utf-8") for link in links}
        assert [link for link, text in texts.items() if not re.search(r"^def test_", text, re.MULTILINE)] == [], claim


def test_the_limits_on_the_page_are_those_of_the_code():
    from sordino.core.spec.document import LARGEST_FILE as LARGEST_DOCUMENT
    from sordino.data.sources.registry import ALWAYS_ALLOWED, LARGEST_EXPANSION, MOST_COLUMNS
    from sordino.ledger.log import LARGEST_VALUE
    from sordino.ledger.release.folder import LARGEST_FILE as LARGEST_ARRAYS

    mebi = 2**20
    stated = " ".join(DEFENDED.split())
    for words in (
        f"{LARGEST_DOCUMENT // mebi} MiB for a document",
        f"{MOST_COLUMNS:,} columns",
        f"{LARGEST_ARRAYS // 2**30} GiB for the arrays",
        f"{LARGEST_VALUE // mebi} MiB for a value",
        f"to {ALWAYS_ALLOWED // 2**30} GiB",
    ):
        assert words in stated
    assert (LARGEST_EXPANSION, "a thousandfold" in stated) == (1000, True)
