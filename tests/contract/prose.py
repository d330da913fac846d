"""Measures the prose of README, docs and messages: sentence lengths, and phrases that readers stumbled over.

python -m tests.contract.prose        every page with its figures, the longest sentences last
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
# Written from the code or from records; their prose is that of the code.
GENERATED = {"theorems.md", "errata.md", "evidence.md"}
PAGES = sorted(
    path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md"))
    if path.name not in GENERATED and "api" not in path.parts
)
# Phrases that native readers had to read twice.
STUMBLING = re.compile(
    r"\bwhoever\b|whose a record is|\bgot (?:another|others)\b|of one's own|\bstands? on its\b|\bgone on with\b"
    r"|\bcan be had\b|leave it (?:away|out for a release)|not at all, it is refused|told apart|\btells no\b"
    r"|and what not\b|both sides stand|for a price\b|\bsomebody\b|\bnobody wants\b|in no time\b|feasibility value"
    r"|worth while|hardly be known|found at 80 %",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"^(\||#|    |!\[|<|:)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*\"(\[])")
# Messages are raised, warned or printed with these.
_SPOKEN = {"InputError", "SordinoError", "LedgerRefusal", "Inapplicable", "Option", "Argument", "warn", "echo"}


def sentences(markdown: str) -> list[str]:
    """The sentences of a page, without code, tables and headings; an item of a list begins a sentence."""
    text = _BLOCK.sub("", markdown)
    paragraphs: list[str] = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = [line.strip() for line in part.splitlines() if line.strip() and not _SKIPPED.match(line)]
        if lines:
            paragraphs.append(re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(lines)))
    plain = [_CODE.sub("code", _LINK.sub(r"\1", one)).replace("**", "") for one in paragraphs]
    return [one for part in plain for one in _END.split(part) if len(one.split()) > 2]


def lengths(texts: list[str]) -> NDArray[np.int64]:
    """Words in each sentence."""
    return np.array([len(one.split()) for one in texts], dtype=np.int64)


def messages() -> Iterator[tuple[str, str]]:
    """File and text of every message that the package can raise, warn of or print, with holes for values."""
    for path in sorted((ROOT / "src" / "sordino").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _called(node.func) in _SPOKEN:
                for given in (*node.args, *(word.value for word in node.keywords if word.arg in {"help", None})):
                    if text := _template(given):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return ""


def main() -> None:
    """Print the figures of every page."""
    every, lines = [], []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if page := sentences(text):
            every += page
            lines.append(f"{_figures(page)} {len(STUMBLING.findall(text)):3} {path.relative_to(ROOT)}")
    said = [text for _, text in messages()]
    parts = [one for text in said for one in sentences(text)]
    lines += [
        f"{_figures(group)}     {name}, {len(group)} sentences"
        for name, group in (("pages", every), ("messages", parts))
    ]
    lines.append(f"{sum(len(STUMBLING.findall(text)) for text in said)} stumbling phrases in {len(said)} messages")
    sys.stdout.write("\n".join(lines) + "\n")


def _figures(group: list[str]) -> str:
    found = lengths(group)
    return f"{found.mean():5.1f} {np.quantile(found, 0.95):5.0f}"


if __name__ == "__main__":
    main()
