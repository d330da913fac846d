"""The page above the items' folders: every item found there with its verdict, and what of the papers it covers."""

import re
from dataclasses import dataclass
from pathlib import Path

from sordino.core.citation import Citation
from sordino.core.errors import InputError
from sordino.core.whole_files import write_file
from sordino.reproduce.inventory import INVENTORY, Entry
from sordino.reproduce.readme import GENERATED

_VERDICT = re.compile(r"^\*\*Verdict: ([a-z-]+)\.\*\* (.*)$", re.MULTILINE)
_SOURCE = re.compile(r"^Reproduces: (.*)\.$", re.MULTILINE)
# Pages of measurements that no item writes, linked where they are.
_BESIDE = {
    "utility.md": "utility, beside peers",
    "bench.md": "speed, beside peers",
    "scaling.md": "how cost grows",
    "fleet-gpu.md": "a fleet on one GPU",
    "audit-power.md": "what an audit proves",
    "dp-sep.md": "private message passing",
}


@dataclass(frozen=True)
class Found:
    """A page of ours: what it reproduces, its verdict and why."""

    source: str
    verdict: str
    because: str


def found_pages(out: Path) -> dict[str, Found]:
    """The folders below `out` that hold a page of ours, by name."""
    pages = {}
    for page in sorted(out.glob("*/README.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        verdict, source = _VERDICT.search(text), _SOURCE.search(text)
        if GENERATED in text and verdict is not None and source is not None:
            pages[page.parent.name] = Found(source[1], verdict[1], verdict[2])
    return pages


def index_page(out: Path) -> str:
    """A table of the items; where all of the inventory's are there, the inventory too."""
    pages = found_pages(out)
    rows = [
        _row(f"[{name}]({name}/README.md)", found.source, f"**{found.verdict}**: {found.because}")
        for name, found in pages.items()
    ]
    head = f"# Results\n\n{GENERATED}`; do not edit. A row is a figure or table of a paper, run again.\n"
    links = ", ".join(f"[{words}]({name})" for name, words in _BESIDE.items() if (out / name).is_file())
    if links:
        head += f"\nMeasured besides: {links}.\n"
    lines = [head, "| item | reproduces | verdict |", "| --- | --- | --- |", *rows]
    if all(name in pages for entry in INVENTORY for name in entry.items):
        lines += ["", *_inventory(pages)]
    return "\n".join(lines) + "\n"


def _inventory(pages: dict[str, Found]) -> list[str]:
    head = "## Inventory\n\nEverything the papers show or state, and the item that has it again, or why none does.\n"
    rows = [
        _row(str(Citation(entry.paper, entry.what)).rsplit(f", {entry.what}", 1)[0], entry.what, *_where(entry, pages))
        for entry in INVENTORY
    ]
    return [head, "| paper | figure, table or statement | item | verdict |", "| --- | --- | --- | --- |", *rows]


def _where(entry: Entry, pages: dict[str, Found]) -> tuple[str, str]:
    if entry.reason:
        return "-", entry.reason
    links = ", ".join(f"[{name}]({name}/README.md)" for name in entry.items)
    return links, ", ".join(dict.fromkeys(pages[name].verdict for name in entry.items))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write_index(out: Path) -> Path:
    """Write out/README.md, unless somebody else's page stands there."""
    target = out / "README.md"
    if target.exists() and GENERATED not in target.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"Expected {target} to be absent or made by sordino reproduce, got another page; move it.")
    write_file(target, index_page(out).encode())
    return target
