"""Writing what a command answers, so that nothing is lost and nothing is half written."""

from pathlib import Path

from sordino.core.whole_files import write_file


def write_text(path: Path, text: str) -> None:
    """Write a text whole: a reader sees the old file or the new one."""
    write_file(path, text.encode())
