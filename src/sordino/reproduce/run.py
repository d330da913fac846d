"""Running an item and writing its folder, whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path

from sordino.core.errors import InputError
from sordino.reproduce.figure import require_matplotlib
from sordino.reproduce.item import item_named
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome
from sordino.reproduce.readme import GENERATED, readme


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
    _write_folder(target, files)
    return outcome


def _refuse_foreign(target: Path) -> None:
    """A folder that this program did not write is not replaced."""
    if not target.exists():
        return
    page = target / "README.md"
    if not page.is_file() or GENERATED not in page.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"Expected {target} to be absent or made by sordino reproduce, got something else; move it.")


def _write_folder(target: Path, files: dict[str, bytes]) -> None:
    """Write beside the target, then rename: a reader sees the old folder or the whole new one."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise InputError(
            f"Expected a writable folder at {target.parent}, got: {error.strerror}; choose another."
        ) from None
    try:
        fresh, old = temporary / "new", temporary / "old"
        fresh.mkdir()
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        if target.exists():
            os.replace(target, old)
        os.replace(fresh, target)
    except OSError as error:
        raise InputError(f"Expected to write {target}, got: {error.strerror}; try another folder.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
