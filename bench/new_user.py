"""A new user before a terminal, from a nasty CSV file to a signed dossier: commands, answers and time.

    python bench/new_user.py [--fresh WHEEL-OR-FOLDER] [--record bench/pages/new-user.md]

The file is in windows-1252 and has semicolons, decimal commas, German dates, missing cells, a
rare word and several rows of one patient. The user declares it in `sordino start`, mistypes two bounds, goes
back once, fits, and hands over a report and a dossier that `sordino sign verify` finds signed; then one letter of the
dossier is changed, and `sordino sign verify` must find that. With --fresh everything runs in an environment made for
it. The exit code is 1 where the user does not get there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.machine import machine
from bench.terminal import Terminal

PATIENTS = 3000
ANSWERS = [
    ("Which encoding", "windows-1252"),
    ("patient_nr: such as", "unit of 2"),
    ("How many persons", str(PATIENTS)),
    ("admitted: such as", "2020-01-01..2024-12-31 [format=%d.%m.%Y, missing=indicator]"),
    ("age: such as", "eighteen to hundred"),
    ("age: such as", "18..100"),
    ("körpermaß: such as", "12,5..60 [missing=indicator]"),
    ("körpermaß: such as", "12.5..60 [missing=indicator]"),
    ("ward: such as", "medicine|surgery|gynäkologie [unseen=other]"),
    ("treated: such as", "yes/no"),
    ("readmitted: such as", "yes/no"),
    ("Which words mean a missing cell", "back"),
    ("readmitted: such as", "yes/no [target]"),
    ("Which words mean a missing cell", "n/a"),
    ("Is the number of records public", "replace-one"),
    ("Check the rows", "y"),
    ("What is the dataset called?", "stays"),
    ("Total epsilon", "4"),
    ("Total delta", "1e-5"),
    ("Open it?", "y"),
    ("Which model", "logistic"),
    ("Delta of the fit?", "1e-6"),
    ("Epsilon of the fit?", "3"),
    ("Fit with this epsilon?", "y"),
    ("Go on?", "y"),
    ("twenty questions in a signed folder?", "y"),
    ("The purpose of the release", "readmissions by treatment, asked for by the quality board"),
    ("How the data were collected", "routine records of 2020 to 2024, kept for ten years, with the patients' consent"),
    ("Who can read rows", "two statisticians, on one encrypted machine without a network"),
    ("Who answers questions", "the statistics office"),
    ("Seal the key", "n"),
]


def nasty(path: Path) -> None:
    """Write the file."""
    rng = np.random.default_rng(11)
    lines = ["patient_nr;admitted;age;körpermaß;ward;treated;readmitted"]
    for patient in range(PATIENTS):
        age = float(np.clip(rng.normal(62, 13), 18, 100))
        for _ in range(int(rng.integers(1, 3))):
            day = np.datetime64("2020-01-01") + int(rng.integers(0, 1826))
            year, month, number = str(day).split("-")
            bmi = rng.choice(["", "n/a"]) if rng.random() < 0.08 else f"{rng.normal(27, 4):.1f}".replace(".", ",")
            admitted = "" if rng.random() < 0.02 else f"{number}.{month}.{year}"
            ward = "burns" if rng.random() < 0.002 else rng.choice(["medicine", "surgery", "gynäkologie"])
            treated = rng.random() < 0.5
            back = rng.random() < 1 / (1 + np.exp(3.4 - 0.05 * age + 0.7 * treated))
            said = ["yes" if one else "no" for one in (treated, back)]
            cells = (f"P{patient:05d}", admitted, f"{age:.1f}".replace(".", ","), bmi, str(ward), *said)
            lines.append(";".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="windows-1252")


def environment(source: str, folder: Path) -> str:
    """A fresh environment with Sordino in it; the path of its interpreter."""
    venv.create(folder / "environment", with_pip=True)
    python = str(folder / "environment" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"{source}[secure,sign]"], check=True)
    return python


def changed_is_found(sordino: tuple[str, ...], dossier: Path) -> bool:
    """Whether `verify` refuses the dossier after one letter of its page was changed."""
    page = dossier / "index.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("Yes", "Yes.", 1), encoding="utf-8")
    done = subprocess.run([*sordino, "sign", "verify", str(dossier)], capture_output=True, text=True, check=False)
    page.write_text(text, encoding="utf-8")
    return done.returncode == 2 and "index.html" in done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fresh", metavar="SOURCE", help="install this into an environment made for it")
    parser.add_argument("--record", type=Path, help="write the figures here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.monotonic()
        python = environment(given.fresh, folder) if given.fresh else sys.executable
        installed = time.monotonic() - begun
        sordino = (python, "-m", "sordino")
        nasty(folder / "stays.csv")
        begun, used = time.monotonic(), sum(os.times()[2:4])
        terminal = Terminal((*sordino, "start", "stays.csv"), folder)
        for question, typed in ANSWERS:
            terminal.answer(question, typed)
        code = terminal.end(600)
        seconds, worked = time.monotonic() - begun, sum(os.times()[2:4]) - used
        if code:
            sys.stderr.write(terminal.said[-3000:])
        dossier = folder / "stays-release-dossier"
        signed = "The key is the one that you named." in terminal.said
        found = code == 0 and changed_is_found(sordino, dossier)
        ran = [line.removeprefix("$ ") for line in terminal.said.splitlines() if line.startswith("$ sordino")]
        reached = code == 0 and (folder / "stays.html").is_file() and signed and found
    where = machine()
    said = (
        f"{'reached' if reached else 'did not reach'} a signed dossier: 1 command typed, {len(ANSWERS)} answers, two "
        f"of them slips that were asked for again and one a "
        f"way back, {len(ran)} commands run by `start`, {seconds:.0f} s of wall and "
        f"{worked:.0f} s of CPU, environment {'fresh' if given.fresh else 'this one'}"
    )
    sys.stdout.write(said + "\n")
    if given.record:
        fresh = " --fresh ." if given.fresh else ""
        install = f" Installing took {installed:.0f} s." if given.fresh else ""
        lines = "\n".join(f"    {one}" for one in ("sordino start stays.csv", *(f"  {one}" for one in ran)))
        given.record.write_text(
            f"# A new user\n\n`python bench/new_user.py{fresh}`: {said}.{install}\n\n"
            f"{where['cores']} cores ({where['processor']}, load {where['load']:g}), Python {where['python']}. One "
            "letter of the dossier was changed afterwards, and `sordino sign verify` found it. The CPU time is that of "
            f"the command and what it starts.\n\n{lines}\n"
        )
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
