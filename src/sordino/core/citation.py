"""Citations: a key into the packaged bibliography plus a locator (theorem, proposition, equation)."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sordino.core.errors import InputError

_ENTRY = re.compile(r"@(\w+)\s*\{\s*([^,\s]+)\s*,(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*[{\"](.*?)[}\"]\s*,?\s*(?=\n|$)", re.DOTALL)


@dataclass(frozen=True)
class Citation:
    """Where a statement stands: bibliography key and locator. A citation without a locator is refused."""

    key: str
    locator: str

    def __post_init__(self) -> None:
        if not self.locator.strip():
            raise InputError(f"Expected Citation({self.key!r}) to have a locator such as 'Theorem 3', got none.")
        if self.key not in bibliography():
            raise InputError(f"Expected a key of references.bib, got {self.key!r}; add the entry there first.")

    def __str__(self) -> str:
        entry = bibliography()[self.key]
        return f"{_short_authors(entry['author'])} {entry['year']}, {self.locator}"

    @property
    def reference(self) -> str:
        """The full reference as one line of text."""
        entry = bibliography()[self.key]
        venue = entry.get("journal") or entry.get("booktitle") or entry.get("publisher") or entry.get("note", "")
        return f"{entry['author'].replace(' and ', '; ')} ({entry['year']}). {entry['title']}. {venue}."


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """The packaged references.bib, parsed: key -> field -> text."""
    text = resources.files("sordino").joinpath("references.bib").read_text(encoding="utf-8")
    return {
        key: {"type": kind.lower()} | {name.lower(): _plain(value) for name, value in _FIELD.findall(body)}
        for kind, key, body in _ENTRY.findall(text)
    }


def _plain(value: str) -> str:
    return re.sub(r"\s+", " ", value.replace("{", "").replace("}", "")).strip()


def _short_authors(authors: str) -> str:
    families = [name.split(",")[0].strip() for name in authors.split(" and ")]
    if len(families) > 2:
        return f"{families[0]} et al."
    return " & ".join(families)
