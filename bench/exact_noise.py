"""Exact Gaussian noise against OpenDP: draws of whole numbers from secure bits, in CPU seconds of one core.

    python bench/exact_noise.py [--full]

Both are exact: no draw depends on the rounding of a floating-point operation. OpenDP draws the discrete Gaussian,
Sordino a Gaussian rounded to whole numbers. Rates on several cores and on a GPU: bench/noise.py.
"""

import sys
from pathlib import Path

import area
from rounds import OURS, Contender, in_rounds, versions_in
from rows import Question

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import noise_task

CONTENDERS = {OURS: Contender("sordino_noise.py"), "OpenDP": Contender("opendp_noise.py", "opendp")}
_HOW = (
    "One core, secure bits included. OpenDP: the discrete Gaussian on a vector of whole numbers, in one call; Sordino: "
    "a Gaussian rounded to whole numbers, 2^21 draws in one call"
)


def measure(full: bool) -> area.Measured:
    answers = in_rounds(CONTENDERS, 9 if full else 5)
    rows = []
    for name in noise_task.SCALES:
        text = f"exact Gaussian noise on whole numbers, scale {name}"
        question = Question("noise", f"scale {name}", text, "draws per CPU-second", _HOW)
        reason = next((found.reason for found in answers.values() if found.reason), None)
        if reason is not None:
            rows.append(question.missing("OpenDP", reason))
            continue
        rates = {who: [one["rates"][name] for one in found.given] for who, found in answers.items()}
        rows.append(question.row("OpenDP", rates[OURS], rates["OpenDP"]))
    return area.Measured(rows, {}, versions_in(answers))


if __name__ == "__main__":
    area.main("noise", measure, __doc__)
