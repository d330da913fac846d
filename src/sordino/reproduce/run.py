"""Running an item and writing its folder, whole or not at all."""

from pathlib import Path

from sordino.core.errors import InputError
from sordino.core.whole_files import replace_folder
from sordino.reproduce.figure import require_matplotlib
from sordino.reproduce.item import item_named
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome
from sordino.reproduce.readme import GENERATED, readme

# What a folder of results holds.
_WRITTEN = frozenset({".csv", ".md", ".svg", ".png"})


def run_item(name: str, options: Options, out: Path) -> Outcome:
    """Run the item and write out/NAME: tables as CSV and Markdown, figures as SVG and PNG, and a README."""
    item = item_named(name)
    if item.needs:
        options.data_folder(", ".join(item.needs))
    require_matplotlib()
    target = out / item.name
    _refuse_foreign(target)
    outcome = item.run(options)
    files: dict[str, bytes] = {"README.md": readme(item, options, outcome).encode()}
    for table in outcome.tables:
        files[f"{table.name}.csv"] = table.to_csv().encode()
        if table.in_readme:
            files[f"{table.name}.md"] = table.to_markdown().encode()
    for figure in outcome.figures:
        files |= figure.render()
    replace_folder(target, files)
    return outcome


def _refuse_foreign(target: Path) -> None:
    """A folder that this program did not write, or in which a person keeps other things, is not replaced."""
    if not target.exists():
        return
    page = target / "README.md"
    if not page.is_file() or GENERATED not in page.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"Expected {target} to be absent or made by sordino reproduce, got something else; move it.")
    for entry in target.iterdir():
        if entry.name.startswith(".") or entry.suffix not in _WRITTEN or not entry.is_file():
            raise InputError(
                f"Expected {target} to hold tables, figures and pages only, got {entry.name!r}, which would be lost; "
                "move it."
            )
