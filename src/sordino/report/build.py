"""Which page a release goes to: one for what may leave, a watermarked one for what may not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.core.errors import InputError
from sordino.core.whole_files import write_file
from sordino.report.html_frame import NON_PRIVATE
from sordino.report.page import non_private_page, private_page
from sordino.report.subject import Subject

LARGEST_PAGE = 5_000_000


@dataclass(frozen=True)
class Written:
    """Where the pages are; either may be absent."""

    private: Path | None
    non_private: Path | None


def non_private_path(path: Path) -> Path:
    """Beside the page, with the warning in its name."""
    return path.with_name(f"{path.stem}.{NON_PRIVATE}{path.suffix}")


def write_report(subjects: Sequence[Subject], path: Path, begin: Callable[[str], None] = lambda _name: None) -> Written:
    """Write the page of what may leave at `path`, and beside it, where there is need, the watermarked one.

    `begin` is told the name of each release as work on it begins, on either page.

    Formal guarantees: the page at `path` holds post-processing of releases with secret randomness, public declarations
    and audits that read no private row, and nothing else.
    """
    if not subjects:
        raise InputError("Expected at least one release folder, got none.")
    leaving = [subject for subject in subjects if subject.may_leave]
    staying = [subject for subject in subjects if not (subject.may_leave and subject.audit_may_leave)]
    # Both are rendered before either is written.
    pages = [
        (path, private_page(leaving, begin)) if leaving else None,
        (non_private_path(path), non_private_page(staying, begin)) if staying else None,
    ]
    for page in pages:
        if page is not None:
            _write(*page)
    return Written(path if leaving else None, non_private_path(path) if staying else None)


def _write(path: Path, text: str) -> None:
    content = text.encode()
    if len(content) > LARGEST_PAGE:
        raise InputError(f"Expected a page of at most {LARGEST_PAGE} bytes, got {len(content)}; give fewer releases.")
    write_file(path, content)
