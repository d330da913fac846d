"""`python -m sordino`, and the script `sordino`."""

import gc
from typing import NoReturn

# Importing makes many objects and no garbage: with Python's own threshold, collections between imports took a tenth of
# the time of `sordino certify`.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


def program() -> NoReturn:
    """The command line as a process of its own."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    from sordino.cli import program as run  # noqa: PLC0415

    run()


# Worker processes of an audit import this file, under another name.
if __name__ == "__main__":
    program()
