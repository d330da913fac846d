"""Measures the prose of README, docs and package: sentence lengths, and phrases that readers stumbled over.

python -m tests.contract.prose             every page with its figures, then every stumbling phrase with its place
python -m tests.contract.prose messages    every message template with its place (or: docstrings, comments, literals)
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sordino"
# Statements of theorems and errata are mathematics, written where they are proved; the API is made of docstrings.
STATEMENTS = {"theorems.md", "errata.md"}
PAGES = sorted(
    path
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "examples" / "specs" / "README.md",
    )
    if path.name not in STATEMENTS and ("api" not in path.parts or path.name == "index.md")
)
# Phrases that native readers had to read twice, and those that voice and glossary replace.
PHRASES = (
    r"\bwhoever\b", r"\bsomebody\b", r"(?<!`)\btold\b(?!:)", r"of one's", r"whose a record is", r"says whose a",
    r"\bgot (?:another|others)\b", r"\bgone on with\b", r"\bcan be had\b", r"\bleave it (?:away|out for a release)",
    r"not at all, it is refused", r"\bstands? on its\b", r"\bstands? in one report", r"\bsides? stands?\b",
    r"\btells (?:no|its|intervals)\b", r"and what not\b", r"\bfor a price\b", r"\bnobody wants\b", r"\bin no time\b",
    r"feasibility value", r"\bworth while\b", r"hardly be known", r"\bfound at 80", r"install and look",
    r"\bthe five papers again\b", r"takes 1/1087", r"no code was tested\)", r"nothing inside;", r"others say why",
    r"which they are of", r"draws that were\b", r"extremal (?:quadratic|neighbours)", r"the odd (?:record|one)\b",
    r"before the data speak", r"whenever one stops", r"fits a Gaussian release", r"has more to cover",
    r"z is their quotient", r"declared size of effects holds", r"for the step of units", r"no earlier one to stop",
    r"still on its way", r"how long a record was watched", r"what it rests on", r"\bh(?:e|o)ld the truth\b",
    r"seven estimators", r"\b862 runs", r"keys of all sites",
    # After "got" comes what the user gave, never a pronoun or a description.
    r"\bgot (?:one|none|it|them|both|neither|nothing|something|some|several|more|other)\b",
    r"\bgot an? \w+ (?:that|which)\b", r"(?-i:(?:^|[.:] )Of [a-z][^.]*:)", r"\brests? on\b",
    r"\bgo(?:es|ing|ne)? on (?:with|from)\b", r"\btell apart\b", r"\blearnt\b", r"\bafter so many\b",
    r"\ball of its own error\b", r"\bfor good\b", r"\bto anybody\b", r"(?<!\| )\bmay leave\b", r"\bresting on\b",
    r"\bby running it or exactly\b", r"\brecords would say\b", r"\bwidened it by\b", r"\bthose whom it\b",
)  # fmt: skip
STUMBLING = re.compile("|".join(PHRASES), re.IGNORECASE)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"^(\||#|    |!\[|<|:|[-*] *\$|\$\$)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*\"(\[])")
_ITEM = re.compile(r"^(?:[-*]|\d+\.) ")
# Functions whose arguments a user reads; `refuse` makes a sentence of its arguments.
_SPOKEN = {
    "InputError", "SordinoError", "LedgerError", "LedgerRefusal", "CheckpointError", "Inapplicable", "Option",
    "Argument", "Typer", "warn", "echo", "secho", "print", "refuse", "exit_with",
}  # fmt: skip


class Message(NamedTuple):
    """A text that the package can raise, warn of, print or show as help, with X for values, and its place."""

    place: str
    text: str


def sentences(markdown: str) -> list[str]:
    """The sentences of a page, without code, tables and headings; an item of a list begins a sentence."""
    text = _BLOCK.sub("", markdown)
    paragraphs: list[str] = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = [line.strip() for line in part.splitlines() if line.strip() and not _SKIPPED.match(line)]
        if lines:
            paragraphs.append(_ITEM.sub("", " ".join(lines)))
    plain = [_CODE.sub("Code", _LINK.sub(r"\1", paragraph)).replace("**", "") for paragraph in paragraphs]
    return [sentence for part in plain for sentence in _END.split(part) if len(sentence.split()) > 2]


def lengths(texts: list[str]) -> NDArray[np.int64]:
    """Words in each sentence."""
    return np.array([len(text.split()) for text in texts], dtype=np.int64)


def stumbling(markdown: str) -> list[str]:
    """The phrases of a page that readers stumbled over; code is shown as it is and does not count."""
    return STUMBLING.findall(" ".join(re.sub(r"^```(?!text).*?^```$", "", markdown, flags=re.M | re.S).split()))


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def messages() -> Iterator[Message]:
    """Every message template of the package, found by its syntax tree, with the help of every command."""
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and _called(node.func) in _SPOKEN:
                for argument in (*node.args, *(word.value for word in node.keywords if word.arg in {"help", None})):
                    if text := _template(argument):
                        yield Message(place, text)
            elif isinstance(node, ast.FunctionDef) and "command" in map(_called, map(_bare, node.decorator_list)):
                yield Message(place, ast.get_docstring(node) or "")


def literals() -> Iterator[Message]:
    """Every text of four words or more in the code of the package: whatever can be printed, docstrings left out."""
    for path, tree in _trees().items():
        skipped = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr):
                skipped.add(id(node.value))
            if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            text = _template(node)
            if len(text.split()) > 3:
                yield Message(f"{path.relative_to(ROOT)}:{node.lineno}", text)


def docstrings() -> Iterator[Message]:
    """The docstring of every module, class and function of the package."""
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = " ".join((ast.get_docstring(node) or "").split())
                yield Message(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text)


def comments() -> Iterator[Message]:
    """Every block of comments in the package, its lines joined."""
    for path in _trees():
        last, words = 0, ""
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if token.type != tokenize.COMMENT:
                continue
            line, text = token.start[0], token.string.lstrip("# ")
            if line != last + 1 and words:
                yield Message(f"{path.relative_to(ROOT)}:{last}", words)
                words = ""
            last, words = line, f"{words} {text}".strip()
        if words:
            yield Message(f"{path.relative_to(ROOT)}:{last}", words)


def templates() -> Iterator[Message]:
    """The pages of the report and the dossier."""
    for path in sorted(PACKAGE.rglob("*.html")):
        yield Message(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def _bare(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return ""


def figures(group: list[str]) -> tuple[float, float]:
    """Mean and 95th percentile of the words in a sentence."""
    found = lengths(group)
    return float(found.mean()), float(np.quantile(found, 0.95))


LISTS = {"messages": messages, "literals": literals, "docstrings": docstrings, "comments": comments}


def main(asked: list[str]) -> None:
    """Print the figures of every page and the phrases to mend, or the texts that are asked for."""
    if asked:
        texts = (f"{one.place}: {' '.join(one.text.split())}" for kind in asked for one in LISTS[kind]() if one.text)
        sys.stdout.write("\n".join(texts) + "\n")
        return
    every, lines = [], []
    for path in PAGES:
        if page := sentences(path.read_text(encoding="utf-8")):
            every += page
            lines.append("{:5.1f} {:5.0f} ".format(*figures(page)) + str(path.relative_to(ROOT)))
    parts = [sentence for message in messages() for sentence in sentences(message.text)]
    for name, group in (("pages", every), ("messages", parts)):
        lines.append("{:5.1f} {:5.0f} ".format(*figures(group)) + f"{name}, {len(group)} sentences")
    for path in PAGES:
        lines += [f"{path.relative_to(ROOT)}: {phrase}" for phrase in stumbling(path.read_text(encoding="utf-8"))]
    for message in (*literals(), *templates(), *docstrings(), *comments()):
        lines += [f"{message.place}: {phrase}" for phrase in STUMBLING.findall(message.text)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
