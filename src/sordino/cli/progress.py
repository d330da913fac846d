"""A progress bar on stderr, where a person is looking and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sordino.core.printable import printable

Begin = Callable[[str], None]


@contextmanager
def progress(pieces: int) -> Iterator[Begin]:
    """A function to call with the name of each piece of work as it begins; it shows the name beside a bar.

    The bar shows the pieces that are done. Of one piece nobody knows how much is done, so the bar moves to and fro.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    # Names come from outside, so none of them is read as markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=pieces if pieces > 1 else None)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bar.update(task, description=printable(name), completed=begun)
            begun += 1

        yield begin
