"""The page above the items' folders: every item found there, with its verdict."""

import os
import re
import tempfile
from pathlib import Path

from sordino.core.errors import InputError
from sordino.reproduce.readme import GENERATED

_VERDICT = re.compile(r"^\*\*Verdict: ([a-z-]+)\.\*\* (.*)$", re.MULTILINE)
_SOURCE = re.compile(r"^Reproduces: (.*)\.$", re.MULTILINE)


def index_page(out: Path) -> str:
    """A table of the folders below `out` that hold a page of ours."""
    rows = []
    for page in sorted(out.glob("*/README.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        verdict, source = _VERDICT.search(text), _SOURCE.search(text)
        if GENERATED in text and verdict is not None and source is not None:
            name = page.parent.name
            cells = (f"[{name}]({name}/README.md)", source[1], f"**{verdict[1]}**: {verdict[2]}")
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = f"# Results\n\n{GENERATED}`; do not edit. A row is a figure or table of a paper, run again.\n"
    return "\n".join([head, "| item | reproduces | verdict |", "| --- | --- | --- |", *rows]) + "\n"


def write_index(out: Path) -> Path:
    """Write out/README.md, unless somebody else's page stands there."""
    target = out / "README.md"
    if target.exists() and GENERATED not in target.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"Expected {target} to be absent or made by sordino reproduce, got another page; move it.")
    try:
        handle, temporary = tempfile.mkstemp(dir=out, prefix=".README.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(index_page(out))
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except OSError as error:
        raise InputError(f"Expected to write {target}, got: {error.strerror}; choose another folder.") from None
    return target
