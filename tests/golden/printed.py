"""What every command of the README, and a few more, prints for a seeded run, without dates, digests and timings.

python -m tests.golden.printed            write tests/golden/printed.txt
python -m tests.golden.printed --check    say what is printed otherwise
"""

import argparse
import contextlib
import difflib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from sordino.cli import main as sordino

ROOT = Path(__file__).parents[2]
TEXTS = Path(__file__).with_name("printed.txt")
_TABLE = "examples/data/clinic.csv --schema examples/data/clinic.schema.json"
_BUDGET = "--epsilon 2 --delta 1e-6"
COMMANDS = (
    "schema check examples/data/clinic.schema.json examples/data/clinic.csv",
    f"plan logistic --schema examples/data/clinic.schema.json {_BUDGET} --relation replace-one",
    "ledger open clinic.ledger --dataset clinic --relation replace-one --epsilon 9 --delta 1e-5",
    f"fit logistic {_TABLE} {_BUDGET} --relation replace-one --ledger clinic.ledger --out release --seed 1",
    f"fit logistic {_TABLE} {_BUDGET} --relation replace-one --method ridge --out other --seed 1",
    "show release",
    "show release --json",
    "show release --margins all",
    "show release --effects",
    "audit release --method exact",
    "predict release examples/data/clinic.csv --out predictions.csv --seed 1",
    "report release --ledger clinic.ledger --out report.html",
    f"look {_TABLE} --ask count --ask 'histogram: age' {_BUDGET} --relation replace-one --out look --seed 1",
    f"explore check release examples/data/clinic.csv {_BUDGET} --out check --seed 1",
    f"explore compare examples/data/clinic.csv release other {_BUDGET} --out compare --seed 1",
    "ledger show clinic.ledger",
    "ledger verify clinic.ledger",
    "certify examples/specs/golden-poisson.json",
    "certify examples/specs/golden-poisson.json --json",
    "calibrate examples/specs/golden-poisson.json --epsilon 1 --delta 1e-5",
    "audit examples/specs/full-last-iterate.json",
    "certify examples/specs/composite.json",
    "certify absent.json",
    f"fit logistic {_TABLE} {_BUDGET} --relation neither --out nowhere --seed 1",
)
# Dates and times, digests and other long hexadecimal words, seconds.
_PASSING = re.compile(
    r"\d{4}-\d\d-\d\dT?[ ]?[0-9:+.]*|\b(?=[0-9]*[a-f])[0-9a-f]{12,64}\b"
    r"|Python \d.*numpy.*?\.(?= )|\b\d+(\.\d+)? (s|ms|seconds?)\b",
    re.IGNORECASE,
)

# What nobody reads in a page.
_UNREAD = re.compile(r"<style.*?</style>|<script.*?</script>|<svg.*?</svg>|<[^>]+>", re.DOTALL)


def _text(page: str) -> str:
    """The words of a page, a paragraph a line."""
    return re.sub(r"\s*\n\s*", "\n", _UNREAD.sub(" ", page))


def _readable(text: str) -> str:
    """Numbers have six digits: the last ones may differ from one processor to another."""
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", _PASSING.sub("*", text))


def printed() -> Iterator[str]:
    """The text of every command, in order, run in one folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.symlink(ROOT / "examples", "examples")
        for command in COMMANDS:
            out, err = io.StringIO(), io.StringIO()
            with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                warnings.simplefilter("ignore")
                code = sordino(shlex.split(command))
            text = "\n".join([f"$ sordino {command}", out.getvalue().rstrip(), err.getvalue().rstrip(), f"exit {code}"])
            yield _readable(text.replace(folder, "."))
        for name in ("predictions.csv", "report.NON-PRIVATE.html"):
            if Path(name).exists():
                yield _readable(f"# {name}\n{_text(Path(name).read_text('utf-8'))}")


def main() -> None:
    """Write the texts, or compare and exit with 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    now = "\n\n".join(printed()) + "\n"
    if not parser.parse_args().check:
        TEXTS.write_text(now, encoding="utf-8")
        return
    before = TEXTS.read_text(encoding="utf-8")
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), "before", "now", n=0))
    sys.exit(before != now)


if __name__ == "__main__":
    main()
