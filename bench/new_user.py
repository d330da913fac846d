"""A new user before a terminal, from a nasty CSV file to a dossier: how many commands, how many answers, how long.

    python bench/new_user.py [--fresh WHEEL-OR-FOLDER] [--record docs/results/new-user.md]

The file has semicolons, decimal commas, German dates, missing cells, a rare word and several rows of one patient. The
user declares it in `sordino start`, looks at nothing, fits, and hands over a report, and a signed dossier where this
version has `sordino dossier`. With --fresh everything runs in an environment that is made for it. The exit code is 1
where the user does not get there.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.terminal import Terminal

PATIENTS = 3000
ANSWERS = [
    ("How many records", str(PATIENTS)),
    ("patient: such as", "unit of 2"),
    ("admitted: such as", "2020-01-01..2024-12-31 [format=%d.%m.%Y, missing=indicator]"),
    ("age: such as", "18..100"),
    ("bmi: such as", "12..60 [missing=indicator]"),
    ("ward: such as", "medicine|surgery [unseen=other]"),
    ("treated: such as", "yes/no"),
    ("readmitted: such as", "yes/no [target]"),
    ("Check the rows", "y"),
    ("What is the dataset called?", "stays"),
    ("Is the number of records public", "replace-one"),
    ("Epsilon of everything", "4"),
    ("And delta", "1e-5"),
    ("Open it?", "y"),
    ("Which model", "logistic"),
    ("Delta of the fit?", "1e-6"),
    ("Epsilon of the fit?", "3"),
    ("Fit with this epsilon?", "y"),
    ("Go on?", "y"),
]


def nasty(path: Path) -> None:
    """Write the file."""
    rng = np.random.default_rng(11)
    lines = ["patient;admitted;age;bmi;ward;treated;readmitted"]
    for patient in range(PATIENTS):
        age = float(np.clip(rng.normal(62, 13), 18, 100))
        for _ in range(int(rng.integers(1, 3))):
            day = np.datetime64("2020-01-01") + int(rng.integers(0, 1826))
            year, month, number = str(day).split("-")
            bmi = "" if rng.random() < 0.08 else f"{rng.normal(27, 4):.1f}".replace(".", ",")
            admitted = "" if rng.random() < 0.02 else f"{number}.{month}.{year}"
            ward = "burns" if rng.random() < 0.002 else rng.choice(["medicine", "surgery"])
            treated = rng.random() < 0.5
            back = rng.random() < 1 / (1 + np.exp(3.4 - 0.05 * age + 0.7 * treated))
            said = ["yes" if one else "no" for one in (treated, back)]
            cells = (f"P{patient:05d}", admitted, f"{age:.1f}".replace(".", ","), bmi, str(ward), *said)
            lines.append(";".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def environment(source: str, folder: Path) -> str:
    """A fresh environment with Sordino in it; the path of its interpreter."""
    venv.create(folder / "environment", with_pip=True)
    python = str(folder / "environment" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"{source}[secure]"], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", metavar="SOURCE", help="install this into an environment made for it")
    parser.add_argument("--record", type=Path, help="write the figures here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = environment(given.fresh, folder) if given.fresh else sys.executable
        sordino = (python, "-m", "sordino")
        nasty(folder / "stays.csv")
        begun = time.monotonic()
        terminal = Terminal((*sordino, "start", "stays.csv"), folder)
        for question, typed in ANSWERS:
            terminal.answer(question, typed)
        code = terminal.end(600)
        commands, shown = 1, ["sordino start stays.csv"]
        if code == 0:
            listed = subprocess.run([*sordino, "--help"], capture_output=True, text=True, check=False).stdout
            more = [["dossier", "stays-release", "--ledger", "stays.ledger", "--out", "dossier"], ["verify", "dossier"]]
            for words in [one for one in more if f"  {one[0]} " in listed]:
                done = subprocess.run([*sordino, *words], cwd=folder, capture_output=True, text=True, check=False)
                code, commands = code or done.returncode, commands + 1
                shown.append(f"sordino {' '.join(words)}")
                if done.returncode:
                    sys.stderr.write(done.stderr)
        else:
            sys.stderr.write(terminal.said[-3000:])
        seconds = time.monotonic() - begun
        ran = [line.removeprefix("$ ") for line in terminal.said.splitlines() if line.startswith("$ sordino")]
        end = "signed dossier" if any("dossier" in one for one in shown) else "report"
        reached = code == 0 and (folder / "stays.html").is_file()
    said = (
        f"{'reached' if reached else 'did not reach'} a {end}: {commands} command(s) typed, {len(ANSWERS)} answers, "
        f"{len(ran)} commands run by `start`, {seconds:.0f} s, environment {'fresh' if given.fresh else 'this one'}"
    )
    sys.stdout.write(said + "\n")
    if given.record:
        listed_commands = "\n".join(f"    {one}" for one in (*shown, *(f"  {one}" for one in ran)))
        given.record.write_text(f"# A new user\n\n`python bench/new_user.py`: {said}.\n\n{listed_commands}\n")
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
