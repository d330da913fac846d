"""Every claim on the security page names the tests that hold it, and those tests exist."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
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


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[0].strip()[:40])
def test_every_claim_links_to_files_that_hold_tests(claim):
    links = re.findall(r"\]\(([^)]+)\)", claim[1])
    assert links
    for link in links:
        tree = ast.parse((PAGE.parent / link).read_text(encoding="utf-8"))
        assert any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body), link


def test_the_limits_on_the_page_are_those_of_the_code():
    from sordino.core.spec.document import LARGEST_FILE as LARGEST_DOCUMENT
    from sordino.data.sources.on_disk import ALWAYS_ALLOWED, LARGEST_EXPANSION
    from sordino.data.sources.registry import MOST_COLUMNS
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
