"""Show what the blocks of a page print: `python docs/outputs.py docs/tutorials/statistician.md`.

Every block of Python or commands is executed as the tests execute it, and a block of text behind it is written with
what was printed. Numbers are those of one run, because its noise is secret; the tests compare the words.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def with_outputs(page: str) -> str:
    """The text of a page with a block of text behind every block that prints."""
    from sordino.cli import main  # noqa: PLC0415

    namespace: dict[str, Any] = {"__name__": "docs"}

    def shown(block: re.Match[str]) -> str:
        kind, text = block[1], block[2]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "python":
                exec(compile(text, "page", "exec"), namespace)
            else:
                for line in text.splitlines():
                    if main(shlex.split(line)[1:]) != 0:
                        raise SystemExit(f"refused: {line}")
        lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
        said = "" if not lines else "\n```text\n" + "\n".join(lines) + "\n```\n"
        return f"```{kind}\n{text}```\n{said}"

    return BLOCK.sub(shown, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                made = with_outputs(path.read_text(encoding="utf-8"))
            finally:
                os.chdir(before)
        path.write_text(made, encoding="utf-8")
        sys.stdout.write(f"{name}\n")
