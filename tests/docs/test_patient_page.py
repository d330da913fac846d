"""The page for patients has the right numbers, and the cookbook thirty questions."""

import math
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_what_a_reader_can_be_sure_of_is_rounded_up():
    text = (DOCS / "explanation" / "epsilon-for-patients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \|$", text, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, percent in rows:
        assert float(percent) == math.ceil(1000 / (1 + math.exp(-float(epsilon)))) / 10


def test_the_cookbook_answers_thirty_questions_each_with_a_command():
    text = (DOCS / "how-to" / "cookbook.md").read_text(encoding="utf-8")
    asked = re.findall(r"^\*\*(\d+)\. ", text, re.MULTILINE)
    assert [int(number) for number in asked] == list(range(1, 31))
    for part in re.split(r"^\*\*\d+\. ", text, flags=re.MULTILINE)[1:]:
        assert "```sh\nsordino " in part, part[:80]


def test_the_comparison_quotes_what_was_measured():
    text = (DOCS / "reference" / "comparison.md").read_text(encoding="utf-8")
    measured = (DOCS.parent / "bench" / "pages" / "utility.md").read_text(encoding="utf-8")
    row = next(line for line in measured.splitlines() if line.startswith("| add-remove | 1 |"))
    losses = [cell.strip(" *").split(" ")[0] for cell in row.split("|")[3:7]]
    assert f"| log-loss | {' | '.join(losses)} |" in text
